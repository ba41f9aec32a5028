"""What is measured in an episode: counts of violations or costs on a scale, its limit, its tail, and its words.

No other module decides which of the two it is, which part of the episodes is the tail, or how many digits fit.
"""

import math
from collections.abc import Iterable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from perepisode import metrics
from perepisode.evaluation.compare import Metric
from perepisode.report.formatting import number, power_of_ten

NAN = float("nan")
LARGE = 1e4  # from here on a cost is written by its power of ten
_NAMED = {0.5: "half", 0.25: "quarter", 0.2: "fifth", 0.1: "tenth", 0.05: "twentieth", 0.01: "hundredth"}


class CostMeasure(NamedTuple):
    whole: bool = True  # counts, or costs on a scale
    limit: float = NAN  # what an episode may have, where the user said so
    alpha: float = metrics.CVAR_ALPHA  # of the episodes: the tail that the CVaR averages
    word: str = "violations"  # what the table calls it: violations or cost

    @classmethod
    def of(cls, counts: Iterable[np.ndarray], limit: float, alpha: float, word: str) -> "CostMeasure":
        """Counts are whole numbers in every episode."""
        return cls(all(not np.any(each % 1) for each in counts), limit, alpha, word)

    @property
    def name(self) -> str:
        """As sentences and axes call it."""
        return self.word if self.whole else "cost"

    @property
    def heading(self) -> str:
        return self.name.capitalize()

    @property
    def each(self) -> str:
        """Of one episode."""
        return "cost of an episode" if self.name == "cost" else "violations an episode"

    @property
    def any(self) -> str:
        """Heading of the share of episodes with any: among costs there is none that is the smallest."""
        return "P(≥1)" if self.whole else "P(>0)"

    @property
    def cvar(self) -> str:
        return f"CVaR {100 * self.alpha:g} %"

    @property
    def tail(self) -> str:
        """In sentences."""
        return f"worst {_NAMED.get(self.alpha, f'{100 * self.alpha:g} %')}"

    def done(self, amount: str) -> str:
        """What an agent does, in a sentence: "costs 168", "commits 1.04 violations"."""
        return f"costs {amount}" if self.name == "cost" else f"commits {amount} violations"

    @property
    def worst(self) -> Metric:
        """The CVaR of one seed's episodes."""
        return _cvar(self.alpha)

    def share(self, episodes: int) -> float:
        """Of so many episodes, those that the CVaR averages."""
        return metrics.tail_share(episodes, self.alpha)

    def independent(self, mean: float) -> float:
        """The CVaR of counts with this mean that fall independently of each other."""
        return metrics.independent_cvar(mean, self.alpha)

    def least(self, mean: float) -> float:
        """The smallest CVaR of counts with this mean, of however many episodes."""
        return metrics.least_cvar(mean, self.alpha)

    def over(self, level: float) -> str:
        """Heading of the share of episodes beyond a level; empty where there is none."""
        return f"P(>{level:g})" if level == level else ""

    def declared(self, level: float) -> list[metrics.MetricSpec]:
        """The metrics of a report in these words; `level` is what an episode may have, as far as anybody said."""
        level = 1.0 if level != level and self.whole else level
        found = []
        for one in metrics.METRIC_SPECS.values():
            if one.name == "p_over_1":
                found += self._beyond(level)
            else:
                found.append(one._replace(**self._own().get(one.name, {})))
        return found

    def _own(self) -> dict[str, dict]:
        """What differs from the metrics as they are declared, which is for counts and the worst tenth."""
        shares = "share of episodes with any, with more than k"
        return {
            "violations": {"heading": self.heading, "meaning": f"mean {self.each}"},
            "p_any": {"heading": self.any, "term": f"{self.any}, P(>k)", "meaning": shares},
            "cvar": {"heading": self.cvar, "of": self.worst, "meaning": metrics.WORST_MEAN.format(self.alpha)},
            "worst": {"scaled": not self.whole},
        }

    def _beyond(self, level: float) -> list[metrics.MetricSpec]:
        """The share of episodes beyond what they may have and, beyond a limit of the user's, by how much."""
        if level != level:
            return []
        share = partial(metrics.p_over, budget=level)
        found = [metrics.MetricSpec(f"p_over_{level:g}", self.over(level), share, "", digits=1, share=True)]
        if self.limit == self.limit:
            meaning = f"mean of what the episodes over the limit of {level:g} have beyond it"
            beyond = partial(metrics.excess, limit=level)
            found.append(metrics.MetricSpec("excess", "Excess", beyond, meaning, scaled=True))
        return found

    def digits(self, value: float) -> int:
        """Behind the point: three in all for what is large; of small costs two that are not zero."""
        size = abs(value)
        if not size < math.inf or size >= 100:
            return 0
        if self.whole or size >= 0.1 or size == 0:
            return 1 if size >= 10 else 2
        return 1 - math.floor(math.log10(size))

    def text(self, value: float) -> str:
        """ "0.07", "24.6", "168", "1.2 × 10⁴"."""
        return power_of_ten(value) if LARGE <= abs(value) < math.inf else number(value, self.digits(value))

    def pair(self, mean: float, half: float = NAN) -> str:
        """ "1.04 ± 0.07", or the mean alone where one seed allows no interval; "1.65 (0 – 5.21)", not below zero."""
        if half > mean:
            return f"{self.text(mean)} (0\u00a0–\u00a0{self.text(mean + half)})"
        return self._with(mean, half)

    def change(self, mean: float, half: float = NAN) -> str:
        """A difference, which may be negative: "+0.35 ± 0.60"."""
        return ("+" if mean > 0 else "") + self._with(mean, half)

    def _with(self, mean: float, half: float) -> str:
        if half != half:
            return self.text(mean)
        if max(abs(mean), half) >= LARGE:
            return f"{self.text(mean)}\u00a0±\u00a0{self.text(half)}"
        digits = min(map(self.digits, (mean, half))) if half > abs(mean) else self.digits(mean)
        return f"{number(mean, digits)}\u00a0±\u00a0{number(half, digits)}"

    @staticmethod
    def bar(mean: float, half: float) -> tuple[float, float]:
        """How far an interval reaches below and above the mean in a figure: none is below zero."""
        above = half if half == half else 0.0
        return min(above, mean), above


@cache  # one function for each alpha, so that what it gave is known again
def _cvar(alpha: float) -> Metric:
    return metrics.cvar if alpha == metrics.CVAR_ALPHA else partial(metrics.cvar, alpha=alpha)
