"""Agents two by two: whether they are at one level, and whether their tails differ.

Two agents are at the same level, of mean return or of mean harm, where the 95 % interval of the difference of their
means (Welch, over seeds) holds zero.  With one seed there is no such interval, and means within 1 % are the same.

A study that has an agent with a budget an episode fixed its comparisons beforehand: that agent against the others'
arms nearest to it.  In any other table nothing was fixed, so all pairs that are at one level are compared.  Either
way p is corrected for the number of comparisons (Holm), so that among agents that are all alike a difference is
claimed in at most one table of twenty (benchmarks/false_alarms.py).
"""

import itertools
from typing import NamedTuple

from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.report.statistics import matched
from perepisode.report.statistics.matched import RETURN, VIOLATIONS, Axis
from perepisode.report.statistics.points import Point, View

SIGNIFICANT = 0.05
CLOSE = 0.1  # of the larger mean: means that are called the same without further words


class Pair(NamedTuple):
    """Two agents; differences are the second's less the first's."""

    one: Point
    other: Point
    returns: Interval
    means: Interval
    tails: Interval
    t: float
    p: float  # of equal tails, corrected for all comparisons of the table; NaN without a test

    @property
    def differ(self) -> bool:
        """Whether seeds tell the tails apart."""
        return self.p < SIGNIFICANT

    @property
    def turned(self) -> "Pair":
        """With the lighter tail first."""
        if self.tails.mean >= 0:
            return self
        returns, means, tails = (one._replace(mean=-one.mean) for one in (self.returns, self.means, self.tails))
        return Pair(self.other, self.one, returns, means, tails, -self.t, self.p)

    @property
    def lighter(self) -> Point:
        return self.turned.one

    @property
    def heavier(self) -> Point:
        return self.turned.other

    @property
    def ratio(self) -> float:
        """How many times the lighter tail the heavier one is; infinite beside none at all."""
        least = self.lighter.tail.mean
        return self.heavier.tail.mean / least if least else float("inf") if self.heavier.tail.mean else 1.0

    def at_one(self, axis: Axis) -> bool:
        return matched.same(axis, self.one, self.other)

    def close(self, axis: Axis) -> bool:
        """Whether the means at that level are so near that nobody would call them different."""
        ends = axis.of(self.one), axis.of(self.other)
        return self.at_one(axis) and abs(ends[0] - ends[1]) <= CLOSE * max(map(abs, ends))


def compared(view: View) -> list[Pair]:
    """The comparisons of a view with corrected p; the focal agent comes first where it was fixed beforehand."""
    chosen = matched.focal(view)
    if chosen is None:
        return []
    if matched.fixed(view):
        rivals = [*matched.partners(view, chosen), *matched.partners(view, chosen, VIOLATIONS)]
        return corrected([_pair(chosen, rival) for rival in dict.fromkeys(rivals)])
    pairs = (_pair(*both) for both in itertools.combinations(view.main, 2))
    return corrected([pair for pair in pairs if pair.at_one(RETURN) or pair.at_one(VIOLATIONS)])


def corrected(pairs: list[Pair]) -> list[Pair]:
    return [pair._replace(p=p) for pair, p in zip(pairs, compare.holm([pair.p for pair in pairs]))]


def clearest(pairs: list[Pair]) -> tuple[Pair, Axis] | None:
    """The pair that says most, and what its agents have in common; None where no two are at one level."""
    found = [(pair, axis) for pair in pairs for axis in (VIOLATIONS, RETURN) if pair.at_one(axis)]
    return min(found, key=lambda one: clarity(*one), default=None)


def clarity(pair: Pair, axis: Axis) -> tuple:
    """In which order pairs are told: tails that differ first, then means that are close, then equal harm, which leaves
    nothing but the shape of the tail, before equal return, then the largest ratio."""
    return not pair.differ, not pair.close(axis), axis is RETURN, -pair.ratio


def in_order(pairs: list[Pair]) -> list[Pair]:
    """Those that say most first, those at no common level last."""
    return sorted(pairs, key=lambda pair: min(clarity(pair, axis) for axis in (VIOLATIONS, RETURN)))


def _pair(one: Point, other: Point) -> Pair:
    returns, means = (compare.difference(axis.each(other), axis.each(one)) for axis in (RETURN, VIOLATIONS))
    test, tails = compare.welch(other.tails, one.tails), compare.difference(other.tails, one.tails)
    return Pair(one, other, returns, means, tails, test.t, test.p)
