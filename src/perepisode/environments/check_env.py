"""Checks of user environments by tracing, before anything is compiled or written.

Tracing cannot reveal negative counts; `check_totals` looks for them in the collected episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from perepisode import plugins
from perepisode.config import ConfigError
from perepisode.environments import action_space
from perepisode.environments.base import Environment, Outcome
from perepisode.lazy import jax, jnp


def check(env: Environment) -> Environment:
    """Return the environment, or raise ConfigError.  Skips the package's own, which are tested and slow to trace."""
    if not plugins.sources(type(env)):
        return env
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = _traced(env, "reset", env.reset, key)
    action = jax.ShapeDtypeStruct(action_space.shape(env.actions), action_space.dtype(env.actions))
    stepped = _traced(env, "step", env.step, key, state, action)
    if not isinstance(stepped, tuple) or len(stepped) != 2 or not isinstance(stepped[1], Outcome):
        raise ConfigError(f"{env.name}: step must return the next state and an Outcome")
    _check_state(env, state, stepped[0])
    _check_outcome(env, stepped[1])
    observation = _traced(env, "observe", env.observe, state)
    parts = _traced(env, "encode", env.encode, observation)
    if not isinstance(parts, tuple) or not parts or any(len(part.shape) != 1 for part in parts):
        types = ", ".join(array_type(leaf) for leaf in jax.tree.leaves(observation))
        raise ConfigError(f"{env.name}: observe must return one vector, not {types}; or define encode")
    possible = _traced(env, "violation_possible", env.violation_possible, state)
    _check_array(env, "violation_possible", possible, bool, (len(env.dilemmas),), "true or false for each dilemma")
    if env.draw is not None:
        _check_picture(env, _traced(env, "draw", env.draw, state))
    return env


def check_totals(env: Environment, ended: np.ndarray, totals: np.ndarray) -> None:
    """Raise ConfigError if totals [time, ..., dilemma] decrease within an episode: a step counted a negative number."""
    before = np.concatenate([np.zeros_like(totals[:1]), np.where(ended[:-1, ..., None], 0, totals[:-1])])
    decreased = (totals < before).reshape(-1, len(env.dilemmas)).any(axis=0)
    if decreased.any():
        refuse_negative_count(env.name, env.dilemmas[int(decreased.argmax())])


def refuse_negative_count(env: str, dilemma: str) -> None:
    raise ConfigError(
        f"{env} counted a negative number of violations of {dilemma}; Outcome.violations must be zero or more"
    )


def _traced(env: Environment, name: str, function: Callable, *args: Any) -> Any:
    try:
        return jax.eval_shape(function, *args)
    except ConfigError:
        raise
    except Exception as error:  # user code may raise anything
        raise ConfigError(f"{env.name}: {name} cannot be traced by JAX ({plugins.describe_error(error)})") from None


def _check_state(env: Environment, before: Any, after: Any) -> None:
    """A scan carries the state, so step must keep its structure, shapes and dtypes."""
    old, old_structure = jax.tree_util.tree_flatten_with_path(before)
    new, new_structure = jax.tree_util.tree_flatten_with_path(after)
    if old_structure != new_structure:
        raise ConfigError(
            f"{env.name}: step must return a state of the structure of reset's, {old_structure}, not {new_structure}"
        )
    for (path, one), (_, other) in zip(old, new):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            field = jax.tree_util.keystr(path)
            raise ConfigError(
                f"{env.name}: state{field} is {array_type(one)} after reset and {array_type(other)} after step; "
                "both must return the same type"
            )


def _check_outcome(env: Environment, outcome: Outcome) -> None:
    each, shape = "a whole number for each dilemma", (len(env.dilemmas),)
    _check_array(env, "Outcome.task_reward", outcome.task_reward, jnp.number, (), "one number")
    _check_array(env, "Outcome.violations", outcome.violations, jnp.integer, shape, each)
    _check_array(env, "Outcome.paper_violations", outcome.paper_violations, jnp.integer, shape, each)
    _check_array(env, "Outcome.end_cause", outcome.end_cause, jnp.integer, (), "an EndCause")
    if not isinstance(outcome.info, dict) or set(outcome.info) != set(env.info_keys):
        raise ConfigError(f"{env.name}: Outcome.info must have a count for each of info_keys = {env.info_keys}")
    for name, count in outcome.info.items():
        _check_array(env, f"Outcome.info[{name!r}]", count, jnp.integer, (), "a whole number")


def _check_array(env: Environment, name: str, value: Any, dtype: Any, shape: tuple[int, ...], wanted: str) -> None:
    leaves = jax.tree.leaves(value)
    fits = len(leaves) == 1 and leaves[0] is value and value.shape == shape and jnp.issubdtype(value.dtype, dtype)
    if not fits:
        types = ", ".join(map(array_type, leaves)) or "nothing"
        size = f", shape ({','.join(map(str, shape))})" if shape else ""
        raise ConfigError(f"{env.name}: {name} is {types}; it must be {wanted}{size}")


def _check_picture(env: Environment, picture: Any) -> None:
    leaves = jax.tree.leaves(picture)
    fits = len(leaves) == 1 and leaves[0] is picture and picture.dtype == jnp.uint8
    if not fits or len(picture.shape) != 3 or picture.shape[-1] != 3:
        types = ", ".join(map(array_type, leaves)) or "nothing"
        raise ConfigError(f"{env.name}: draw returns {types}; it must return a picture, uint8[height,width,3]")


def array_type(leaf: Any) -> str:
    """Dtype and shape of an array, such as "float32[3]"."""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
