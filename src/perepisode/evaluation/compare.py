"""Comparisons of agents: intervals over seeds, tests, pairing at equal return, frontiers.

Seeds are the replication unit, never episodes: a metric is taken on each seed's episodes, and the spread
of those few numbers is the uncertainty.  With one seed there is no interval, and none is invented.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from perepisode import metrics

Metric = Callable[[np.ndarray], float]
Mix = Callable[[int, int, float], float]
STEP = 1e-3  # of the way between two points: over which a slope is taken


class Interval(NamedTuple):
    """A mean over seeds and the half width of its interval, NaN where one seed allows none.

    `seeds` less one are its degrees of freedom, which need not be whole where several points take part.
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
    """The two points whose returns enclose a target: value = (1 - weight) * low + weight * high."""

    low: int
    high: int
    weight: float


class Interpolation(NamedTuple):
    """A value between two points, and how fast it changes with the level at which it is read."""

    value: Interval
    slope: float


def t_interval(per_seed: ArrayLike, level: float = 0.95) -> Interval:
    """Mean ± t_{(1+level)/2, n-1} s / sqrt(n) over one number a seed."""
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
    """Percentile interval of the seed mean of the CVaR, resampling seeds, then episodes within each.

    `samples` holds one array of episodes a seed.  With three seeds it is narrower than the t interval, which
    knows how little three numbers say about their spread; it is shown beside it for what the episodes add.
    """
    generator = np.random.default_rng(seed)
    tails = [_Tail(sample, alpha) for sample in samples]
    means = np.empty(resamples)
    for index in range(resamples):
        chosen = generator.integers(len(tails), size=len(tails))
        means[index] = np.mean([tails[one].redrawn(generator) for one in chosen])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def welch(a: ArrayLike, b: ArrayLike) -> Welch:
    """Welch's test from one number a seed: t = (mean a - mean b) / sqrt(s_a²/n_a + s_b²/n_b)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if min(a.size, b.size) < 2:
        return Welch(float("nan"), float("nan"), float("nan"), float(a.mean() - b.mean()))
    return _welch(a.mean(), a.var(ddof=1) / a.size, a.size, b.mean(), b.var(ddof=1) / b.size, b.size)


def difference(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """mean(a) - mean(b) and the half width of its interval by Welch, from one number a seed."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    apart = float(a.mean() - b.mean())
    if min(a.size, b.size) < 2:
        return Interval(apart, float("nan"), 1)
    errors = a.var(ddof=1) / a.size, b.var(ddof=1) / b.size
    if not sum(errors):
        return Interval(apart, 0.0, min(a.size, b.size))
    freedom = _satterthwaite(errors[0], a.size, errors[1], b.size)
    return Interval(apart, float(_t_quantile(freedom, level) * np.sqrt(sum(errors))), freedom + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values of several tests, corrected by Holm: below 0.05 for any true null in at most 5 % of cases.

    The smallest is multiplied by the number of tests, the next by one less, and so on, and none falls below one before
    it.  What is NaN was not tested and counts for nothing.
    """
    values = np.asarray(p_values, np.float64)
    order = [index for index in np.argsort(values, kind="stable") if values[index] == values[index]]
    corrected, largest = np.full(values.size, np.nan), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * values[index]))
        corrected[index] = largest
    return corrected.tolist()


def welch_from_summary(a: Interval, b: Interval, level: float = 0.95) -> Welch:
    """Welch's test from published "mean ± t interval" and seed counts."""
    errors = [one.half / _t_quantile(one.seeds - 1, level) for one in (a, b)]
    return _welch(a.mean, errors[0] ** 2, a.seeds, b.mean, errors[1] ** 2, b.seeds)


def nearest(returns: ArrayLike, target: float) -> int:
    """Index of the point with the return nearest to the target: the paper's pairing."""
    return int(np.argmin(np.abs(np.asarray(returns, np.float64) - target)))


def bracket(returns: ArrayLike, target: float) -> Bracket | None:
    """The nearest point at or below the target return and the nearest above; None where one is missing."""
    returns = np.asarray(returns, np.float64)
    below, above = np.flatnonzero(returns <= target), np.flatnonzero(returns >= target)
    if below.size == 0 or above.size == 0:
        return None
    low, high = int(below[np.argmax(returns[below])]), int(above[np.argmin(returns[above])])
    spread = returns[high] - returns[low]
    return Bracket(low, high, float((target - returns[low]) / spread) if spread > 0 else 0.0)


def interpolate(low: ArrayLike, high: ArrayLike, level: float, mix: Mix) -> Interpolation:
    """What lies between two points, at `level`.

    `low` and `high` are positions, one a seed; `mix(i, j, weight)` is the value that far from seed i of the one to seed
    j of the other.  A seed counts by what it does to the mean over its partners, and by its position, which moves the
    weight.  The points are independent runs: squared errors add, with degrees of freedom by Satterthwaite.
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    apart = high.mean() - low.mean()
    weight = float((level - low.mean()) / apart)

    def table(at: float) -> np.ndarray:
        return np.array([[mix(i, j, at) for j in range(high.size)] for i in range(low.size)])

    values = table(weight)
    before, after = max(weight - STEP, 0.0), min(weight + STEP, 1.0)
    steep = float((table(after).mean() - table(before).mean()) / (after - before) / apart)
    sides = (values.mean(axis=1) - (1 - weight) * steep * low, values.mean(axis=0) - weight * steep * high)
    if min(low.size, high.size) < 2:
        return Interpolation(Interval(float(values.mean()), float("nan"), 1), steep)
    errors = [side.var(ddof=1) / side.size for side in sides]
    if not sum(errors):
        return Interpolation(Interval(float(values.mean()), 0.0, min(low.size, high.size)), steep)
    freedom = _satterthwaite(errors[0], low.size, errors[1], high.size)
    half = float(_t_quantile(freedom, 0.95) * np.sqrt(sum(errors)))
    return Interpolation(Interval(float(values.mean()), half, freedom + 1), steep)


def gap(unconstrained: Interval, method: Interval) -> Interval:
    """Cost of ethics: return given up, with half = sqrt(half_unconstrained² + half_method²)."""
    half = float(np.hypot(unconstrained.half, method.half))
    return Interval(unconstrained.mean - method.mean, half, min(unconstrained.seeds, method.seeds))


def frontier(points: ArrayLike) -> np.ndarray:
    """Mask of the (return, violations) points that no other point beats: more return, fewer violations."""
    points = np.asarray(points, np.float64).reshape(-1, 2)
    returns, harms = points.T
    at_least = (returns[None] >= returns[:, None]) & (harms[None] <= harms[:, None])
    better = at_least & ((returns[None] > returns[:, None]) | (harms[None] < harms[:, None]))
    return np.logical_not(better.any(axis=1))


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """Area that (return, violations) points dominate, down to the reference (low return, many violations)."""
    import moocore

    points = np.asarray(points, np.float64).reshape(-1, 2)
    return float(moocore.hypervolume(points, ref=np.asarray(reference, np.float64), maximise=[True, False]))


def missed_share(exact: ArrayLike, detected: ArrayLike) -> float:
    """Share of the exact violations that a detector did not count; NaN where there was none to count."""
    exact, detected = np.asarray(exact, np.float64), np.asarray(detected, np.float64)
    if exact.sum() == 0:
        return float("nan")
    return float(np.maximum(exact - detected, 0).sum() / exact.sum())


class _Tail:
    """The worst of a seed's episodes, to be drawn with replacement.

    Counts take few values, so one multinomial draw replaces N draws.  Costs take many, of which a draw's tail reaches
    those that are ten standard deviations beyond its size once in 10²³ draws: all below are one value.
    """

    def __init__(self, sample: ArrayLike, alpha: float):
        values, often = metrics.histogram(sample)
        self.episodes = int(often.sum())
        self.size = metrics.tail_size(self.episodes, alpha)
        often, values = often[::-1], values[::-1]
        last = int(np.searchsorted(np.cumsum(often), self.size + 10 * np.sqrt(self.size) + 10))
        self.values, self.shares = values[: last + 1], np.append(often[:last], often[last:].sum()) / self.episodes
        self.shares = self.shares[: self.values.size]  # where all are kept there is nothing below

    def redrawn(self, generator: np.random.Generator) -> float:
        often = generator.multinomial(self.episodes, self.shares)
        taken = np.clip(self.size - (np.cumsum(often) - often), 0, often)
        return float(taken @ self.values) / self.size


def _welch(mean_a: float, error_a: float, n_a: float, mean_b: float, error_b: float, n_b: float) -> Welch:
    """From means and squared standard errors; degrees of freedom by Welch and Satterthwaite."""
    from scipy.special import stdtr  # scipy.stats would take a second to import

    difference, error = float(mean_a - mean_b), error_a + error_b
    if error == 0:  # seeds that are all alike, as counts may be by chance, say nothing of their error
        t = float(np.copysign(np.inf, difference)) if difference else 0.0
        return Welch(t, float("nan") if difference else 1.0, 0.0, difference)
    t = difference / np.sqrt(error)
    df = _satterthwaite(error_a, n_a, error_b, n_b)
    return Welch(float(t), float(2 * stdtr(df, -abs(t))), float(df), difference)


def _satterthwaite(error_a: float, n_a: float, error_b: float, n_b: float) -> float:
    """Degrees of freedom of a sum of two squared standard errors, one of which at least is not zero."""
    return (error_a + error_b) ** 2 / (error_a**2 / (n_a - 1) + error_b**2 / (n_b - 1))


def _t_quantile(df: float, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))
