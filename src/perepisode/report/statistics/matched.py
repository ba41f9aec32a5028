"""Matching at equal mean return: only there is a difference of tails due to the objective.

The focal agent is paired with every rival method in two ways: with the arm of nearest return, as in the paper, and
with the rival's frontier interpolated to exactly the focal agent's return.

Means are interpolated linearly; tails are not linear in them.  Between two prices, or two mean budgets, we
interpolate the difference between CVaR and the Poisson CVaR at the same mean.  Compared with exact optima the error is
at most 1 %; interpolating the CVaR itself is up to 35 % too low (tests/report/test_matched.py).  Between two
per-episode budgets, the agent in between is a mixture: the first budget in a share of episodes, the second in the rest.

Agents can also be matched at equal mean violations.  On a shared frontier both matches agree; where the spread of
returns over seeds exceeds the range of the frontier, only mean violations can place an agent on it.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from perepisode import metrics
from perepisode.evaluation import compare, verdicts
from perepisode.evaluation.compare import Interval, Welch
from perepisode.report.statistics.points import Point, View
from perepisode.report.style import esr, per_episode, sweeps, with_variants

NEAR = 0.01  # of the larger mean: with one seed, which has no interval, means this near are matched
ENDS_DIFFER = 0.05  # p of the positions of two arms: if it is larger, the slope between them is meaningless


class Tail(NamedTuple):
    """The metrics compared at equal return, as intervals over seeds."""

    returns: Interval
    mean: Interval
    p_any: Interval
    p_over: Interval  # NaN if the focal agent has no budget
    std: Interval
    cvar: Interval
    against_focal: Welch | None  # of the CVaR; None for the focal agent itself


class Interpolated(NamedTuple):
    """A method's frontier interpolated to some level; `tail` is None if it does not reach (`between` says why)."""

    method: str
    between: str
    tail: Tail | None


class Axis(NamedTuple):
    """The mean that is held equal."""

    name: str
    per_seed: Callable[[Point], np.ndarray]

    def of(self, point: Point) -> float:
        return float(self.per_seed(point).mean())


RETURN = Axis("returns", lambda point: point.returns)
VIOLATIONS = Axis("violations", lambda point: point.per_seed(metrics.mean))


class EqualMeanComparison(NamedTuple):
    """Every method's frontier interpolated to the same mean violations, the focal agent's method first."""

    level: float
    reads: list[Interpolated]


def planned(view: View) -> list[tuple[Point, Point]]:
    """The comparisons that an analysis plan fixes; empty without one, or if it names agents of another dilemma."""
    plan = view.plan
    if plan.pairs:
        found = [(view.labelled(one), view.labelled(other)) for one, other in plan.pairs]
        return [(one, other) for one, other in found if one and other] if all(map(all, found)) else []
    first = view.labelled(plan.focal) if plan.focal else None
    return [(first, other) for other in view.main if other is not first] if first else []


def prespecified(view: View) -> bool:
    """Whether the focal agent is fixed in advance: by the analysis plan, or by a per-episode budget."""
    return bool(planned(view)) or bool(view.of(*esr(), *per_episode()))


def focal(view: View) -> Point | None:
    """The agent that the others are compared with: as planned; else ESR, or another per-episode budget, near one.

    Without such an agent it is the one with the lowest CVaR, which the data selects.
    """
    if view.plan.first and (first := view.labelled(view.plan.first)):
        return first
    own = view.of(*esr()) or view.of(*per_episode())
    stated = [point for point in own if point.value > 0] or own
    if stated:
        return min(stated, key=lambda point: abs(point.value - 1) if point.value == point.value else np.inf)
    others = [point for point in view.main if sweeps(point.method)] or list(view.main)
    return min(others, key=lambda point: point.tail.mean, default=None)


def rivals(view: View, chosen: Point) -> list[str]:
    """The methods to pair with: all that sweep a setting, except variants of the focal agent's method."""
    return [method for method in view.methods if sweeps(method) and method not in with_variants(chosen.method)]


def partners(view: View, chosen: Point, axis: Axis = RETURN) -> list[Point]:
    """The arm of every rival method nearest to the focal agent, by default in mean return."""
    arms = [view.of(method) for method in rivals(view, chosen)]
    return [own[compare.nearest([axis.of(arm) for arm in own], axis.of(chosen))] for own in arms]


def may_be_equal(axis: Axis, one: Point, other: Point) -> bool:
    """Whether two agents' means are not known to differ; with one seed, whether they are near."""
    found = verdicts.equivalence(axis.per_seed(one), axis.per_seed(other), math.nan)
    if found.half == found.half:
        return not found.detectable
    return abs(found.difference) <= NEAR * max(abs(axis.of(one)), abs(axis.of(other)))


