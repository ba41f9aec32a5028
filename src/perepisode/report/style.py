"""Names and styles of methods and dilemmas, the same in every figure, table and sentence."""

import colorsys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS, ConstraintType


class MethodStyle(NamedTuple):
    """A method's label, and its colour, marker and line for matplotlib: no two methods differ in colour only."""

    label: str
    colour: str
    marker: str
    line: Any


_LINES = ("-", "--", "-.", (0, (1.2, 1.2)))
# On a white page: on a dark page.  Any two are distinct for normal vision and for the three types of colour blindness,
# also from the greys below (tests/report/test_style.py).  Methods choose their colour from this palette.
PALETTE = {
    "#1271b1": "#2e97e5",
    "#e28b05": "#ffa726",
    "#771e59": "#b6539f",
    "#4ca6df": "#8fd3ff",
    "#038f5c": "#1cc58e",
    "#dd5012": "#ff6b3d",
    "#3b30a0": "#7b72f0",
    "#69bf4f": "#b7e56b",
    "#804e00": "#a4791b",
    "#c472b1": "#e69ad5",
    "#84af8e": "#6beebd",
    "#4c4b45": "#bcc0c4",
}
_MARKERS = "s^DvhPp<Xd*oH>8"
PAPER, INK, TEXT, EDGE, FAINT, GRID = "#ffffff", "#222222", "#555555", "#777777", "#8c8c8c", "#e6e6e6"
BAND, OVER = "#f3ead2", "#b3261e"  # matched returns; over the budget
GREYS = {PAPER: "#14181d", INK: "#e6e9ec", TEXT: "#b4bcc4", EDGE: "#8f979f", FAINT: "#828a92", GRID: "#30363d"}
_DARK = {**PALETTE, **GREYS, BAND: "#3b3421", OVER: "#ff8f85"}
_ON_PAGE: ContextVar[tuple[str, ...]] = ContextVar("methods of the page, in order of appearance", default=())
_NAMES: ContextVar[Mapping[str, str]] = ContextVar("the user's names of methods", default={})  # noqa: B039


def reference_of(environment: str) -> Any:
    """The package that compares results in this environment with published ones; None if it has none."""
    env = ENVIRONMENTS.get(environment)
    return import_module(env.reference) if env and env.reference else None


def look(method: str) -> MethodStyle:
    """The method's declared style.  An undeclared colour or marker is the next free one in the page's order."""
    colour, marker = _looks((*_ON_PAGE.get(), method))[method]
    places = list(PALETTE)
    line = _LINES[places.index(colour) % len(_LINES)] if colour in places else _LINES[0]
    return MethodStyle(label(method), colour, marker, line)


def label(method: str) -> str:
    """The user's name, else the declared label, else the name in the table."""
    known = METHODS.get(method)
    return _NAMES.get().get(method) or (known.label if known else method)


@contextmanager
def named(names: Mapping[str, str], methods: Iterable[str]) -> Iterator[None]:
    """Within this context, use the user's names for methods."""
    known = list(dict.fromkeys(methods))
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"no method is called {unknown[0]!r}; the table has {', '.join(known)}")
    called = [names.get(method) or method for method in known]
    if twice := [name for name in called if called.count(name) > 1]:
        raise ConfigError(f"two methods would be called {twice[0]!r}; give each a unique name")
    before = _NAMES.set({method: safe_io.printable(name) for method, name in names.items()})
    try:
        yield
    finally:
        _NAMES.reset(before)


@contextmanager
def on_page(methods: Iterable[str]) -> Iterator[None]:
    """Within this context, the page has these methods, in order of appearance."""
    before = _ON_PAGE.set(tuple(dict.fromkeys(methods)))
    try:
        yield
    finally:
        _ON_PAGE.reset(before)


def _looks(methods: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method; with more methods than colours, markers still differ."""
    declared = {name: (METHODS[name].colour, METHODS[name].marker) for name in methods if name in METHODS}
    free = [
        [choice for choice in choices if choice not in {own[index] for own in declared.values()}]
        for index, choices in enumerate((PALETTE, _MARKERS))
    ]
    found, spent = {}, [0, 0]
    for name in dict.fromkeys(methods):
        own = list(declared.get(name, ("", "")))
        for index, choices in enumerate(free):
            if not own[index]:
                own[index] = choices[spent[index] % len(choices)]
                spent[index] += 1
        found[name] = tuple(own)
    return found


def on_dark(colour: str) -> str:
    """The colour on a dark page; a colour outside the palette has its lightness inverted."""
    if colour in _DARK:
        return _DARK[colour]
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, 1 - 0.85 * light, saturation))


def with_constraint(*types: ConstraintType) -> tuple[str, ...]:
    """The methods with one of these constraint types."""
    return tuple(name for name, method in METHODS.items() if method.constraint in types)


def with_variants(method: str) -> tuple[str, ...]:
    """The method and its variants, which are not rivals of each other."""
    head = (METHODS[method].variant_of if method in METHODS else "") or method
    return (head, *(name for name, other in METHODS.items() if other.variant_of == head))


def esr() -> tuple[str, ...]:
    """ESR (expected scalarised returns) and its variants."""
    return with_variants("esr")


def per_episode() -> tuple[str, ...]:
    """The methods with a per-episode budget."""
    return with_constraint(ConstraintType.EPISODE)


def sweeps(method: str) -> bool:
    """Whether the method's arms are a sweep, along which others can be matched, rather than single points."""
    known = METHODS.get(method)
    return known is None or bool(known.symbol) or known.constraint is ConstraintType.EPISODE


def dilemma_name(dilemma: str) -> str:
    return dilemma.replace("_", " ").title()


def violation_name(dilemma: str) -> str:
    """The environment's own word for violations of this dilemma, such as "kills"."""
    return next(
        (env.violation_names[dilemma] for env in ENVIRONMENTS.values() if dilemma in env.violation_names), "violations"
    )
