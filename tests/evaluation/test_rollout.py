"""Evaluation: exact distributions, a recount by hand, and the two protocols compared."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from perepisode.algorithms import AGENTS
from perepisode.config import ConfigError, EvalConfig
from perepisode.environments.base import EndCause, Outcome
from perepisode.environments.reset_pool import episode_key, reset_key, step_key
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from perepisode.environments.temptation.exact import CELLS, esr_optimum, esr_tables, linear_price
from perepisode.evaluation import episodes
from perepisode.evaluation.rollout import Agent, collect, evaluate, evaluate_agents
from perepisode.runs import Run
from perepisode.training import population, update
from perepisode.training.train import TrainingOptions, prepare, train, weights

CONFIG = replace(TEMPTATION_PPO, num_envs=16, num_steps=8, update_epochs=1, num_minibatches=2, hidden_size=8)


def tiny(method="esr", seed=1, **settings):
    return Run("temptation", "temptation", method, settings, seed, 1.0, CONFIG.steps_per_update * 2, config=CONFIG)


def program_for(env, protocol):
    return update.Program(AGENTS["ppo_gru"](env, CONFIG), protocol.num_envs, 1, protocol.num_envs)


def members_for(run, seed=0):
    members = population.gather([run])
    return replace(members, keys=jax.random.fold_in(jax.random.key(seed), run.seed)[None], enforces=False)


def first_episodes(record, first):
    """Counts and returns of each environment's first episodes."""
    rank = np.cumsum(record.ended, axis=0)
    selected = record.ended & (rank <= first)
    return record.totals.violations[..., 0][selected], record.totals.accrued.task_return[selected].astype(float)


def by_price(program, members, price, runner):
    """The linear optimum takes every gain above the price."""
    state = runner.episode_state.env_state
    return (state.gain > price).astype(jnp.int32), runner.hidden_state


def by_table(program, members, tables, runner):
    """The exact optimum of expected scalarised returns (ESR), a table by time, offer, count and gains taken so far."""
    episode_state, state = runner.episode_state, runner.episode_state.env_state
    half = program.env.max_gain / CELLS / 2.0
    taken = episode_state.accrued.task_return - program.env.wage * episode_state.length
    cell = jnp.clip((state.gain / (2 * half)).astype(int), 0, CELLS - 1)
    gains = jnp.clip(jnp.round(taken / half).astype(int), 0, tables.shape[-1] - 1)
    count = jnp.minimum(episode_state.violations[..., 0], tables.shape[-2] - 1)
    return tables[state.time, cell, count, gains].astype(jnp.int32), runner.hidden_state


def assert_same_distribution(counts, exact):
    """Chi-square test of observed counts against the exact distribution, with rare counts pooled."""
    expected = exact * len(counts)
    observed = np.bincount(counts, minlength=len(expected))[: len(expected)].astype(float)
    common = expected >= 5
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    if expected[-1] < 5:  # too rare for the test; only rule out that it is common
        assert observed[-1] <= 5 + 5 * np.sqrt(expected[-1])
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-3 if len(expected) > 1 else True


PROTOCOL = EvalConfig(num_envs=128, num_steps=40, episodes_per_env=30)


def test_the_linear_optimum_has_its_exact_distribution():
    env = Temptation()
    record, _ = collect(by_price, jnp.float32(3.0), program_for(env, PROTOCOL), members_for(tiny()), PROTOCOL)
    counts, returns = first_episodes(record, PROTOCOL.episodes_per_env)
    exact = linear_price(env, 3.0)
    assert len(counts) == 128 * 30
    assert_same_distribution(counts, exact.counts)
    assert returns.mean() == pytest.approx(exact.mean_return, abs=4 * returns.std() / len(returns) ** 0.5)