def differing(chosen: Point, rivals: list[Point]) -> list[Point]:
    """Rivals whose return is not the focal agent's: their tails may differ because their means do."""
    return [point for point in rivals if not may_be_equal(RETURN, chosen, point)]


def tail(point: Point, chosen: Point) -> Tail:
    """The compared metrics of one agent; P(over) is relative to the focal agent's budget."""
    return Tail(
        point.return_interval,
        point.interval(metrics.mean),
        point.interval(metrics.p_any),
        point.interval(partial(_p_over, budget=chosen.allowed)),
        point.interval(metrics.std),
        point.tail,
        None if point is chosen else compare.welch(point.tails, chosen.tails),
    )


def interpolated(view: View, chosen: Point, method: str) -> Interpolated:
    """The method's frontier, up to the unconstrained agent, at the focal agent's exact mean return."""
    return _read(view, method, _frontier(view, method), RETURN, chosen.mean_return, chosen, chosen)


def at_equal_mean(view: View, chosen: Point) -> EqualMeanComparison | None:
    """All methods at the mean violations that most of them reach and, of such means, nearest to the focal agent's."""
    frontiers = {
        method: [arm for arm in _frontier(view, method) if arm is not view.unconstrained]
        for method in (chosen.method, *rivals(view, chosen))
    }
    own = VIOLATIONS.of(chosen)
    spans = [_span(arms, VIOLATIONS) for arms in frontiers.values() if arms]
    levels = [level for level in (own, *np.ravel(spans)) if _within(level, frontiers[chosen.method])]
    if not levels or all(low == high for low, high in spans):  # agents without a frontier, alike by chance
        return None
    reached = [sum(_within(level, arms) for arms in frontiers.values()) for level in levels]
    level = float(min((-many, abs(level - own), level) for many, level in zip(reached, levels))[2])
    if max(reached) < 2:
        return None
    if level == own:
        first, against = Interpolated(chosen.method, _name(chosen), tail(chosen, chosen)), chosen
    else:
        first = _read(view, chosen.method, frontiers[chosen.method], VIOLATIONS, level, chosen, None)
        against = first.tail and first.tail.cvar
    del frontiers[chosen.method]
    others = [_read(view, method, arms, VIOLATIONS, level, chosen, against) for method, arms in frontiers.items()]
    return EqualMeanComparison(level, [first, *others])


def _frontier(view: View, method: str) -> list[Point]:
    """The arms that no other dominates in the means.

    A price and a mean budget end at the unconstrained agent.  A per-episode budget does not: however large it is, every
    violation is still penalised.
    """
    arms = [*view.of(method), *([view.unconstrained] if view.unconstrained else [])]
    means = np.array([(RETURN.of(arm), VIOLATIONS.of(arm)) for arm in arms])
    kept = [arm for arm, best in zip(arms, compare.frontier(means)) if best]
    own = [arm for arm in kept if arm is not view.unconstrained]
    return own if not own or method in per_episode() else kept


def _span(arms: list[Point], axis: Axis) -> tuple[float, float]:
    return min(map(axis.of, arms)), max(map(axis.of, arms))


def _within(level: float, arms: list[Point]) -> bool:
    return bool(arms) and _span(arms, VIOLATIONS)[0] <= level <= _span(arms, VIOLATIONS)[1]


def _read(
    view: View,
    method: str,
    arms: list[Point],
    axis: Axis,
    level: float,
    chosen: Point,
    against: Point | Interval | None,
) -> Interpolated:
    """Interpolate between the two arms around the level and test against another CVaR."""
    if not arms:
        return Interpolated(method, "the unconstrained agent dominates it in the means", None)
    found = compare.bracket([axis.of(arm) for arm in arms], level)
    if found is None:
        low, high = _span(arms, axis)
        return Interpolated(method, f"its frontier reaches {axis.name} from {low:.2f} to {high:.2f} only", None)
    low, high = arms[found.low], arms[found.high]
    if low is high:
        values = tail(low, chosen)
        test = None if against is None else values.against_focal
        if isinstance(against, Interval):
            test = _test(values.cvar, against)
        return Interpolated(method, _name(low), values._replace(against_focal=test))
    # with one seed there is neither a test nor an interval
    ends_differ = not compare.welch(axis.per_seed(high), axis.per_seed(low)).p >= ENDS_DIFFER
    between = _Between(low, high)

    def read(mix: compare.Mix) -> compare.Interpolation:
        found = compare.interpolate(axis.per_seed(low), axis.per_seed(high), level, mix)
        return found if ends_differ else found._replace(value=found.value._replace(half=float("nan")))

    tails = read(between.cvar())
    reference = against
    if isinstance(against, Point):  # it defines the level, so the error of its position adds to that of the arms
        position = axis.per_seed(against)
        reference = compare.t_interval(against.tails - tails.slope * (position - position.mean()))
    held = Interval(level, float("nan"), 1)  # constant by construction
    values = Tail(
        held if axis is RETURN else read(between.straight(RETURN.per_seed)).value,
        held if axis is VIOLATIONS else read(between.straight(VIOLATIONS.per_seed)).value,
        read(between.over(0)).value,
        read(between.over(chosen.allowed)).value,
        read(between.std()).value,
        tails.value,
        _test(tails.value, reference) if isinstance(reference, Interval) else None,
    )
    name = f"{_name(low)} → {_name(high)}, {found.weight:.0%}{'' if ends_differ else ' (ends do not differ)'}"
    return Interpolated(method, name, values)


