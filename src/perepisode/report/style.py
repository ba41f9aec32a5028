"""How methods and dilemmas are called and look, the same in every figure, table and sentence."""

from typing import NamedTuple

from perepisode.environments import WORLDS
from perepisode.methods import METHODS, Family


class Look(NamedTuple):
    """A method's name, colour and marker."""

    label: str
    colour: str
    marker: str


_SPARE = ("#0072b2", "#e08a00", "#00805c", "#b0679b", "#56a8dd", "#c4450c", "#3b3590", "#7b2b55")
_SPARE_MARKERS = "s^DPpvhX<>"


def look(method: str) -> Look:
    """As the method declares; one that is not known, or does not say, gets a stable colour of its own."""
    index, known = sum(map(ord, method)), METHODS.get(method)
    spare = Look(method, _SPARE[index % len(_SPARE)], _SPARE_MARKERS[index % len(_SPARE_MARKERS)])
    return Look(known.label, known.colour or spare.colour, known.marker or spare.marker) if known else spare


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
