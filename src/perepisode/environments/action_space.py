"""Action spaces: a number of discrete actions, or a `Box` of real numbers.

Discrete actions are whole numbers from 0; those of a box are float32 vectors within its bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.lazy import namespace

MAX_ACTIONS = 2**16
MAX_SIZE = 2**10  # numbers of one action


@dataclass(frozen=True)
class Box:
    """Vectors whose numbers lie between `low` and `high`, which may be infinite: `Box((-2.0,), (2.0,))`."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self):
        # as float32, in which actions are stored and compared with them
        bounds = [np.atleast_1d(np.asarray(bound, np.float32)) for bound in (self.low, self.high)]
        low, high = bounds
        if low.ndim > 1 or low.shape != high.shape or not 1 <= low.size <= MAX_SIZE:
            raise ConfigError(
                f"a Box has low bounds of shape {low.shape} and high bounds of shape {high.shape}; give one pair for "
                f"each of 1 to {MAX_SIZE} numbers"
            )
        for name, bound in zip(("low", "high"), bounds):
            object.__setattr__(self, name, tuple(bound.tolist()))
        for low, high in zip(self.low, self.high):
            if not low < high:
                raise ConfigError(f"a Box has the bounds {low:g} and {high:g}; use low < high")

    @property
    def size(self) -> int:
        return len(self.low)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low, np.float32), np.array(self.high, np.float32)


Actions = int | Box  # `Environment.actions`


def outputs(actions: Actions) -> int:
    """Numbers that a policy computes: a logit per discrete action, or a mean per number of a box."""
    return actions.size if isinstance(actions, Box) else actions


def shape(actions: Actions) -> tuple[int, ...]:
    return (actions.size,) if isinstance(actions, Box) else ()


def dtype(actions: Actions) -> str:
    """The dtype that `Environment.step` is given."""
    return "float32" if isinstance(actions, Box) else "int32"


def stored_dtype(actions: Actions) -> str:
    """The dtype in tables: for discrete actions the smallest that holds them."""
    return "float32" if isinstance(actions, Box) else "uint8" if actions <= 2**8 else "uint16"


def clip(actions: Actions, taken: Any) -> Any:
    """Vectors within a box; discrete actions as they are."""
    return namespace(taken).clip(taken, *actions.bounds) if isinstance(actions, Box) else taken


def refuse_unknown(actions: Actions, taken: np.ndarray, env: str, remedy: str = "") -> None:
    """Raise ConfigError for actions outside the space, for which the behaviour of an environment is undefined."""
    if isinstance(actions, Box):
        low, high = actions.bounds
        outside = ~((taken >= low) & (taken <= high) & np.isfinite(taken))  # also where NaN
        if outside.any():
            place = tuple(np.argwhere(outside)[0].tolist())
            bounds = f"{low[place[-1]]:g} to {high[place[-1]]:g}"
            raise ConfigError(f"action {taken[place]!s} is out of bounds; {env} has numbers from {bounds}{remedy}")
    elif ((taken < 0) | (taken >= actions)).any():
        first = taken.min() if taken.min() < 0 else taken.max()
        raise ConfigError(f"action {first} is unknown; {env} has actions 0 to {actions - 1}")


def to_stored(actions: Actions, taken: Any) -> np.ndarray:
    """Actions as a table stores them."""
    return clip(actions, np.asarray(taken)).astype(stored_dtype(actions))


def bytes_per_action(actions: Actions) -> int:
    """In tables."""
    return np.dtype(stored_dtype(actions)).itemsize * math.prod(shape(actions))


def from_bytes(actions: Actions, content: bytes, what: str, env: str) -> np.ndarray:
    """The actions of an episode in a table, [step] or [step, size]; ConfigError unless they are in the space."""
    if len(content) % (size := bytes_per_action(actions)):
        raise ConfigError(f"{what} are truncated; {env} has {size} bytes per action")
    taken = np.frombuffer(content, stored_dtype(actions)).reshape(-1, *shape(actions))
    refuse_unknown(actions, taken, env)
    return taken


def name(actions: Actions) -> str:
    """The space in words."""
    return f"continuous actions of size {actions.size}" if isinstance(actions, Box) else f"{actions} actions"


def describe(action: Any) -> str:
    """An action in words, for replays of environments without their own."""
    return f"action {', '.join(f'{number:.3g}' for number in np.atleast_1d(action))}"


def check(name: str, actions: Any) -> None:
    """Raise ConfigError for an invalid declaration by the class of this name."""
    discrete = isinstance(actions, int) and not isinstance(actions, bool) and 1 <= actions <= MAX_ACTIONS
    if not discrete and not isinstance(actions, Box):
        raise ConfigError(
            f"{name} has actions = {actions!r}; it must be a whole number from 1 to {MAX_ACTIONS}, or a Box"
        )
