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

from perepisode.config import ConfigError
from perepisode.environments import base
from perepisode.environments.base import UNLIMITED_STEPS, Key
from perepisode.environments.gymnax_adapter import from_gymnax  # noqa: F401  the other way: theirs as one of ours
from perepisode.interop import library
from perepisode.interop.autoreset import AutoResetEnv, EnvState
from perepisode.lazy import jax, jnp

_environment = library("gymnax.environments.environment", "gymnax")
_spaces = library("gymnax.environments.spaces", "gymnax")
EnvParams = _environment.EnvParams


def make(
    env: str | base.Environment | type[base.Environment],
    dilemma: str | None = None,
    *,
    reward: str = "task",
    price: float | None = None,
    step_api: str = "6-tuple",
    **options: Any,
) -> tuple[GymnaxEnv, Any]:
    """A world by its name as a gymnax environment, and its parameters; `options` are the world's own.

    `reward` is "task", "penalised" (then `price` is taken off for each violation) or "vector" (the task's reward, minus
    the violations).  `step_api="5-tuple"` is for libraries that unpack five: it joins terminated and truncated to one `done`, and
    leaves the last observation out of `info`, because their scripts keep or average whatever stands there.
    """
    made = GymnaxEnv(AutoResetEnv.of(env, dilemma, reward, price, options), step_api)
    return made, made.default_params


class GymnaxEnv(_environment.Environment):
    """Equal ones have equal hashes, so that copies share what has been compiled."""

    def __init__(self, autoreset: AutoResetEnv, step_api: str = "6-tuple"):
        if step_api not in ("5-tuple", "6-tuple"):
            raise ConfigError(f"step_api={step_api!r}: choose 6-tuple, or 5-tuple with terminated and truncated joined")
        self.autoreset, self.step_api = autoreset, step_api

    def __eq__(self, other):
        return type(other) is type(self) and (other.autoreset, other.step_api) == (self.autoreset, self.step_api)

    def __hash__(self):
        return hash((self.autoreset, self.step_api))

    @property
    def name(self) -> str:
        return self.autoreset.env.name

    @property
    def default_params(self):
        return EnvParams(max_steps_in_episode=self.autoreset.env.max_episode_steps)

    @partial(jax.jit, static_argnames=("self",))
    def reset(self, key: Key, params: Any = None) -> tuple[jax.Array, EnvState]:
        return self.autoreset.reset(key)

    @partial(jax.jit, static_argnames=("self",))
    def step(self, key: Key, state: EnvState, action: jax.Array, params: Any = None) -> tuple:
        """Six values: observation, state, reward, terminated, truncated, info; or five."""
        params = self.default_params if params is None else params
        state, timestep = self.autoreset.step(state, action, params.max_steps_in_episode)
        info = self.autoreset.info(timestep) | {"terminated": timestep.terminated, "truncated": timestep.truncated}
        if self.step_api == "5-tuple":
            return timestep.observation, state, timestep.reward, timestep.ended, info
        info["final_observation"] = timestep.final_observation
        return timestep.observation, state, timestep.reward, timestep.terminated, timestep.truncated, info

    def reset_env(self, key: Key, params: Any) -> tuple[jax.Array, EnvState]:
        return self.autoreset.reset(key)

    def step_env(self, key: Key, state: EnvState, action: jax.Array, params: Any) -> tuple:
        """A step that begins no next episode: observation, state, reward, terminated, info."""
        state, timestep = self.autoreset.step_only(state, action, params.max_steps_in_episode)
        return timestep.observation, state, timestep.reward, timestep.terminated, self.autoreset.info(timestep)

    def is_terminated(self, state: EnvState, params: Any = None) -> jax.Array:
        return state.how_ended(UNLIMITED_STEPS)[0]

    def is_truncated(self, state: EnvState, params: Any) -> jax.Array:
        return state.how_ended(params.max_steps_in_episode)[1]

    def get_obs(self, state: EnvState, params: Any = None, key: Key | None = None) -> jax.Array:
        return self.autoreset.see(state.env_state)

    @property
    def num_actions(self) -> int:
        return self.autoreset.env.actions

    def action_space(self, params: Any = None):
        return _spaces.Discrete(self.num_actions)

    def observation_space(self, params: Any = None):
        return _spaces.Box(-jnp.inf, jnp.inf, (self.autoreset.features,), jnp.float32)
