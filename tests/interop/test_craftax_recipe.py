"""Craftax through the gymnax door is upstream's game: same observation vector, same actions, same rewards and ends."""

import jax
import numpy as np
import pytest
from craftax.craftax.craftax_state import EnvParams
from craftax.craftax.envs.craftax_symbolic_env import CraftaxSymbolicEnv
from craftax.craftax.renderer import render_craftax_symbolic

from perepisode.environments.craftax.world import Craftax
from tests.interop.again import lived_again

pytest.importorskip("gymnax")
from perepisode.interop import gymnax

pytestmark = [pytest.mark.xdist_group("craftax"), pytest.mark.slow]

PLACES, STEPS, LENGTH = 2, 30, 12


def upstreams_view(state):
    return render_craftax_symbolic(state.game)


def test_episodes_through_the_door_are_upstreams_bit_for_bit():
    """The fast engine behind the door, with upstream's draws; upstream's own step and renderer from the same keys."""
    env, params = gymnax.make("craftax", dilemma="no_killing", draws="upstream")
    params = params.replace(max_steps_in_episode=LENGTH)
    keys = jax.random.split(jax.random.key(11), PLACES)
    actions = np.random.default_rng(2).integers(0, env.num_actions, (STEPS, PLACES))
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    first, state = jax.jit(jax.vmap(env.reset))(keys)
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


def test_what_scripts_ask_of_upstreams_environment_is_answered_alike():
    theirs = CraftaxSymbolicEnv()
    env, params = gymnax.make("craftax", values=5)
    assert env.num_actions == theirs.num_actions
    assert env.action_space(params).n == theirs.action_space(theirs.default_params).n
    assert env.observation_space(params).shape == theirs.observation_space(theirs.default_params).shape
    assert params.max_steps_in_episode == EnvParams().max_timesteps
