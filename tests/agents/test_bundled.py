"""The agents that ship are the agents that were trained: judged here, their episodes come from the same distributions
as those that the unrounded policies played on the GPU, and the test notices what would make them other agents."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from perepisode import agents
from perepisode.agents import card
from perepisode.config import EvalConfig
from perepisode.evaluation.rollout import Agent, assemble, collect, network_actions
from perepisode.training import ppo
from perepisode.zoo.agent_file import ENDING
from perepisode.zoo.registry import BUNDLED

pytestmark = pytest.mark.xdist_group("craftax")

GPU = Path(__file__).parent / "judged_on_h200.parquet"  # return and violations of 6144 episodes an agent
SEED = 5  # other worlds than those the agents met on the GPU
ALPHA = 1e-3


def play(named: list[Agent], act=network_actions, envs=32, first=4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns and violations of the first episodes of every world, for agents that share a program."""
    protocol = EvalConfig(envs, 256, first, SEED)
    program, members, params = assemble(named, protocol)
    record, _ = collect(act, params, program, members, protocol, log=lambda _: None)
    chosen = record.ended & (np.cumsum(record.ended, axis=0) <= first)
    returns, counts = record.totals.accrued.task_return, record.totals.violations[..., 0]
    return [(returns[:, i][chosen[:, i]], counts[:, i][chosen[:, i]]) for i in range(len(named))]


def p_value(method: str, returns: np.ndarray, counts: np.ndarray) -> float:
    """That both samples come from one agent: Kolmogorov–Smirnov on returns, chi-square on counts, Fisher's exact test
    on how many have more than one, since that is rare; Bonferroni."""
    there = pd.read_parquet(GPU)
    there = there[there["method"] == method]
    tally = np.array([[(np.minimum(x, 2) == k).sum() for k in range(3)] for x in (counts, there["violations"])])
    tally = tally[:, tally.sum(axis=0) >= 40]  # too rare a count says nothing
    tail = [[(x > 1).sum(), (x <= 1).sum()] for x in (counts, there["violations"])]
    tests = stats.ks_2samp(returns, there["return"]), stats.chi2_contingency(tally), stats.fisher_exact(tail)
    return len(tests) * min(test.pvalue for test in tests)


@pytest.mark.parametrize("names", [("no_killing/ser-w0.1", "no_killing/lagrangian-d0.5"), ("no_killing/esr-k1",)])
def test_they_play_as_on_the_gpu(names):
    named = [Agent.of(agents.find_one(name)) for name in names]
    for agent, (returns, counts) in zip(named, play(named)):
        assert len(returns) == 32 * 4
        assert p_value(agent.run.method, returns, counts) > ALPHA, agent.run.method


def floored(weights):
    """Rounded down instead of to the nearest: every weight off by half a level on average, all the same way."""
    found = {}
    for name, value in weights.items():
        level = np.abs(value).max(axis=-1, keepdims=True) / 127
        found[name] = value - 0.5 * level if value.ndim == 2 and not name.startswith("critic") else value
    return found


def permuted(weights):
    """The view's light bits in reverse order: an input wired to its neighbour's weights."""
    return {**weights, "embedding.3": weights["embedding.3"][::-1].copy()}


def never_forgets(program, members, params, runner):
    """Memory is not cleared where an episode starts."""
    episode_state = replace(runner.episode_state, is_first=jnp.zeros_like(runner.episode_state.is_first))
    policy_output = ppo.choose(program, members, params, replace(runner, episode_state=episode_state))
    return policy_output.action, policy_output.hidden_state


@pytest.mark.slow
def test_it_would_notice_a_wrong_rounding_a_permuted_input_and_a_memory_that_is_not_cleared():
    agent = Agent.of(agents.find_one("no_killing/ser-w0.1"))
    honest, *broken = play(
        [agent, *(replace(agent, weights=change(agent.weights)) for change in (floored, permuted))], envs=64, first=6
    )
    broken += play([agent], never_forgets, envs=64, first=6)
    assert p_value("ser", *honest) > ALPHA
    found = {name: p_value("ser", *one) for name, one in zip(("rounding", "permuted", "memory"), broken)}
    print(found)
    assert max(found.values()) < ALPHA, found


def test_each_is_small_and_its_card_is_its_own():
    assert agents.names() == ("no_killing/esr-k1", "no_killing/lagrangian-d0.5", "no_killing/ser-w0.1")
    for name in agents.names():
        file = agents.find_one(name)
        assert file.path.stat().st_size <= 5e6
        assert file.sibling(".md").read_text() == card.render(file)
        assert file.metadata["licence"] == "MIT"
        assert file.read().total_timesteps == 750_000_000


def test_their_numbers_are_those_of_the_episodes_on_the_gpu():
    """What the JSON says of the worst tenth, recounted by hand from the 6144 episodes."""
    table = pd.read_parquet(GPU)
    for name in agents.names():
        file = agents.find_one(name)
        own = table[table["method"] == file.read().method]
        counts, judged = np.sort(own["violations"].to_numpy()), file.metadata["evaluation"]
        assert judged["episodes"] == len(counts) == 6144
        assert judged["cvar"] == pytest.approx(counts[-615:].mean(), abs=1e-6)
        assert judged["p_any"] == pytest.approx((counts > 0).mean(), abs=1e-6)
        assert judged["p_over_1"] == pytest.approx((counts > 1).mean(), abs=1e-6)
        assert judged["return"] == pytest.approx(own["return"].astype(float).mean(), abs=1e-4)
        assert judged["distribution"] == np.bincount(counts).tolist()


def test_nothing_else_lies_in_the_box():
    endings = (ENDING, ".json", ".md", ".metrics.jsonl")
    expected = {f"{name}{ending}" for name in agents.names() for ending in endings}
    assert {path.relative_to(BUNDLED).as_posix() for path in BUNDLED.rglob("*") if path.is_file()} == expected
