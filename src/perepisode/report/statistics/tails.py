"""Whole tails: the share of episodes over every level, and the CVaR (conditional value at risk) at every alpha."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.report.statistics.points import Point

FRACTIONS = np.array([0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
MAX_LEVELS = 160  # of a curve, dense in the tail; a figure shows no more


class Exceedance(NamedTuple):
    """The share of each seed's episodes over each level: shares[seed, level]."""

    levels: np.ndarray
    shares: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.shares.mean(axis=0)


def exceedance(point: Point) -> Exceedance:
    """P(V > x) at zero and at every value of an episode; of many values, those at logarithmic ranks."""
    ordered = [np.sort(seed.counts) for seed in point.seeds]
    levels = np.unique(np.concatenate([[0.0], *ordered]))
    if levels.size > MAX_LEVELS:
        ranks = np.unique(np.rint(np.geomspace(1, levels.size, MAX_LEVELS)).astype(int))
        levels = levels[levels.size - ranks[::-1]]
    below = [np.searchsorted(counts, levels, side="right") / counts.size for counts in ordered]
    return Exceedance(levels, 1 - np.array(below))


def cvars(point: Point, fractions: Sequence[float] | np.ndarray = FRACTIONS) -> list[Interval]:
    """The CVaR at each alpha, over seeds."""
    found = []
    for seed in point.seeds:
        worst_first = np.sort(seed.counts)[::-1]
        sizes = np.array([metrics.tail_size(worst_first.size, alpha) for alpha in fractions])
        found.append(np.cumsum(worst_first)[sizes - 1] / sizes)
    return [compare.t_interval(each) for each in np.array(found).T]
