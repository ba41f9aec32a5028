"""Doors: our worlds in other libraries' hands.  Each door is a module that needs its library, and nothing else does."""

from importlib import import_module
from types import ModuleType


def library(name: str, extra: str) -> ModuleType:
    """Somebody else's module; where it is missing, one line says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        remedy = f"install what is missing: pip install 'perepisode[{extra}]'"
        raise ModuleNotFoundError(f"perepisode.interop.{extra} needs {missing}; {remedy}", name=missing) from None
