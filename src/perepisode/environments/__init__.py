"""The worlds: found by name in WORLDS, each in a folder of its own.  Listing them starts no device."""

from typing import Any

import perepisode.environments.craftax.world
import perepisode.environments.temptation  # noqa: F401  worlds make themselves known
from perepisode import outside, settings
from perepisode.environments.base import WORLDS, World, world

__all__ = ["WORLDS", "World", "make", "world"]


def make(name: str | type[World], **options: Any) -> World:
    """The world of that name, `file.py:Class` or class; options left out take their defaults."""
    world = WORLDS[outside.named("env", name, WORLDS)]
    settings.check(world, options, world.name)
    return world(**options)
