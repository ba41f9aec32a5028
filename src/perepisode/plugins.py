"""Plugins: methods and environments defined outside the package.

`--method my_module:MyMethod` and `--env my_file.py:MyEnv` import the module or file; the decorator registers the class.
Commands that only read runs never import what a run names.  For them, and for child processes, the environment variable
PEREPISODE_PLUGINS lists modules and files, separated by commas.

The source of a plugin is part of a run's identity: a run with a changed detector is a different run.
"""

import linecache
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import import_module, metadata
from inspect import getsourcelines, isfunction, unwrap
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from perepisode import legacy, safe_io
from perepisode.config import ConfigError, check_choice

ENV_VARIABLE = "PEREPISODE_PLUGINS"
GUIDE = "docs/tutorials/bring-your-environment.md"
_EXPORTED = os.environ.get(ENV_VARIABLE, "")  # before options of this process add to it
STANDARD_LIBRARY = Path(os.__file__).resolve().parent
PLUGIN_HINT = f"; if it is a plugin, name its module: {ENV_VARIABLE}=my_module perepisode ..."


class SourceChanged(ConfigError):
    """A run was trained with a different version of a plugin."""


def load_plugins() -> None:
    """Import the modules and files that the environment variable lists."""
    listed = os.environ.get(ENV_VARIABLE) or os.environ.get(legacy.ENV_VARIABLE, "")
    for target in filter(None, map(str.strip, listed.split(","))):
        _import(target, f"{ENV_VARIABLE}={target}")


def resolve(option: str, given: str | type, known: Mapping[str, type]) -> str:
    """The name of a method or environment given as its name, as `module:Class`, as `file.py:Class` or as the class."""
    if isinstance(given, type):
        if (name := _registered_name(given, known)) is None:
            raise ConfigError(f"{given.__qualname__} is not a registered {option}; add its decorator ({GUIDE})")
        return name
    if ":" not in given:
        check_choice(option, given, known, "; or give your own as file.py:Class or module:Class")
        return given
    target, _, class_name = given.rpartition(":")
    argument = f"--{option} {given}"
    cls = getattr(_import(target, argument), class_name, None)
    name = _registered_name(cls, known)
    if name is None and (own_name := getattr(cls, "name", None)) in known:
        raise ConfigError(f"{argument}: a later {option} is also named {own_name!r}; give each a unique name")
    if name is None:
        raise ConfigError(f"{argument}: {target} declares no {option} {class_name!r} ({GUIDE})")
    target = str(Path(target).resolve()) if target.endswith(".py") else target
    if "," in target:
        raise ConfigError(f"{argument}: the path {target} contains a comma, which separates plugins; rename or move it")
    others = [word for word in os.environ.get(ENV_VARIABLE, "").split(",") if word and word != target]
    os.environ[ENV_VARIABLE] = ",".join([*others, target])  # for child processes
    return name


def shell_prefix() -> str:
    """What a printed command needs in front: the plugins that options of this process named."""
    listed = os.environ.get(ENV_VARIABLE, "")
    return f"{ENV_VARIABLE}={shlex.quote(listed.replace(f'{os.getcwd()}/', ''))} " if listed != _EXPORTED else ""


def _registered_name(cls: Any, known: Mapping[str, type]) -> str | None:
    return next((name for name, registered in known.items() if registered is cls), None)


def _import(target: str, argument: str) -> ModuleType:
    """Import a module by its name, or a file as a top-level module that can import its neighbours."""
    file = Path(target).resolve() if target.endswith(".py") else None
    if file and (main := sys.modules.get("__main__")) and _file(main) == file:
        return main  # a script that names itself
    if file in _IMPORTED_FILES and (module := sys.modules.get(file.stem)) and _file(module) == file:
        if file.is_file() and file.read_bytes() != _IMPORTED_FILES[file]:
            raise ConfigError(f"{argument}: {file} has changed since this process imported it; restart Python")
        return module
    if file and not file.is_file():
        raise ConfigError(f"{argument}: there is no file {file}")
    if file and "." in file.stem:
        raise ConfigError(f"{argument}: a file with a dot in its name cannot be imported; rename {file.name}")
    folder, name = (str(file.parent), file.stem) if file else (os.getcwd(), target)
    if file or folder not in sys.path:
        sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    try:
        module = import_module(name)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        raise ConfigError(f"{argument}: {target} cannot be imported ({describe_error(error)})") from None
    if file and _file(module) != file:
        other = _file(module) or "which is part of Python"
        raise ConfigError(f"{argument}: {name} is the name of another module, {other}; rename the file")
    if file:
        _IMPORTED_FILES[file] = file.read_bytes()
    return module


def describe_error(error: BaseException) -> str:
    """An error raised in a plugin, with the line of the plugin that raised it."""
    if isinstance(error, ImportError | SyntaxError):  # these already name the line
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame.filename)]
    location = f"; line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    return f"{type(error).__name__}: {safe_io.first_line(error).rstrip('.')}{location}"


def _is_library(file: str) -> bool:
    """Whether the file belongs to this package, to a library or to Python."""
    libraries = ("site-packages", "<frozen", os.path.dirname(os.__file__), os.path.dirname(__file__))
    return any(folder in file for folder in libraries)


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


# ---- the source of a plugin -----------------------------------------------------------------------------------------


class ClassSources(NamedTuple):
    """What defines a class from outside the package."""

    contents: dict[str, bytes]  # by file name; empty if the source cannot be read
    more: dict[str, str]  # package versions, and the arguments of the call that created the class


_CLASS_SOURCES: dict[type, ClassSources] = {}
_IMPORTED_FILES: dict[Path, bytes] = {}  # imported by path


