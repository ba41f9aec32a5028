"""An environment of gymnax's shape as a world: whoever wrote it, one call makes it a world that all methods train on.

    env, params = gymnax.make("CartPole-v1")

    def off_centre(before, action, after, info):
        return jnp.abs(after.x) > 1.0

    CartPole = from_gymnax(env, params, detectors=off_centre)      # perepisode train --env my_file.py:CartPole

Nothing of gymnax is imported: what counts is that the object has these functions and returns these values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import isfunction
from typing import Any, ClassVar

from perepisode import plugins
from perepisode.config import ConfigError
from perepisode.environments import check_env
from perepisode.environments.base import UNLIMITED_STEPS, EndCause, Environment, Outcome, register_env
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

Detector = Callable[[Any, Any, Any, dict], Any]  # (before, action, after, info) -> violations of the step


@pytree
class GymnaxState:
    """One episode: their state, what they let the agent see of it, and our own clock."""

    env_state: Any
    observation: jax.Array
    time: jax.Array  # int32, steps taken


class GymnaxAdapter(Environment):
    """A world by somebody else's functions."""

    wrapped: ClassVar[Any]
    params: ClassVar[Any]
    detectors: ClassVar[tuple[Detector, ...]]
    max_episode_steps: ClassVar[int]  # steps after which the clock ends an episode

    def reset(self, key):
        seen, inner = self._function("reset")(key, self.params)
        fresh = GymnaxState(inner, self._flat(seen), jnp.int32(0))
        # many a reset says 0 where a step says 0.0: the state is from the start what it will be
        later = jax.eval_shape(self._stepped, key, fresh, jnp.int32(0))[0]
        return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), fresh, later)

    def step(self, key, state, action):
        after, reward, cause, info = self._stepped(key, state, action)
        counts = [count(state.env_state, action, after.env_state, info) for count in self.detectors]
        violations = jnp.stack([self._whole(dilemma, count) for dilemma, count in zip(self.dilemmas, counts)])
        return after, Outcome(jnp.asarray(reward, jnp.float32), violations, violations, {}, cause)

    def observe(self, state):
        return state.observation

    def _stepped(self, key, state: GymnaxState, action):
        values = self._function("step")(key, state.env_state, action, self.params)
        if len(values) not in (5, 6):
            raise ConfigError(f"{self.name}: its step returns {len(values)} values; gymnax's returns six, or five")
        seen, inner, reward, *ends, info = values
        ends = [jnp.asarray(end).astype(bool) for end in ends]
        after = GymnaxState(inner, self._flat(seen), state.time + 1)
        late = after.time >= self.max_episode_steps
        if len(ends) == 2:
            died, late = ends[0], ends[1] | late
        elif hasattr(self.wrapped, "is_truncated"):  # gymnax from 1.0 on: a step of five values leaves the clock to it
            (died,) = ends
            late |= jnp.asarray(self.wrapped.is_truncated(inner, self.params)).astype(bool)
        else:  # before, what ended says nothing of why: at the last stroke of the clock it was the clock
            died = ends[0] & ~late
        cause = jnp.where(died, EndCause.DEATH, jnp.where(late, EndCause.TIMEOUT, EndCause.RUNNING))
        return after, reward, cause.astype(jnp.int32), info

    def _function(self, name: str) -> Callable:
        """`step_env` and `reset_env` where they exist: the plain `step` of gymnax begins the next episode by itself."""
        return getattr(self.wrapped, f"{name}_env", None) or getattr(self.wrapped, name)

    def _flat(self, seen: Any) -> jax.Array:
        if len(jax.tree.leaves(seen)) != 1:
            raise ConfigError(f"{self.name}: an agent sees one array, and this environment shows {type(seen).__name__}")
        return jnp.ravel(seen)

    def _whole(self, dilemma: str, count: Any) -> jax.Array:
        """A detector's count of one step."""
        found = None if count is None else jnp.asarray(count)
        if found is None or found.shape or not (found.dtype == bool or jnp.issubdtype(found.dtype, jnp.integer)):
            said = "nothing" if found is None else check_env.array_type(found)
            raise ConfigError(
                f"{self.name}: the detector of {dilemma} returns {said}; it must be one whole number or a bool"
            )
        return found.astype(jnp.int32)


def from_gymnax(
    env: Any,
    params: Any = None,
    *,
    detectors: Detector | Mapping[str, Detector],
    name: str | None = None,
    max_episode_steps: int | None = None,
    **declared: Any,
) -> type[Environment]:
    """Declare `env` with these parameters as a world, and return its class.

    `detectors` count the violations of one step, from the environment's states before and after it; several of them, by name,
    are several dilemmas.  `longest` is the clock's limit where `params.max_steps_in_episode` does not say it.  All else
    that a world may declare can be given too, such as `learner`, `steps` and `protocol`.
    """
    if isinstance(env, tuple):
        raise ConfigError(
            "from_gymnax() takes an environment and its parameters, not both as one: from_gymnax(*gymnax.make(...), ...)"
        )
    _refuse_wrapper(env)
    params = env.default_params if params is None else params
    detectors = _by_dilemma(detectors)
    name = name or re.sub(r"\W+", "_", str(getattr(env, "name", type(env).__name__))).lower()
    if not hasattr(space := env.action_space(params), "n"):
        raise ConfigError(f"{name} has the actions {space}; a world needs a space of discrete ones")
    if unknown := sorted(set(declared) - set(dir(Environment))):
        raise ConfigError(f"{name}: a world declares no {unknown[0]!r} (docs/tutorials/bring-your-environment.md)")
    max_episode_steps = max_episode_steps or getattr(params, "max_steps_in_episode", None) or UNLIMITED_STEPS
    own = {
        "__module__": sys._getframe(1).f_globals["__name__"],  # whose file a run remembers, with those of `source_objects`
        "__doc__": f"{name}, adopted.",
        "name": name,
        "actions": int(space.n),
        "dilemmas": tuple(detectors),
        "detectors": tuple(detectors.values()),
        "wrapped": env,
        "params": params,
        "max_episode_steps": max_episode_steps,
        "source_objects": (type(env), *filter(isfunction, detectors.values())),
        "constructor_args": plugins.stable_repr((dict(_held(env)), params, max_episode_steps, dict(detectors))),
    }
    return register_env(type(name.title().replace("_", ""), (GymnaxAdapter,), {**own, **declared}))


def _refuse_wrapper(env: Any) -> None:
    """A wrapper of gymnax passes `step_env` on to what it wraps, and would itself be passed over."""
    if hasattr(env, "step_env") and not hasattr(type(env), "step_env"):
        raise ConfigError(
            f"{type(env).__name__} wraps an environment, and its own step begins the next episode by itself; adopt the "
            "environment inside, or write a subclass of it whose step_env does what the wrapper does"
        )


def _by_dilemma(detectors: Any) -> dict[str, Detector]:
    """Detectors by their dilemmas."""
    if isinstance(detectors, Mapping) and detectors and all(map(callable, detectors.values())):
        return dict(detectors)
    name = getattr(detectors, "__name__", "")
    if not callable(detectors) or not name.isidentifier():
        raise ConfigError("detectors is a function with a name, or functions by their dilemmas: {'harm': function}")
    return {name: detectors}


def _held(env: Any) -> Iterator[tuple[str, Any]]:
    """What an environment was made with."""
    return ((name, value) for name, value in getattr(env, "__dict__", {}).items() if not callable(value))
