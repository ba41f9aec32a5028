"""Comparisons of agents: intervals over seeds, tests, pairing at equal return, frontiers.

Seeds are the unit of replication, never episodes: a metric is computed on each seed's episodes, and the spread of
these few numbers is the uncertainty.  A single seed has no interval.  CVaR is the conditional value at risk.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from perepisode import metrics

Metric = Callable[[np.ndarray], float]
Mix = Callable[[int, int, float], float]
STEP = 1e-3  # of the distance between two points, for finite differences


class Interval(NamedTuple):
    """A mean over seeds and the half-width of its interval, which is NaN for a single seed.

    The degrees of freedom are `seeds` - 1; they are fractional if the interval combines several points.
    """

    mean: float
    half: float
    seeds: float


class Welch(NamedTuple):
    """Welch's t test of mean(a) - mean(b), two-sided."""

    t: float
    p: float
    df: float
    difference: float


class Bracket(NamedTuple):
    """Indices of the two points whose returns enclose a target = (1 - weight) * low + weight * high."""

    low: int
    high: int
    weight: float


class Interpolation(NamedTuple):
    """A value interpolated between two points, and its slope with respect to the level."""

    value: Interval
    slope: float


def t_interval(per_seed: ArrayLike, level: float = 0.95) -> Interval:
    """Mean ± t_{(1+level)/2, n-1} s / sqrt(n) over one value per seed."""
    values = np.asarray(per_seed, dtype=np.float64)
    if values.size == 0:
        raise ValueError("an interval needs at least one seed")
    half = float("nan")
    if values.size > 1:
        half = float(_t_quantile(values.size - 1, level) * values.std(ddof=1) / np.sqrt(values.size))
    return Interval(float(values.mean()), half, values.size)


def hierarchical_bootstrap(
    samples: Sequence[ArrayLike],
    alpha: float = metrics.CVAR_ALPHA,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of the seed mean of the CVaR: resample seeds, then episodes within each.

    `samples` has one array of episodes per seed.  With three seeds it is narrower than the t interval, which accounts
    for how poorly three values determine their spread; reports show both.
    """
    generator = np.random.default_rng(seed)
    tails = [_Tail(sample, alpha) for sample in samples]
    means = np.empty(resamples)
    for index in range(resamples):
        seeds = generator.integers(len(tails), size=len(tails))
        means[index] = np.mean([tails[seed].resample(generator) for seed in seeds])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def welch(a: ArrayLike, b: ArrayLike) -> Welch:
    """Welch's test on one value per seed: t = (mean a - mean b) / sqrt(s_a²/n_a + s_b²/n_b)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if min(a.size, b.size) < 2:
        return Welch(float("nan"), float("nan"), float("nan"), float(a.mean() - b.mean()))
    return _welch(a.mean(), a.var(ddof=1) / a.size, a.size, b.mean(), b.var(ddof=1) / b.size, b.size)


def difference(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """mean(a) - mean(b) with Welch's interval, from one value per seed."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    errors = (a.var(ddof=1) / a.size, b.var(ddof=1) / b.size) if min(a.size, b.size) > 1 else ()
    return _interval_of_sum(float(a.mean() - b.mean()), errors, (a.size, b.size), level)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of the p values of several tests; it controls the family-wise error rate.

    The smallest is multiplied by the number of tests, the next by one less, and so on, and none falls below its
    predecessor.  NaN means not tested and does not count.
    """
    values = np.asarray(p_values, np.float64)
    order = [index for index in np.argsort(values, kind="stable") if values[index] == values[index]]
    corrected, largest = np.full(values.size, np.nan), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * values[index]))
        corrected[index] = largest
    return corrected.tolist()


def welch_from_summary(a: Interval, b: Interval, level: float = 0.95) -> Welch:
    """Welch's test from published "mean ± t interval" and seed counts."""
    errors = [x.half / _t_quantile(x.seeds - 1, level) for x in (a, b)]
    return _welch(a.mean, errors[0] ** 2, a.seeds, b.mean, errors[1] ** 2, b.seeds)


def nearest(returns: ArrayLike, target: float) -> int:
    """Index of the point whose return is nearest to the target: the paper's pairing."""
    return int(np.argmin(np.abs(np.asarray(returns, np.float64) - target)))


def bracket(returns: ArrayLike, target: float) -> Bracket | None:
    """The nearest points at or below and at or above the target return; None if either is missing."""
    returns = np.asarray(returns, np.float64)
    below, above = np.flatnonzero(returns <= target), np.flatnonzero(returns >= target)
    if below.size == 0 or above.size == 0:
        return None
    low, high = int(below[np.argmax(returns[below])]), int(above[np.argmin(returns[above])])
    spread = returns[high] - returns[low]
    return Bracket(low, high, float((target - returns[low]) / spread) if spread > 0 else 0.0)


