"""Pairwise comparisons of agents: are their means equivalent, and which has the heavier tail?

`evaluation/verdicts.py` has the tests.  This module decides which pairs are compared:

- those of an analysis plan (`--plan`);
- else, if the study has an agent with a per-episode budget, that agent against the nearest arms of the other methods;
- else every pair, except those where one agent is known to have both more return and more violations or cost.

One test per pair is primary: the tail test, unless the plan states P(> limit).  Its p values are corrected for the
number of pairs (Holm), so that among identical agents at most one table in twenty claims a difference
(results/verdicts).  All other p values are secondary, and each kind is corrected in the same way: those of mean return,
of mean violations or cost, and of P(> limit).
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from perepisode import metrics
from perepisode.evaluation import verdicts
from perepisode.evaluation.verdicts import DIFFERENT, EQUIVALENT, Equivalence, ShareTest, TailTest
from perepisode.report.statistics import matched
from perepisode.report.statistics.matched import RETURN, VIOLATIONS, Axis
from perepisode.report.statistics.points import Point, View, stated

ENOUGH = 10  # episodes beyond a limit, over all seeds of an agent, from which its share describes a pair
BY_PLAN, BY_BUDGET, BY_DATA = "the analysis plan", "the per-episode budget", "the data"


class Pair(NamedTuple):
    """Two agents; differences are the second minus the first."""

    one: Point
    other: Point
    returns: Equivalence
    means: Equivalence
    tail: TailTest
    over: ShareTest | None  # of the level that the comparison allows per episode; None without one
    by_share: bool = False  # whether P(> limit) is the primary measure, by the plan

    @property
    def p(self) -> float:
        """Of the primary test, corrected for all comparisons of the table; NaN with one seed."""
        return self._primary.corrected

    @property
    def differ(self) -> bool:
        """Whether the primary test finds a difference."""
        return self.p < verdicts.SIGNIFICANT and self._side != 0

    @property
    def _primary(self) -> TailTest | ShareTest:
        return self.over if self.by_share and self.over else self.tail

    @property
    def _side(self) -> int:
        """1 if the second agent is worse by the primary test, -1 if the first is, 0 if neither."""
        if self.by_share and self.over:
            return int(np.sign(self.over.difference))
        return self.tail.heavier

    @property
    def oriented(self) -> "Pair":
        """With the lighter tail first: by the primary test if it finds a difference, else by the CVaR."""
        side = self._side if self.differ else np.sign(self.tail.levels[0].b - self.tail.levels[0].a)
        if side >= 0:
            return self
        over = self.over.reversed if self.over else None
        return Pair(
            self.other, self.one, self.returns.reversed, self.means.reversed, self.tail.reversed, over, self.by_share
        )

    @property
    def lighter(self) -> Point:
        return self.oriented.one

    @property
    def heavier(self) -> Point:
        return self.oriented.other

    @property
    def level(self) -> verdicts.LevelTest:
        """The CVaR that shows the difference most clearly; the stated level if no difference is found."""
        tail = self.oriented.tail
        return tail.clearest if self.differ and not self.by_share else tail.levels[0]

    @property
    def ratio(self) -> float:
        """The heavier tail's CVaR over the lighter one's at that level; infinite if the lighter is zero."""
        least, most = (point.cvar_at(self.level.level).mean for point in (self.lighter, self.heavier))
        return most / least if least else float("inf") if most else 1.0

    @property
    def worse_by_share(self) -> bool:
        """Whether the heavier tail also has the larger share of episodes over the limit, significantly if tested."""
        over = self.oriented.over
        return over is not None and over.difference > 0 and not over.p >= verdicts.SIGNIFICANT

    @property
    def worse_by_any(self) -> bool:
        """Whether the heavier tail also belongs to the agent with harm in more of its episodes, tested if it can be."""
        any_harm = verdicts.share_test(self.lighter.counts, self.heavier.counts, 0.0)
        return any_harm.difference > 0 and not any_harm.p >= verdicts.SIGNIFICANT

    @property
    def supported(self) -> bool:
        """Whether both agents have harm in as many episodes as the CVaR at `level` averages; else it scales a mean."""
        return min(point.interval(metrics.p_any).mean for point in self[:2]) >= self.level.level

    def on(self, axis: Axis) -> Equivalence:
        return self.returns if axis is RETURN else self.means

    @property
    def clarity(self) -> tuple:
        """Sort key, the most informative pair first.

        Differences that were found come first: those at equivalent means, then at means within the margin, then the
        larger ratio.  Equal mean violations leave only the shape of the tail, so they come before equal return.
        Without a difference, the pair with the least p is the nearest to one.
        """
        if self.differ:
            return 0, *min((_alike(self.means), 0), (_alike(self.returns), 1)), -self.ratio
        return 1, self._primary.p if stated(self.p) else math.inf, -self.ratio


class Compared(NamedTuple):
    """The comparisons of a view; a focal agent is the first of each pair."""

    pairs: list[Pair]
    chosen_by: str
    skipped: int = 0  # pairs where one agent is known to have both more return and more violations or cost

    @property
    def tested(self) -> int:
        return sum(stated(pair.p) for pair in self.pairs)


def compared(view: View) -> Compared:
    """The comparisons of a view, with corrected p values; computed once."""
    if "compared" not in view.cache:
        view.cache["compared"] = _compared(view)
    return view.cache["compared"]


def _compared(view: View) -> Compared:
    chosen = matched.focal(view)
    if chosen is None:
        return Compared([], BY_DATA)
    if planned := matched.planned(view):
        return Compared(_tested(view, planned), BY_PLAN)
    if matched.prespecified(view):
        rivals = [*matched.partners(view, chosen), *matched.partners(view, chosen, VIOLATIONS)]
        return Compared(_tested(view, [(chosen, rival) for rival in dict.fromkeys(rivals)]), BY_BUDGET)
    everything = list(itertools.combinations(view.main, 2))
    kept = [both for both in everything if not _trade_off(view, *both)]
    return Compared(_tested(view, kept), BY_DATA, len(everything) - len(kept))


def by_clarity(pairs: list[Pair]) -> list[Pair]:
    """The most informative pairs first."""
    return sorted(pairs, key=lambda pair: pair.clarity)


def _alike(means: Equivalence) -> int:
    """How nearly two means are known to agree."""
    if means.verdict == EQUIVALENT:
        return 0
    return 3 if means.verdict == DIFFERENT else 1 if abs(means.difference) <= means.margin else 2


def _trade_off(view: View, one: Point, other: Point) -> bool:
    """Whether one agent is known to have both the larger means: its tail may be heavier for that reason alone."""
    returns, costs = _means(view, one, other)
    return returns.detectable and costs.detectable and returns.difference * costs.difference > 0


def _means(view: View, one: Point, other: Point) -> tuple[Equivalence, Equivalence]:
    """The verdicts on mean return, and on mean violations or cost."""
    return (
        verdicts.equivalence(one.returns, other.returns, view.return_margin),
        verdicts.equivalence(VIOLATIONS.per_seed(one), VIOLATIONS.per_seed(other), view.cost_margin(one, other)),
    )


def _tested(view: View, both: list[tuple[Point, Point]]) -> list[Pair]:
    points = list(dict.fromkeys(itertools.chain(*both)))
    indices = [(points.index(one), points.index(other)) for one, other in both]
    tails = verdicts.tail_tests([point.tail_sample for point in points], indices, view.measure.alpha)
    level = allowed(view)
    shares: list[ShareTest | None] = [None] * len(both)
    if stated(level):
        shares = list(verdicts.share_tests([point.counts for point in points], level, indices))
    by_share = view.plan.measure == "p_over"
    means = [verdicts.corrected(kind) for kind in zip(*(_means(view, one, other) for one, other in both))]
    return [
        Pair(one, other, returns, costs, tail, over, by_share)
        for (one, other), returns, costs, tail, over in zip(both, *means, tails, shares)
    ]


def allowed(view: View) -> float:
    """The level of P(> level): the user's limit, else the focal agent's budget; NaN without either."""
    chosen = matched.focal(view)
    return chosen.allowed if chosen else view.measure.limit


def exceeding(point: Point, level: float) -> int:
    """The number of episodes over a level, over all seeds."""
    return sum(int((counts > level).sum()) for counts in point.counts)
