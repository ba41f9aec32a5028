"""What a report compares, stated before the data are seen: `perepisode report --plan plan.toml`.

    focal = "ESR (k=1)"                     # compared with every other agent, or instead:
    pairs = [["ESR (k=1)", "SER (w=0.1)"]]  # exactly these comparisons
    measure = "cvar"                        # the primary measure: "cvar" or "p_over" (needs a limit)
    alpha = 0.1                             # level of the CVaR
    cost_limit = 1                          # limit per episode
    margin = 0.5                            # largest difference of mean return that does not matter
    cost_margin = 0.1                       # the same for mean violations or cost
    dilemma = "no_killing"                  # the dilemma that it is about; default: the first on the page

Agents are named as the report names them.  Every entry is optional; what the plan leaves open, the data decide, and
the report says so.
"""

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perepisode import metrics, safe_io
from perepisode.config import ConfigError

REMEDY = "write it as docs/concepts/statistics.md shows"
MEASURES = ("cvar", "p_over")
NAN = math.nan


@dataclass(frozen=True)
class AnalysisPlan:
    """What is fixed beforehand; empty or NaN where the data decide."""

    focal: str = ""
    pairs: tuple[tuple[str, str], ...] = ()
    measure: str = "cvar"
    alpha: float = metrics.CVAR_ALPHA
    cost_limit: float = NAN
    margin: float = NAN
    cost_margin: float = NAN
    dilemma: str = ""
    path: str = ""  # of the file; empty without one
    digest: str = ""  # of the file's content
    stated: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # the file's entries as written

    @property
    def name(self) -> str:
        return Path(self.path).name if self.path else "the caller"

    @property
    def fixes_pairs(self) -> bool:
        return bool(self.focal or self.pairs)

    @property
    def first(self) -> str:
        """The agent that comes first in figures; empty if the plan names none."""
        return self.focal or (self.pairs[0][0] if self.pairs else "")

    def is_about(self, dilemma: str) -> bool:
        return self.dilemma in ("", dilemma)


UNPLANNED = AnalysisPlan()


def read(path: str | Path) -> AnalysisPlan:
    """A plan from its file; ConfigError says which entry is wrong."""
    content = safe_io.read_text(path, REMEDY)
    try:
        plain = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML ({safe_io.first_line(error)}); {REMEDY}") from None
    if unknown := plain.keys() - _ENTRIES.keys():
        raise ConfigError(f"{path} has the unknown entry {min(unknown)!r}; a plan has {', '.join(_ENTRIES)}")
    entries = {name: _ENTRIES[name](plain[name], f"{path}: {name} = {plain[name]!r}") for name in plain}
    plan = AnalysisPlan(**entries, path=str(path), digest=safe_io.digest(content.encode()), stated=plain)
    if plan.focal and plan.pairs and any(plan.focal not in pair for pair in plan.pairs):
        raise ConfigError(f"{path} has a pair without the focal agent {plan.focal}; remove focal or the pair")
    if plan.measure == "p_over" and plan.cost_limit != plan.cost_limit:
        raise ConfigError(f"{path} has measure = 'p_over' without a limit; add cost_limit")
    return plan


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where} is not a name; {REMEDY}")
    return safe_io.printable(value)


def _measure(value: object, where: str) -> str:
    if value not in MEASURES:
        raise ConfigError(f"{where} is unknown; use one of {', '.join(MEASURES)}")
    return str(value)


def _pairs(value: object, where: str) -> tuple[tuple[str, str], ...]:
    pairs = value if isinstance(value, list) else []
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ConfigError(f"{where} is not a list of pairs of agents; {REMEDY}")
    found = tuple((_text(one, where), _text(other, where)) for one, other in pairs)
    if any(one == other for one, other in found) or len({frozenset(pair) for pair in found}) < len(found):
        raise ConfigError(f"{where} compares an agent with itself or a pair twice; list each pair once")
    return found


def _number(low: float, high: float = math.inf, above: bool = False) -> Callable[[object, str], float]:
    def check(value: object, where: str) -> float:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else NAN
        if not low <= number <= high or (above and number == low):
            raise ConfigError(f"{where} is not a number {'above' if above else 'from'} {low:g}; {REMEDY}")
        return number

    return check


_ENTRIES: dict[str, Callable[[Any, str], Any]] = {
    "focal": _text,
    "pairs": _pairs,
    "measure": _measure,
    "alpha": _number(0, 1, above=True),
    "cost_limit": _number(0, 1e30),
    "margin": _number(0, 1e30, above=True),
    "cost_margin": _number(0, 1e30, above=True),
    "dilemma": _text,
}
