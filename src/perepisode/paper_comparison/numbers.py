"""Every result that the paper prints, as data: where it is printed, what it is, and how to measure it.

`measure` is a quantity of `measures`, of the agent given by `method` and `arm`; None if an episodes table does not
contain it.
"""

import csv
from pathlib import Path
from typing import NamedTuple

from perepisode.environments import ENVIRONMENTS


class Printed(NamedTuple):
    where: str
    dilemma: str
    method: str
    arm: str
    measure: str | None
    value: float
    ci: float
    what: str


def _read(row: dict[str, str]) -> Printed:
    numbers = {"value": float(row["value"]), "ci": float(row["ci"] or "nan"), "measure": row["measure"] or None}
    return Printed(**{**row, **numbers})  # type: ignore[arg-type]


with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as _file:
    NUMBERS = tuple(map(_read, csv.DictReader(_file)))
STEPS = next(one.value for one in NUMBERS if one.measure == "steps")
NK = "no_killing"


def apply_to(environment: str) -> bool:
    """Whether the paper's numbers are about this environment."""
    return environment in ENVIRONMENTS and ENVIRONMENTS[environment].reference == __package__
