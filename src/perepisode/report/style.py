"""How methods and dilemmas are called and look, the same in every figure, table and sentence."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from perepisode import reading
from perepisode.config import Refused
from perepisode.environments import WORLDS
from perepisode.methods import METHODS, Family


class Look(NamedTuple):
    """A method's name, colour and marker."""

    label: str
    colour: str
    marker: str


_SPARE = ("#0072b2", "#e08a00", "#00805c", "#b0679b", "#56a8dd", "#c4450c", "#3b3590", "#7b2b55")
_SPARE_MARKERS = "s^DPpvhX<>"
_NAMES: ContextVar[Mapping[str, str]] = ContextVar("what the user calls methods", default={})  # noqa: B039


def look(method: str) -> Look:
    """As the method declares; one that is not known, or does not say, gets a stable colour of its own."""
    index, known = sum(map(ord, method)), METHODS.get(method)
    spare = Look(label(method), _SPARE[index % len(_SPARE)], _SPARE_MARKERS[index % len(_SPARE_MARKERS)])
    return Look(spare.label, known.colour or spare.colour, known.marker or spare.marker) if known else spare


def label(method: str) -> str:
    """As the user calls it, else as it declares, else as the table does."""
    known = METHODS.get(method)
    return _NAMES.get().get(method) or (known.label if known else method)


@contextmanager
def named(names: Mapping[str, str], methods: Iterable[str]) -> Iterator[None]:
    """What is written inside calls methods by these names, each of which must be one of the methods there are."""
    there = list(dict.fromkeys(methods))
    if unknown := [name for name in names if name not in there]:
        raise Refused(f"no method is called {unknown[0]!r} that could be named otherwise; there are {', '.join(there)}")
    called = [names.get(method) or method for method in there]
    if twice := [name for name in called if called.count(name) > 1]:
        raise Refused(f"two methods would be called {twice[0]!r}; give each a name of its own")
    before = _NAMES.set({method: reading.visible(name) for method, name in names.items()})
    try:
        yield
    finally:
        _NAMES.reset(before)


def of_family(*families: Family) -> tuple[str, ...]:
    """The methods whose setting states that."""
    return tuple(name for name, method in METHODS.items() if method.family in families)


def kin(method: str) -> tuple[str, ...]:
    """The method and its variants: one is no rival of the other."""
    head = (METHODS[method].kin if method in METHODS else "") or method
    return (head, *(name for name, other in METHODS.items() if other.kin == head))


def esr() -> tuple[str, ...]:
    """The paper's own: what its tables set apart from the rest."""
    return kin("esr")


def per_episode() -> tuple[str, ...]:
    """The methods with a budget in each episode."""
    return of_family(Family.EPISODE)


def sweeps(method: str) -> bool:
    """Whether its arms are a sweep that can be matched, not single points."""
    known = METHODS.get(method)
    return known is None or bool(known.symbol) or known.family is Family.EPISODE


def dilemma_name(dilemma: str) -> str:
    return dilemma.replace("_", " ").title()


def harm_name(dilemma: str) -> str:
    """What a violation is, where a world says it in a word or two."""
    return next((world.harms[dilemma] for world in WORLDS.values() if dilemma in world.harms), "violations")
