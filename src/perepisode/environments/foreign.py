"""An environment of gymnax's shape as a world: whoever wrote it, one call makes it a world that all methods train on.

    env, params = gymnax.make("CartPole-v1")

    def off_centre(before, action, after, info):
        return jnp.abs(after.x) > 1.0

    CartPole = adopt(env, params, violations=off_centre)      # perepisode train --env my_file.py:CartPole

Nothing of gymnax is imported: what counts is that the object has these functions and returns these values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from perepisode.config import Refused
from perepisode.environments.base import NEVER, EndCause, Outcome, World, world
from perepisode.later import jax, jnp
from perepisode.pytree import pytree

Detector = Callable[[Any, Any, Any, dict], Any]  # (before, action, after, info) -> violations of the step


@pytree
class Foreign:
    """One episode: their state, what they let the agent see of it, and our own clock."""

    inner: Any
    seen: jax.Array
    time: jax.Array  # int32, steps taken


class Adopted(World):
    """A world by somebody else's functions."""

    env: ClassVar[Any]
    params: ClassVar[Any]
    detectors: ClassVar[tuple[Detector, ...]]
    longest: ClassVar[int]  # steps after which the clock ends an episode

    def reset(self, key):
        seen, inner = self._function("reset")(key, self.params)
        fresh = Foreign(inner, jnp.ravel(seen), jnp.int32(0))
        # many a reset says 0 where a step says 0.0: the state is from the start what it will be
        later = jax.eval_shape(self._stepped, key, fresh, jnp.int32(0))[0]
        return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), fresh, later)

    def step(self, key, state, action):
        after, reward, cause, info = self._stepped(key, state, action)
        counts = [jnp.asarray(count(state.inner, action, after.inner, info)) for count in self.detectors]
        violations = jnp.stack([one.astype(jnp.int32) if one.dtype == bool else one for one in counts])
        return after, Outcome(jnp.asarray(reward, jnp.float32), violations, violations, {}, cause)

    def observe(self, state):
        return state.seen

    def _stepped(self, key, state: Foreign, action):
        seen, inner, reward, *ends, info = self._function("step")(key, state.inner, action, self.params)
        after = Foreign(inner, jnp.ravel(seen), state.time + 1)
        late = after.time >= self.longest
        if len(ends) == 2:
            died, late = ends[0], ends[1] | late
        elif hasattr(self.env, "is_truncated"):  # gymnax from 1.0 on: a step of five values leaves the clock to others
            (died,) = ends
        else:  # before, what ended says nothing of why: at the last stroke of the clock it was the clock
            died = ends[0] & ~late
        cause = jnp.where(died, EndCause.DEATH, jnp.where(late, EndCause.TIMEOUT, EndCause.RUNNING))
        return after, reward, cause.astype(jnp.int32), info

    def _function(self, name: str) -> Callable:
        """`step_env` and `reset_env` where they exist: the plain `step` of gymnax begins the next episode by itself."""
        return getattr(self.env, f"{name}_env", None) or getattr(self.env, name)


def adopt(
    env: Any,
    params: Any = None,
    *,
    violations: Detector | Mapping[str, Detector],
    name: str | None = None,
    longest: int | None = None,
    **declared: Any,
) -> type[World]:
    """Declare `env` with these parameters as a world, and return its class.

    `violations` counts those of one step, from the environment's states before and after it; several of them, by name,
    are several dilemmas.  `longest` is the clock's limit where `params.max_steps_in_episode` does not say it.  All else
    that a world may declare can be given too, such as `learner`, `steps` and `protocol`.
    """
    params = env.default_params if params is None else params
    detectors = violations if isinstance(violations, Mapping) else {violations.__name__: violations}
    name = name or re.sub(r"\W+", "_", str(getattr(env, "name", type(env).__name__))).lower()
    if not hasattr(space := env.action_space(params), "n"):
        raise Refused(f"{name} has the actions {space}; a world needs a space of discrete ones")
    own = {
        "__module__": next(iter(detectors.values())).__module__,  # whose file a run remembers
        "__doc__": f"{name}, adopted.",
        "name": name,
        "actions": int(space.n),
        "dilemmas": tuple(detectors),
        "detectors": tuple(detectors.values()),
        "env": env,
        "params": params,
        "longest": longest or getattr(params, "max_steps_in_episode", None) or NEVER,
        "made_with": (type(env),),
    }
    return world(type(name.title().replace("_", ""), (Adopted,), {**own, **declared}))
