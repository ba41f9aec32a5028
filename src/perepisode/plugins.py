"""Methods and worlds from outside the package.

`--method my_module:MyMethod` and `--env my_file.py:MyWorld` import the module or the file, whose class makes itself
known by its decorator.  Commands that only read runs never import what a file names: for them, and for processes that
are started, the environment variable PEREPISODE_PLUGINS lists modules and files, separated by commas.

What such a class is made of is a part of a run's identity: a changed detector is another run.
"""

import linecache
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import import_module, metadata
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from perepisode import safe_io
from perepisode.config import ConfigError, check_choice

ENV_VARIABLE = "PEREPISODE_PLUGINS"
STANDARD_LIBRARY = Path(os.__file__).resolve().parent
PLUGIN_HINT = f"; if it is your own, name its module: {ENV_VARIABLE}=my_module perepisode ..."


class SourceChanged(ConfigError):
    """A run was trained on other code than what is here."""


def load_plugins() -> None:
    """Import the modules and files that the environment names."""
    for where in filter(None, (word.strip() for word in os.environ.get(ENV_VARIABLE, "").split(","))):
        _import(where, f"{ENV_VARIABLE}={where}")


def resolve(what: str, given: str | type, known: Mapping[str, type]) -> str:
    """The name of a method or world that was given by name, as `module:Class` or `file.py:Class`, or as the class."""
    if isinstance(given, type):
        if (name := _name(given, known)) is None:
            raise ConfigError(f"{given.__qualname__} is no declared {what}; it needs its decorator (docs/tutorials/bring-your-environment.md)")
        return name
    if ":" not in given:
        check_choice(what, given, known, "; or give your own as file.py:Class or module:Class")
        return given
    where, _, wanted = given.rpartition(":")
    asked = f"--{what} {given}"
    found = getattr(_import(where, asked), wanted, None)
    name = _name(found, known)
    called = getattr(found, "name", None)
    if name is None and called in known:
        again = f"another {what} of its name, {called!r}, was declared after it; give each a name of its own"
        raise ConfigError(f"{asked}: {again}")
    if name is None:
        raise ConfigError(f"{asked}: {where} declares no {what} {wanted!r} (docs/tutorials/bring-your-environment.md)")
    where = str(Path(where).resolve()) if where.endswith(".py") else where
    if "," in where:
        raise ConfigError(f"{asked}: {where} has a comma in its path, which cannot be passed on; move it")
    others = [word for word in os.environ.get(ENV_VARIABLE, "").split(",") if word and word != where]
    os.environ[ENV_VARIABLE] = ",".join([*others, where])  # for the processes that this one starts
    return name


def _name(cls: Any, known: Mapping[str, type]) -> str | None:
    return next((name for name, one in known.items() if one is cls), None)


def _import(where: str, asked: str) -> ModuleType:
    """A module by its name; a file is the module of its name in its folder, and may import what lies beside it."""
    file = Path(where).resolve() if where.endswith(".py") else None
    if file and (main := sys.modules.get("__main__")) and _file(main) == file:
        return main  # a script that names itself
    if file in _IMPORTED_FILES and (module := sys.modules.get(file.stem)) and _file(module) == file:
        if file.is_file() and file.read_bytes() != _IMPORTED_FILES[file]:
            raise ConfigError(f"{asked}: {file} has changed since this process imported it; start Python anew")
        return module
    if file and not file.is_file():
        raise ConfigError(f"{asked}: there is no file {file}")
    if file and "." in file.stem:
        raise ConfigError(f"{asked}: a file with a dot in its name cannot be imported; rename {file.name}")
    folder, module = (str(file.parent), file.stem) if file else (os.getcwd(), where)
    if file or folder not in sys.path:
        sys.path[:] = [folder, *(one for one in sys.path if one != folder)]
    try:
        found = import_module(module)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # whatever somebody's file may do when it is imported
        raise ConfigError(f"{asked}: {where} cannot be imported ({describe_error(error)})") from None
    if file and _file(found) != file:
        other = _file(found) or "which is part of Python"
        raise ConfigError(f"{asked}: {module} is the name of another module, {other}; rename the file")
    if file:
        _IMPORTED_FILES[file] = file.read_bytes()
    return found


def describe_error(error: BaseException) -> str:
    """What went wrong in somebody's file, and in which line of it."""
    if isinstance(error, ImportError | SyntaxError):  # which say where
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame.filename)]
    where = f"; line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    return f"{type(error).__name__}: {safe_io.first_line(error).rstrip('.')}{where}"


def _is_library(file: str) -> bool:
    """Or a library's, or Python's own."""
    libraries = ("site-packages", "<frozen", os.path.dirname(os.__file__), os.path.dirname(__file__))
    return any(place in file for place in libraries)


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


# ---- what a class from outside is made of ---------------------------------------------------------------------------


