"""Environments for Gymnasium, single or vectorised in one program.

    envs = gymnasium.make_vec("perepisode.interop.gymnasium:perepisode/Craftax-v0", num_envs=64, dilemma="no_killing")
    env = gymnasium.make("perepisode.interop.gymnasium:perepisode/Temptation-v0")

Every registered environment has an id.  The part before the colon makes Gymnasium import this module, which registers
the ids.  Arrays are NumPy arrays, and each call returns new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS, action_space
from perepisode.environments.action_space import Box
from perepisode.environments.base import UNLIMITED_STEPS, Environment
from perepisode.environments.check_env import array_type, refuse_negative_count
from perepisode.environments.episode_keys import episode_keys
from perepisode.interop import import_optional
from perepisode.interop.autoreset import AutoResetEnv, EnvState
from perepisode.lazy import jax, jnp

# the extra `gymnasium` alone brings no JAX: the recorder needs none
gymnasium, _ = (import_optional(name, "gymnasium", "train,gymnasium") for name in ("gymnasium", "jax"))
AutoresetMode = gymnasium.vector.AutoresetMode
NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
RENDERING = {"render_modes": ["rgb_array"], "render_fps": 8}


def register() -> None:
    """Register an id for every environment: `temptation` is `perepisode/Temptation-v0`."""
    for name in ENVIRONMENTS:
        id = f"perepisode/{name.title().replace('_', '')}-v0"
        if id not in gymnasium.registry:
            entry_points = {"entry_point": f"{__name__}:Env", "vector_entry_point": f"{__name__}:VectorEnv"}
            gymnasium.register(id, **entry_points, kwargs={"env": name})


class Env(gymnasium.Env):
    """One environment, which the caller resets; `options` are its settings."""

    metadata = RENDERING  # what Gymnasium checks before it creates an environment

    def __init__(
        self,
        env: str | Environment | type[Environment],
        dilemma: str | None = None,
        reward: str = "task",
        price: float | None = None,
        render_mode: str | None = None,
        **options: Any,
    ):
        self.autoreset = AutoResetEnv.of(env, dilemma, reward, price, options)
        self.metadata, self.render_mode = _rendering(self.autoreset.env, render_mode), render_mode
        self.observation_space, self.action_space, self.reward_space = _spaces(self.autoreset)
        self.reward_dim = self.autoreset.reward_dim
        self._state: EnvState | None = None
        self._ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=None if seed is None else int(seed))
        observation, self._state = _program(self.autoreset).reset(_draw_key(self.np_random))
        self._ended = False
        return np.array(observation), {}

    def step(self, action: Any):
        if self._ended:
            raise ConfigError("step() after the end of an episode: call reset() first")
        state, action = _begun(self._state, "step"), _actions(action, (), self.autoreset.env)
        self._state, timestep, info = _program(self.autoreset).step_env(state, action, UNLIMITED_STEPS)
        reward = np.array(timestep.reward) if self.autoreset.reward == "vector" else float(timestep.reward)
        terminated, truncated = bool(timestep.terminated), bool(timestep.truncated)
        self._ended = terminated or truncated
        info = {name: value.item() for name, value in _checked(self.autoreset, info).items()}
        return np.array(timestep.observation), reward, terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """The picture of the current state, uint8[height, width, 3], if `render_mode` is "rgb_array"."""
        if self.render_mode is None:
            return _warn_of_render_mode()
        return np.array(_program(self.autoreset).draw(_begun(self._state, "render")))

    @property
    def episode_keys(self) -> np.ndarray:
        """uint32[1, 2]: the key of the current episode."""
        return _episode_keys(_begun(self._state, "episode_keys"))


class VectorEnv(gymnasium.vector.VectorEnv):
    """Many environments in one program, with Gymnasium's three autoreset modes.

    `info["cost"]` is the cost of every environment's step, including the last step of an episode.
    """

    metadata = RENDERING

    def __init__(
        self,
        env: str | Environment | type[Environment],
        num_envs: int = 1,
        dilemma: str | None = None,
        reward: str = "task",
        price: float | None = None,
        autoreset_mode: Any = NEXT_STEP,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ):
        self.autoreset = AutoResetEnv.of(env, dilemma, reward, price, options)
        self._mode = AutoresetMode(autoreset_mode)
        self.metadata = _rendering(self.autoreset.env, render_mode) | {"autoreset_mode": self._mode}
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space, self.single_action_space, self.reward_space = _spaces(self.autoreset)
        self.reward_dim = self.autoreset.reward_dim
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, num_envs)
        self.action_space = batch(self.single_action_space, num_envs)
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ConfigError(f"max_episode_steps={max_episode_steps}; use at least 1")
        self._max_episode_steps = np.int32(max_episode_steps or UNLIMITED_STEPS)
        self._generators: list[np.random.Generator] = [np.random.default_rng() for _ in range(num_envs)]
        self._state: EnvState | None = None
        self._ended = np.zeros(num_envs, bool)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None):
        """One seed s gives environment i the seed s + i, as in Gymnasium; without a seed, its generator continues.

        `options={"reset_mask": mask}` resets these environments only; the others continue their episodes.
        """
        mask = self._reset_mask(options or {})
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        seeds = [None] * self.num_envs if seeds is None else list(seeds)
        if len(seeds) != self.num_envs:
            raise ConfigError(
                f"{len(seeds)} seeds for {self.num_envs} environments; give one number, or one per environment"
            )
        for i, own in enumerate(seeds):
            if own is not None and mask[i]:
                self._generators[i], _ = gymnasium.utils.seeding.np_random(int(own))
        if isinstance(seed, int | np.integer):
            self._np_random, self._np_random_seed = gymnasium.utils.seeding.np_random(int(seed))
        unused = np.zeros(2, np.uint32)
        keys = np.stack([_draw_key(own) if reset else unused for own, reset in zip(self._generators, mask)])
        program = _program(self.autoreset)
        if mask.all():
            observation, self._state = program.reset_all(keys)
        else:
            self._state, observation = program.reset_masked(_begun(self._state, "reset_mask"), keys, mask)
        self._ended = self._ended & ~mask
        return np.array(observation), {}

    def _reset_mask(self, options: dict[str, Any]) -> np.ndarray:
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise ConfigError(
                f"reset_mask is {array_type(mask)} with {np.count_nonzero(mask)} true; "
                f"it must be bool[{self.num_envs}], true for the environments to reset"
            )
        return mask

    def step(self, actions: Any):
        state, program, stepped = _begun(self._state, "step"), _program(self.autoreset), np.ones(self.num_envs, bool)
        actions = _actions(actions, (self.num_envs,), self.autoreset.env)
        if self._mode is SAME_STEP:
            self._state, timestep, info = program.step_same(state, actions, self._max_episode_steps)
        elif self._mode is NEXT_STEP:
            self._state, timestep, info = program.step_next(state, actions, self._max_episode_steps, self._ended)
            stepped = ~self._ended
        else:
            self._refuse_ended()
            self._state, timestep, info = program.step_all(state, actions, self._max_episode_steps)
        terminated, truncated = np.array(timestep.terminated), np.array(timestep.truncated)
        self._ended = terminated | truncated
        info = {name: np.array(value) for name, value in _checked(self.autoreset, info).items()}
        infos = _masked(info, stepped)
        if self._mode is SAME_STEP and self._ended.any():
            infos |= _masked({"final_obs": _final_observations(timestep.final_observation, self._ended)}, self._ended)
            final = {name: np.where(self._ended, value, np.zeros_like(value)) for name, value in info.items()}
            infos |= {"final_info": _masked(final, self._ended), "_final_info": self._ended.copy()}
        return np.array(timestep.observation), np.array(timestep.reward), terminated, truncated, infos

    def _refuse_ended(self) -> None:
        if self._ended.any():
            first = int(self._ended.argmax())
            raise ConfigError(
                f"step() after the end of the episode of environment {first}: with autoreset_mode=DISABLED, call "
                'reset(options={"reset_mask": terminated | truncated}) first'
            )

    def render(self) -> tuple[np.ndarray, ...] | None:
        """The picture of every environment, if `render_mode` is "rgb_array"."""
        if self.render_mode is None:
            return _warn_of_render_mode()
        return tuple(np.array(_program(self.autoreset).draw_all(_begun(self._state, "render"))))

    @property
    def episode_keys(self) -> np.ndarray:
        """uint32[env, 2]: the key of every environment's current episode."""
        return _episode_keys(_begun(self._state, "episode_keys"))


