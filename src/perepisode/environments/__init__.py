"""The environments, registered by name in ENVIRONMENTS, one folder each.  Listing them does not initialise a device."""

from typing import Any

import perepisode.environments.craftax.env
import perepisode.environments.temptation  # noqa: F401  registers the environment
from perepisode import settings
from perepisode.config import check_choice
from perepisode.environments.base import ENVIRONMENTS, Environment, register_env

__all__ = ["ENVIRONMENTS", "Environment", "make", "register_env"]


def make(name: str, **options: Any) -> Environment:
    """Create a registered environment.  Never imports code: the name may come from an untrusted file."""
    check_choice("env", name, ENVIRONMENTS)
    settings.check(ENVIRONMENTS[name], options, name)
    return ENVIRONMENTS[name](**options)
