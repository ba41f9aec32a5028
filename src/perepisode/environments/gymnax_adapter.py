"""Adapter for environments with the gymnax interface: one call registers them for training with every method.

    env, params = gymnax.make("CartPole-v1")

    def off_centre(before, action, after, info):
        return jnp.abs(after.x) > 1.0

    CartPole = from_gymnax(env, params, detectors=off_centre)      # perepisode train --env my_file.py:CartPole

gymnax itself is not imported: any object with these functions and return values works.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import isfunction, signature
from typing import Any, ClassVar

import numpy as np

from perepisode import plugins
from perepisode.config import ConfigError
from perepisode.environments import action_space, check_env
from perepisode.environments.action_space import Box
from perepisode.environments.base import UNLIMITED_STEPS, EndCause, Environment, Outcome, register_env
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

Detector = Callable[..., Any]  # (before, action, after, info) -> violations of the step; may also take `reward`


@pytree
class GymnaxState:
    """The wrapped environment's state and observation, and the step count."""

    env_state: Any
    observation: jax.Array
    time: jax.Array  # int32, steps taken


class GymnaxAdapter(Environment):
    """An environment that delegates to a wrapped one."""

    wrapped: ClassVar[Any]
    params: ClassVar[Any]
    action_shape: ClassVar[tuple[int, ...]]  # of the wrapped environment; ours are flat
    detectors: ClassVar[tuple[Detector, ...]]
    max_episode_steps: ClassVar[int]  # time limit in steps

    def reset(self, key):
        observation, inner = self._function("reset")(key, self.params)
        state = GymnaxState(inner, self._flat(observation), jnp.int32(0))
        # some resets return 0 where the step returns 0.0: convert to the dtypes of the step
        action = jax.ShapeDtypeStruct(self.action_shape, action_space.dtype(self.actions))
        stepped = jax.eval_shape(self._stepped, key, state, action)[0]
        return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), state, stepped)

    def step(self, key, state, action):
        action = jnp.reshape(action, self.action_shape)
        after, reward, cause, info = self._stepped(key, state, action)
        given = state.env_state, action, after.env_state, info
        counts = [count(*given, **({"reward": reward} if _takes_reward(count) else {})) for count in self.detectors]
        violations = jnp.stack([self._checked(dilemma, count) for dilemma, count in zip(self.dilemmas, counts)])
        return after, Outcome(jnp.asarray(reward, jnp.float32), violations, violations, {}, cause)

    def observe(self, state):
        return state.observation

    def _stepped(self, key, state: GymnaxState, action):
        values = self._function("step")(key, state.env_state, action, self.params)
        if len(values) not in (5, 6):
            raise ConfigError(f"{self.name}: step returns {len(values)} values; the gymnax interface has five or six")
        observation, inner, reward, *ends, info = values
        ends = [jnp.asarray(end).astype(bool) for end in ends]
        after = GymnaxState(inner, self._flat(observation), state.time + 1)
        truncated = after.time >= self.max_episode_steps
        if len(ends) == 2:
            terminated, truncated = ends[0], ends[1] | truncated
        elif hasattr(self.wrapped, "is_truncated"):  # gymnax 1.0: five values, truncation apart
            (terminated,) = ends
            truncated |= jnp.asarray(self.wrapped.is_truncated(inner, self.params)).astype(bool)
        else:  # older gymnax: one `done` for both; at the time limit it counts as truncation
            terminated = ends[0] & ~truncated
        cause = jnp.where(terminated, EndCause.DEATH, jnp.where(truncated, EndCause.TIMEOUT, EndCause.RUNNING))
        return after, reward, cause.astype(jnp.int32), info

    def _function(self, name: str) -> Callable:
        """`step_env` and `reset_env` if they exist, because gymnax's plain `step` resets automatically."""
        return getattr(self.wrapped, f"{name}_env", None) or getattr(self.wrapped, name)

    def _flat(self, observation: Any) -> jax.Array:
        if len(jax.tree.leaves(observation)) != 1:
            raise ConfigError(f"{self.name}: the observation must be one array, not {type(observation).__name__}")
        return jnp.ravel(observation)

    def _checked(self, dilemma: str, count: Any) -> jax.Array:
        """A detector's count as int32; ConfigError unless it is one integer or bool."""
        array = None if count is None else jnp.asarray(count)
        if array is None or array.shape or not (array.dtype == bool or jnp.issubdtype(array.dtype, jnp.integer)):
            returned = "nothing" if array is None else check_env.array_type(array)
            raise ConfigError(
                f"{self.name}: the detector of {dilemma} returns {returned}; it must return one whole number or a bool"
            )
        return array.astype(jnp.int32)


