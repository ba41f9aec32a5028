"""One decorator: a frozen dataclass that JAX can trace, vmap and scan over."""

from dataclasses import dataclass, field, fields
from typing import dataclass_transform

from perepisode.lazy import jax, once_loaded


@dataclass_transform(frozen_default=True)
def pytree(cls):
    """Frozen dataclass registered as a JAX pytree.  Change a value with `dataclasses.replace`.

    A field written as `static()` is part of the tree's structure (hashable, never traced); all others are leaves.
    The class is registered with JAX when its first instance is made, or when JAX is first used after that: neither
    the class nor an instance imports JAX.
    """
    made = dataclass(frozen=True)(cls)
    initial = made.__init__

    def __init__(self, *args, **kwargs):
        if made.__init__ is not initial:
            made.__init__ = initial
            once_loaded(lambda: jax.tree_util.register_dataclass(made))
        initial(self, *args, **kwargs)

    def __reduce__(self):
        """A copy is made by `__init__` too, also where another process reads it."""
        return type(self), tuple(getattr(self, one.name) for one in fields(self))

    made.__init__, made.__reduce__ = __init__, __reduce__
    return made


def static(**kwargs):
    """A field that belongs to the structure: a size, a name, a function."""
    return field(metadata={"static": True}, **kwargs)
