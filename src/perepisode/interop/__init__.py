"""Adapters: perepisode's environments in other libraries.  Each adapter is a module that alone needs its library."""

from importlib import import_module
from types import ModuleType

from perepisode.lazy import missing_message


def import_optional(name: str, adapter: str, extra: str = "") -> ModuleType:
    """Import a module of another library; the error for a missing one names the extra to install.

    The extra has the adapter's name unless another is given.
    """
    try:
        return import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        message = missing_message(f"perepisode.interop.{adapter}", [missing], extra or adapter)
        raise ModuleNotFoundError(message, name=missing) from None


class SixValues:
    """Marks a wrapper whose step returns six values, as in Safety-Gymnasium."""
