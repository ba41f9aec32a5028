"""Our worlds as Gymnasium environments, one at a time or many in one program.

    envs = gymnasium.make_vec("perepisode.interop.gymnasium:perepisode/Craftax-v0", num_envs=64, dilemma="no_killing")
    env = gymnasium.make("perepisode.interop.gymnasium:perepisode/Temptation-v0")

Every world that is known has an id, which needs its module's name once.  Arrays are NumPy's, and the caller's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.base import UNLIMITED_STEPS, Environment
from perepisode.environments.check_env import array_type
from perepisode.interop import library
from perepisode.interop.autoreset import AutoResetEnv, EnvState
from perepisode.lazy import jax, jnp

# the extra `gymnasium` alone is light: the recorder needs no more
gymnasium, _ = (library(name, "gymnasium", "train,gymnasium") for name in ("gymnasium", "jax"))
AutoresetMode = gymnasium.vector.AutoresetMode
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def register() -> None:
    """Give every world that is known an id: `temptation` is `perepisode/Temptation-v0`."""
    for name in ENVIRONMENTS:
        id = f"perepisode/{name.title().replace('_', '')}-v0"
        if id not in gymnasium.registry:
            here = "perepisode.interop.gymnasium"
            points = {"entry_point": f"{here}:Env", "vector_entry_point": f"{here}:VectorEnv"}
            gymnasium.register(id, **points, kwargs={"env": name})


class Env(gymnasium.Env):
    """One world, whose caller resets it.  Other options are the world's own."""

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
        _refuse_pictures(render_mode)
        self.metadata = {"render_modes": []}
        self.observation_space, self.action_space, self.reward_space = _spaces(self.autoreset)
        self._state: EnvState | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=None if seed is None else int(seed))
        observation, self._state = _program(self.autoreset).reset(_words(self.np_random))
        return np.array(observation), {}

    def step(self, action: Any):
        if self._state is None:
            raise ConfigError("step() before reset(): an episode begins with reset()")
        action = _actions(action, (), self.action_space)
        self._state, timestep, info = _program(self.autoreset).step_only(self._state, action)
        reward = np.array(timestep.reward) if self.autoreset.reward == "vector" else float(timestep.reward)
        info = {name: value.item() for name, value in jax.device_get(info).items()}
        return np.array(timestep.observation), reward, bool(timestep.terminated), bool(timestep.truncated), info


