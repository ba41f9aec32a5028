"""Settings: the numbers and words that configure a method, an environment or PPO, each declared once, where it is used.

    class Ser(Objective):
        weight: float = setting(help="w, the price of a violation in units of ρ = 10", low=0)

The command line, its help, validation, run ids and the documentation all read this one line.
"""

import math
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

from perepisode import legacy


class ConfigError(ValueError):
    """Invalid input; the message is one line with the value and the remedy."""


@dataclass(frozen=True)
class Setting:
    """One declared setting.  If `choices` maps names to numbers, users give the name and the code gets the number."""

    name: str
    default: Any  # MISSING if the setting is required
    help: str
    type: type  # float, int, bool or str
    low: float
    high: float
    above: float  # exclusive lower bound
    choices: tuple[str, ...] | Mapping[str, float] | None
    file: Callable[[bytes], Any] | None  # parses the content of the named file; a run keeps its digest and its content
    omit_default_from_id: (
        bool  # added after runs were trained: written out only when not the default, so that run ids stay valid
    )

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def static(self) -> bool:
        """Whether the setting is part of the pytree's structure instead of a traced number."""
        return _is_static(self.choices)

    def parse(self, text: str) -> Any:
        """The value of a command-line argument."""
        if self.type is str or self.choices or self.file:
            return text
        if self.default is None and text.lower() == "none":
            return None
        words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        if self.type is bool:
            if text.lower() not in words:
                raise ConfigError(f"{self.name}={text} must be true or false")
            return words[text.lower()]
        try:
            number = float(text)
        except ValueError:
            raise ConfigError(f"{self.name}={text!r} is not a number; {self.name} {self.range}") from None
        return int(number) if number.is_integer() and abs(number) <= 2**53 else number

    def check(self, value: Any) -> None:
        if self.choices:
            if value not in self.choices:
                raise ConfigError(f"{self.name} {value!r} is unknown; choose from {', '.join(self.choices)}")
        elif self.type in (str, bool) or self.file:
            expected = str if self.file else self.type
            if not isinstance(value, expected):
                raise ConfigError(f"{self.name}={value!r} must be a {expected.__name__}")
        elif not (value is None and self.default is None):
            self._check_number(value)

    def _check_number(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{self.name}={value!r} is not a number; {self.name} {self.range}")
        if self.type is int and not isinstance(value, int):
            raise ConfigError(f"{self.name}={value} is not a whole number; {self.name} {self.range}")
        if not (self.low <= value <= self.high and value > self.above and abs(value) <= sys.float_info.max):
            raise ConfigError(f"{self.name}={value} is out of range; {self.name} {self.range}")

    @property
    def range(self) -> str:
        """ "must be at least 0", and so on."""
        parts = [f"at least {_short(self.low)}"] if self.low > -math.inf else []
        parts += [f"above {_short(self.above)}"] if self.above > -math.inf else []
        parts += [f"at most {_short(self.high)}"] if self.high < math.inf else []
        what = "a whole number" if self.type is int else "a number"
        return f"must be {what}" + (f", {' and '.join(parts)}" if parts else "")

    @property
    def described(self) -> str:
        """Help, choices and default in one line."""
        choices = ", ".join(self.choices or ())
        default = "" if self.default is None else "required" if self.required else f"default {_short(self.default)}"
        inside = "; ".join(filter(None, (choices, default)))
        return f"{self.help} ({inside})" if inside else self.help


def setting(default: Any = MISSING, help: str = "", *, low=-math.inf, high=math.inf, above=-math.inf, choices=None,
            file: Callable[[bytes], Any] | None = None, omit_default_from_id: bool = False) -> Any:  # fmt: skip
    """Declare a dataclass field as a setting."""
    about = {"help": help, "low": low, "high": high, "above": above, "choices": choices, "file": file}
    about["omit_default_from_id"] = omit_default_from_id
    return field(default=default, metadata={"setting": about, "static": _is_static(choices)})


def like(cls: Any, name: str, default: Any = MISSING) -> Any:
    """Reuse a class's setting as a command option, with its range and, unless another is given, its default."""
    (original,) = (member for member in fields(cls) if member.name == name)
    return field(default=original.default if default is MISSING else default, metadata=original.metadata)


def of(cls: Any) -> dict[str, Setting]:
    """The settings of a class by name, in declaration order."""
    return {
        member.name: Setting(member.name, member.default, type=_type(member.type), **member.metadata["setting"])
        for member in fields(cls)
        if "setting" in member.metadata
    }


def complete(cls: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values with every default written out, so that changing a default changes the run id."""
    known = of(cls)
    values = {**{name: declared.default for name, declared in known.items() if not declared.required}, **given}
    omitted = {name for name, declared in known.items() if declared.omit_default_from_id}
    return {name: value for name, value in values.items() if name not in omitted or value != known[name].default}


def option(cls: Any, name: str) -> str:
    """How to give a setting on the command line: the package's classes have an option for each, others use --set."""
    return f"--{name.replace('_', '-')}" if cls.__module__.startswith("perepisode.") else f"--set {name}=..."


def check(cls: Any, given: Mapping[str, Any], who: str) -> None:
    """Raise ConfigError for unknown, missing or invalid settings."""
    known = of(cls)
    for name in given:
        if name not in known:
            raise ConfigError(f"{who} has no setting {name!r}; it has {', '.join(known) or 'no settings'}")
    for name, declared in known.items():
        if name in given:
            declared.check(given[name])
        elif declared.required:
            raise ConfigError(f"{who} needs {name}; give {option(cls, name)}")


def declare(what: str, cls: Any, required: tuple[str, ...], known: dict[str, Any]) -> None:
    """Register a class by name; raise ConfigError if it lacks a required attribute or its name is taken."""
    who = f"{cls.__module__}.{cls.__qualname__}"
    missing = [part for part in required if not hasattr(cls, part)]
    if missing:
        raise ConfigError(f"{who} is not a complete {what}: it does not define {' and '.join(missing)}")
    for old, new in legacy.ATTRIBUTES.get(what, {}).items():  # which would be ignored
        default, given = getattr(cls, new, None), getattr(cls, old, None)
        replaced = default is None or isinstance(given, type(default))
        if given is not None and replaced and old not in of(cls):
            raise ConfigError(f"{who} defines {old}, which is called {new} since version 0.2; rename it")
    other = known.setdefault(cls.name, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ConfigError(f"two {what}s are named {cls.name!r}: {other.__module__} and {cls.__module__}; rename one")
    known[cls.name] = cls


def check_fields(command: Any) -> None:
    """Raise ConfigError for out-of-range numbers on a command line, before the command starts."""
    if not is_dataclass(command):
        return
    known = of(type(command))
    for member in fields(command):
        name, given = member.name, getattr(command, member.name)
        check_fields(given)
        for value in given if isinstance(given, tuple) else (given,):
            if name in known:
                known[name].check(value)


def differing(stated: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Names with more than one value among these mappings, and those values as text; empty mappings are skipped."""
    known = [own for own in stated if own]
    values = {
        name: list(dict.fromkeys(_short(own[name]) if name in own else "" for own in known))
        for name in dict.fromkeys(name for own in known for name in own)
    }
    return {name: texts for name, texts in values.items() if len(texts) > 1}


def distinguish_arms(arms: Sequence[Hashable], stated: Sequence[Mapping[str, Any]]) -> list[str]:
    """What sets each run apart from others of the same arm, such as "ent_coef=0.02"; "" where they agree."""
    groups: dict[Hashable, list[Mapping[str, Any]]] = {}
    for arm, own in zip(arms, stated):
        groups.setdefault(arm, []).append(own)
    apart = {arm: differing(group) for arm, group in groups.items()}
    return [
        ", ".join(f"{name}={_short(own[name])}" for name in apart[arm] if name in own) for arm, own in zip(arms, stated)
    ]


def _is_static(choices: tuple[str, ...] | Mapping[str, float] | None) -> bool:
    """Whether the choices are plain words, which cannot be traced, rather than names of numbers."""
    return choices is not None and not isinstance(choices, Mapping)


def _type(annotation: Any) -> type:
    """The type of a field, whose annotation is a string under postponed evaluation and a class otherwise."""
    annotation = getattr(annotation, "__origin__", annotation) if hasattr(annotation, "__metadata__") else annotation
    name = annotation.__name__ if type(annotation) is type else str(annotation)
    first = re.sub(r"^tuple\[|\W.*$", "", name)
    return {"int": int, "bool": bool, "str": str}.get(first, float)


def _short(value: Any) -> str:
    """The shortest text that reads back as the same value."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float) or float(short := f"{value:g}") != value:
        return str(value)
    return short
