"""Pairing at equal mean return: the only place where a tail difference is due to the objective.

The focal agent is paired with every rival method in two ways: with the arm of nearest return, as in the
paper, and with the rival's own frontier interpolated to exactly the focal agent's return.

Equal mean violations are a second level to read at.  On one shared frontier both say the same, and where seeds
differ more in return than the whole temptation is worth, only violations tell where on it an agent is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from perepisode.evaluation import compare, metrics
from perepisode.evaluation.compare import Interval, Welch
from perepisode.report.points import PER_EPISODE, Point, View, cvar

NOT_RIVALS = ("unconstrained", "erm")  # single points, not sweeps that can be matched
FAR = 0.01  # of the unconstrained return: a pair further apart than this is not matched
LEAN = (
    0.1  # how far towards the unconstrained agent a widest budget is read: without a price it would be no limit of it
)
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


def focal(view: View) -> Point | None:
    """The agent whose tail is compared: ESR with one tolerated violation, if there is such an agent."""
    stated = [point for point in view.of("esr") if point.value > 0] or view.of(*PER_EPISODE)
    if stated:
        return min(stated, key=lambda point: abs(point.value - 1) if point.value == point.value else np.inf)
    others = [point for point in view.main if point.method not in NOT_RIVALS] or list(view.main)
    return min(others, key=lambda point: point.interval(cvar).mean, default=None)


def rivals(view: View, chosen: Point) -> list[str]:
    """Methods to pair with: all that sweep a setting, but not the focal agent's own family."""
    family = PER_EPISODE if chosen.method in PER_EPISODE else (chosen.method,)
    return [method for method in view.methods if method not in (*NOT_RIVALS, *family)]


def partners(view: View, chosen: Point) -> list[Point]:
    """Of every rival method the arm with the return nearest to the focal agent's."""
    found = []
    for method in rivals(view, chosen):
        arms = view.of(method)
        found.append(arms[compare.nearest([arm.mean_return for arm in arms], chosen.mean_return)])
    return found


def is_matched(view: View, one: Point, other: Point, reach: float = FAR) -> bool:
    """Whether mean returns differ by at most this share of the unconstrained (else of the larger) return."""
    pair = (one.mean_return, other.mean_return)
    scale = view.unconstrained.mean_return if view.unconstrained else max(map(abs, pair))
    return abs(pair[0] - pair[1]) <= reach * abs(scale)


def unmatched(view: View, chosen: Point, rivals: list[Point]) -> list[Point]:
    """Those whose return is not the focal agent's: a tail difference to them may be one of position."""
    return [point for point in rivals if not is_matched(view, chosen, point)]


def tail(point: Point, chosen: Point) -> Tail:
    """The comparison's numbers for one agent, over budget by the focal agent's budget."""
    return Tail(
        compare.t_interval(point.returns),
        point.interval(metrics.mean),
        point.interval(metrics.p_any),
        point.interval(lambda counts: _p_over(counts, chosen.budget)),
        point.interval(metrics.std),
        point.interval(cvar),
        None if point is chosen else compare.welch(point.each(cvar), chosen.each(cvar)),
    )


def interpolated(view: View, chosen: Point, method: str) -> Interpolated:
    """The method's own frontier, up to the unconstrained agent, at the focal agent's exact mean return."""
    return _read(view, method, RETURN, chosen.mean_return, chosen, chosen)


def even(view: View, chosen: Point) -> Even | None:
    """All methods at the mean of violations nearest to the focal agent's that every frontier reaches."""
    methods = [chosen.method, *rivals(view, chosen)]
    reaches = [_reach(view, method, VIOLATIONS) for method in methods]
    low, high = max(reach[0] for reach in reaches), min(reach[1] for reach in reaches)
    if low > high or len(methods) < 2:
        return None
    level = float(np.clip(VIOLATIONS.of(chosen), low, high))
    if level == VIOLATIONS.of(chosen):
        own, against = Interpolated(chosen.method, _name(chosen), tail(chosen, chosen)), chosen
    else:
        own = _read(view, chosen.method, VIOLATIONS, level, chosen, None)
        against = own.tail and own.tail.cvar
    reads = [own, *(_read(view, method, VIOLATIONS, level, chosen, against) for method in methods[1:])]
    return None if any(read.tail is None for read in reads) else Even(level, reads)