def interpolate(low: ArrayLike, high: ArrayLike, level: float, mix: Mix) -> Interpolation:
    """The value between two points at `level`, with its interval.

    `low` and `high` are the positions of the points, one per seed; `mix(i, j, weight)` is the value at this fraction of
    the way from seed i of `low` to seed j of `high`.  A seed contributes two errors: that of its value, averaged over
    the seeds of the other point, and that of its position, which changes the weight.  The points are independent runs,
    so squared errors add, with degrees of freedom by Satterthwaite.
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    distance = high.mean() - low.mean()
    weight = float((level - low.mean()) / distance)

    def table(weight: float) -> np.ndarray:
        return np.array([[mix(i, j, weight) for j in range(high.size)] for i in range(low.size)])

    values = table(weight)
    before, after = max(weight - STEP, 0.0), min(weight + STEP, 1.0)
    slope = float((table(after).mean() - table(before).mean()) / (after - before) / distance)
    sides = (values.mean(axis=1) - (1 - weight) * slope * low, values.mean(axis=0) - weight * slope * high)
    errors = [side.var(ddof=1) / side.size for side in sides] if min(low.size, high.size) > 1 else ()
    return Interpolation(_interval_of_sum(float(values.mean()), errors, (low.size, high.size), 0.95), slope)


def gap(unconstrained: Interval, method: Interval) -> Interval:
    """Cost of compliance: the return given up, with half-width sqrt(half_unconstrained² + half_method²)."""
    half = float(np.hypot(unconstrained.half, method.half))
    return Interval(unconstrained.mean - method.mean, half, min(unconstrained.seeds, method.seeds))


def frontier(points: ArrayLike) -> np.ndarray:
    """Mask of the Pareto-optimal (return, violations) points: more return and fewer violations are better."""
    points = np.asarray(points, np.float64).reshape(-1, 2)
    returns, counts = points.T
    no_worse = (returns[None] >= returns[:, None]) & (counts[None] <= counts[:, None])
    better = no_worse & ((returns[None] > returns[:, None]) | (counts[None] < counts[:, None]))
    return np.logical_not(better.any(axis=1))


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """Area dominated by (return, violations) points, relative to a reference of low return and many violations."""
    import moocore

    points = np.asarray(points, np.float64).reshape(-1, 2)
    return float(moocore.hypervolume(points, ref=np.asarray(reference, np.float64), maximise=[True, False]))


def missed_share(exact: ArrayLike, detected: ArrayLike) -> float:
    """Share of the exact violations that a detector misses; NaN if there are none."""
    exact, detected = np.asarray(exact, np.float64), np.asarray(detected, np.float64)
    if exact.sum() == 0:
        return float("nan")
    return float(np.maximum(exact - detected, 0).sum() / exact.sum())


class _Tail:
    """The worst of a seed's episodes, for resampling with replacement.

    Counts take few values, so one multinomial draw replaces N draws.  Costs take many; values further than ten standard
    deviations beyond the tail's size reach a resampled tail once in 10²³ draws, so all of them share one bin.
    """

    def __init__(self, sample: ArrayLike, alpha: float):
        values, counts = metrics.histogram(sample)
        self.episodes = int(counts.sum())
        self.size = metrics.tail_size(self.episodes, alpha)
        counts, values = counts[::-1], values[::-1]
        last = int(np.searchsorted(np.cumsum(counts), self.size + 10 * np.sqrt(self.size) + 10))
        self.values, self.shares = values[: last + 1], np.append(counts[:last], counts[last:].sum()) / self.episodes
        self.shares = self.shares[: self.values.size]  # no shared bin if every value has its own

    def resample(self, generator: np.random.Generator) -> float:
        """The CVaR of a resampled seed."""
        counts = generator.multinomial(self.episodes, self.shares)
        taken = np.clip(self.size - (np.cumsum(counts) - counts), 0, counts)
        return float(taken @ self.values) / self.size


def _interval_of_sum(mean: float, errors: Sequence[float], seeds: tuple[int, int], level: float) -> Interval:
    """Interval from two squared standard errors that add; empty if a point has a single seed."""
    if not errors:
        return Interval(mean, float("nan"), 1)
    if not sum(errors):
        return Interval(mean, 0.0, min(seeds))
    df = _satterthwaite(errors[0], seeds[0], errors[1], seeds[1])
    return Interval(mean, float(_t_quantile(df, level) * np.sqrt(sum(errors))), df + 1)


def _welch(mean_a: float, error_a: float, n_a: float, mean_b: float, error_b: float, n_b: float) -> Welch:
    """Welch's test from means and squared standard errors."""
    from scipy.special import stdtr  # scipy.stats takes a second to import

    difference, error = float(mean_a - mean_b), error_a + error_b
    if error == 0:  # identical seeds, which counts can be by chance, do not estimate the error
        t = float(np.copysign(np.inf, difference)) if difference else 0.0
        return Welch(t, float("nan") if difference else 1.0, 0.0, difference)
    t = difference / np.sqrt(error)
    df = _satterthwaite(error_a, n_a, error_b, n_b)
    return Welch(float(t), float(2 * stdtr(df, -abs(t))), float(df), difference)


def _satterthwaite(error_a: float, n_a: float, error_b: float, n_b: float) -> float:
    """Degrees of freedom of a sum of two squared standard errors, not both zero."""
    return (error_a + error_b) ** 2 / (error_a**2 / (n_a - 1) + error_b**2 / (n_b - 1))


def _t_quantile(df: float, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))
