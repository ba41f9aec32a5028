"""The worlds: found by name in ENVIRONMENTS, each in a folder of its own.  Listing them starts no device."""

from typing import Any

import perepisode.environments.craftax.env
import perepisode.environments.temptation  # noqa: F401  worlds make themselves known
from perepisode import settings
from perepisode.config import check_choice
from perepisode.environments.base import ENVIRONMENTS, Environment, register_env

__all__ = ["ENVIRONMENTS", "Environment", "make", "register_env"]


def make(name: str, **options: Any) -> Environment:
    """The world of that name, which may stand in a file from anybody: nothing is imported; options have defaults."""
    check_choice("env", name, ENVIRONMENTS)
    settings.check(ENVIRONMENTS[name], options, name)
    return ENVIRONMENTS[name](**options)