def short_of_frontier(view: View) -> dict[str, float]:
    """Of each per-episode agent, the return that the other methods' frontier has at its violations, less its own."""
    others = [point for point in view.main if point.method not in PER_EPISODE]
    means = np.array([(RETURN.of(point), VIOLATIONS.of(point)) for point in others])
    kept = means[compare.frontier(means)] if len(means) else means
    found = {}
    for point in view.of(*PER_EPISODE):
        between = compare.bracket(kept[:, 1], VIOLATIONS.of(point)) if len(kept) else None
        if between is not None:
            low, high = kept[between.low, 0], kept[between.high, 0]
            found[point.label] = float(low + between.weight * (high - low) - point.mean_return)
    return found


def _frontier(view: View, method: str) -> list[Point]:
    """The method's arms, and the unconstrained agent as its loose end, that none of them beats on average."""
    arms = [*view.of(method), *([view.unconstrained] if view.unconstrained else [])]
    means = np.array([(RETURN.of(arm), VIOLATIONS.of(arm)) for arm in arms])
    return [arm for arm, best in zip(arms, compare.frontier(means)) if best]


def _reach(view: View, method: str, axis: Axis) -> tuple[float, float]:
    """The levels at which the method's frontier can be read; towards the loose end only as far as it is one."""
    arms = _frontier(view, method)
    own = [axis.of(arm) for arm in arms if arm is not view.unconstrained]
    if not own:  # the unconstrained agent beats them all
        return float("inf"), float("-inf")
    if view.unconstrained not in arms:
        return min(own), max(own)
    end = axis.of(view.unconstrained)
    return min(own), max(own) + (end - max(own)) * (LEAN if method in PER_EPISODE else 1.0)


def _read(
    view: View, method: str, axis: Axis, level: float, chosen: Point, against: Point | Interval | None
) -> Interpolated:
    """Between the two arms about the level, tested against another CVaR; over budget by the focal agent's budget."""
    arms, reach = _frontier(view, method), _reach(view, method, axis)
    found = compare.bracket([axis.of(arm) for arm in arms], level)
    if found is None or not reach[0] <= level <= reach[1]:
        why = f"its frontier reaches {axis.name} from {reach[0]:.2f} to {reach[1]:.2f} only"
        return Interpolated(
            method, why if reach[0] <= reach[1] else "the unconstrained agent beats it on average", None
        )
    low, high = arms[found.low], arms[found.high]
    if low is high:
        values = tail(low, chosen)
        test = None if against is None else values.against_focal
        if isinstance(against, Interval):
            test = _test(values.cvar, against)
        return Interpolated(method, _name(low), values._replace(against_focal=test))
    between = f"{_name(low)} → {_name(high)}, {found.weight:.0%}"
    told_apart = (
        not compare.welch(axis.each(high), axis.each(low)).p >= TOLD_APART
    )  # one seed has no test, nor interval

    def ends(values: Callable[[Point], np.ndarray]) -> tuple[compare.Seeds, compare.Seeds]:
        return compare.Seeds(axis.each(low), values(low)), compare.Seeds(axis.each(high), values(high))

    def read(values: Callable[[Point], np.ndarray]) -> Interval:
        value = compare.read_between(*ends(values), level)
        return value if told_apart else value._replace(half=float("nan"))

    def metric(of: compare.Metric) -> Interval:
        return read(lambda point: point.each(of))

    reference = against
    if isinstance(against, Point):  # it gave the level, so an error of its own position counts as one of the arms'
        steep = compare.slope(*ends(lambda point: point.each(cvar)))
        reference = compare.Seeds(axis.each(against), against.each(cvar)).around(steep)
    held = Interval(level, float("nan"), 1)  # the level itself varies with nothing
    tail_mean = metric(cvar)
    values = Tail(
        held if axis is RETURN else read(RETURN.each),
        held if axis is VIOLATIONS else metric(metrics.mean),
        metric(metrics.p_any),
        metric(lambda counts: _p_over(counts, chosen.budget)),
        metric(metrics.std),
        tail_mean,
        _test(tail_mean, reference) if isinstance(reference, Interval) else None,
    )
    return Interpolated(method, between + ("" if told_apart else " (ends not told apart)"), values)


def _test(one: Interval, other: Interval) -> Welch | None:
    """Welch's test of two readings; None where one has no interval."""
    return None if one.half != one.half or other.half != other.half else compare.welch_from_summary(one, other)


def _name(point: Point) -> str:
    return point.arm or point.label.lower()


def _p_over(counts: np.ndarray, budget: float) -> float:
    return metrics.p_over(counts, budget) if budget == budget else float("nan")