class VectorEnv(gymnasium.vector.VectorEnv):
    """Many worlds in one program.  Where an episode ends the next begins by itself, in either of Gymnasium's two modes.

    `info["cost"]` is the cost of every place's step, also of an episode's last.
    """

    def __init__(
        self,
        env: str | Environment | type[Environment],
        num_envs: int = 1,
        dilemma: str | None = None,
        reward: str = "task",
        price: float | None = None,
        autoreset_mode: Any = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ):
        self.autoreset = AutoResetEnv.of(env, dilemma, reward, price, options)
        _refuse_pictures(render_mode)
        mode = AutoresetMode(autoreset_mode)
        if mode not in MODES:
            raise ConfigError(f"autoreset_mode={mode.value!r}: choose from {', '.join(one.value for one in MODES)}")
        self.num_envs = num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.single_observation_space, self.single_action_space, self.reward_space = _spaces(self.autoreset)
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, num_envs)
        self.action_space = batch(self.single_action_space, num_envs)
        self._same_step = mode is AutoresetMode.SAME_STEP
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ConfigError(f"max_episode_steps={max_episode_steps}: an episode has at least one step")
        self._longest = np.int32(max_episode_steps or UNLIMITED_STEPS)
        self._generators: list[np.random.Generator] = [np.random.default_rng() for _ in range(num_envs)]
        self._state: EnvState | None = None
        self._ended = np.zeros(num_envs, bool)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None):
        """Seed s is place i's seed s + i, as Gymnasium has it; a place without a seed goes on with its own numbers."""
        if options and "reset_mask" in options:
            raise ConfigError(
                "reset_mask: every place begins its next episode by itself; reset() begins all of them anew"
            )
        seeds = [seed + place for place in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        seeds = [None] * self.num_envs if seeds is None else list(seeds)
        if len(seeds) != self.num_envs:
            raise ConfigError(f"{len(seeds)} seeds for {self.num_envs} places; give one number, or one a place")
        for place, own in enumerate(seeds):
            if own is not None:
                self._generators[place], _ = gymnasium.utils.seeding.np_random(int(own))
        if isinstance(seed, int | np.integer):
            self._np_random, self._np_random_seed = gymnasium.utils.seeding.np_random(int(seed))
        words = np.stack([_words(generator) for generator in self._generators])
        observation, self._state = _program(self.autoreset).reset_all(words)
        self._ended = np.zeros(self.num_envs, bool)
        return np.array(observation), {}

    def step(self, actions: Any):
        if self._state is None:
            raise ConfigError("step() before reset(): episodes begin with reset()")
        program = _program(self.autoreset)
        actions = _actions(actions, (self.num_envs,), self.single_action_space)
        if self._same_step:
            self._state, timestep, info = program.step_same(self._state, actions, self._longest)
            played = np.ones(self.num_envs, bool)
        else:
            self._state, timestep, info = program.step_next(self._state, actions, self._longest, self._ended)
            played = ~self._ended
        terminated, truncated = np.array(timestep.terminated), np.array(timestep.truncated)
        self._ended = terminated | truncated
        info = {name: np.array(value) for name, value in info.items()}
        said = _masked(info, played)
        if self._same_step and self._ended.any():
            said |= _masked({"final_obs": _only(timestep.final_observation, self._ended)}, self._ended)
            final = {name: np.where(self._ended, value, np.zeros_like(value)) for name, value in info.items()}
            said |= {"final_info": _masked(final, self._ended), "_final_info": self._ended.copy()}
        return np.array(timestep.observation), np.array(timestep.reward), terminated, truncated, said


class _Program:
    """What is compiled, once for all environments that play the same."""

    def __init__(self, autoreset: AutoResetEnv):
        self.autoreset = autoreset
        self.reset = jax.jit(autoreset.reset)
        self.reset_all = jax.jit(jax.vmap(autoreset.reset))
        self.step_only = jax.jit(self._only)
        self.step_same = jax.jit(jax.vmap(self._same, in_axes=(0, 0, None)))
        self.step_next = jax.jit(jax.vmap(self._next, in_axes=(0, 0, None, 0)))

    def _only(self, state, action):
        state, timestep = self.autoreset.step_only(state, action, UNLIMITED_STEPS)
        return state, timestep, self.autoreset.info(timestep)

    def _same(self, state, action, max_episode_steps):
        state, timestep = self.autoreset.step(state, action, max_episode_steps)
        return state, timestep, self.autoreset.info(timestep)

    def _next(self, state, action, max_episode_steps, over):
        """Where the episode is over the action is passed over, and the next episode begins instead."""
        state, timestep = self.autoreset.step_only(state, action, max_episode_steps)
        state, observation = self.autoreset.begin_next(over, state, timestep.observation)
        cleared = jax.tree.map(lambda leaf: jnp.where(over, jnp.zeros_like(leaf), leaf), timestep)
        timestep = replace(cleared, observation=observation)
        return state, timestep, self.autoreset.info(timestep)


_program = cache(_Program)


def _spaces(autoreset: AutoResetEnv) -> tuple[Any, Any, Any]:
    """Of observations, actions and rewards; the last is MO-Gymnasium's custom."""
    box = gymnasium.spaces.Box
    rewards = (2,) if autoreset.reward == "vector" else ()
    return (
        box(-np.inf, np.inf, (autoreset.features,), np.float32),
        gymnasium.spaces.Discrete(autoreset.env.actions),
        box(-np.inf, np.inf, rewards, np.float32),
    )


def _actions(given: Any, shape: tuple[int, ...], space: Any) -> np.ndarray:
    """Whole numbers of the action space, one a place; a world would play others in some way of its own."""
    actions = np.asarray(given)
    if actions.shape != shape or actions.dtype.kind not in "iu":
        wanted = f"{shape[0]} whole numbers, one a place" if shape else "one whole number"
        raise ConfigError(f"action is {array_type(actions)}; it must be {wanted}")
    if ((actions < 0) | (actions >= space.n)).any():
        raise ConfigError(
            f"action {actions.min() if actions.min() < 0 else actions.max()}: there are 0 to {space.n - 1}"
        )
    return actions.astype(np.int32)


def _words(generator: np.random.Generator) -> np.ndarray:
    """A key, drawn."""
    return generator.integers(0, 2**32, 2, np.uint32)


def _masked(info: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, np.ndarray]:
    """As Gymnasium writes it: beside every entry, which places it is of."""
    return info | {f"_{name}": mask.copy() for name in info}


def _only(observations: jax.Array, places: np.ndarray) -> np.ndarray:
    """The last observations of the places that ended, and None elsewhere."""
    chosen = np.full(len(places), None, object)
    for place in np.flatnonzero(places):
        chosen[place] = np.array(observations[place])
    return chosen


def _refuse_pictures(render_mode: str | None) -> None:
    if render_mode is not None:
        raise ConfigError(f"render_mode={render_mode!r}: there are no pictures here; `perepisode watch` draws episodes")


register()
