"""Craftax through the gymnax adapter equals upstream: observation vector, actions, rewards and ends."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from craftax.craftax.constants import Action, BlockType
from craftax.craftax.craftax_state import EnvParams
from craftax.craftax.envs.craftax_symbolic_env import CraftaxSymbolicEnv
from craftax.craftax.renderer import render_craftax_symbolic

from perepisode.environments.craftax.engine import from_upstream
from perepisode.environments.craftax.env import Craftax
from tests.environments.scripted import build, enter, meadow
from tests.interop.oracle import replayed_episode

pytest.importorskip("gymnax")
from perepisode.interop import gymnax

pytestmark = [pytest.mark.xdist_group("craftax"), pytest.mark.slow]

NUM_ENVS, STEPS, LENGTH = 4, 30, 12


@cache
def adapter():
    """The environment, its parameters, and its compiled reset and step of NUM_ENVS environments."""
    env, params = gymnax.make("craftax", dilemma="no_killing", rng="upstream")
    return env, params, jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))


def upstreams_view(state):
    return render_craftax_symbolic(state.game)


def test_episodes_through_the_adapter_equal_upstreams_bit_for_bit():
    """The fast engine with upstream's random numbers, against upstream's own step and renderer from the same keys."""
    env, params, reset, step = adapter()
    params = params.replace(max_steps_in_episode=LENGTH)
    keys = jax.random.split(jax.random.key(11), NUM_ENVS)
    actions = np.random.default_rng(2).integers(0, env.num_actions, (STEPS, NUM_ENVS))
    first, state = reset(keys)
    after, final, rewards, costs = [first], [], [], []
    for time, action in enumerate(actions, 1):
        observation, state, reward, terminated, truncated, info = step(keys, state, action, params)
        assert not terminated.any()
        assert (truncated == (time % LENGTH == 0)).all()
        after.append(observation)
        final.append(info["final_observation"])
        rewards.append(reward)
        costs.append([info[f"violations_{name}"] for name in Craftax.dilemmas])
    after, final, rewards, costs = (np.stack(one) for one in (after, final, rewards, costs))
    for env_index in range(NUM_ENVS):
        for episode_id in range(STEPS // LENGTH):
            steps = slice(episode_id * LENGTH, (episode_id + 1) * LENGTH)
            oracle = Craftax(engine="upstream")
            seen, outcomes = replayed_episode(
                oracle, keys[env_index], episode_id, actions[steps, env_index], upstreams_view
            )
            # `reset` folds the player's initial 9 / 10 at compile time, with another rounding
            np.testing.assert_array_max_ulp(after[steps, env_index][0], seen[0], maxulp=1)
            np.testing.assert_array_equal(
                after[steps, env_index][1:].view(np.int32), np.stack(seen[1:-1]).view(np.int32)
            )
            np.testing.assert_array_equal(final[steps, env_index].view(np.int32), np.stack(seen[1:]).view(np.int32))
            np.testing.assert_array_equal(rewards[steps, env_index], [one.task_reward for one in outcomes])
            np.testing.assert_array_equal(costs[steps, :, env_index], [one.violations for one in outcomes])


def test_death_victory_timeout_and_limit_end_an_episode_of_craftax_each_in_its_way():
    """A player about to die while it kills, one about to win, one at upstream's time limit, one at its 9,999th step.

    The episodes that follow start at zero."""
    limit, end = 10_000, EnvParams().max_timesteps
    doomed = enter(enter(meadow(), "melee_mobs", (1, 0), health=5.0), "passive_mobs", (0, 1))
    winning = {"player_level": np.int32(8), "boss_progress": np.int32(7)}
    games = [
        doomed.replace(player_health=np.float32(1.0)),
        build(
            meadow().replace(**winning, boss_timesteps_to_spawn_this_round=np.int32(0)), (0, 1), BlockType.NECROMANCER
        ),
        meadow().replace(timestep=np.int32(end - 1)),
        meadow(),
    ]
    env, params, reset, step = adapter()
    keys = jax.random.split(jax.random.key(12), NUM_ENVS)
    _, state = reset(keys)
    scene = jax.vmap(from_upstream)(jax.tree.map(lambda *rows: jnp.stack(rows), *games))
    time = jnp.array([5, 5, 5, limit - 1], jnp.int32)
    before = replace(state, time=time, env_state=replace(state.env_state, game=scene))
    given = keys, before, np.full(NUM_ENVS, Action.DO.value)
    after, state, _, terminated, truncated, info = step(*given, params.replace(max_steps_in_episode=limit))
    assert terminated.tolist() == [True, True, False, False]
    assert truncated.tolist() == [False, False, True, True]
    assert info["cost"].tolist() == [1, 0, 0, 0]
    assert info["final_observation"].shape == after.shape
    assert (info["final_observation"] != after).any(axis=1).all()
    for env_index in range(NUM_ENVS):
        seen, _ = replayed_episode(env.autoreset.env, keys[env_index], 1, [])
        np.testing.assert_array_max_ulp(after[env_index], seen[0], maxulp=1)
    assert (state.time.tolist(), state.cost.tolist()) == ([0] * NUM_ENVS, [0] * NUM_ENVS)
    *_, terminated, truncated, info = step(keys, state, np.zeros(NUM_ENVS, int), params)
    assert not (terminated | truncated).any()
    assert info["episode_cost"].tolist() == [0] * NUM_ENVS
    # one step earlier the limit ends nothing
    *_, truncated, _ = step(keys, replace(before, time=time - 1), given[2], params.replace(max_steps_in_episode=limit))
    assert truncated.tolist() == [False, False, True, False]


def test_the_interface_of_upstreams_environment_is_the_same():
    theirs = CraftaxSymbolicEnv()
    env, params = gymnax.make("craftax", step_api="5-tuple")
    assert env.num_actions == theirs.num_actions
    assert env.action_space(params).n == theirs.action_space(theirs.default_params).n
    assert env.observation_space(params).shape == theirs.observation_space(theirs.default_params).shape
    assert params.max_steps_in_episode == EnvParams().max_timesteps
