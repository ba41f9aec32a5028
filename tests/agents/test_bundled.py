"""The bundled agents are the trained agents: evaluated here, their episodes come from the same distributions as those
of the policies before quantisation on the GPU, and the tests have the power to detect defects."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from perepisode import agents
from perepisode.agents import card
from perepisode.config import EvalConfig
from perepisode.evaluation.rollout import Agent, agent_actions, assemble, collect
from perepisode.training import update
from perepisode.zoo.agent_file import ENDING
from perepisode.zoo.registry import BUNDLED

pytestmark = pytest.mark.xdist_group("craftax")

GPU = Path(__file__).parent / "evaluated_on_h200.parquet"  # return and violations of 6144 episodes per agent
SEED = 5  # other episodes than those on the GPU
ALPHA = 1e-3


def play(loaded: list[Agent], act=agent_actions, envs=32, first=4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns and violations of the first episodes of every environment, for agents that share a program."""
    config = EvalConfig(envs, 256, first, SEED)
    program, members, params = assemble(loaded, config)
    record, _ = collect(act, params, program, members, config, log=lambda _: None)
    selected = record.ended & (np.cumsum(record.ended, axis=0) <= first)
    returns, counts = record.totals.accrued.task_return, record.totals.violations[..., 0]
    return [(returns[:, i][selected[:, i]], counts[:, i][selected[:, i]]) for i in range(len(loaded))]


def p_value(method: str, returns: np.ndarray, counts: np.ndarray) -> float:
    """p value that both samples come from one agent, with Bonferroni's correction: Kolmogorov–Smirnov on returns,
    chi-square on counts, and Fisher's exact test on episodes with more than one violation, which are rare."""
    reference = pd.read_parquet(GPU)
    reference = reference[reference["method"] == method]
    tally = np.array([[(np.minimum(x, 2) == k).sum() for k in range(3)] for x in (counts, reference["violations"])])
    tally = tally[:, tally.sum(axis=0) >= 40]  # too rare for the test
    tail = [[(x > 1).sum(), (x <= 1).sum()] for x in (counts, reference["violations"])]
    tests = stats.ks_2samp(returns, reference["return"]), stats.chi2_contingency(tally), stats.fisher_exact(tail)
    return len(tests) * min(test.pvalue for test in tests)


@pytest.mark.parametrize("names", [("no_killing/ser-w0.1", "no_killing/lagrangian-d0.5"), ("no_killing/esr-k1",)])
def test_they_play_as_on_the_gpu(names):
    loaded = [Agent.of(agents.find_one(name)) for name in names]
    for agent, (returns, counts) in zip(loaded, play(loaded)):
        assert len(returns) == 32 * 4
        assert p_value(agent.run.method, returns, counts) > ALPHA, agent.run.method


def floored(weights):
    """Weights rounded down instead of to the nearest level: every weight is half a level too low on average."""
    changed = {}
    for name, value in weights.items():
        level = np.abs(value).max(axis=-1, keepdims=True) / 127
        changed[name] = value - 0.5 * level if value.ndim == 2 and not name.startswith("critic") else value
    return changed


def permuted(weights):
    """Weights of the view's light bits in reverse order, as if inputs were permuted."""
    return {**weights, "embedding.3": weights["embedding.3"][::-1].copy()}


def never_forgets(program, members, params, runner):
    """The hidden state is not cleared when an episode starts."""
    episode_state = replace(runner.episode_state, is_first=jnp.zeros_like(runner.episode_state.is_first))
    policy = jax.vmap(program.agent.policy)(params)
    choice = update.choose(program, members, policy, replace(runner, episode_state=episode_state))
    return choice.action, choice.hidden_state


@pytest.mark.slow
def test_wrong_rounding_permuted_inputs_and_an_uncleared_hidden_state_are_detected():
    agent = Agent.of(agents.find_one("no_killing/ser-w0.1"))
    honest, *broken = play(
        [agent, *(replace(agent, weights=change(agent.weights)) for change in (floored, permuted))], envs=64, first=6
    )
    broken += play([agent], never_forgets, envs=64, first=6)
    assert p_value("ser", *honest) > ALPHA
    p_values = {name: p_value("ser", *sample) for name, sample in zip(("rounding", "permuted", "hidden"), broken)}
    assert max(p_values.values()) < ALPHA, p_values


def test_each_is_small_and_its_card_is_its_own():
    assert agents.names() == ("no_killing/esr-k1", "no_killing/lagrangian-d0.5", "no_killing/ser-w0.1")
    for name in agents.names():
        file = agents.find_one(name)
        assert file.path.stat().st_size <= 5e6
        assert file.sibling(".md").read_text() == card.render(file)
        assert file.metadata["licence"] == "MIT"
        assert file.read().total_timesteps == 750_000_000


def test_their_numbers_are_those_of_the_episodes_on_the_gpu():
    """The statistics in the JSON, recomputed by hand from the 6144 episodes."""
    table = pd.read_parquet(GPU)
    for name in agents.names():
        file = agents.find_one(name)
        own = table[table["method"] == file.read().method]
        counts, evaluation = np.sort(own["violations"].to_numpy()), file.metadata["evaluation"]
        assert evaluation["episodes"] == len(counts) == 6144
        assert evaluation["cvar"] == pytest.approx(counts[-615:].mean(), abs=1e-6)
        assert evaluation["p_any"] == pytest.approx((counts > 0).mean(), abs=1e-6)
        assert evaluation["p_over_1"] == pytest.approx((counts > 1).mean(), abs=1e-6)
        assert evaluation["return"] == pytest.approx(own["return"].astype(float).mean(), abs=1e-4)
        assert evaluation["distribution"] == np.bincount(counts).tolist()


def test_the_folder_has_no_other_files():
    endings = (ENDING, ".json", ".md", ".metrics.jsonl")
    expected = {f"{name}{ending}" for name in agents.names() for ending in endings}
    assert {path.relative_to(BUNDLED).as_posix() for path in BUNDLED.rglob("*") if path.is_file()} == expected
