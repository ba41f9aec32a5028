"""Doors: our worlds in other libraries' hands.  Each door is a module that needs its library, and nothing else does."""

from importlib import import_module
from types import ModuleType

from perepisode.lazy import missing_message


def library(name: str, door: str, extra: str = "") -> ModuleType:
    """Somebody else's module; where it is missing, one line says what to install: the door's own extra, or another."""
    try:
        return import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        said = missing_message(f"perepisode.interop.{door}", [missing], extra or door)
        raise ModuleNotFoundError(said, name=missing) from None
