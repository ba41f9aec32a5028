"""Pairing at equal mean return: the only place where a tail difference is due to the objective.

The focal agent is paired with every rival method in two ways: with the arm of nearest return, as in the
paper, and with the rival's own frontier interpolated to exactly the focal agent's return.  Where some method
has no agent there, all of them, the focal one too, are read at the nearest level that each reaches.

Equal mean violations are the second level to read at.  On one shared frontier both say the same, and where
seeds differ more in return than the whole temptation is worth, only violations tell where on it an agent is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from perepisode.evaluation import compare, metrics
from perepisode.evaluation.compare import Interval, Welch
from perepisode.report.points import PER_EPISODE, Point, View, cvar

NOT_RIVALS = ("unconstrained", "erm")  # single points, not sweeps that can be matched
FAR = 0.01  # of the unconstrained return: a pair further apart than this is not matched


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


class Common(NamedTuple):
    """Every method's frontier read at one level, the focal agent's method first."""

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
    return _read(method, _frontier(view, method), RETURN, chosen.mean_return, chosen, chosen)


def common(view: View, chosen: Point, axis: Axis) -> Common | None:
    """All methods at the level nearest to the focal agent's that every frontier reaches, its own method's too."""
    frontiers = {method: _frontier(view, method) for method in (chosen.method, *rivals(view, chosen))}
    low = max(min(map(axis.of, arms)) for arms in frontiers.values())
    high = min(max(map(axis.of, arms)) for arms in frontiers.values())
    if low > high or len(frontiers) < 2:
        return None
    level = float(np.clip(axis.of(chosen), low, high))
    if level == axis.of(chosen):
        reads, against = [Interpolated(chosen.method, _name(chosen), tail(chosen, chosen))], chosen
    else:
        reads = [_read(chosen.method, frontiers[chosen.method], axis, level, chosen, None)]
        against = reads[0].tail and reads[0].tail.cvar
    others = list(frontiers.items())[1:]
    return Common(level, [*reads, *(_read(method, arms, axis, level, chosen, against) for method, arms in others)])


def _frontier(view: View, method: str) -> list[Point]:
    """The method's arms, and the unconstrained agent as its loose end, that none of them beats on average."""
    arms = [*view.of(method), *([view.unconstrained] if view.unconstrained else [])]
    means = np.array([(RETURN.of(arm), VIOLATIONS.of(arm)) for arm in arms])
    return [arm for arm, best in zip(arms, compare.frontier(means)) if best]


def _read(
    method: str, arms: Sequence[Point], axis: Axis, level: float, chosen: Point, against: Point | Interval | None
) -> Interpolated:
    """Between the two arms about the level, tested against another CVaR; over budget by the focal agent's budget."""
    places = [axis.of(arm) for arm in arms]
    found = compare.bracket(places, level)
    if found is None:
        reach = f"{min(places):.2f} to {max(places):.2f}"
        return Interpolated(method, f"its frontier reaches {axis.name} from {reach} only", None)
    low, high = arms[found.low], arms[found.high]
    between = _name(low) if low is high else f"{_name(low)} → {_name(high)}, {found.weight:.0%}"
    if low is high:  # an arm lies there itself: its neighbour tells what its position matters
        high = min((arm for arm in arms if arm is not low), key=lambda arm: abs(axis.of(arm) - level), default=low)

    def ends(values: Callable[[Point], np.ndarray]) -> tuple[compare.Seeds, compare.Seeds]:
        return compare.Seeds(axis.each(low), values(low)), compare.Seeds(axis.each(high), values(high))

    def read(metric: compare.Metric) -> Interval:
        return compare.read_between(*ends(lambda point: point.each(metric)), level)

    held = Interval(level, float("nan"), min(len(low.seeds), len(high.seeds)))  # the level itself varies with nothing

    tail_mean, reference = read(cvar), against
    if isinstance(against, Point):  # it gave the level, so an error of its own position counts as one of the arms'
        steep = compare.slope(*ends(lambda point: point.each(cvar)))
        reference = compare.Seeds(axis.each(against), against.each(cvar)).around(steep)
    test = None
    if isinstance(reference, Interval) and min(tail_mean.seeds, reference.seeds) > 1:
        test = compare.welch_from_summary(tail_mean, reference)
    values = Tail(
        held if axis is RETURN else compare.read_between(*ends(RETURN.each), level),
        held if axis is VIOLATIONS else read(metrics.mean),
        read(metrics.p_any),
        read(lambda counts: _p_over(counts, chosen.budget)),
        read(metrics.std),
        tail_mean,
        test,
    )
    return Interpolated(method, between, values)


def _name(point: Point) -> str:
    return point.arm or point.label.lower()


def _p_over(counts: np.ndarray, budget: float) -> float:
    return metrics.p_over(counts, budget) if budget == budget else float("nan")