class _Program:
    """The compiled functions, shared by all environments with equal settings."""

    def __init__(self, autoreset: AutoResetEnv):
        self.autoreset = autoreset
        self.reset = jax.jit(autoreset.reset)
        self.reset_all = jax.jit(jax.vmap(autoreset.reset))
        self.reset_masked = jax.jit(jax.vmap(autoreset.reset_again))
        self.step_env = jax.jit(self._step_env)
        self.step_all = jax.jit(jax.vmap(self._step_env, in_axes=(0, 0, None)))
        self.step_same = jax.jit(jax.vmap(self._step_same, in_axes=(0, 0, None)))
        self.step_next = jax.jit(jax.vmap(self._step_next, in_axes=(0, 0, None, 0)))
        self.draw = jax.jit(self._draw)
        self.draw_all = jax.jit(jax.vmap(self._draw))

    def _draw(self, state):
        return self.autoreset.env.draw(state.env_state)

    def _step_env(self, state, action, max_episode_steps):
        state, timestep = self.autoreset.step_env(state, action, max_episode_steps)
        return state, timestep, self.autoreset.info(timestep)

    def _step_same(self, state, action, max_episode_steps):
        state, timestep = self.autoreset.step(state, action, max_episode_steps)
        return state, timestep, self.autoreset.info(timestep)

    def _step_next(self, state, action, max_episode_steps, ended):
        """Where the episode is over, the action is ignored and the next episode begins."""
        state, timestep = self.autoreset.step_env(state, action, max_episode_steps)
        state, observation = self.autoreset.reset_where(ended, state, timestep.observation)
        cleared = jax.tree.map(lambda leaf: jnp.where(ended, jnp.zeros_like(leaf), leaf), timestep)
        timestep = replace(cleared, observation=observation)
        return state, timestep, self.autoreset.info(timestep)


