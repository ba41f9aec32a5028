"""One decorator: a frozen dataclass that JAX can trace, vmap and scan over."""

from dataclasses import dataclass, field
from typing import dataclass_transform

import jax


@dataclass_transform(frozen_default=True)
def pytree(cls):
    """Frozen dataclass registered as a JAX pytree.  Change a value with `dataclasses.replace`.

    A field written as `static()` is part of the tree's structure (hashable, never traced); all others are leaves.
    """
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(cls))


def static(**kwargs):
    """A field that belongs to the structure: a size, a name, a function."""
    return field(metadata={"static": True}, **kwargs)
