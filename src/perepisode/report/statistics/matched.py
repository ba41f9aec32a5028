"""Pairing at equal mean return: the only place where a tail difference is due to the objective.

The focal agent is paired with every rival method in two ways: with the arm of nearest return, as in the
paper, and with the rival's own frontier interpolated to exactly the focal agent's return.

Means are interpolated linearly; tails are not linear in them.  Between two prices, or two budgets in expectation, what
is interpolated is how far a tail is from that of independent violations of the same mean: against exact optima that is
within 1 %, where a straight line is up to 35 % too low (tests/report/test_matched.py).  Between two budgets in each
episode there is no such agent but one that keeps the one in some of its episodes and the other in the rest.

Equal mean violations are a second level to read at.  On one shared frontier both say the same, and where seeds
differ more in return than the whole temptation is worth, only violations tell where on it an agent is.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval, Welch
from perepisode.report.statistics.points import Point, View
from perepisode.report.style import esr, kin, per_episode, sweeps

NEAR = 0.01  # of the larger mean: where one seed gives no interval, means this near are the same
TOLD_APART = 0.05  # p of the two ends' positions: if it is larger, the line through them has no slope to speak of


class Tail(NamedTuple):
    """What is compared at equal return, as intervals over seeds."""

    returns: Interval
    mean: Interval
    p_any: Interval
    p_over: Interval  # NaN where the focal agent states no budget
    std: Interval
    cvar: Interval
    against_focal: Welch | None  # of the CVaR; None for the focal agent itself


class Interpolated(NamedTuple):
    """A method's frontier at some level; `tail` is None where it does not reach (`between` says why)."""

    method: str
    between: str
    tail: Tail | None


class Axis(NamedTuple):
    """What is held equal."""

    name: str
    each: Callable[[Point], np.ndarray]  # one number a seed

    def of(self, point: Point) -> float:
        return float(self.each(point).mean())


RETURN = Axis("returns", lambda point: point.returns)
VIOLATIONS = Axis("violations", lambda point: point.each(metrics.mean))


class Even(NamedTuple):
    """Every method's frontier read at one mean of violations, the focal agent's method first."""

    level: float
    reads: list[Interpolated]


def fixed(view: View) -> bool:
    """Whether the study itself says which agent is compared: one that has a budget an episode."""
    return bool(view.of(*esr(), *per_episode()))


def focal(view: View) -> Point | None:
    """The agent whose tail is compared: ESR, or another budget an episode, that tolerates about one violation.

    Where there is no such agent, the data chooses that with the lightest tail.
    """
    own = view.of(*esr()) or view.of(*per_episode())
    stated = [point for point in own if point.value > 0] or own
    if stated:
        return min(stated, key=lambda point: abs(point.value - 1) if point.value == point.value else np.inf)
    others = [point for point in view.main if sweeps(point.method)] or list(view.main)
    return min(others, key=lambda point: point.tail.mean, default=None)


def rivals(view: View, chosen: Point) -> list[str]:
    """Methods to pair with: all that sweep a setting, but not the focal agent's own kin."""
    return [method for method in view.methods if sweeps(method) and method not in kin(chosen.method)]


def partners(view: View, chosen: Point, axis: Axis = RETURN) -> list[Point]:
    """Of every rival method the arm that is nearest to the focal agent, in mean return if not said otherwise."""
    arms = [view.of(method) for method in rivals(view, chosen)]
    return [own[compare.nearest([axis.of(arm) for arm in own], axis.of(chosen))] for own in arms]


def same(axis: Axis, one: Point, other: Point) -> bool:
    """Whether two agents are at one level: the interval of the difference of their means holds zero."""
    apart, half, _ = compare.difference(axis.each(one), axis.each(other))
    return abs(apart) <= (half if half == half else NEAR * max(abs(axis.of(one)), abs(axis.of(other))))


def unmatched(chosen: Point, rivals: list[Point]) -> list[Point]:
    """Those whose return is not the focal agent's: a tail difference to them may be one of position."""
    return [point for point in rivals if not same(RETURN, chosen, point)]


def tail(point: Point, chosen: Point) -> Tail:
    """The comparison's numbers for one agent, over budget by the focal agent's budget."""
    return Tail(
        point.gained,
        point.interval(metrics.mean),
        point.interval(metrics.p_any),
        point.interval(partial(_p_over, budget=chosen.allowed)),
        point.interval(metrics.std),
        point.tail,
        None if point is chosen else compare.welch(point.tails, chosen.tails),
    )


def interpolated(view: View, chosen: Point, method: str) -> Interpolated:
    """The method's own frontier, up to the unconstrained agent, at the focal agent's exact mean return."""
    return _read(view, method, _frontier(view, method), RETURN, chosen.mean_return, chosen, chosen)


def even(view: View, chosen: Point) -> Even | None:
    """All methods at one mean of violations: that which most of them reach, among such the focal agent's nearest."""
    frontiers = {
        method: [arm for arm in _frontier(view, method) if arm is not view.unconstrained]
        for method in (chosen.method, *rivals(view, chosen))
    }
    own = VIOLATIONS.of(chosen)
    spans = [_span(arms, VIOLATIONS) for arms in frontiers.values() if arms]
    levels = [level for level in (own, *np.ravel(spans)) if _within(level, frontiers[chosen.method])]
    if not levels:
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
    return Even(level, [first, *others])


