"""Lazy imports: JAX is imported on first use, and a clear message replaces the ImportError where it is missing.

Methods and environments are declared in the same files as their computations.  Listing, planning and reporting read
only the declarations, and importing JAX would dominate their start-up time.  They also work without JAX:
`pip install perepisode` installs what they need, `'perepisode[train]'` adds the rest.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from perepisode.settings import ConfigError

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    from importlib import import_module

    class lazy_module:
        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, attribute: str):
            module = import_module(self._name)
            while _waiting:
                _waiting.pop()()
            return getattr(module, attribute)

    jax, jnp, optax = map(lazy_module, ("jax", "jax.numpy", "optax"))

__all__ = ["jax", "jnp", "optax"]

_waiting: list[Callable[[], None]] = []

TRAINING = ("jax", "optax", "craftax", "orbax", "safetensors")  # import names of what perepisode[train] installs
LABELLING = (*TRAINING, "starlette", "uvicorn")  # what perepisode[label] installs


def once_loaded(call: Callable[[], None]) -> None:
    """Call it now if JAX is loaded, else when the package first uses JAX."""
    if sys.modules.get("jax") is None:
        _waiting.append(call)
    else:
        call()


def namespace(*arrays: Any) -> Any:
    """The module that computes with these arrays: NumPy if all of them are NumPy's or plain numbers, else jax.numpy."""
    return np if all(isinstance(array, np.ndarray | np.generic | int | float) for array in arrays) else jnp


def require(command: str, libraries: Sequence[str] = TRAINING, extra: str = "train") -> None:
    """Raise before a command that trains or plays starts, if the libraries it needs are not installed."""
    if absent := missing(libraries):
        raise ConfigError(missing_message(f"perepisode {command}", absent, extra))


def missing(libraries: Sequence[str] = TRAINING) -> list[str]:
    return [name for name in libraries if not _installed(name)]


def missing_message(what: str, missing: Sequence[str], extra: str = "train") -> str:
    *others, last = missing
    names = f"{', '.join(others)} and {last}" if others else last
    return f"{what} needs {names}; run: pip install 'perepisode[{extra}]'"


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
