"""How methods look and are called, the same in every figure, table and sentence."""

from __future__ import annotations

import re
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


def slug(text: str) -> str:
    """A name that is safe in a file name and in an id, whatever the table calls its dilemma."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-") or "unnamed"


def number(value: float, digits: int = 2) -> str:
    """Fixed digits; a dash for what is not known."""
    return "–" if value != value else f"{value:.{digits}f}".replace("-", "−")


def plus_minus(mean: float, half: float, digits: int = 2) -> str:
    """ "1.04 ± 0.07", or the mean alone where one seed allows no interval; costs in the hundreds take fewer digits."""
    digits = min(digits, 1) if abs(mean) >= 100 else digits
    return number(mean, digits) if half != half else f"{number(mean, digits)}\u00a0±\u00a0{number(half, digits)}"


def percent(share: float, half: float = float("nan"), digits: int = 1) -> str:
    """ "4.0 %", or "4.0 % ± 3.5" where its interval is given too."""
    text = "–" if share != share else f"{100 * share:.{digits}f}\u00a0%"
    return text if half != half else f"{text}\u00a0±\u00a0{100 * half:.{digits}f}"


def scientific(value: float) -> str:
    return "–" if value != value else "0" if value == 0 else f"{value:.1e}".replace("-", "−")


def count(value: float) -> str:
    """A large count to three digits: "10⁸", "4.59 × 10⁷"; below a million as it is."""
    if not value >= 1e6:
        return "–" if value != value else f"{value:,.0f}"
    mantissa, power = f"{value:.2e}".split("e+")
    ten = "10" + power.lstrip("0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ten if mantissa == "1.00" else f"{float(mantissa):g}\u00a0×\u00a0{ten}"


def p_value(p: float) -> str:
    return "–" if p != p else ("< 0.001" if p < 0.001 else f"{p:.3f}")
