"""Whether ESR (expected scalarised returns) shares the other methods' mean frontier: by distance and by hypervolume."""

import numpy as np

from perepisode.evaluation import compare
from perepisode.report.statistics.matched import RETURN, VIOLATIONS
from perepisode.report.statistics.points import View
from perepisode.report.style import esr


def short_of_frontier(view: View) -> dict[str, float]:
    """For each ESR agent: the return of the other methods' frontier at the agent's mean violations, minus its own.

    NaN where that frontier does not reach those violations.
    """
    others = [point for point in view.main if point.method not in esr()]
    means = np.array([(RETURN.of(point), VIOLATIONS.of(point)) for point in others])
    kept = means[compare.frontier(means)] if len(means) else means
    found = {}
    for point in view.of(*esr()):
        found[point.label] = float("nan")
        if len(kept) and (between := compare.bracket(kept[:, 1], VIOLATIONS.of(point))):
            low, high = kept[between.low, 0], kept[between.high, 0]
            found[point.label] = float(low + between.weight * (high - low) - point.mean_return)
    return found


def hypervolumes(view: View) -> dict[str, dict[str, float]]:
    """Area under the mean frontier without and with the ESR agents, in both units."""
    base = [point for point in view.main if point.method not in esr()]
    if not base or len(base) == len(view.main):
        return {}
    result = {}
    for unit, violations in (("per step", lambda point: point.rates.mean()), ("per episode", VIOLATIONS.of)):
        pairs = np.array([(point.mean_return, violations(point)) for point in view.main])
        if not np.isfinite(pairs).all():
            continue
        kept = pairs[compare.frontier(pairs)]
        reference = (kept[:, 0].min(), violations(view.unconstrained) if view.unconstrained else pairs[:, 1].max())
        without = compare.hypervolume([(point.mean_return, violations(point)) for point in base], reference)
        if not without:  # one other agent, or all in one line: no area to compare with
            continue
        together = compare.hypervolume(pairs, reference)
        result[unit] = {
            "without": without,
            "with": together,
            "gain": together / without - 1,
            "reference_return": reference[0],
            "reference_violations": reference[1],
        }
    return result
