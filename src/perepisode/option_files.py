"""Options in a TOML file, as on the command line: `--config run.toml` reads them, `--print-config` writes them.

    method = ["esr", "ser:weight=0.1"]
    budget = [1, 2]
    num_envs = 64

Keys are the options' names.  A file becomes words of the command line, behind those that were typed, so that both mean
the same.  Only types are checked here: a number is not written as text.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import tyro

from perepisode import safe_io
from perepisode.settings import ConfigError, Setting

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True, kw_only=True)
class OptionsFromFile:
    """The two options of a command that can read the others from a file."""

    # TOML file with options of this command; those on the command line override it.
    config: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    print_config: bool = False  # Print the options as such a file, and do nothing else.


class Option(NamedTuple):
    """What a key of the file may hold."""

    name: str
    kinds: frozenset[type]
    words: frozenset[str] = frozenset()  # texts that stand for a value of another kind
    positional: bool = False
    many: bool = True  # takes several values

    @property
    def flag(self) -> bool:
        """Whether it is given as --name or --no-name."""
        return self.kinds == {bool} and not self.many

    def check(self, value: Any, path: Path) -> None:
        kinds = self.kinds | {int} if float in self.kinds else self.kinds
        if type(value) not in kinds and not (isinstance(value, str) and value in self.words):
            expected = " or ".join(KINDS[kind] for kind in KINDS if kind in self.kinds)
            raise ConfigError(f"{path}: {self.name} must be {expected}, but is {_toml(value)}")
        if isinstance(value, str) and value.startswith("-"):
            raise ConfigError(f"{path}: {self.name} = {_toml(value)} begins with a dash, as an option does")


def words(path: Path, command: str, options: Mapping[str, Option], typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """The file's positional arguments and its options, as words, without those that were typed."""
    try:
        given = tomllib.loads(safe_io.read_text(path, "give a TOML file"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {safe_io.first_line(error)}") from None
    flags = {word.partition("=")[0].removeprefix("--no-").removeprefix("--") for word in typed if word[:2] == "--"}
    overridden = {options[name].name for flag in flags if (name := flag.replace("-", "_")) in options}
    overridden |= {option.name for option in options.values() if option.positional and typed and typed[0][:1] != "-"}
    positional, optional, seen = [], [], set()
    for key, value in given.items():
        option = options.get(key.replace("-", "_"))
        if option is None:
            near = difflib.get_close_matches(key, options, 1)
            hint = f"perhaps you meant {near[0]}" if near else f"`perepisode {command} --help` lists them"
            raise ConfigError(f"{path}: {key!r} is no option of `perepisode {command}`; {hint}")
        if option.name in seen:
            raise ConfigError(f"{path}: {option.name} is given twice; give its values together")
        seen.add(option.name)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ConfigError(f"{path}: {option.name} has no value; leave it out")
        if len(values) > 1 and not option.many:
            raise ConfigError(f"{path}: {option.name} takes one value, not {len(values)}")
        for one in values:
            option.check(one, path)
        if option.name in overridden:
            continue
        name = option.name.replace("_", "-")
        texts = [_toml(one) if isinstance(one, bool) else str(one) for one in values]
        if option.positional:
            positional += texts
        elif option.flag:
            optional += [f"--{name}" if values[0] else f"--no-{name}"]
        else:
            optional += [f"--{name}", *texts]
    return positional, optional


def options_of(command: type, known: Mapping[str, Iterable[Setting]]) -> dict[str, Option]:
    """The options of a command, by every name they have; `known` are the settings among them, by name."""
    found: dict[str, Option] = {}
    hints = get_type_hints(command, include_extras=True)
    for member in fields(command):
        extras, annotation, many = _unwrapped(hints[member.name])
        if is_dataclass(annotation):
            names = [group.name for group in fields(annotation)]
            found |= {name: _of_settings(name, known[name]) for name in names}
        elif member.name not in OptionsFromFile.__dataclass_fields__:
            kind = annotation if annotation in KINDS else str
            positional = tyro.conf.Positional in extras
            option = Option(member.name, frozenset({kind}), frozenset(), positional, many)
            aliases = [alias.lstrip("-") for extra in extras for alias in getattr(extra, "aliases", None) or ()]
            found |= dict.fromkeys((member.name, *aliases), option)
    return found


def dump(values: Mapping[str, Any], known: Mapping[str, Iterable[Setting]], comment: str) -> str:
    """A file with these options; settings are texts, as typed, and None and () are left out."""
    lines = [f"# {comment}"]
    for name, value in values.items():
        if name in known:
            value = [_parsed(text, known[name]) for text in value]
        if value not in (None, (), []) and name not in OptionsFromFile.__dataclass_fields__:
            many = isinstance(value, list | tuple)
            text = f"[{', '.join(map(_toml, value))}]" if many else _toml(value)
            lines.append(f"{name} = {text}")
    return "\n".join([*lines, ""])


def _unwrapped(annotation: Any) -> tuple[tuple[Any, ...], Any, bool]:
    """The annotations of a field, its type or that of its items, and whether it takes several values."""
    extras: tuple[Any, ...] = ()
    many = False
    while True:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            extras += tuple(annotation.__metadata__)
        elif origin is tuple:
            many = True
        elif origin in (Union, UnionType):
            arguments = [argument for argument in arguments if argument is not type(None)]
        elif origin is Literal:
            return extras, str, many
        else:
            return extras, annotation, many
        annotation = arguments[0]


def _of_settings(name: str, declared: Iterable[Setting]) -> Option:
    declared = list(declared)
    kinds = frozenset(str if one.choices or one.file else one.type for one in declared)
    return Option(name, kinds, frozenset({"none"} if any(one.default is None for one in declared) else ()))


def _parsed(text: str, declared: Iterable[Setting]) -> Any:
    """The value of a setting's text, of which every owner may have its own type."""
    for one in declared:
        try:
            value = one.parse(text)
        except ConfigError:
            continue
        return text if value is None else value
    return text


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
