"""Methods and worlds from outside the package.

`--method my_module:MyMethod` and `--env my_module:MyWorld` import the module, whose class makes itself known by its
decorator.  Commands that only read runs never import what a file names: for them, and for processes that are started,
the environment variable PEREPISODE_USE lists the modules, separated by commas.
"""

import os
import sys
from collections.abc import Mapping
from importlib import import_module

from perepisode.config import Refused, one_of

VARIABLE = "PEREPISODE_USE"
HINT = f"; if it is your own, name its module: {VARIABLE}=my_module perepisode ..."


def use() -> None:
    """Import the modules that the environment names."""
    for module in filter(None, (word.strip() for word in os.environ.get(VARIABLE, "").split(","))):
        _imported(module, f"{VARIABLE}={module}")


def named(what: str, given: str, known: Mapping[str, type]) -> str:
    """The name of a method or world that was given by name, or as `module:Class`."""
    if ":" not in given:
        one_of(what, given, known, "; or give your own as module:Class")
        return given
    module, _, wanted = given.partition(":")
    cls = getattr(_imported(module, f"--{what} {given}"), wanted, None)
    name = next((name for name, one in known.items() if one is cls), None)
    if name is None:
        raise Refused(f"--{what} {given}: {module} declares no {what} {wanted!r} (docs/extending.md)")
    modules = [word for word in os.environ.get(VARIABLE, "").split(",") if word and word != module]
    os.environ[VARIABLE] = ",".join([*modules, module])  # for the processes that this one starts
    return name


def _imported(module: str, asked: str):
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return import_module(module)
    except ImportError as error:
        raise Refused(f"{asked}: {module} cannot be imported ({error})") from None
