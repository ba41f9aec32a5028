"""JAX, imported when it is first used, and what is said where it is not installed.

Methods and worlds are declared beside what they compute.  Listing, planning and reporting read only the declarations,
and importing JAX would take longer than all else that they do.  They work without it: `pip install perepisode` brings
what they need, `perepisode[train]` the rest.
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
else:
    from importlib import import_module

    class _Later:
        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, attribute: str):
            module = import_module(self._name)
            while _waiting:
                _waiting.pop()()
            return getattr(module, attribute)

    jax, jnp = _Later("jax"), _Later("jax.numpy")

__all__ = ["jax", "jnp"]

_waiting: list[Callable[[], None]] = []

TRAINING = ("jax", "optax", "craftax", "orbax", "safetensors")  # what perepisode[train] brings, as it is imported


def once_loaded(call: Callable[[], None]) -> None:
    """Call it now if JAX is loaded, else when the package first uses JAX."""
    if sys.modules.get("jax") is None:
        _waiting.append(call)
    else:
        call()


def namespace(*arrays: Any) -> Any:
    """The module that computes with these arrays: NumPy if all of them are NumPy's or plain numbers, else jax.numpy."""
    return np if all(isinstance(array, np.ndarray | np.generic | int | float) for array in arrays) else jnp


def require(command: str) -> None:
    """Refuse a command that trains or plays where the libraries for it are missing, before it has begun."""
    if missing := [name for name in TRAINING if not _installed(name)]:
        raise ConfigError(lacking(f"perepisode {command}", missing))


def lacking(what: str, missing: Sequence[str], extra: str = "train") -> str:
    *some, last = missing
    listed = f"{', '.join(some)} and {last}" if some else last
    how = f"install what is missing, in the clone: pip install -c requirements.lock '.[{extra}]'"
    return f"{what} needs {listed}; {how}"


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