class ClassSources(NamedTuple):
    """Of what."""

    contents: dict[str, bytes]  # of files, by name; empty where a source cannot be read
    more: dict[str, str]  # versions of packages, and how a call made it


_CLASS_SOURCES: dict[type, ClassSources] = {}
_IMPORTED_FILES: dict[Path, bytes] = {}  # files that were imported by their path


def record_sources(cls: type) -> None:
    """Remember what a class is made of now, when it is declared: its file may change while this process lives."""
    _CLASS_SOURCES[cls] = _read_sources(cls)


def sources(*classes: type) -> dict[str, str]:
    """Digests of the files that these classes and their bases stand in, and versions of the packages that they belong
    to, by name; "" where a source cannot be read.  What is part of this package has none: its version tells."""
    contents: dict[str, bytes] = {}
    more: dict[str, str] = {}
    for cls in classes:
        if cls not in _CLASS_SOURCES:  # it was not declared, but stands in for one that was
            record_sources(cls)
        for name, content in _CLASS_SOURCES[cls].contents.items():
            _join(contents, name, content)
        more |= _CLASS_SOURCES[cls].more
    return {name: safe_io.digest(content) if content else "" for name, content in contents.items()} | more


def check_sources(stated: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Refuse a run that was trained on other sources."""
    for name in {**stated, **here}:
        then, now = stated.get(name, "unknown"), here.get(name, "unknown")
        if then != now:
            raise SourceChanged(
                f"{name} has changed since this run was trained ({then} then, {now} now); put back what it was, or "
                "train again"
            )


def missing_class_hint(stated: Mapping[str, str]) -> str:
    """What to do about a class that is not known here, where a run says which files it needs."""
    files = ",".join(name for name in stated if name.endswith(".py") and safe_io.is_plain_name(name))
    return f"; it is not part of the package, name its file: {ENV_VARIABLE}={files} perepisode ..." if files else PLUGIN_HINT


def _read_sources(cls: type) -> ClassSources:
    contents: dict[str, bytes] = {}
    more: dict[str, str] = {}
    for part in (*cls.__mro__, *getattr(cls, "source_objects", ())):
        package = part.__module__.partition(".")[0]
        if package != "perepisode" and not _in_standard_library(part.__module__):
            _join(contents, *_source(part))
            more |= _version(package)
    making = getattr(cls, "constructor_args", "") or (_class_contents(cls) if "<locals>" in cls.__qualname__ else "")
    if making and contents:
        more[f"the making of {getattr(cls, 'name', cls.__name__)}"] = safe_io.digest(making.encode())
    return ClassSources(contents, more)


def _join(contents: dict[str, bytes], name: str, content: bytes) -> None:
    """Files of one name are one entry."""
    if content not in contents.setdefault(name, b""):
        contents[name] += content


def _in_standard_library(module: str) -> bool:
    """Part of Python itself: by where it lies, as a file of one's own may bear the name of such a module."""
    file = _file(sys.modules.get(module))
    if file is None:
        return module in sys.stdlib_module_names
    return STANDARD_LIBRARY in file.parents and "site-packages" not in file.parts


def _source(part: type | Callable) -> tuple[str, bytes]:
    """The file that a class or a function stands in, or what was typed where there is none, as in a notebook."""
    file = _file(sys.modules.get(part.__module__))
    if file and file.is_file():
        return file.name, file.read_bytes()
    functions = [part] if isfunction(part) else [one for one in vars(part).values() if isfunction(one)]
    typed = (one.__code__.co_filename for one in functions if not _is_library(one.__code__.co_filename))
    lines = map(linecache.getlines, typed)
    return part.__module__, "".join(next(filter(None, lines), [])).encode()


def _class_contents(cls: type) -> str:
    """A class that a function makes differs from call to call in what its functions and attributes hold."""
    return stable_repr({name: value for name, value in vars(cls).items() if not name.startswith("__")})


def stable_repr(value: Any) -> str:
    """The same text in every process: plain values, arrays and dataclasses as they are, functions by what they hold."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{key}: {stable_repr(one)}' for key, one in value.items()))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(stable_repr, value))}]"
    if isinstance(value, partial):
        return stable_repr((value.func, value.args, value.keywords))
    if isfunction(value):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        return f"{value.__qualname__} {stable_repr((held, value.__defaults__, value.__kwdefaults__))}"
    if isinstance(value, type):
        return value.__qualname__
    if is_dataclass(value):
        return f"{type(value).__qualname__} {stable_repr({one.name: getattr(value, one.name) for one in fields(value)})}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        array = np.asarray(value)
        return f"{array.dtype}{array.shape} {safe_io.digest(array.tobytes())}"
    return type(value).__qualname__


@cache
def _version(package: str) -> dict[str, str]:
    names = () if package == "__main__" else metadata.packages_distributions().get(package, ())
    return {name: metadata.version(name) for name in names}
