"""Frozen dataclasses that JAX traces, vmaps and scans over."""

from dataclasses import dataclass, field, fields
from typing import dataclass_transform

from perepisode.lazy import jax, once_loaded


@dataclass_transform(frozen_default=True)
def pytree(cls):
    """Frozen dataclass registered as a JAX pytree.  Change a value with `dataclasses.replace`.

    A field declared as `static()` is part of the tree's structure (hashable, never traced); all others are leaves.
    The class is registered when its first instance is created, or when JAX is first used after that: neither the class
    nor an instance imports JAX.
    """
    node = dataclass(frozen=True)(cls)
    initial = node.__init__

    def __init__(self, *args, **kwargs):
        if node.__init__ is not initial:
            node.__init__ = initial
            once_loaded(lambda: jax.tree_util.register_dataclass(node))
        initial(self, *args, **kwargs)

    def __reduce__(self):
        """Unpickle through `__init__`, so that another process registers the class too."""
        return type(self), tuple(getattr(self, member.name) for member in fields(self))

    node.__init__, node.__reduce__ = __init__, __reduce__
    return node


def static(**kwargs):
    """A field that belongs to the structure: a size, a name, a function."""
    return field(metadata={"static": True}, **kwargs)
