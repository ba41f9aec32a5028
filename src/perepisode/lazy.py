"""JAX, imported when it is first used, and what is said where it is not installed.

Methods and worlds are declared beside what they compute.  Listing, planning and reporting read only the declarations,
and importing JAX would take longer than all else that they do.  They work without it: `pip install perepisode` brings
what they need, `perepisode[train]` the rest.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

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
            return getattr(import_module(self._name), attribute)

    jax, jnp = _Later("jax"), _Later("jax.numpy")

__all__ = ["jax", "jnp"]

TRAINING = ("jax", "optax", "craftax", "orbax", "safetensors")  # what perepisode[train] brings, as it is imported


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
