"""What a report measures per episode: counts of violations, or costs on a scale, with their limit, tail and wording.

No other module decides which of the two it is, how large the tail is, or how many digits to write.
"""

import math
from collections.abc import Iterable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from perepisode import metrics
from perepisode.evaluation.compare import Metric
from perepisode.report.formatting import in_words, number, power_of_ten, signed

NAN = float("nan")
LARGE = 1e4  # larger costs are written as a power of ten


class CostMeasure(NamedTuple):
    is_count: bool = True  # counts, not costs on a scale
    limit: float = NAN  # the user's limit per episode
    alpha: float = metrics.CVAR_ALPHA  # share of the episodes that the CVaR averages
    word: str = "violations"  # the table's name for it: violations or cost

    @classmethod
    def of(cls, values: Iterable[np.ndarray], limit: float, alpha: float, word: str) -> "CostMeasure":
        """Values are counts if every episode has a whole number."""
        return cls(all(not np.any(each % 1) for each in values), limit, alpha, word)

    @property
    def name(self) -> str:
        return self.word if self.is_count else "cost"

    @property
    def events(self) -> str:
        """What a count counts."""
        return "unit costs" if self.name == "cost" else self.name

    @property
    def more(self) -> str:
        """Of an agent with a larger mean."""
        return "a higher cost" if self.name == "cost" else f"more {self.name}"

    @property
    def heading(self) -> str:
        return self.name.capitalize()

    @property
    def per_episode(self) -> str:
        return f"{self.name} per episode"

    @property
    def p_any(self) -> str:
        """Heading of the share of episodes with any: P(≥1) of counts; no cost is the smallest."""
        return "P(≥1)" if self.is_count else "P(>0)"

    @property
    def cvar_heading(self) -> str:
        return f"CVaR {self._percent}"

    @property
    def worst_episodes(self) -> str:
        return self.worst(self.alpha)

    @staticmethod
    def worst(alpha: float) -> str:
        return f"worst {100 * alpha:g} % of episodes"

    def exceeds(self, level: float, verb: bool = False) -> str:
        """More than a level: "more than one violation", or of an agent "commits more than one violation"."""
        if level == self.limit:
            return f"exceeds the limit of {level:g}" if verb else f"over the limit of {level:g}"
        if self.name == "cost":
            found = f"a cost over {level:g}" if level else "a cost"
            return f"has {found}" if verb else found
        found = f"more than {in_words(int(level)) if level % 1 == 0 else f'{level:g}'} violation{'s' * (level != 1)}"
        if not level:
            return "violates" if verb else "at least one violation"
        return f"commits {found}" if verb else found

    @property
    def _percent(self) -> str:
        return f"{100 * self.alpha:g} %"

    def averages(self, amount: str) -> str:
        """Of an agent, in a sentence: "averages 1.04 violations per episode"."""
        return f"averages {f'a cost of {amount}' if self.name == 'cost' else f'{amount} violations'} per episode"

    @property
    def cvar(self) -> Metric:
        """The CVaR of one seed's episodes."""
        return _cvar(self.alpha)

    def tail_share(self, episodes: int) -> float:
        """The share of this many episodes that the CVaR averages."""
        return metrics.tail_share(episodes, self.alpha)

    def independent_cvar(self, mean: float) -> float:
        """The CVaR of independent violations with this mean."""
        return metrics.independent_cvar(mean, self.alpha)

    def least_cvar(self, mean: float) -> float:
        """The smallest possible CVaR of counts with this mean, for any number of episodes."""
        return metrics.least_cvar(mean, self.alpha)

    def p_over(self, level: float) -> str:
        """Heading of the share of episodes over a level; empty if there is no level."""
        return f"P(>{level:g})" if level == level else ""

    def metric_specs(self, level: float) -> list[metrics.MetricSpec]:
        """The metrics that apply to this measure, in its words; `level` is the limit or budget per episode, or NaN."""
        overrides, found = self._overrides(), []
        for spec in metrics.METRIC_SPECS.values():
            if spec.name == "p_over_1" and level == level:
                found += self._over(level)
            elif self.is_count or not spec.counts_only:
                found.append(spec._replace(**overrides.get(spec.name, {})))
        return found

    def _overrides(self) -> dict[str, dict]:
        """Changes to the metrics as they are declared, which is for counts and the worst 10 % of episodes."""
        shares = "share of episodes with any, with more than k"
        return {
            "violations": {"heading": self.heading, "meaning": f"mean {self.per_episode}"},
            "p_any": {"heading": self.p_any, "term": f"{self.p_any}, P(>k)", "meaning": shares},
            "cvar": {"heading": self.cvar_heading, "of": self.cvar, "meaning": metrics.cvar_meaning(self.alpha)},
            "worst": {"scaled": not self.is_count},
        }

    def _over(self, level: float) -> list[metrics.MetricSpec]:
        """The share of episodes over a level and, over the user's limit, by how much."""
        share = partial(metrics.p_over, budget=level)
        found = [metrics.MetricSpec(f"p_over_{level:g}", self.p_over(level), share, "", digits=1, share=True)]
        if self.limit == self.limit:
            meaning = f"mean excess of the episodes that exceed the limit of {level:g}"
            excess = partial(metrics.excess, limit=level)
            found.append(metrics.MetricSpec("excess", "Excess", excess, meaning, scaled=True))
        return found

    def digits(self, value: float) -> int:
        """Decimals: three significant digits of large values, two of small costs."""
        size = abs(value)
        if not size < math.inf or size >= 100:
            return 0
        if self.is_count or size >= 0.1 or size == 0:
            return 1 if size >= 10 else 2
        return 1 - math.floor(math.log10(size))

    def text(self, value: float) -> str:
        """ "0.07", "24.6", "168", "1.2 × 10⁴"."""
        return power_of_ten(value) if LARGE <= abs(value) < math.inf else number(value, self.digits(value))

    def plus_minus(self, mean: float, half: float = NAN) -> str:
        """ "1.04 ± 0.07"; the mean alone without an interval (one seed); "1.65 (0 – 5.21)" where it ends at zero."""
        if half > mean:
            return f"{self.text(mean)} (0\u00a0–\u00a0{self.text(mean + half)})"
        return self._with(mean, half)

    def difference(self, mean: float, half: float = NAN) -> str:
        """ "+0.35 ± 0.60"."""
        return signed(mean, self._with(mean, half))

    def _with(self, mean: float, half: float) -> str:
        if half != half:
            return self.text(mean)
        if max(abs(mean), half) >= LARGE:
            return f"{self.text(mean)}\u00a0±\u00a0{self.text(half)}"
        digits = min(map(self.digits, (mean, half))) if half > abs(mean) else self.digits(mean)
        return f"{number(mean, digits)}\u00a0±\u00a0{number(half, digits)}"

    @staticmethod
    def error_bar(mean: float, half: float) -> tuple[float, float]:
        """How far an interval reaches below and above the mean in a figure, never below zero."""
        above = half if half == half else 0.0
        return min(above, mean), above


@cache  # one function per alpha, so that a point's cached metrics are found again
def _cvar(alpha: float) -> Metric:
    return metrics.cvar if alpha == metrics.CVAR_ALPHA else partial(metrics.cvar, alpha=alpha)
