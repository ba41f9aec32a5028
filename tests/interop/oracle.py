"""A small environment whose episodes end in every way, and replays by the functions of an Environment alone."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments import reset_pool
from perepisode.environments.action_space import Box
from perepisode.environments.base import EndCause, Environment, Outcome
from perepisode.pytree import pytree
from perepisode.settings import setting


@pytree
class Walk:
    here: jax.Array  # int32, or float32 in `Drift`
    steps: jax.Array  # int32


@dataclass(frozen=True)
class Cliff(Environment):
    """A random walk that the action biases: death on one side, victory on the other, bruises between.

    It is not registered, so that other tests do not find it.
    """

    width: int = setting(3, "cells to either side", low=1)

    name, dilemmas, actions = "cliff", ("bruises", "noise"), 3

    def reset(self, key):
        return Walk(jax.random.randint(key, (), -1, 2), jnp.int32(0))

    def step(self, key, state, action):
        here = state.here + jax.random.randint(key, (), -1, 2) + action - 1
        after = Walk(here, state.steps + 1)
        ends = [here <= -self.width, here >= self.width, after.steps >= 12]
        causes = [jnp.int32(cause) for cause in (EndCause.DEATH, EndCause.WON, EndCause.TIMEOUT)]
        counts = jnp.stack([jnp.abs(here), action]).astype(jnp.int32)
        cause = jnp.select(ends, causes, jnp.int32(EndCause.RUNNING))
        return after, Outcome(here.astype(jnp.float32), counts, counts, {}, cause)

    def observe(self, state):
        return jnp.stack([state.here, state.steps])

    @property
    def max_episode_steps(self):
        return 12


@dataclass(frozen=True)
class Drift(Environment):
    """A position that the first number of an action pushes; a large second number, and a far position, are counted."""

    name, dilemmas, actions = "drift", ("large", "far"), Box((-1.0, 0.0), (1.0, 2.0))
    observation_bounds = (-3.0, 3.0)

    def reset(self, key):
        return Walk(jax.random.uniform(key, (), jnp.float32, -1.0, 1.0), jnp.int32(0))

    def step(self, key, state, action):
        here = 0.9 * state.here + 0.7 * action[0] - 0.1 * action[1] + 0.05 * jax.random.normal(key)
        after = Walk(here, state.steps + 1)
        counts = jnp.stack([action[1] > 1.5, jnp.abs(here) > 1.0]).astype(jnp.int32)
        late = jnp.where(after.steps >= 10, EndCause.TIMEOUT, EndCause.RUNNING)
        cause = jnp.where(jnp.abs(here) > 2.0, EndCause.DEATH, late)
        return after, Outcome(1.0 - 0.3 * here**2, counts, counts, {}, cause.astype(jnp.int32))

    def observe(self, state):
        return jnp.stack([state.here, state.steps / 10])

    @property
    def max_episode_steps(self):
        return 10


class Counted(Cliff):
    """Counts its resets by a callback."""

    resets = 0

    def reset(self, key):
        jax.debug.callback(self._count, jax.random.key_data(key))
        return super().reset(key)

    @staticmethod
    def _count(_):
        Counted.resets += 1


@cache
def _compiled(own: Environment, see):
    return jax.jit(own.reset), jax.jit(own.step), jax.jit(see or (lambda state: own.vector(own.observe(state))))


def replayed_episode(own: Environment, key, episode_id: int, actions, see=None) -> tuple[list, list]:
    """Episode `episode_id` of a key: the observations, including the final one, and the outcomes."""
    reset, step, see = _compiled(own, see)
    episode = reset_pool.episode_key(key, episode_id)
    state = reset(reset_pool.reset_key(episode))
    seen, outcomes = [np.asarray(see(state))], []
    for time, action in enumerate(actions):
        state, outcome = step(reset_pool.step_key(episode, time), state, action)
        seen.append(np.asarray(see(state)))
        outcomes.append(jax.device_get(outcome))
    return seen, outcomes


def key_of(seed: int):
    """The key that a Gymnasium seed gives an environment: two words of the seed's generator."""
    from gymnasium.utils.seeding import np_random

    return jax.random.wrap_key_data(np_random(seed)[0].integers(0, 2**32, 2, np.uint32))
