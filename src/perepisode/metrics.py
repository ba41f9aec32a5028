"""Metrics of one agent's episodes: an array of per-episode values in, one number out.

Training, evaluation and reports use the same functions.  Intervals over seeds are in `evaluation.compare`, formatting
is in `report`.  All arithmetic is float64.  CVaR is the conditional value at risk: the mean over the worst episodes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MANY = 1e9  # violations per episode
CVAR_ALPHA = 0.1  # share of episodes in the tail that the CVaR averages
CVAR = f"CVaR {100 * CVAR_ALPHA:g} %"


class Histogram(NamedTuple):
    """Distinct values, ascending, and how many episodes have each."""

    values: np.ndarray
    counts: np.ndarray


def mean(values: ArrayLike) -> float:
    """Arithmetic mean."""
    return float(_vector(values).mean())


def std(values: ArrayLike) -> float:
    """Standard deviation over episodes (divisor N)."""
    return float(_vector(values).std())


def worst(counts: ArrayLike) -> float:
    """The largest value of any episode."""
    return float(_vector(counts).max())


def p_any(counts: ArrayLike) -> float:
    """P(> 0): share of episodes with any violation, which for counts is P(>= 1)."""
    return float((_vector(counts) > 0).mean())


def p_over(counts: ArrayLike, budget: float) -> float:
    """P(> budget): share of episodes with more violations than the budget."""
    return float((_vector(counts) > budget).mean())


over_one = partial(p_over, budget=1)


def excess(counts: ArrayLike, limit: float) -> float:
    """Mean excess over the limit among episodes that exceed it; NaN if none does."""
    counts = _vector(counts)
    excesses = counts[counts > limit] - limit
    return float(excesses.mean()) if excesses.size else math.nan


def tail_size(episodes: int, alpha: float = CVAR_ALPHA) -> int:
    """ceil(alpha * N): the number of episodes that the CVaR averages."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha} is not a share of episodes; use a number in (0, 1]")
    return math.ceil(round(alpha * episodes, 9))  # 0.07 * 100 is 7.000000000000001


def cvar(counts: ArrayLike, alpha: float = CVAR_ALPHA) -> float:
    """Conditional value at risk: mean of the worst ceil(alpha * N) episodes."""
    counts = _vector(counts)
    tail = tail_size(counts.size, alpha)
    return float(np.partition(counts, counts.size - tail)[counts.size - tail :].mean())


def mixture_cvar(low: Histogram, high: Histogram, weight: float, alpha: float = CVAR_ALPHA) -> float:
    """CVaR of the mixture that plays `high` in a share `weight` of episodes and `low` in the others.

    Its mean return and mean violations interpolate linearly between the two; its CVaR does not.
    """
    parts = [(1 - weight, *low), (weight, *high)]
    values = np.concatenate([values for _, values, _ in parts])
    shares = np.concatenate([part * counts / counts.sum() for part, _, counts in parts])
    tail = sum(part * tail_size(int(counts.sum()), alpha) / counts.sum() for part, _, counts in parts)
    order = np.argsort(-values, kind="stable")
    values, shares = values[order], shares[order]
    taken = np.clip(tail - (np.cumsum(shares) - shares), 0.0, shares)
    return float((taken * values).sum() / taken.sum())


def histogram(values: ArrayLike) -> Histogram:
    return Histogram(*np.unique(_vector(values), return_counts=True))


def tail_share(episodes: int, alpha: float = CVAR_ALPHA) -> float:
    """The share of N episodes that the CVaR averages: ceil(alpha * N) / N, which for 32 episodes is 4/32."""
    return tail_size(episodes, alpha) / episodes


def least_cvar(mean: float, alpha: float = CVAR_ALPHA, episodes: int | None = None) -> float:
    """The smallest CVaR of whole counts with this mean: every episode has ⌊mean⌋ or ⌊mean⌋ + 1.

    `episodes` is the sample size N, whose tail has ⌈alpha N⌉ episodes; without it, the limit of many episodes.
    """
    floor, share = math.floor(mean), alpha if episodes is None else tail_share(episodes, alpha)
    return floor + min(1.0, (mean - floor) / share)


