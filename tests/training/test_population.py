"""Episodes: reset states, the order of the environment stack, and that a member equals the same run alone."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.environments import reset_pool
from perepisode.environments.base import EndCause, Outcome
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from perepisode.runs import Run
from perepisode.training import population, update
from perepisode.training.train import agent_of, prepare, run_chunk, weights

SMALL = replace(TEMPTATION_PPO, num_envs=8, num_steps=16, update_epochs=2, num_minibatches=2, hidden_size=8)


def small_run(method="ser", seed=42, **settings):
    return Run("temptation", "temptation", method, settings, seed, 1.0, SMALL.steps_per_update * 4, config=SMALL)


@dataclass(frozen=True)
class Numbered:
    """The state records the key of its reset; action 1 ends the episode."""

    name = "numbered"
    dilemmas = ("harm",)
    info_keys = ()
    actions = 2

    def reset(self, key):
        return {"reset_key": jax.random.key_data(key)[1], "time": jnp.int32(0)}

    def step(self, key, state, action):
        cause = jnp.where(action == 1, EndCause.DEATH, EndCause.RUNNING).astype(jnp.int32)
        one = jnp.ones(1, jnp.int32)
        return {**state, "time": state["time"] + 1}, Outcome(jnp.float32(1.0), one * 2, one, {}, cause)


RUNS = [small_run("erm", enforcement="heuristic"), small_run("erm", seed=7, enforcement="heuristic")]


def full_step(env, members, duals, episode_state, pool, actions):
    """Both halves of a step → state before it, next state, rewards, statistics, pool."""
    episode_state, pool = population.reset_ended(env, members, episode_state, pool)
    after, record = population.advance(env, members, episode_state, actions)
    rewards = population.rewards(members, duals, episode_state.accrued, record.totals.accrued)
    return episode_state, after, rewards, record, pool


def reset_key_of(keys, run, episode_id):
    key = reset_pool.reset_key(reset_pool.episode_key(keys[run], episode_id))
    return int(jax.random.key_data(key)[1])


def test_every_episode_gets_its_own_reset_state_in_order_even_when_the_pool_runs_out():
    env, members = Numbered(), population.gather(RUNS)
    envs, batch = 6, 2  # more episodes end in a step than the pool holds
    episode_state, pool = population.start(env, members, envs, batch)
    step = jax.jit(partial(full_step, env, members))
    duals, next_ids = members.init_duals(), [0, 0]
    random = np.random.default_rng(0)
    episode_ids, waiting = np.zeros((2, envs), int), np.ones((2, envs), int)
    for _ in range(25):
        actions = (random.random((2, envs)) < 0.5).astype("i4")
        played, episode_state, _, record, pool = step(duals, episode_state, pool, jnp.asarray(actions))
        for run in range(2):
            for env in range(envs):
                if waiting[run, env]:
                    episode_ids[run, env] = next_ids[run]
                    next_ids[run] += 1
        np.testing.assert_array_equal(record.ended, actions == 1)
        np.testing.assert_array_equal(episode_state.is_first, actions == 1)
        for episode_id in (played.episode_id, record.totals.episode_id):
            np.testing.assert_array_equal(episode_id, episode_ids)
        expected = [[reset_key_of(members.keys, run, s) for s in episode_ids[run]] for run in range(2)]
        np.testing.assert_array_equal(played.env_state["reset_key"], expected)
        waiting = actions
    assert min(next_ids) > envs + 10 * batch


def test_totals_are_recorded_before_the_reset_and_cleared_after_it():
    env, members = Numbered(), population.gather(RUNS)
    episode_state, pool = population.start(env, members, 3, 3)
    step = jax.jit(partial(full_step, env, members))
    for actions in ([0, 0, 0], [0, 1, 0], [1, 0, 0]):
        _, episode_state, reward, record, pool = step(
            members.init_duals(), episode_state, pool, jnp.asarray([actions] * 2)
        )
    assert record.totals.length[0].tolist() == [3, 1, 3]
    assert record.totals.violations[0, :, 0].tolist() == [6, 2, 6]  # exact: two per step
    assert record.totals.accrued.violations[0].tolist() == [3.0, 1.0, 3.0]  # charged once per step, as in the paper
    assert episode_state.length[0].tolist() == [0, 1, 3]
    assert episode_state.accrued.task_return[0].tolist() == [0.0, 1.0, 3.0]
    # the first step of an episode starts from zero: R_acc of Eq. 7 does not carry over
    np.testing.assert_allclose(reward[0], [-9.0, -9.0, -9.0])


@pytest.mark.parametrize(
    ("cost_per", "detector", "charged"), [("step", "exact", 1), ("event", "exact", 2), ("event", "paper", 1)]
)
def test_costs(cost_per, detector, charged):
    members = population.gather([replace(RUNS[0], cost_per=cost_per, detector=detector)])
    episode_state, pool = population.start(Numbered(), members, 2, 2)
    _, episode_state, *_ = full_step(
        Numbered(), members, members.init_duals(), episode_state, pool, jnp.zeros((1, 2), int)
    )
    assert episode_state.accrued.violations.tolist() == [[charged] * 2]


@pytest.mark.parametrize(("enforcement", "length"), [("absolute", 1), ("calculated", 4)])
def test_enforcement_ends_episodes_in_training_but_not_in_evaluation(enforcement, length):
    members = population.gather([small_run("erm", enforcement=enforcement)])
    for enforces in (True, False):
        own = replace(members, enforces=enforces)
        episode_state, pool = population.start(Numbered(), own, 1, 1)
        step = jax.jit(partial(full_step, Numbered(), own))
        causes = []
        for _ in range(5):
            _, episode_state, _, record, pool = step(own.init_duals(), episode_state, pool, jnp.zeros((1, 1), int))
            causes.append(int(record.end_cause[0, 0]))
        assert causes.index(EndCause.ENFORCED) + 1 == length if enforces else set(causes) == {EndCause.RUNNING}


def test_mixed_methods_keep_their_own_rewards():
    runs = population.order(
        [small_run("ser", weight=0.5), small_run("lagrangian", budget=1), small_run("ser", weight=2, seed=7)]
    )
    assert [run.method for run in runs] == ["ser", "ser", "lagrangian"]
    members = population.gather(runs)
    before = population.Accrued(jnp.zeros((3, 1)), jnp.zeros((3, 1)))
    after = population.Accrued(jnp.ones((3, 1)), jnp.ones((3, 1)))
    duals = (members.init_duals()[0], jnp.array([4.0]))
    rewards = members.map_with_dual(lambda o, dual, b, a: o.reward(dual, b, a), duals, before, after)
    np.testing.assert_allclose(rewards[:, 0], [1 - 5, 1 - 20, 1 - 4])


def trained(runs, updates=3):
    program, members = prepare(runs)
    params = update.initial_params(program, members, [run.seed for run in runs])
    state = jax.jit(partial(update.init, program))(members, params)
    return run_chunk(program, 4, members, state, updates)


EVERY_WIDTH = [
    small_run("esr", budget=1),
    small_run("ser", weight=0.3),
    small_run("lagrangian", budget=0.5),
    small_run("unconstrained", seed=7),
    small_run("saute", budget=1),
    small_run("esr", seed=7, budget=2, accrued_obs="scaled"),
    small_run("cvar", budget=0.5),
]


@pytest.fixture(scope="module")
def mixed():
    runs = population.order(EVERY_WIDTH)
    return runs, *trained(runs)


@pytest.mark.parametrize("run", EVERY_WIDTH, ids=lambda run: f"{run.method} {run.arm}")
def test_a_member_equals_the_same_run_alone_to_the_bit(mixed, run):
    """With accrued observations of length 0, 1, 2 and 7, zero-padded to 7 within the population."""
    runs, together, seen = mixed
    index = runs.index(run)
    agent, extra = agent_of(run), {"esr": 2, "saute": 1, "cvar": 2}.get(run.method, 0)
    extra = 7 if run.method_settings.get("accrued_obs") else extra
    alone, seen_alone = trained([run])
    padded = jax.tree.map(lambda x: x[index], together.params)
    own, expected = weights(agent.narrow(padded, extra)), weights(jax.tree.map(lambda x: x[0], alone.params))
    assert own.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(own[name], value, err_msg=name)
    assert not np.any(np.asarray(padded.embedding[-1])[extra:]), "the weights of a padded input changed"
    for name, value in seen_alone.items():
        np.testing.assert_array_equal(seen[name][:3, index], value[:3, 0], err_msg=name)
    assert np.isfinite(seen_alone["loss"][:3]).all()
    assert (np.asarray(seen_alone["grad_norm"])[:3] > 0).all()
    np.testing.assert_array_equal(
        together.runner.episode_state.episode_id[index], alone.runner.episode_state.episode_id[0]
    )


def test_a_population_with_equal_observations_is_not_padded():
    """Checkpoints from before mixed observation lengths were supported have these shapes."""
    for runs, extra in ((RUNS, 0), ([small_run("esr", budget=1), small_run("ser_racc", weight=1)], 2)):
        program, members = prepare(population.order(runs))
        params = update.initial_params(program, members, [run.seed for run in runs])
        assert [kernel.shape for kernel in params.embedding] == [(2, n, 8) for n in (3, extra) if n]


def test_the_weights_are_drawn_as_if_alone():
    runs = population.order(EVERY_WIDTH)
    program, members = prepare(runs)
    params = update.initial_params(program, members, [run.seed for run in runs])
    for index, (run, extra) in enumerate(zip(runs, members.accrued_obs_sizes)):
        alone = program.agent.init(run.seed, extra)
        own = program.agent.narrow(jax.tree.map(lambda x, i=index: x[i], params), extra)
        assert weights(own).keys() == weights(alone).keys()
        for name, value in weights(alone).items():
            np.testing.assert_array_equal(weights(own)[name], value)


def test_a_diverged_member_is_frozen_and_the_others_continue():
    runs = [small_run("ser", weight=0.3), small_run("ser", weight=0.3, seed=7)]
    program, members = prepare(runs)
    params = update.initial_params(program, members, [42, 7])
    params.embedding[0][0, 0, 0] = np.nan
    state = jax.jit(partial(update.init, program))(members, params)
    after, seen = run_chunk(program, 4, members, state, 2)
    assert seen["alive"][:2].tolist() == [[False, True]] * 2
    healthy, _ = trained([runs[1]], 2)
    for a, b in zip(jax.tree.leaves(after.params), jax.tree.leaves(healthy.params)):
        np.testing.assert_allclose(a[1], b[0], rtol=1e-4, atol=1e-6)
    for a, b in zip(jax.tree.leaves(after.params), jax.tree.leaves(params)):
        np.testing.assert_array_equal(a[0], b[0])  # frozen


def test_the_reset_state_of_an_episode_does_not_depend_on_the_pool_size():
    members = population.gather(RUNS)
    a, b = (
        population.reset_ended(Temptation(), members, *population.start(Temptation(), members, 4, batch))[0]
        for batch in (2, 9)
    )
    np.testing.assert_array_equal(a.env_state.gain, b.env_state.gain)
