"""Pairing at equal mean return: the only place where a tail difference is due to the objective.

The focal agent is paired with every rival method in two ways: with the arm of nearest return, as in the
paper, and with the rival's own frontier interpolated to exactly the focal agent's return.
"""

from __future__ import annotations

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
    """A rival's frontier at the focal return; `tail` is None where it does not reach (`between` says why)."""

    method: str
    between: str
    tail: Tail | None


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
    arms = [*view.of(method), *([view.unconstrained] if view.unconstrained else [])]
    means = np.array([(arm.mean_return, arm.interval(metrics.mean).mean) for arm in arms])
    kept = [arm for arm, best in zip(arms, compare.frontier(means)) if best]
    found = compare.bracket([arm.mean_return for arm in kept], chosen.mean_return)
    if found is None:
        reach = f"{min(arm.mean_return for arm in kept):.2f} to {max(arm.mean_return for arm in kept):.2f}"
        return Interpolated(method, f"its frontier reaches returns from {reach} only", None)
    low, high = kept[found.low], kept[found.high]
    between = _name(low) if low is high else f"{_name(low)} → {_name(high)}, {found.weight:.0%}"

    def blend(metric) -> Interval:
        return compare.blend(low.each(metric), high.each(metric), found.weight)

    tail_mean = blend(cvar)
    against = None
    if min(tail_mean.seeds, len(chosen.seeds)) > 1:
        against = compare.welch_from_summary(tail_mean, chosen.interval(cvar))
    values = Tail(
        compare.blend(low.returns, high.returns, found.weight),
        blend(metrics.mean),
        blend(metrics.p_any),
        blend(lambda counts: _p_over(counts, chosen.budget)),
        blend(metrics.std),
        tail_mean,
        against,
    )
    return Interpolated(method, between, values)


def _name(point: Point) -> str:
    return point.arm or point.label.lower()


def _p_over(counts: np.ndarray, budget: float) -> float:
    return metrics.p_over(counts, budget) if budget == budget else float("nan")