def record_sources(cls: type) -> None:
    """Record a class's source when it is registered, because the file may change while this process runs."""
    _CLASS_SOURCES[cls] = _read_sources(cls)


def sources(*classes: type) -> dict[str, str]:
    """Digests of the files that define these classes and their bases, and versions of their packages, by name.

    A digest is "" if the source cannot be read.  This package's own files are omitted; its version identifies them.
    """
    contents: dict[str, bytes] = {}
    more: dict[str, str] = {}
    for cls in classes:
        if cls not in _CLASS_SOURCES:  # not registered, but substituted for a class that is
            record_sources(cls)
        for name, content in _CLASS_SOURCES[cls].contents.items():
            _join(contents, name, content)
        more |= _CLASS_SOURCES[cls].more
    return {name: safe_io.digest(content) if content else "" for name, content in contents.items()} | more


def check_sources(recorded: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Raise SourceChanged unless the current sources are those recorded with a run."""
    for name in {**recorded, **current}:
        then, now = recorded.get(name, "unknown"), current.get(name, "unknown")
        if then != now:
            raise SourceChanged(
                f"{name} has changed since this run was trained ({then} then, {now} now); restore it or train again"
            )


def missing_class_hint(recorded: Mapping[str, str]) -> str:
    """The remedy for a run whose method or environment is not registered, given its recorded sources.

    Of an adopted environment, a run also records files of its library, which are not plugins.
    """
    names = [name for name in recorded if name.endswith(".py") and safe_io.is_plain_name(name)]
    packaged = frozenset().union(*(_packaged_files(name) for name in recorded if name not in names))
    own = [name for name in names if name not in packaged or Path(name).is_file()]
    files = ",".join(own or names)
    return f"; it is a plugin, name its file: {ENV_VARIABLE}={files} perepisode ..." if files else PLUGIN_HINT


@cache
def _packaged_files(package: str) -> frozenset[str]:
    """The names of the files of an installed package; none if it is not installed."""
    try:
        return frozenset(file.name for file in metadata.files(package) or ())
    except (metadata.PackageNotFoundError, ValueError):
        return frozenset()


def _read_sources(cls: type) -> ClassSources:
    contents: dict[str, bytes] = {}
    more: dict[str, str] = {}
    for part in (*cls.__mro__, *getattr(cls, "source_objects", ())):
        package = part.__module__.partition(".")[0]
        if package != "perepisode" and not _in_standard_library(part.__module__):
            _join(contents, *_source(part, getattr(cls, "display_functions", ())))
            more |= _version(package)
    arguments = getattr(cls, "constructor_args", "") or (_class_contents(cls) if "<locals>" in cls.__qualname__ else "")
    if arguments and contents:  # the name of the entry is part of run ids
        more[f"the making of {getattr(cls, 'name', cls.__name__)}"] = safe_io.digest(arguments.encode())
    return ClassSources(contents, more)


def _join(contents: dict[str, bytes], name: str, content: bytes) -> None:
    """Files of the same name share one entry."""
    if content not in contents.setdefault(name, b""):
        contents[name] += content


def _in_standard_library(module: str) -> bool:
    """Decided by location, because a plugin may have the name of a standard module."""
    file = _file(sys.modules.get(module))
    if file is None:
        return module in sys.stdlib_module_names
    return STANDARD_LIBRARY in file.parents and "site-packages" not in file.parts


def _source(part: type | Callable, omitted: tuple[Callable, ...]) -> tuple[str, bytes]:
    """The file that defines a class or function, without the functions to omit, or the cell in a notebook."""
    file = _file(sys.modules.get(part.__module__))
    if file and file.is_file():
        return file.name, _without(file.read_bytes(), file, omitted)
    functions = [part] if isfunction(part) else [member for member in vars(part).values() if isfunction(member)]
    cells = (f.__code__.co_filename for f in functions if not _is_library(f.__code__.co_filename))
    return part.__module__, "".join(next(filter(None, map(linecache.getlines, cells)), [])).encode()


def _without(content: bytes, file: Path, functions: tuple[Callable, ...]) -> bytes:
    """The file without the lines of these functions; a lambda stays, because it shares its lines."""
    lines = content.splitlines(keepends=True)
    for function in map(unwrap, functions):
        code = getattr(function, "__code__", None)
        if code and code.co_name != "<lambda>" and Path(code.co_filename).resolve() == file:
            block, first = getsourcelines(function)
            lines[first - 1 : first - 1 + len(block)] = [b""] * len(block)
    return b"".join(lines)


def _class_contents(cls: type) -> str:
    """What distinguishes classes that one function creates: their attributes and the closures of their methods."""
    return stable_repr({name: value for name, value in vars(cls).items() if not name.startswith("__")})


def stable_repr(value: Any) -> str:
    """Text that is the same in every process: values by content, functions by their closure and defaults."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{key}: {stable_repr(item)}' for key, item in value.items()))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(stable_repr, value))}]"
    if isinstance(value, partial):
        return stable_repr((value.func, value.args, value.keywords))
    if isfunction(value):
        closure = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        return f"{value.__qualname__} {stable_repr((closure, value.__defaults__, value.__kwdefaults__))}"
    if isinstance(value, type):
        return value.__qualname__
    if is_dataclass(value):
        return f"{type(value).__qualname__} {stable_repr({f.name: getattr(value, f.name) for f in fields(value)})}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        array = np.asarray(value)
        return f"{array.dtype}{array.shape} {safe_io.digest(array.tobytes())}"
    return type(value).__qualname__


@cache
def _version(package: str) -> dict[str, str]:
    names = () if package == "__main__" else metadata.packages_distributions().get(package, ())
    return {name: metadata.version(name) for name in names}