_program = cache(_Program)


def _spaces(autoreset: AutoResetEnv) -> tuple[Any, Any, Any]:
    """The spaces of observations, actions and rewards; MO-Gymnasium asks for the last."""
    box, actions = gymnasium.spaces.Box, autoreset.env.actions
    rewards = (2,) if autoreset.reward == "vector" else ()
    return (
        box(*autoreset.env.observation_bounds, (autoreset.features,), np.float32),
        box(*actions.bounds, dtype=np.float32) if isinstance(actions, Box) else gymnasium.spaces.Discrete(actions),
        box(-np.inf, np.inf, rewards, np.float32),
    )


def _actions(given: Any, shape: tuple[int, ...], env: Environment) -> np.ndarray:
    """Actions as `step` takes them, checked: the behaviour of an environment is undefined for any others."""
    actions, each = np.asarray(given), action_space.shape(env.actions)
    kinds, wanted = ("iuf", f"{each[0]} real numbers") if each else ("iu", "one whole number")
    if actions.shape != (*shape, *each) or actions.dtype.kind not in kinds:
        wanted += f" for each of {shape[0]} environments" if shape else ""
        raise ConfigError(f"action is {array_type(actions)}; it must be {wanted}")
    if each:
        actions = actions.astype(np.float32)
    action_space.refuse_unknown(env.actions, actions, env.name, "; apply gymnasium.wrappers.ClipAction" * bool(each))
    return actions.astype(action_space.dtype(env.actions))


def _episode_keys(state: EnvState) -> np.ndarray:
    return episode_keys(np.atleast_2d(state.key), np.atleast_1d(state.episode_id))


def _draw_key(generator: np.random.Generator) -> np.ndarray:
    return generator.integers(0, 2**32, 2, np.uint32)


def _masked(info: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, np.ndarray]:
    """Gymnasium's format: next to every entry, a mask of the environments that it belongs to."""
    return info | {f"_{name}": mask.copy() for name in info}


def _final_observations(observations: jax.Array, ended: np.ndarray) -> np.ndarray:
    """The observations of the environments whose episode ended, None elsewhere."""
    final = np.full(len(ended), None, object)
    for i in np.flatnonzero(ended):
        final[i] = np.array(observations[i])
    return final


def _begun(state: EnvState | None, call: str) -> EnvState:
    if state is None:
        raise ConfigError(f"{call} before reset(): call reset() first")
    return state


def _checked(autoreset: AutoResetEnv, info: dict[str, Any]) -> dict[str, np.ndarray]:
    """A step's info on the host; tracing cannot see negative counts, which would cancel others."""
    info = jax.device_get(info)
    for name in autoreset.env.dilemmas:
        if (info[f"violations_{name}"] < 0).any():
            refuse_negative_count(autoreset.env.name, name)
    return info


def _rendering(env: Environment, render_mode: str | None) -> dict[str, Any]:
    """The metadata of an environment; ConfigError if it cannot render in this mode."""
    drawn = env.draw is not None
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"render_mode={render_mode!r} is not supported; use rgb_array")
    if render_mode and not drawn:
        raise ConfigError(f"{env.name} has no pictures: define its draw(state), or leave out render_mode")
    return dict(RENDERING) if drawn else {"render_modes": []}


def _warn_of_render_mode() -> None:
    gymnasium.logger.warn('render() without a render mode; create the environment with render_mode="rgb_array"')


register()
