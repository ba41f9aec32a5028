"""The worlds: found by name in WORLDS, each in a folder of its own.  Listing them starts no device."""

from typing import Any

import perepisode.environments.craftax.world
import perepisode.environments.temptation  # noqa: F401  worlds make themselves known
from perepisode import settings
from perepisode.config import one_of
from perepisode.environments.base import WORLDS, World, world

__all__ = ["WORLDS", "World", "make", "world"]


def make(name: str, **options: Any) -> World:
    """The world of that name, which may stand in a file from anybody: nothing is imported; options have defaults."""
    one_of("env", name, WORLDS)
    settings.check(WORLDS[name], options, name)
    return WORLDS[name](**options)
