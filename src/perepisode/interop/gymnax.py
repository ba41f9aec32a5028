"""Our worlds as gymnax environments.

    env, params = make("craftax", dilemma="no_killing")
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
    observation, state, reward, terminated, truncated, info = step(keys, state, actions, params)

`step` begins the next episode where one ended.  All randomness comes from the key that `reset` was given, so that an
episode can be lived again from it; the key that `step` is given changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from perepisode.config import Refused
from perepisode.environments import base
from perepisode.environments.base import NEVER, Key
from perepisode.environments.foreign import adopt
from perepisode.interop import library
from perepisode.interop.endless import Endless, Playing
from perepisode.later import jax, jnp

_environment = library("gymnax.environments.environment", "gymnax")
_spaces = library("gymnax.environments.spaces", "gymnax")
EnvParams = _environment.EnvParams
World = adopt  # the other way: World(env, params, violations=function) is a world of ours


def make(
    world: str | base.World | type[base.World],
    dilemma: str | None = None,
    *,
    reward: str = "task",
    price: float | None = None,
    values: int = 6,
    **options: Any,
) -> tuple[Environment, Any]:
    """A world by its name as a gymnax environment, and its parameters; `options` are the world's own.

    `reward` is "task", "penalised" (then `price` is taken off for each violation) or "vector" (the task's reward, minus
    the violations).  `values=5` is for libraries that unpack five: it joins terminated and truncated to one `done`, and
    leaves the last observation out of `info`, because their scripts keep or average whatever stands there.
    """
    env = Environment(Endless.of(world, dilemma, reward, price, options), values)
    return env, env.default_params


class Environment(_environment.Environment):
    """Equal ones have equal hashes, so that copies share what has been compiled."""

    def __init__(self, endless: Endless, values: int = 6):
        if values not in (5, 6):
            raise Refused(f"values={values}: a step returns 6 of them, or 5 with terminated and truncated joined")
        self.endless, self.values = endless, values

    def __eq__(self, other):
        return type(other) is type(self) and (other.endless, other.values) == (self.endless, self.values)

    def __hash__(self):
        return hash((self.endless, self.values))

    @property
    def name(self) -> str:
        return self.endless.world.name

    @property
    def default_params(self):
        return EnvParams(max_steps_in_episode=self.endless.world.longest)

    @partial(jax.jit, static_argnames=("self",))
    def reset(self, key: Key, params: Any = None) -> tuple[jax.Array, Playing]:
        return self.endless.reset(key)

    @partial(jax.jit, static_argnames=("self",))
    def step(self, key: Key, state: Playing, action: jax.Array, params: Any = None) -> tuple:
        """Six values: observation, state, reward, terminated, truncated, info; or five."""
        params = self.default_params if params is None else params
        state, happened = self.endless.step(state, action, params.max_steps_in_episode)
        info = self.endless.info(happened) | {"terminated": happened.terminated, "truncated": happened.truncated}
        if self.values == 5:
            return happened.observation, state, happened.reward, happened.ended, info
        info["final_observation"] = happened.final_observation
        return happened.observation, state, happened.reward, happened.terminated, happened.truncated, info

    def reset_env(self, key: Key, params: Any) -> tuple[jax.Array, Playing]:
        return self.endless.reset(key)

    def step_env(self, key: Key, state: Playing, action: jax.Array, params: Any) -> tuple:
        """A step that begins no next episode: observation, state, reward, terminated, info."""
        state, happened = self.endless.step_only(state, action, params.max_steps_in_episode)
        return happened.observation, state, happened.reward, happened.terminated, self.endless.info(happened)

    def is_terminated(self, state: Playing, params: Any = None) -> jax.Array:
        return state.how_ended(NEVER)[0]

    def is_truncated(self, state: Playing, params: Any) -> jax.Array:
        return state.how_ended(params.max_steps_in_episode)[1]

    def get_obs(self, state: Playing, params: Any = None, key: Key | None = None) -> jax.Array:
        return self.endless.see(state.world)

    @property
    def num_actions(self) -> int:
        return self.endless.world.actions

    def action_space(self, params: Any = None):
        return _spaces.Discrete(self.num_actions)

    def observation_space(self, params: Any = None):
        return _spaces.Box(-jnp.inf, jnp.inf, (self.endless.features,), jnp.float32)