def independent_cvar(mean: float, alpha: float = CVAR_ALPHA) -> float:
    """The CVaR of violations that occur independently of each other: Poisson counts N.

    E[N; N > q] = mean P(N >= q), and the rest of the tail has q, its smallest count.
    """
    from scipy.special import ndtri, pdtrc, pdtrik  # the normal quantile; P(N > q), and q from P(N <= q)

    if mean == 0:
        return 0.0
    if mean > MANY:  # here pdtrik fails, and the normal approximation is exact to the digits shown
        return float(mean + math.sqrt(mean / math.tau) * math.exp(-(ndtri(1 - alpha) ** 2) / 2) / alpha)
    q = math.floor(pdtrik(1 - alpha, mean)) if pdtrc(0, mean) > alpha else 0
    while pdtrc(q, mean) > alpha:
        q += 1
    at_least = pdtrc(q - 1, mean) if q else 1.0
    return float((mean * at_least + q * (alpha - pdtrc(q, mean))) / alpha)


def independent_over(mean: float, budget: float) -> float:
    """P(> budget) of violations that occur independently of each other: Poisson counts."""
    from scipy.special import pdtrc

    return float(pdtrc(budget, mean)) if mean > 0 else 0.0


def rate(counts: ArrayLike, lengths: ArrayLike) -> float:
    """Violations per environment step: all violations over all steps.  NaN if lengths are unknown."""
    counts, lengths = _vector(counts), _vector(lengths)
    if counts.size != lengths.size:
        raise ValueError(f"{counts.size} counts but {lengths.size} lengths; give one length for each episode")
    return float(counts.sum() / lengths.sum())


def share_at(counts: ArrayLike, low: float, high: float = math.inf) -> float:
    """Share of episodes with low <= count < high."""
    counts = _vector(counts)
    return float(((counts >= low) & (counts < high)).mean())


def _vector(values: ArrayLike) -> np.ndarray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"shape {vector.shape}: a metric needs one value per episode, at least one episode")
    return vector


class MetricSpec(NamedTuple):
    """A metric of one seed's episodes as reports show it: for every agent, averaged over seeds."""

    name: str  # column of the CSV; `<name>_ci` is the half-width of its interval over seeds
    heading: str  # column on the page
    of: Callable[[np.ndarray], float]
    meaning: str  # its line among the definitions; empty if it needs none
    term: str = ""  # its name among the definitions, if not the heading
    digits: int = 2
    interval: bool = False  # the page shows its interval
    largest: bool = False  # the largest over seeds instead of the mean; it has no interval
    share: bool = False  # a share of episodes, in per cent
    scaled: bool = False  # in the unit of the counts or costs: digits follow its size, and `digits` is not used
    counts_only: bool = False  # says nothing about costs; a report on costs omits it


def cvar_meaning(alpha: float) -> str:
    return f"mean over the worst {100 * alpha:g} % of episodes (⌈{alpha:g} N⌉ of a seed's N), then the mean over seeds"


WITH_ANY = "share of episodes with any violation, with more than k"
_IN_ORDER = (
    MetricSpec("violations", "Violations", mean, "mean number of violations per episode", interval=True, scaled=True),
    MetricSpec("std", "Std", std, "", scaled=True),
    MetricSpec("p_any", "P(≥1)", p_any, WITH_ANY, "P(≥1), P(>k)", digits=1, share=True),
    MetricSpec("p_over_1", "P(>1)", over_one, "", digits=1, share=True, counts_only=True),
    MetricSpec("cvar", CVAR, cvar, cvar_meaning(CVAR_ALPHA), interval=True, scaled=True),
    MetricSpec("worst", "Worst", worst, "", digits=0, largest=True),
)
METRIC_SPECS = {metric.name: metric for metric in _IN_ORDER}


def register(metric: MetricSpec) -> MetricSpec:
    """Show this metric, after those registered before it, in every report that is built from now on."""
    for other in METRIC_SPECS.values():
        if metric.name == other.name or metric.heading == other.heading:
            raise ValueError(
                f"metric {metric.name!r} ({metric.heading}) collides with {other.name!r} ({other.heading}); "
                "choose another name and heading, such as 'my_...'"
            )
    METRIC_SPECS[metric.name] = metric
    return metric
