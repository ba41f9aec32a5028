"""Is a world of one's own what the programs take it for?  Found by tracing, before anything is compiled or written.

What a trace cannot show, a count below zero, is looked for in what was played (`counted`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from perepisode import plugins
from perepisode.config import ConfigError
from perepisode.environments.base import Environment, Outcome
from perepisode.lazy import jax, jnp


def check(env: Environment) -> Environment:
    """This world, or ConfigError with what is wrong with it.  The package's own are tested, and slow to trace."""
    if not plugins.sources(type(env)):
        return env
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = _traced(env, "reset", env.reset, key)
    stepped = _traced(env, "step", env.step, key, state, jax.ShapeDtypeStruct((), jnp.int32))
    if not isinstance(stepped, tuple) or len(stepped) != 2 or not isinstance(stepped[1], Outcome):
        raise ConfigError(f"{env.name}: step must return the next state and an Outcome")
    _same_state(env, state, stepped[0])
    _outcome(env, stepped[1])
    seen = _traced(env, "observe", env.observe, state)
    parts = _traced(env, "encode", env.encode, seen)
    if not isinstance(parts, tuple) or not parts or any(len(part.shape) != 1 for part in parts):
        shown = ", ".join(array_type(leaf) for leaf in jax.tree.leaves(seen))
        raise ConfigError(f"{env.name}: observe must return one vector, not {shown}; or write an encode for it")
    reach = _traced(env, "violation_possible", env.violation_possible, state)
    _is(env, "violation_possible", reach, bool, (len(env.dilemmas),), "true or false for each dilemma")
    return env


def check_totals(env: Environment, ended: np.ndarray, totals: np.ndarray) -> None:
    """Refuse totals [time, ..., dilemma] that fall within an episode: a step had less than no violation."""
    before = np.concatenate([np.zeros_like(totals[:1]), np.where(ended[:-1, ..., None], 0, totals[:-1])])
    fallen = (totals < before).reshape(-1, len(env.dilemmas)).any(axis=0)
    if fallen.any():
        refuse_negative_count(env.name, env.dilemmas[int(fallen.argmax())])


def refuse_negative_count(env: str, dilemma: str) -> None:
    raise ConfigError(f"{env} counted less than no violation of {dilemma}; Outcome.violations must be zero or more")


def _traced(env: Environment, name: str, function: Callable, *given: Any) -> Any:
    try:
        return jax.eval_shape(function, *given)
    except ConfigError:
        raise
    except Exception as error:  # whatever somebody's code may do
        raise ConfigError(f"{env.name}: {name} cannot be traced by JAX ({plugins.describe_error(error)})") from None


def _same_state(env: Environment, before: Any, after: Any) -> None:
    """The next state replaces the last one in the same places."""
    old, was = jax.tree_util.tree_flatten_with_path(before)
    new, now = jax.tree_util.tree_flatten_with_path(after)
    if was != now:
        raise ConfigError(f"{env.name}: step must return a state of reset's structure, {was}, not {now}")
    for (path, one), (_, other) in zip(old, new):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            place = jax.tree_util.keystr(path)
            raise ConfigError(
                f"{env.name}: the state{place} is {array_type(one)} after reset and {array_type(other)} after step; "
                "it must stay what it was"
            )


def _outcome(env: Environment, outcome: Outcome) -> None:
    each, many = "a whole number for each dilemma", (len(env.dilemmas),)
    _is(env, "Outcome.task_reward", outcome.task_reward, jnp.number, (), "one number")
    _is(env, "Outcome.violations", outcome.violations, jnp.integer, many, each)
    _is(env, "Outcome.paper_violations", outcome.paper_violations, jnp.integer, many, each)
    _is(env, "Outcome.end_cause", outcome.end_cause, jnp.integer, (), "an EndCause")
    if not isinstance(outcome.info, dict) or set(outcome.info) != set(env.info_keys):
        raise ConfigError(f"{env.name}: Outcome.info must have a count for each of info_keys = {env.info_keys}")
    for name, count in outcome.info.items():
        _is(env, f"Outcome.info[{name!r}]", count, jnp.integer, (), "a whole number")


def _is(env: Environment, name: str, found: Any, kind: Any, shape: tuple[int, ...], wanted: str) -> None:
    leaves = jax.tree.leaves(found)
    fits = len(leaves) == 1 and leaves[0] is found and found.shape == shape and jnp.issubdtype(found.dtype, kind)
    if not fits:
        said = ", ".join(map(array_type, leaves)) or "nothing"
        size = f" ({','.join(map(str, shape))})" if shape else ""
        raise ConfigError(f"{env.name}: {name} is {said}; it must be {wanted}{size and f', shape{size}'}")


def array_type(leaf: Any) -> str:
    """ "float32[3]": type and shape of an array."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