def tails_between(low: Point, high: Point) -> tuple[np.ndarray, np.ndarray]:
    """Mean violations and CVaR along the line from one arm to the next."""
    tail_at, weights = _Between(low, high).cvar(), np.linspace(0.0, 1.0, 24)
    pairs = [(i, j) for i in range(len(low.seeds)) for j in range(len(high.seeds))]
    tails = [np.mean([tail_at(i, j, float(weight)) for i, j in pairs]) for weight in weights]
    return (1 - weights) * VIOLATIONS.of(low) + weights * VIOLATIONS.of(high), np.array(tails)


class _Between:
    """Metrics between two arms of a method; each is a `mix(i, j, weight)` of seeds i and j (compare.Mix)."""

    def __init__(self, low: Point, high: Point):
        self.arms, self.measure = (low, high), low.measure
        self.mixed = low.method in per_episode()  # per-episode budgets: keep one or the other
        self.chance = self.measure.is_count and not self.mixed  # costs have no Poisson law
        self.mean = self.straight(VIOLATIONS.per_seed)

    def straight(self, values: Callable[[Point], np.ndarray]) -> compare.Mix:
        low, high = map(values, self.arms)
        return lambda i, j, weight: (1 - weight) * low[i] + weight * high[j]

    def relative_to(self, metric: compare.Metric, law: Callable[[float], float]) -> compare.Mix:
        """The law at the interpolated mean, plus a straight line between the arms' deviations from it."""
        deviation = self.straight(lambda arm: arm.per_seed(metric) - [law(mean) for mean in arm.per_seed(metrics.mean)])
        return lambda i, j, weight: law(self.mean(i, j, weight)) + deviation(i, j, weight)

    def over(self, budget: float) -> compare.Mix:
        share = partial(_p_over, budget=budget)
        if not self.chance or budget != budget:
            return self.straight(lambda arm: arm.per_seed(share))
        mix = self.relative_to(share, lambda mean: metrics.independent_over(mean, budget))
        return lambda i, j, weight: float(np.clip(mix(i, j, weight), 0.0, 1.0))

    def std(self) -> compare.Mix:
        if not self.mixed:
            return self.relative_to(metrics.std, math.sqrt if self.chance else lambda mean: 0.0)
        square = self.straight(lambda arm: arm.per_seed(metrics.std) ** 2 + arm.per_seed(metrics.mean) ** 2)
        return lambda i, j, weight: math.sqrt(max(square(i, j, weight) - self.mean(i, j, weight) ** 2, 0.0))

    def cvar(self) -> compare.Mix:
        alpha = self.measure.alpha
        if self.mixed:
            low, high = ([metrics.histogram(seed.counts) for seed in arm.seeds] for arm in self.arms)
            return lambda i, j, weight: metrics.mixture_cvar(low[i], high[j], weight, alpha)
        if not self.chance:
            return self.straight(lambda arm: arm.tails)
        episodes = max((seed.counts.size for arm in self.arms for seed in arm.seeds), key=self.measure.tail_share)
        mix = self.relative_to(self.measure.cvar, partial(metrics.independent_cvar, alpha=alpha))

        def possible(i: int, j: int, weight: float) -> float:
            value = mix(i, j, weight)
            least = metrics.least_cvar(self.mean(i, j, weight), alpha, episodes)
            return max(value, least) if 0 < weight < 1 else value

        return possible


def _test(one: Interval, other: Interval) -> Welch | None:
    """Welch's test of two intervals; None if one is a mean alone."""
    return None if one.half != one.half or other.half != other.half else compare.welch_from_summary(one, other)


def _name(point: Point) -> str:
    return point.arm or point.label.lower()


def _p_over(counts: np.ndarray, budget: float) -> float:
    return metrics.p_over(counts, budget) if budget == budget else float("nan")
