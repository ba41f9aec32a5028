"""The worlds: found by name in WORLDS, each in a folder of its own.  Listing them starts no device."""

from typing import Any

import perepisode.environments.craftax.world
import perepisode.environments.temptation  # noqa: F401  worlds make themselves known
from perepisode.environments.base import WORLDS, World, world

__all__ = ["WORLDS", "World", "make", "world"]


def make(name: str, **options: Any) -> World:
    """The world of that name; options left out take their defaults."""
    return WORLDS[name](**options)
