"""How methods look and are called, the same in every figure, table and sentence."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """A method's name, colour and marker.  Colours are safe for the common colour-vision deficiencies."""

    label: str
    colour: str
    marker: str


METHODS = {
    "unconstrained": Look("Unconstrained", "#4a4a4a", "o"),
    "erm": Look("ERM", "#b0679b", "P"),
    "ser": Look("SER", "#0072b2", "s"),
    "lagrangian": Look("Lagrangian", "#e08a00", "^"),
    "esr": Look("ESR", "#00805c", "D"),
    "esr_distilled": Look("ESR distilled", "#5fae3c", "d"),
    "ser_racc": Look("SER+R_acc", "#3d9ad1", "p"),
    "saute": Look("Sauté", "#c4450c", "v"),
    "pid_lagrangian": Look("PID Lagrangian", "#9c6b12", "<"),
    "cvar": Look("CVaR-constrained", "#7b2b55", "X"),
    "chance": Look("Chance-constrained", "#3b3590", "h"),
}
_SPARE = ("#0072b2", "#e08a00", "#00805c", "#b0679b", "#56a8dd", "#c4450c", "#3b3590", "#7b2b55")
_SPARE_MARKERS = "s^DPpvhX<>"

DILEMMAS = {
    "no_killing": "No Killing",
    "sustainability": "Sustainability",
    "proportional_force": "Proportional Force",
    "temptation": "Temptation",
    "violations": "Violations",
}


def look(method: str) -> Look:
    """The look of a method; one that is not known gets its own name and a stable colour."""
    if method in METHODS:
        return METHODS[method]
    index = sum(map(ord, method))
    return Look(method, _SPARE[index % len(_SPARE)], _SPARE_MARKERS[index % len(_SPARE_MARKERS)])


def dilemma_name(dilemma: str) -> str:
    return DILEMMAS.get(dilemma, dilemma.replace("_", " ").capitalize())