def test_the_esr_optimum_has_its_exact_distribution():
    env = Temptation()

    def utility(r, v):
        return expit(12.0 * (1.5 - v)) * r - v

    exact, tables = esr_optimum(env, utility, most=3), jnp.asarray(esr_tables(env, utility, most=3))
    record, _ = collect(by_table, tables, program_for(env, PROTOCOL), members_for(tiny()), PROTOCOL)
    counts, returns = first_episodes(record, PROTOCOL.episodes_per_env)
    assert_same_distribution(counts, exact.counts)
    assert returns.mean() == pytest.approx(exact.mean_return, abs=4 * returns.std() / len(returns) ** 0.5)


@dataclass(frozen=True)
class Uneven:
    """Episodes of 5 or 60 steps, equally likely, with one violation in every long one."""

    name = "uneven"
    dilemmas = ("temptation",)
    info_keys = ()
    actions = 2

    def reset(self, key):
        return {"left": jnp.where(jax.random.bernoulli(key), 60, 5)}

    def step(self, key, state, action):
        left = state["left"] - 1
        count = (left == 54).astype(jnp.int32)[None]
        cause = jnp.where(left == 0, EndCause.DEATH, EndCause.RUNNING).astype(jnp.int32)
        return {"left": left}, Outcome(jnp.float32(0), count, count, {}, cause)


def stand_still(program, members, params, runner):
    return jnp.zeros(runner.episode_state.is_first.shape, jnp.int32), runner.hidden_state


def test_the_window_favours_short_episodes_and_the_first_episodes_do_not():
    protocol = EvalConfig(num_envs=400, num_steps=100, episodes_per_env=1)
    record, _ = collect(stand_still, jnp.zeros(()), program_for(Uneven(), protocol), members_for(tiny()), protocol)
    in_window = record.totals.violations[..., 0][record.ended]
    in_first, _ = first_episodes(record, 1)
    assert in_first.mean() == pytest.approx(0.5, abs=4 * 0.5 / 20)
    # half of all episodes are long and violate, but only a third of those that end within the window are long
    assert in_window.mean() < 0.4
    assert stats.binomtest(int(in_window.sum()), len(in_window), 0.5).pvalue < 1e-6


@pytest.fixture(scope="module")
def agents():
    runs = [tiny("esr", budget=1), tiny("esr", seed=2, budget=1)]
    program, members = prepare(runs)
    params = update.initial_params(program, members, [3, 4])
    return [Agent(run, weights(jax.tree.map(lambda x, i=i: x[i], params)), None) for i, run in enumerate(runs)]


def test_counts_equal_a_recount_of_the_same_trajectory_by_hand(agents):
    protocol = EvalConfig(num_envs=4, num_steps=100, episodes_per_env=2)
    table = evaluate_agents(agents, protocol)
    env, checked = Temptation(), 0
    step, reset = jax.jit(env.step), jax.jit(env.reset)
    for _, row in table.iterrows():
        words = np.frombuffer(bytes.fromhex(row["episode_key"]), ">u4").astype("u4")
        key = jax.random.wrap_key_data(jnp.asarray(words))
        assert (
            bytes.fromhex(row["reset_key"]) == np.asarray(jax.random.key_data(reset_key(key))).astype(">u4").tobytes()
        )
        state, total, taken = reset(reset_key(key)), np.float32(0), 0
        for t, action in enumerate(row["actions"]):
            tempted = bool(state.present) and action == 1
            total = np.float32(total + np.float32(0.75 + (float(state.gain) if tempted else 0.0)))
            taken += tempted
            state, _ = step(step_key(key, t), state, jnp.int32(action))
        assert (taken, len(row["actions"])) == (row["violations"], row["length"])
        assert total == pytest.approx(row["return"], abs=1e-4)
        checked += 1
    assert checked >= 16


def test_an_agents_evaluation_does_not_depend_on_the_others(agents):
    protocol = EvalConfig(num_envs=4, num_steps=60, episodes_per_env=1)
    together, alone = evaluate_agents(agents, protocol), evaluate_agents(agents[1:], protocol)
    own = together[together["run"] == agents[1].run.id].reset_index(drop=True)
    assert own[["return", "violations", "episode_key"]].equals(alone[["return", "violations", "episode_key"]])


