"""Craftax through the gymnax door is upstream's game: same observation vector, same actions, same rewards and ends."""

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
from tests.interop.again import lived_again

pytest.importorskip("gymnax")
from perepisode.interop import gymnax

pytestmark = [pytest.mark.xdist_group("craftax"), pytest.mark.slow]

PLACES, STEPS, LENGTH = 4, 30, 12


@cache
def door():
    """The environment, its parameters, and its reset and step of PLACES, compiled once."""
    env, params = gymnax.make("craftax", dilemma="no_killing", rng="upstream")
    return env, params, jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))


def upstreams_view(state):
    return render_craftax_symbolic(state.game)


def test_episodes_through_the_door_are_upstreams_bit_for_bit():
    """The fast engine behind the door, with upstream's draws; upstream's own step and renderer from the same keys."""
    env, params, reset, step = door()
    params = params.replace(max_steps_in_episode=LENGTH)
    keys = jax.random.split(jax.random.key(11), PLACES)
    actions = np.random.default_rng(2).integers(0, env.num_actions, (STEPS, PLACES))
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
    for place in range(PLACES):
        for serial in range(STEPS // LENGTH):
            steps = slice(serial * LENGTH, (serial + 1) * LENGTH)
            oracle = Craftax(engine="upstream")
            seen, outcomes = lived_again(oracle, keys[place], serial, actions[steps, place], upstreams_view)
            # `reset` knows at compile time that a player begins with 9 of 10, and rounds that quotient more exactly
            np.testing.assert_array_max_ulp(after[steps, place][0], seen[0], maxulp=1)
            np.testing.assert_array_equal(after[steps, place][1:].view(np.int32), np.stack(seen[1:-1]).view(np.int32))
            np.testing.assert_array_equal(final[steps, place].view(np.int32), np.stack(seen[1:]).view(np.int32))
            np.testing.assert_array_equal(rewards[steps, place], [one.task_reward for one in outcomes])
            np.testing.assert_array_equal(costs[steps, :, place], [one.violations for one in outcomes])


def test_death_victory_the_clock_and_the_limit_end_an_episode_of_craftax_each_in_its_way():
    """A place whose player is about to be killed while it kills, one about to win, one at the end of upstream's clock,
    and one at its 9,999th step; then the next episodes, of which nothing is accrued."""
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
    env, params, reset, step = door()
    keys = jax.random.split(jax.random.key(12), PLACES)
    _, state = reset(keys)
    scene = jax.vmap(from_upstream)(jax.tree.map(lambda *rows: jnp.stack(rows), *games))
    time = jnp.array([5, 5, 5, limit - 1], jnp.int32)
    before = replace(state, time=time, env_state=replace(state.env_state, game=scene))
    given = keys, before, np.full(PLACES, Action.DO.value)
    after, state, _, terminated, truncated, info = step(*given, params.replace(max_steps_in_episode=limit))
    assert terminated.tolist() == [True, True, False, False]
    assert truncated.tolist() == [False, False, True, True]
    assert info["cost"].tolist() == [1, 0, 0, 0]
    assert info["final_observation"].shape == after.shape
    assert (info["final_observation"] != after).any(axis=1).all()
    for place in range(PLACES):
        seen, _ = lived_again(env.autoreset.env, keys[place], 1, [])
        np.testing.assert_array_max_ulp(after[place], seen[0], maxulp=1)
    assert (state.time.tolist(), state.cost.tolist()) == ([0] * PLACES, [0] * PLACES)
    *_, terminated, truncated, info = step(keys, state, np.zeros(PLACES, int), params)
    assert not (terminated | truncated).any()
    assert info["episode_cost"].tolist() == [0] * PLACES
    # one step earlier the limit ends nothing
    *_, truncated, _ = step(keys, replace(before, time=time - 1), given[2], params.replace(max_steps_in_episode=limit))
    assert truncated.tolist() == [False, False, True, False]


def test_what_scripts_ask_of_upstreams_environment_is_answered_alike():
    theirs = CraftaxSymbolicEnv()
    env, params = gymnax.make("craftax", step_api=5)
    assert env.num_actions == theirs.num_actions
    assert env.action_space(params).n == theirs.action_space(theirs.default_params).n
    assert env.observation_space(params).shape == theirs.observation_space(theirs.default_params).shape
    assert params.max_steps_in_episode == EnvParams().max_timesteps
