"""JAX, imported when it is first used.

Methods and worlds are declared beside what they compute.  Listing, planning and reporting read only the declarations,
and importing JAX would take longer than all else that they do.
"""

from typing import TYPE_CHECKING

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