def from_gymnax(
    env: Any,
    params: Any = None,
    *,
    detectors: Detector | Mapping[str, Detector],
    name: str | None = None,
    max_episode_steps: int | None = None,
    draw: Callable[[Any], Any] | None = None,
    **declared: Any,
) -> type[Environment]:
    """Register `env` with these parameters as an environment and return its class.

    `detectors` count the violations of one step from the states before and after it, and from the reward if they have
    a parameter of this name; a mapping declares one dilemma per entry.  `max_episode_steps` defaults to
    `params.max_steps_in_episode`.  `draw(state)` is the picture of a state of `env`, uint8[height, width, 3]; runs stay
    valid when its function changes.  Any other class attribute of `Environment` can be given too, such as `ppo`,
    `total_timesteps` and `eval_config`.
    """
    if isinstance(env, tuple):
        raise ConfigError(
            "from_gymnax() takes the environment and its parameters as two arguments: from_gymnax(*gymnax.make(...))"
        )
    _refuse_wrapper(env)
    params = env.default_params if params is None else params
    detectors = _by_dilemma(detectors)
    name = name or re.sub(r"\W+", "_", str(getattr(env, "name", type(env).__name__))).lower()
    actions, action_shape = _actions(name, env.action_space(params))
    if unknown := sorted(set(declared) - set(dir(Environment))):
        raise ConfigError(
            f"{name}: Environment has no attribute {unknown[0]!r} (docs/tutorials/bring-your-environment.md)"
        )
    max_episode_steps = max_episode_steps or getattr(params, "max_steps_in_episode", None) or UNLIMITED_STEPS
    attributes = {
        "__module__": sys._getframe(1).f_globals["__name__"],  # a run records this module's file
        "__doc__": f"{name}, a wrapped gymnax environment.",
        "name": name,
        "actions": actions,
        "action_shape": action_shape,
        "dilemmas": tuple(detectors),
        "detectors": tuple(detectors.values()),
        "wrapped": env,
        "params": params,
        "max_episode_steps": max_episode_steps,
        "draw": _drawn_by(draw),
        "display_functions": (draw,) if draw else (),
        "source_objects": (type(env), *filter(isfunction, detectors.values())),
        "constructor_args": plugins.stable_repr((dict(_held(env)), params, max_episode_steps, dict(detectors))),
    }
    return register_env(type(name.title().replace("_", ""), (GymnaxAdapter,), {**attributes, **declared}))


def _refuse_wrapper(env: Any) -> None:
    """A gymnax wrapper forwards `step_env` to the wrapped environment, which would bypass the wrapper."""
    if hasattr(env, "step_env") and not hasattr(type(env), "step_env"):
        raise ConfigError(
            f"{type(env).__name__} is a wrapper, and its step resets automatically; pass the wrapped environment, "
            "or write a subclass of it whose step_env does what the wrapper does"
        )


def _actions(name: str, space: Any) -> tuple[int | Box, tuple[int, ...]]:
    """Our action space, and the shape of the environment's own actions."""
    if hasattr(space, "n"):
        return int(space.n), ()
    if not all(hasattr(space, bound) for bound in ("low", "high", "shape")):
        raise ConfigError(f"{name} has the action space {space}; it must be discrete or a box of real numbers")
    low, high = (np.broadcast_to(np.asarray(bound), space.shape).ravel().tolist() for bound in (space.low, space.high))
    return Box(tuple(low), tuple(high)), tuple(space.shape)


def _takes_reward(detector: Detector) -> bool:
    try:
        return "reward" in signature(detector).parameters
    except ValueError:  # a callable without a signature
        return False


def _drawn_by(draw: Callable[[Any], Any] | None) -> Callable | None:
    """The method `draw` of an environment whose states hold the wrapped environment's."""
    return (lambda self, state: draw(state.env_state)) if draw else None


def _by_dilemma(detectors: Any) -> dict[str, Detector]:
    """Detectors by dilemma."""
    if isinstance(detectors, Mapping) and detectors and all(map(callable, detectors.values())):
        return dict(detectors)
    name = getattr(detectors, "__name__", "")
    if not callable(detectors) or not name.isidentifier():
        raise ConfigError("detectors must be a named function, or functions by dilemma: {'harm': function}")
    return {name: detectors}


def _held(env: Any) -> Iterator[tuple[str, Any]]:
    """The environment's attributes, without callables."""
    return ((name, value) for name, value in getattr(env, "__dict__", {}).items() if not callable(value))
