"""Environments for gymnax.

    env, params = make("craftax", dilemma="no_killing")
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
    observation, state, reward, terminated, truncated, info = step(keys, state, actions, params)

`step` resets automatically, unless `make` is given `auto_reset=False`.  All randomness comes from the key of `reset`,
so that every episode can be replayed from it; the key of `step` is ignored.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from perepisode.config import ConfigError
from perepisode.environments import action_space, base
from perepisode.environments.action_space import Box
from perepisode.environments.base import UNLIMITED_STEPS, Key
from perepisode.environments.gymnax_adapter import from_gymnax  # noqa: F401  the opposite direction
from perepisode.interop import import_optional
from perepisode.interop.autoreset import AutoResetEnv, EnvState
from perepisode.lazy import jax, jnp

_environment = import_optional("gymnax.environments.environment", "gymnax")
_spaces = import_optional("gymnax.environments.spaces", "gymnax")
EnvParams = _environment.EnvParams


def make(
    env: str | base.Environment | type[base.Environment],
    dilemma: str | None = None,
    *,
    reward: str = "task",
    price: float | None = None,
    step_api: str = "6-tuple",
    auto_reset: bool = True,
    **options: Any,
) -> tuple[GymnaxEnv, Any]:
    """An environment as a gymnax environment, and its parameters; `options` are the environment's settings.

    `reward` is "task", "penalised" (the task reward minus `price` per violation) or "vector" (the task reward and the
    negative number of violations).  `step_api="5-tuple"` is for libraries that unpack five values: it merges terminated
    and truncated into one `done`, and omits the final observation from `info`, because their scripts store or average
    everything in it.  `auto_reset=False` is for libraries that call `reset` themselves when an episode has ended.
    """
    adapter = GymnaxEnv(AutoResetEnv.of(env, dilemma, reward, price, options), step_api, auto_reset)
    return adapter, adapter.default_params


class GymnaxEnv(_environment.Environment):
    """Equal environments have equal hashes, so that copies share compiled programs."""

    def __init__(self, autoreset: AutoResetEnv, step_api: str = "6-tuple", auto_reset: bool = True):
        if step_api not in ("5-tuple", "6-tuple"):
            raise ConfigError(f"step_api={step_api!r}: choose 6-tuple, or 5-tuple with terminated and truncated merged")
        self.autoreset, self.step_api, self.auto_reset = autoreset, step_api, auto_reset

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self):
        return hash((self.autoreset, self.step_api, self.auto_reset))

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
        """Observation, state, reward, terminated, truncated, info; a 5-tuple has one `done` instead of two flags."""
        params = self.default_params if params is None else params
        step = self.autoreset.step if self.auto_reset else self.autoreset.step_env
        state, timestep = step(state, action, params.max_steps_in_episode)
        info = self.autoreset.info(timestep) | {"terminated": timestep.terminated, "truncated": timestep.truncated}
        if self.step_api == "5-tuple":
            return timestep.observation, state, timestep.reward, timestep.ended, info
        info["final_observation"] = timestep.final_observation
        return timestep.observation, state, timestep.reward, timestep.terminated, timestep.truncated, info

    def reset_env(self, key: Key, params: Any) -> tuple[jax.Array, EnvState]:
        return self.autoreset.reset(key)

    def step_env(self, key: Key, state: EnvState, action: jax.Array, params: Any) -> tuple:
        """A step without a reset: observation, state, reward, terminated, info."""
        state, timestep = self.autoreset.step_env(state, action, params.max_steps_in_episode)
        return timestep.observation, state, timestep.reward, timestep.terminated, self.autoreset.info(timestep)

    def is_terminated(self, state: EnvState, params: Any = None) -> jax.Array:
        return state.end_flags(UNLIMITED_STEPS)[0]

    def is_truncated(self, state: EnvState, params: Any) -> jax.Array:
        return state.end_flags(params.max_steps_in_episode)[1]

    def get_obs(self, state: EnvState, params: Any = None, key: Key | None = None) -> jax.Array:
        return self.autoreset.observe(state.env_state)

    @property
    def num_actions(self) -> int:
        """Discrete actions, or numbers of an action in a box."""
        return action_space.outputs(self.autoreset.env.actions)

    def action_space(self, params: Any = None):
        actions = self.autoreset.env.actions
        if isinstance(actions, Box):
            return _spaces.Box(*map(jnp.asarray, actions.bounds), (actions.size,), jnp.float32)
        return _spaces.Discrete(actions)

    def observation_space(self, params: Any = None):
        return _spaces.Box(*self.autoreset.env.observation_bounds, (self.autoreset.features,), jnp.float32)