def test_agents_with_accrued_observations_of_different_sizes_are_evaluated_together_as_alone():
    runs = [
        tiny("esr", budget=1),
        tiny("ser", weight=1),
        tiny("saute", budget=1),
        tiny("esr", budget=1, accrued_obs="scaled"),
    ]
    agents = []
    for run in runs:
        params = update.initial_params(*prepare([run]), [run.seed])
        agents.append(Agent(run, weights(jax.tree.map(lambda x: x[0], params))))
    protocol = EvalConfig(num_envs=4, num_steps=60, episodes_per_env=1)
    together = evaluate_agents(agents, protocol)
    for agent in agents:
        own = together[together["run"] == agent.run.id].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, evaluate_agents([agent], protocol), check_exact=True)


def test_evaluate_adds_only_what_is_missing(tmp_path):
    train([tiny("erm", enforcement="absolute")], TrainingOptions(tmp_path))
    log = []
    out = evaluate([tmp_path], tmp_path / "episodes.parquet", 4, 80, 1, log=log.append)
    first = episodes.read(out)
    assert (first["length"] == 40).all()  # detector-only: the enforcement of training ends no episode here
    assert set(first["end_cause"]) == {"timeout"}
    train([tiny("ser", weight=0.1)], TrainingOptions(tmp_path))
    evaluate([tmp_path], out, 4, 80, 1, log=log.append)
    both = episodes.read(out)
    assert set(both["method"]) == {"erm", "ser"}
    assert both[both["method"] == "erm"]["episode_key"].tolist() == first["episode_key"].tolist()
    assert [line for line in log if line.startswith("evaluating")] == [
        "evaluating 1 agent of erm on temptation",
        "evaluating 1 agent of ser on temptation",
    ]
    assert log[1].startswith(f"1 of 2 agents are already in {out}")
    with pytest.raises(ConfigError, match="choose another --out"):
        evaluate([tmp_path], out, 8, 80, 1)


def test_an_unfinished_run_is_refused_by_name_and_skipped_in_a_folder(tmp_path):
    folder = train([tiny("ser", weight=0.2)], TrainingOptions(tmp_path))[0].path
    (folder / "done").unlink()
    with pytest.raises(ConfigError, match="not finished"):
        evaluate([folder], tmp_path / "episodes.parquet")
    with pytest.raises(ConfigError, match="no finished run"):
        evaluate([tmp_path], tmp_path / "episodes.parquet", log=lambda line: None)
    with pytest.raises(ConfigError, match="does not exist"):
        evaluate([tmp_path / "nowhere"], tmp_path / "episodes.parquet")


def test_episode_keys_are_the_runs_own():
    keys = [episode_key(jax.random.key(s), jnp.int32(n)) for s in (1, 2) for n in (0, 1)]
    assert len({bytes(np.asarray(jax.random.key_data(key))) for key in keys}) == 4


@pytest.mark.parametrize(("steps", "inside"), [(79, 1), (80, 2), (81, 2), (119, 2), (120, 3)])
def test_both_protocols_select_exactly_their_episodes(steps, inside):
    """Every episode of the miniature has forty steps, so the episodes of each protocol are known."""
    run = tiny(budget=1)
    params = update.initial_params(*prepare([run]), [run.seed])
    agent = Agent(run, weights(jax.tree.map(lambda x: x[0], params)))
    table = evaluate_agents([agent], EvalConfig(num_envs=4, num_steps=steps, episodes_per_env=2), log=lambda _: None)
    for _, own in table.groupby("env_index"):
        assert own["in_window"].sum() == inside
        assert own["in_first"].tolist() == [True, True] + [False] * (len(own) - 2)
        assert own["episode_index"].tolist() == list(range(max(inside, 2)))
