"""Metrics of one agent's episodes: arrays of per-episode values in, one number out.

Training, judging and reporting all take their numbers here.  Intervals over seeds are in `evaluation.compare`,
formatting is in `report`.  All arithmetic is float64.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MANY = 1e9  # violations an episode
CVAR_ALPHA = 0.1  # of the episodes: the tail that a CVaR averages
CVAR = f"CVaR {100 * CVAR_ALPHA:g} %"


class Histogram(NamedTuple):
    values: np.ndarray
    often: np.ndarray


def mean(values: ArrayLike) -> float:
    """Arithmetic mean."""
    return float(_vector(values).mean())


def std(values: ArrayLike) -> float:
    """Standard deviation of the episodes themselves (divisor N)."""
    return float(_vector(values).std())


def worst(counts: ArrayLike) -> float:
    """The largest count of any episode."""
    return float(_vector(counts).max())


def p_any(counts: ArrayLike) -> float:
    """P(> 0): share of episodes with any violation, which of counts is P(>= 1)."""
    return float((_vector(counts) > 0).mean())


def p_over(counts: ArrayLike, budget: float) -> float:
    """P(> budget): share of episodes with more violations than the budget."""
    return float((_vector(counts) > budget).mean())


over_one = partial(p_over, budget=1)


def excess(counts: ArrayLike, limit: float) -> float:
    """Mean of what episodes beyond the limit have beyond it; NaN where there is no such episode."""
    beyond = _vector(counts)
    beyond = beyond[beyond > limit] - limit
    return float(beyond.mean()) if beyond.size else math.nan


def tail_size(episodes: int, alpha: float = CVAR_ALPHA) -> int:
    """ceil(alpha * N): how many episodes the CVaR averages."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha} is not a share of the episodes; use a number in (0, 1]")
    return math.ceil(round(alpha * episodes, 9))  # 0.07 * 100 is 7.000000000000001


def cvar(counts: ArrayLike, alpha: float = CVAR_ALPHA) -> float:
    """CVaR: mean of the worst ceil(alpha * N) episodes."""
    counts = _vector(counts)
    tail = tail_size(counts.size, alpha)
    return float(np.partition(counts, counts.size - tail)[counts.size - tail :].mean())


def mixture_cvar(low: Histogram, high: Histogram, weight: float, alpha: float = CVAR_ALPHA) -> float:
    """CVaR of an agent that is `high` in this share of its episodes and `low` in all others.

    Its mean return and mean violations lie on the straight line between theirs; its CVaR does not.
    """
    parts = [(1 - weight, *low), (weight, *high)]
    values = np.concatenate([counts for _, counts, _ in parts])
    shares = np.concatenate([part * often / often.sum() for part, _, often in parts])
    tail = sum(part * tail_size(int(often.sum()), alpha) / often.sum() for part, _, often in parts)
    order = np.argsort(-values, kind="stable")
    values, shares = values[order], shares[order]
    taken = np.clip(tail - (np.cumsum(shares) - shares), 0.0, shares)
    return float((taken * values).sum() / taken.sum())


def histogram(counts: ArrayLike) -> Histogram:
    """The counts that occur, and how often."""
    values, often = np.unique(_vector(counts), return_counts=True)
    return Histogram(values, often)


def tail_share(episodes: int, alpha: float = CVAR_ALPHA) -> float:
    """The share of N episodes that the CVaR averages: ceil(alpha * N) / N, of 32 episodes 4."""
    return tail_size(episodes, alpha) / episodes


def least_cvar(mean: float, alpha: float = CVAR_ALPHA, episodes: int | None = None) -> float:
    """The smallest CVaR that whole counts with this mean allow: every episode has ⌊mean⌋ or one more.

    `episodes` is how many of them the CVaR was taken of, whose tail holds ⌈alpha N⌉; without it, any number.
    """
    floor, share = math.floor(mean), alpha if episodes is None else tail_share(episodes, alpha)
    return floor + min(1.0, (mean - floor) / share)


def independent_cvar(mean: float, alpha: float = CVAR_ALPHA) -> float:
    """The CVaR of violations that fall independently of each other: counts by Poisson's law.

    E[N; N > q] = mean P(N >= q), and the episodes that are left of the tail have q, its smallest count.
    """
    from scipy.special import ndtri, pdtrc, pdtrik  # the normal quantile; P(N > q), and q from P(N <= q)

    if mean == 0:
        return 0.0
    if mean > MANY:  # where pdtrik fails, and the law is normal to every digit that is shown
        return float(mean + math.sqrt(mean / math.tau) * math.exp(-(ndtri(1 - alpha) ** 2) / 2) / alpha)
    q = math.floor(pdtrik(1 - alpha, mean)) if pdtrc(0, mean) > alpha else 0
    while pdtrc(q, mean) > alpha:
        q += 1
    at_least = pdtrc(q - 1, mean) if q else 1.0
    return float((mean * at_least + q * (alpha - pdtrc(q, mean))) / alpha)


def independent_over(mean: float, budget: float) -> float:
    """P(> budget) of violations that fall independently of each other."""
    from scipy.special import pdtrc

    return float(pdtrc(budget, mean)) if mean > 0 else 0.0


def rate(counts: ArrayLike, lengths: ArrayLike) -> float:
    """Violations per environment step: all violations over all steps.  NaN where lengths are not known."""
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
        raise ValueError(f"shape {vector.shape}: a metric needs one value an episode, at least one episode")
    return vector


class MetricSpec(NamedTuple):
    """A metric of one seed's counts as a report shows it, for every agent, as the mean over seeds."""

    name: str  # its column in a CSV; `<name>_ci` is the half width of its interval over seeds
    heading: str  # its column on the page
    of: Callable[[np.ndarray], float]
    meaning: str  # among the definitions; empty where the heading says it, or the line of another metric
    term: str = ""  # what the definitions call it, if not by its heading
    digits: int = 2
    interval: bool = False  # whether the page shows its interval too
    largest: bool = False  # the largest over seeds, which has no interval
    share: bool = False  # of episodes, in per cent
    scaled: bool = False  # in the unit of what is counted: as many digits as fit its size, and `digits` for nothing


WITH_ANY = "share of episodes with any violation, with more than k"
WORST_MEAN = "mean of the worst ⌈{:g} N⌉ episodes of a seed, then the mean over seeds"
_IN_ORDER = (
    MetricSpec("violations", "Violations", mean, "mean number of violations an episode", interval=True, scaled=True),
    MetricSpec("std", "Std", std, "", scaled=True),
    MetricSpec("p_any", "P(≥1)", p_any, WITH_ANY, "P(≥1), P(>k)", digits=1, share=True),
    MetricSpec("p_over_1", "P(>1)", over_one, "", digits=1, share=True),
    MetricSpec("cvar", CVAR, cvar, WORST_MEAN.format(CVAR_ALPHA), interval=True, scaled=True),
    MetricSpec("worst", "Worst", worst, "", digits=0, largest=True),
)
METRIC_SPECS = {metric.name: metric for metric in _IN_ORDER}


def register(metric: MetricSpec) -> MetricSpec:
    """Show this metric, after those declared before, in every report that is built from here on."""
    for other in METRIC_SPECS.values():
        if metric.name == other.name or metric.heading == other.heading:
            raise ValueError(
                f"{metric.name!r} ({metric.heading}) cannot be declared beside {other.name!r} ({other.heading}); "
                "choose a name and a heading of its own"
            )
    METRIC_SPECS[metric.name] = metric
    return metric
