"""Is a world of one's own what the programs take it for?  Found by tracing, before anything is compiled or written.

What a trace cannot show, a count below zero, is looked for in what was played (`counted`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from perepisode import outside
from perepisode.config import Refused
from perepisode.environments.base import Outcome, World
from perepisode.later import jax, jnp


def check(world: World) -> World:
    """This world, or Refused with what is wrong with it.  The package's own are tested, and slow to trace."""
    if not outside.sources(type(world)):
        return world
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = _traced(world, "reset", world.reset, key)
    stepped = _traced(world, "step", world.step, key, state, jax.ShapeDtypeStruct((), jnp.int32))
    if not isinstance(stepped, tuple) or len(stepped) != 2 or not isinstance(stepped[1], Outcome):
        raise Refused(f"{world.name}: step must return the next state and an Outcome")
    _same_state(world, state, stepped[0])
    _outcome(world, stepped[1])
    seen = _traced(world, "observe", world.observe, state)
    parts = _traced(world, "encode", world.encode, seen)
    if not isinstance(parts, tuple) or not parts or any(len(part.shape) != 1 for part in parts):
        shown = ", ".join(kind_of(leaf) for leaf in jax.tree.leaves(seen))
        raise Refused(f"{world.name}: observe must return one vector, not {shown}; or write an encode for it")
    reach = _traced(world, "within_reach", world.within_reach, state)
    _is(world, "within_reach", reach, bool, (len(world.dilemmas),), "true or false for each dilemma")
    return world


def counted(world: World, ended: np.ndarray, totals: np.ndarray) -> None:
    """Refuse totals [time, ..., dilemma] that fall within an episode: a step had less than no violation."""
    before = np.concatenate([np.zeros_like(totals[:1]), np.where(ended[:-1, ..., None], 0, totals[:-1])])
    fallen = (totals < before).reshape(-1, len(world.dilemmas)).any(axis=0)
    if fallen.any():
        less_than_none(world.name, world.dilemmas[int(fallen.argmax())])


def less_than_none(world: str, dilemma: str) -> None:
    raise Refused(f"{world} counted less than no violation of {dilemma}; Outcome.violations must be zero or more")


def _traced(world: World, name: str, function: Callable, *given: Any) -> Any:
    try:
        return jax.eval_shape(function, *given)
    except Refused:
        raise
    except Exception as error:  # whatever somebody's code may do
        raise Refused(f"{world.name}: {name} cannot be traced by JAX ({outside.said(error)})") from None


def _same_state(world: World, before: Any, after: Any) -> None:
    """The next state replaces the last one in the same places."""
    old, was = jax.tree_util.tree_flatten_with_path(before)
    new, now = jax.tree_util.tree_flatten_with_path(after)
    if was != now:
        raise Refused(f"{world.name}: step must return a state of reset's structure, {was}, not {now}")
    for (path, one), (_, other) in zip(old, new):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            place = jax.tree_util.keystr(path)
            raise Refused(
                f"{world.name}: the state{place} is {kind_of(one)} after reset and {kind_of(other)} after step; "
                "it must stay what it was"
            )


def _outcome(world: World, outcome: Outcome) -> None:
    each, many = "a whole number for each dilemma", (len(world.dilemmas),)
    _is(world, "Outcome.task_reward", outcome.task_reward, jnp.number, (), "one number")
    _is(world, "Outcome.violations", outcome.violations, jnp.integer, many, each)
    _is(world, "Outcome.paper_violations", outcome.paper_violations, jnp.integer, many, each)
    _is(world, "Outcome.end_cause", outcome.end_cause, jnp.integer, (), "an EndCause")
    if not isinstance(outcome.audit, dict) or set(outcome.audit) != set(world.audits):
        raise Refused(f"{world.name}: Outcome.audit must have a count for each of audits = {world.audits}")
    for name, count in outcome.audit.items():
        _is(world, f"Outcome.audit[{name!r}]", count, jnp.integer, (), "a whole number")


def _is(world: World, name: str, found: Any, kind: Any, shape: tuple[int, ...], wanted: str) -> None:
    leaves = jax.tree.leaves(found)
    fits = len(leaves) == 1 and leaves[0] is found and found.shape == shape and jnp.issubdtype(found.dtype, kind)
    if not fits:
        said = ", ".join(map(kind_of, leaves)) or "nothing"
        size = f" ({','.join(map(str, shape))})" if shape else ""
        raise Refused(f"{world.name}: {name} is {said}; it must be {wanted}{size and f', shape{size}'}")


def kind_of(leaf: Any) -> str:
    """ "float32[3]": type and shape of an array."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