def _frontier(view: View, method: str) -> list[Point]:
    """The arms that none beats on average; a price or a budget in expectation ends at the unconstrained agent.

    A budget in each episode does not: however wide it is, every violation is still charged.
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
    """Between the two arms about the level, tested against another CVaR; over budget by the focal agent's budget."""
    if not arms:
        return Interpolated(method, "the unconstrained agent beats it on average", None)
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
    # with one seed there is no test, and no interval either
    distinguish_arms = not compare.welch(axis.each(high), axis.each(low)).p >= TOLD_APART
    between = _Between(low, high)

    def read(mix: compare.Mix) -> compare.Interpolation:
        found = compare.interpolate(axis.each(low), axis.each(high), level, mix)
        return found if distinguish_arms else found._replace(value=found.value._replace(half=float("nan")))

    tails = read(between.cvar())
    reference = against
    if isinstance(against, Point):  # it gave the level, so an error of its own position counts as one of the arms'
        place = axis.each(against)
        reference = compare.t_interval(against.tails - tails.slope * (place - place.mean()))
    held = Interval(level, float("nan"), 1)  # the level itself varies with nothing
    values = Tail(
        held if axis is RETURN else read(between.straight(RETURN.each)).value,
        held if axis is VIOLATIONS else read(between.straight(VIOLATIONS.each)).value,
        read(between.over(0)).value,
        read(between.over(chosen.allowed)).value,
        read(between.std()).value,
        tails.value,
        _test(tails.value, reference) if isinstance(reference, Interval) else None,
    )
    name = f"{_name(low)} → {_name(high)}, {found.weight:.0%}{'' if distinguish_arms else ' (ends not told apart)'}"
    return Interpolated(method, name, values)


def tails_between(low: Point, high: Point) -> tuple[np.ndarray, np.ndarray]:
    """Mean violations and CVaR from one arm to the next."""
    tail_at, weights = _Between(low, high).cvar(), np.linspace(0.0, 1.0, 24)
    pairs = [(i, j) for i in range(len(low.seeds)) for j in range(len(high.seeds))]
    tails = [np.mean([tail_at(i, j, float(weight)) for i, j in pairs]) for weight in weights]
    return (1 - weights) * VIOLATIONS.of(low) + weights * VIOLATIONS.of(high), np.array(tails)


class _Between:
    """What lies between two arms of a method; each value is a `mix(i, j, weight)` of seeds i and j (compare.Mix)."""

    def __init__(self, low: Point, high: Point):
        self.arms, self.harm = (low, high), low.harm
        self.mixed = low.method in per_episode()  # no agent between two budgets in each episode, but both by turns
        self.chance = self.harm.whole and not self.mixed  # costs have no law of independence
        self.mean = self.straight(VIOLATIONS.each)

    def straight(self, values: Callable[[Point], np.ndarray]) -> compare.Mix:
        low, high = map(values, self.arms)
        return lambda i, j, weight: (1 - weight) * low[i] + weight * high[j]

    def beside(self, metric: compare.Metric, law: Callable[[float], float]) -> compare.Mix:
        """The law at the mean between, and a straight line of what the arms have beyond it."""
        beyond = self.straight(lambda arm: arm.each(metric) - [law(mean) for mean in arm.each(metrics.mean)])
        return lambda i, j, weight: law(self.mean(i, j, weight)) + beyond(i, j, weight)

    def over(self, budget: float) -> compare.Mix:
        share = partial(_p_over, budget=budget)
        if not self.chance or budget != budget:
            return self.straight(lambda arm: arm.each(share))
        mix = self.beside(share, lambda mean: metrics.independent_over(mean, budget))
        return lambda i, j, weight: float(np.clip(mix(i, j, weight), 0.0, 1.0))

    def std(self) -> compare.Mix:
        if not self.mixed:
            return self.beside(metrics.std, math.sqrt if self.chance else lambda mean: 0.0)
        square = self.straight(lambda arm: arm.each(metrics.std) ** 2 + arm.each(metrics.mean) ** 2)
        return lambda i, j, weight: math.sqrt(max(square(i, j, weight) - self.mean(i, j, weight) ** 2, 0.0))

    def cvar(self) -> compare.Mix:
        alpha = self.harm.alpha
        if self.mixed:
            low, high = ([metrics.histogram(seed.counts) for seed in arm.seeds] for arm in self.arms)
            return lambda i, j, weight: metrics.mixture_cvar(low[i], high[j], weight, alpha)
        if not self.chance:
            return self.straight(lambda arm: arm.tails)
        episodes = max((seed.counts.size for arm in self.arms for seed in arm.seeds), key=self.harm.share)
        mix = self.beside(self.harm.worst, partial(metrics.independent_cvar, alpha=alpha))

        def possible(i: int, j: int, weight: float) -> float:
            value = mix(i, j, weight)
            least = metrics.least_cvar(self.mean(i, j, weight), alpha, episodes)
            return max(value, least) if 0 < weight < 1 else value

        return possible


def _test(one: Interval, other: Interval) -> Welch | None:
    """Welch's test of two readings; None where one has no interval."""
    return None if one.half != one.half or other.half != other.half else compare.welch_from_summary(one, other)


def _name(point: Point) -> str:
    return point.arm or point.label.lower()


def _p_over(counts: np.ndarray, budget: float) -> float:
    return metrics.p_over(counts, budget) if budget == budget else float("nan")
