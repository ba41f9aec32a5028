"""Methods and worlds from outside the package.

`--method my_module:MyMethod` and `--env my_file.py:MyWorld` import the module or the file, whose class makes itself
known by its decorator.  Commands that only read runs never import what a file names: for them, and for processes that
are started, the environment variable PEREPISODE_USE lists modules and files, separated by commas.

What such a class is made of is a part of a run's identity: a changed detector is another run.
"""

import linecache
import os
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from importlib import import_module, metadata
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from perepisode import reading
from perepisode.config import Refused, one_of

VARIABLE = "PEREPISODE_USE"
HINT = f"; if it is your own, name its module: {VARIABLE}=my_module perepisode ..."


class Changed(Refused):
    """A run was trained on other code than what is here."""


def use() -> None:
    """Import the modules and files that the environment names."""
    for where in filter(None, (word.strip() for word in os.environ.get(VARIABLE, "").split(","))):
        _imported(where, f"{VARIABLE}={where}")


def named(what: str, given: str | type, known: Mapping[str, type]) -> str:
    """The name of a method or world that was given by name, as `module:Class` or `file.py:Class`, or as the class."""
    if isinstance(given, type):
        if (name := _name(given, known)) is None:
            raise Refused(f"{given.__qualname__} is no declared {what}; it needs its decorator (docs/extending.md)")
        return name
    if ":" not in given:
        one_of(what, given, known, "; or give your own as file.py:Class or module:Class")
        return given
    where, _, wanted = given.rpartition(":")
    name = _name(getattr(_imported(where, f"--{what} {given}"), wanted, None), known)
    if name is None:
        raise Refused(f"--{what} {given}: {where} declares no {what} {wanted!r} (docs/extending.md)")
    where = str(Path(where).resolve()) if where.endswith(".py") else where
    others = [word for word in os.environ.get(VARIABLE, "").split(",") if word and word != where]
    os.environ[VARIABLE] = ",".join([*others, where])  # for the processes that this one starts
    return name


def _name(cls: Any, known: Mapping[str, type]) -> str | None:
    return next((name for name, one in known.items() if one is cls), None)


def _imported(where: str, asked: str) -> ModuleType:
    """A module by its name; a file is the module of its name in its folder, and may import what lies beside it."""
    file = Path(where).resolve() if where.endswith(".py") else None
    if file and not file.is_file():
        raise Refused(f"{asked}: there is no file {file}")
    if file and (main := sys.modules.get("__main__")) and _file(main) == file:
        return main  # a script that names itself
    folder, module = (str(file.parent), file.stem) if file else (os.getcwd(), where)
    if file or folder not in sys.path:
        sys.path[:] = [folder, *(one for one in sys.path if one != folder)]
    try:
        found = import_module(module)
    except Refused:
        raise
    except (Exception, SystemExit) as error:  # whatever somebody's file may do when it is imported
        raise Refused(f"{asked}: {where} cannot be imported ({said(error)})") from None
    if file and _file(found) != file:
        other = _file(found) or "which is part of Python"
        raise Refused(f"{asked}: {module} is the name of another module, {other}; rename the file")
    return found


def said(error: BaseException) -> str:
    """What went wrong in somebody's file, and in which line of it."""
    if isinstance(error, ImportError | SyntaxError):  # which say where
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _ours(frame.filename)]
    where = f"; line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    return f"{type(error).__name__}: {reading.first_line(error).rstrip('.')}{where}"


def _ours(file: str) -> bool:
    """Or a library's, or Python's own."""
    libraries = ("site-packages", "<frozen", os.path.dirname(os.__file__), os.path.dirname(__file__))
    return any(place in file for place in libraries)


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


# ---- what a class from outside is made of ---------------------------------------------------------------------------

_MADE_OF: dict[type, dict[str, str]] = {}


def note(cls: type) -> None:
    """Remember what a class is made of now, when it is declared: its file may change while this process lives."""
    _MADE_OF[cls] = _made_of(cls)


def sources(*classes: type) -> dict[str, str]:
    """Digests of the files that these classes and their bases stand in, and versions of the packages that they belong
    to, by name; "" where a source cannot be read.  What is part of this package has none: its version tells."""
    for cls in classes:
        if cls not in _MADE_OF:  # it was not declared, but stands in for one that was
            note(cls)
    return {name: said for cls in classes for name, said in _MADE_OF[cls].items()}


def check(stated: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Refuse a run that was trained on other sources."""
    for name in {**stated, **here}:
        then, now = stated.get(name, "unknown"), here.get(name, "unknown")
        if then != now:
            raise Changed(
                f"{name} has changed since this run was trained ({then} then, {now} now); put back what it was, or "
                "train again"
            )


def hint(stated: Mapping[str, str]) -> str:
    """What to do about a class that is not known here, where a run says which files it needs."""
    files = ",".join(name for name in stated if name.endswith(".py") and reading.bare_name(name))
    return f"; it is not part of the package, name its file: {VARIABLE}={files} perepisode ..." if files else HINT


def _made_of(cls: type) -> dict[str, str]:
    contents: dict[str, bytes] = {}
    found: dict[str, str] = {}
    for base in (*cls.__mro__, *getattr(cls, "made_with", ())):
        package = base.__module__.partition(".")[0]
        if package == "perepisode" or package in sys.stdlib_module_names:
            continue
        name, content = _source(base)
        if content not in contents.get(name, b""):
            contents[name] = contents.get(name, b"") + content
        found |= {name: reading.digest(contents[name]) if content else ""} | _version(package)
    return found


def _source(cls: type) -> tuple[str, bytes]:
    """The file that a class stands in, or what was typed where there is none, as in a notebook."""
    file = _file(sys.modules.get(cls.__module__))
    if file and file.is_file():
        return file.name, file.read_bytes()
    lines = (linecache.getlines(one.__code__.co_filename) for one in vars(cls).values() if isfunction(one))
    return cls.__module__, "".join(next(filter(None, lines), [])).encode()


@cache
def _version(package: str) -> dict[str, str]:
    names = () if package == "__main__" else metadata.packages_distributions().get(package, ())
    return {name: metadata.version(name) for name in names}
