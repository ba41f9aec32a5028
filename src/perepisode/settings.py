"""Settings: the numbers and words that a method, a world or a learner takes, each declared once, where it is used.

    class Ser(Objective):
        weight: float = setting(help="price of a violation, in tens of the task's reward", low=0)

Command line, help, checks, a run's identity and the documentation all read this one line.
"""

import math
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any


class ConfigError(ValueError):
    """Wrong input, said in one line with the value and the remedy."""


@dataclass(frozen=True)
class Setting:
    """One of them.  `choices` that map names to numbers are given by name and used as their number."""

    name: str
    default: Any  # MISSING where it has to be given
    help: str
    kind: type  # float, int, bool or str
    low: float
    high: float
    above: float  # as `low`, itself not allowed
    choices: tuple[str, ...] | Mapping[str, float] | None
    file: Callable[[bytes], Any] | None  # reads the content of the file that it names; a run keeps digest and content
    later: bool  # added after runs had been trained: written out only where it is not the default, so ids stay

    @property
    def needed(self) -> bool:
        return self.default is MISSING

    @property
    def word(self) -> bool:
        """Not traced: a part of the structure of what is declared."""
        return _words(self.choices)

    def read(self, text: str) -> Any:
        """The value that somebody typed."""
        if self.kind is str or self.choices or self.file:
            return text
        if self.default is None and text.lower() == "none":
            return None
        words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        if self.kind is bool:
            if text.lower() not in words:
                raise ConfigError(f"{self.name}={text} is neither true nor false")
            return words[text.lower()]
        try:
            number = float(text)
        except ValueError:
            raise ConfigError(f"{self.name}={text!r} is no number; {self.name} {self.range}") from None
        return int(number) if number.is_integer() and abs(number) <= 2**53 else number

    def check(self, value: Any) -> None:
        if self.choices:
            if value not in self.choices:
                raise ConfigError(f"{self.name} {value!r} is unknown; choose from {', '.join(self.choices)}")
        elif self.kind in (str, bool) or self.file:
            kind = str if self.file else self.kind
            if not isinstance(value, kind):
                raise ConfigError(f"{self.name}={value!r} must be a {kind.__name__}")
        elif not (value is None and self.default is None):
            self._check_number(value)

    def _check_number(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{self.name}={value!r} is no number; {self.name} {self.range}")
        if self.kind is int and not isinstance(value, int):
            raise ConfigError(f"{self.name}={value} is no whole number; {self.name} {self.range}")
        if not (self.low <= value <= self.high and value > self.above and abs(value) <= sys.float_info.max):
            raise ConfigError(f"{self.name}={value} is out of range; {self.name} {self.range}")

    @property
    def range(self) -> str:
        """ "must be at least 0", and so on."""
        parts = [f"at least {_short(self.low)}"] if self.low > -math.inf else []
        parts += [f"above {_short(self.above)}"] if self.above > -math.inf else []
        parts += [f"at most {_short(self.high)}"] if self.high < math.inf else []
        what = "a whole number" if self.kind is int else "a number"
        return f"must be {what}" + (f", {' and '.join(parts)}" if parts else "")

    @property
    def described(self) -> str:
        """Its help with choices and default, as one line."""
        choices = f" ({', '.join(self.choices)})" if self.choices else ""
        default = "" if self.default is None else "; needed" if self.needed else f"; {_short(self.default)} if left out"
        return f"{self.help}{choices}{default}"


def setting(default: Any = MISSING, help: str = "", *, low=-math.inf, high=math.inf, above=-math.inf, choices=None,
            file: Callable[[bytes], Any] | None = None, later: bool = False) -> Any:  # fmt: skip
    """A field of a dataclass that is a setting of it."""
    about = {"help": help, "low": low, "high": high, "above": above, "choices": choices, "file": file, "later": later}
    return field(default=default, metadata={"setting": about, "static": _words(choices)})


def like(cls: Any, name: str, default: Any = MISSING) -> Any:
    """The same setting as an option of a command: its range, and its default unless another is given."""
    (own,) = (one for one in fields(cls) if one.name == name)
    return field(default=own.default if default is MISSING else default, metadata=own.metadata)


def of(cls: Any) -> dict[str, Setting]:
    """The settings of a class, by name, in its own order."""
    declared = [one for one in fields(cls) if "setting" in one.metadata]
    return {
        one.name: Setting(one.name, one.default, kind=_kind(one.type), **one.metadata["setting"]) for one in declared
    }


def complete(cls: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, with every default written out, so that a changed default is a changed run."""
    known = of(cls)
    whole = {**{name: one.default for name, one in known.items() if not one.needed}, **given}
    younger = {name for name, one in known.items() if one.later}
    return {name: value for name, value in whole.items() if name not in younger or value != known[name].default}


def check(cls: Any, given: Mapping[str, Any], who: str) -> None:
    """Refuse what is unknown, missing or impossible."""
    known = of(cls)
    for name in given:
        if name not in known:
            raise ConfigError(f"{who} has no setting {name!r}; it has {', '.join(known) or 'no settings'}")
    for name, one in known.items():
        if name in given:
            one.check(given[name])
        elif one.needed:
            raise ConfigError(f"{who} needs {name}; give --set {name}=...")


def declare(what: str, cls: Any, needed: tuple[str, ...], known: dict[str, Any]) -> None:
    """Enter a class under its name; refuse one that does not say what it must, and a name that is taken."""
    who = f"{cls.__module__}.{cls.__qualname__}"
    missing = [part for part in needed if not hasattr(cls, part)]
    if missing:
        raise ConfigError(f"{who} is no {what} yet: it does not say its {' and '.join(missing)}")
    other = known.setdefault(cls.name, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ConfigError(f"two {what}s are called {cls.name!r}: {other.__module__} and {cls.__module__}; rename one")
    known[cls.name] = cls


def check_fields(command: Any) -> None:
    """Refuse a command line whose numbers are out of range, before anything is done."""
    if not is_dataclass(command):
        return
    known = of(type(command))
    for name, given in ((one.name, getattr(command, one.name)) for one in fields(command)):
        check_fields(given)
        for value in given if isinstance(given, tuple) else (given,):
            if name in known:
                known[name].check(value)


def differing(stated: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Each name that not all of these say alike, and what they say, as text; those that say nothing are passed over."""
    known = [own for own in stated if own]
    said = {
        name: list(dict.fromkeys(_short(own[name]) if name in own else "" for own in known))
        for name in dict.fromkeys(name for own in known for name in own)
    }
    return {name: texts for name, texts in said.items() if len(texts) > 1}


def distinguish_arms(arms: Sequence[Hashable], stated: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each, what others of the same arm say otherwise: "entropy=0.02"; "" where they agree."""
    groups: dict[Hashable, list[Mapping[str, Any]]] = {}
    for arm, own in zip(arms, stated):
        groups.setdefault(arm, []).append(own)
    apart = {arm: differing(group) for arm, group in groups.items()}
    return [
        ", ".join(f"{name}={_short(own[name])}" for name in apart[arm] if name in own) for arm, own in zip(arms, stated)
    ]


def _words(choices: tuple[str, ...] | Mapping[str, float] | None) -> bool:
    """Whether a choice is a word and nothing else: it cannot be traced, unless it means a number."""
    return choices is not None and not isinstance(choices, Mapping)


def _kind(annotation: Any) -> type:
    """Of a field: annotations are text where their evaluation is postponed, and classes elsewhere."""
    name = annotation.__name__ if type(annotation) is type else str(annotation)
    first = re.sub(r"^tuple\[|\W.*$", "", name)
    return {"int": int, "bool": bool, "str": str}.get(first, float)


def _short(value: Any) -> str:
    """As people write it, and exact."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float) or float(short := f"{value:g}") != value:
        return str(value)
    return short
