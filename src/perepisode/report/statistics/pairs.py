"""Pairwise comparisons: whether two agents are matched in a mean, and whether their CVaR differs.

Two agents are matched in mean return, or in mean violations or cost, if the 95 % interval of the difference of their
means (Welch, over seeds) contains zero.  One seed gives no interval; then means within 1 % are matched.

In a study that includes an agent with a per-episode budget, the comparisons are specified in advance: that agent
against the nearest arms of the other methods.  In any other table all matched pairs are compared.  Either way p is
corrected for the number of comparisons (Holm), so that among identical agents at most one table in twenty claims a
difference (benchmarks/false_alarms.py).
"""

import itertools
from typing import NamedTuple

from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.report.statistics import matched
from perepisode.report.statistics.matched import RETURN, VIOLATIONS, Axis
from perepisode.report.statistics.points import Point, View

SIGNIFICANT = 0.05
CLOSE = 0.1  # of the larger mean: matched means this close are called equal


class Pair(NamedTuple):
    """Two agents; differences are the second minus the first."""

    one: Point
    other: Point
    returns: Interval
    means: Interval
    tails: Interval
    t: float
    p: float  # of equal CVaR, corrected for all comparisons of the table; NaN without a test

    @property
    def differ(self) -> bool:
        """Whether the CVaR differs significantly."""
        return self.p < SIGNIFICANT

    @property
    def oriented(self) -> "Pair":
        """With the lower CVaR first."""
        if self.tails.mean >= 0:
            return self
        returns, means, tails = (one._replace(mean=-one.mean) for one in (self.returns, self.means, self.tails))
        return Pair(self.other, self.one, returns, means, tails, -self.t, self.p)

    @property
    def lighter(self) -> Point:
        return self.oriented.one

    @property
    def heavier(self) -> Point:
        return self.oriented.other

    @property
    def ratio(self) -> float:
        """The higher CVaR over the lower; infinite if the lower is zero."""
        least = self.lighter.tail.mean
        return self.heavier.tail.mean / least if least else float("inf") if self.heavier.tail.mean else 1.0

    def matched_on(self, axis: Axis) -> bool:
        return matched.is_matched(axis, self.one, self.other)

    def nearly_equal(self, axis: Axis) -> bool:
        """Whether matched means are also close in value, not only indistinguishable for lack of seeds."""
        means = axis.of(self.one), axis.of(self.other)
        return self.matched_on(axis) and abs(means[0] - means[1]) <= CLOSE * max(map(abs, means))


def compared(view: View) -> list[Pair]:
    """The comparisons of a view with corrected p; a focal agent specified in advance is the first of each pair."""
    chosen = matched.focal(view)
    if chosen is None:
        return []
    if matched.prespecified(view):
        rivals = [*matched.partners(view, chosen), *matched.partners(view, chosen, VIOLATIONS)]
        return corrected([_pair(chosen, rival) for rival in dict.fromkeys(rivals)])
    pairs = (_pair(*both) for both in itertools.combinations(view.main, 2))
    return corrected([pair for pair in pairs if pair.matched_on(RETURN) or pair.matched_on(VIOLATIONS)])


def corrected(pairs: list[Pair]) -> list[Pair]:
    return [pair._replace(p=p) for pair, p in zip(pairs, compare.holm([pair.p for pair in pairs]))]


def clearest(pairs: list[Pair]) -> tuple[Pair, Axis] | None:
    """The most informative pair and the mean in which it is matched; None if no two agents are matched."""
    found = [(pair, axis) for pair in pairs for axis in (VIOLATIONS, RETURN) if pair.matched_on(axis)]
    return min(found, key=lambda one: clarity(*one), default=None)


def clarity(pair: Pair, axis: Axis) -> tuple:
    """Sort key: significant differences first, then close means, then equal violations, which leave only the shape of
    the tail, before equal return, then the largest ratio."""
    return not pair.differ, not pair.nearly_equal(axis), axis is RETURN, -pair.ratio


def by_clarity(pairs: list[Pair]) -> list[Pair]:
    """The most informative pairs first, unmatched ones last."""
    return sorted(pairs, key=lambda pair: min(clarity(pair, axis) for axis in (VIOLATIONS, RETURN)))


def _pair(one: Point, other: Point) -> Pair:
    returns, means = (compare.difference(axis.per_seed(other), axis.per_seed(one)) for axis in (RETURN, VIOLATIONS))
    test, tails = compare.welch(other.tails, one.tails), compare.difference(other.tails, one.tails)
    return Pair(one, other, returns, means, tails, test.t, test.p)
