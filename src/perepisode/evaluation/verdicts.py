"""Verdicts on agents: equal means, heavier tails, shares beyond a limit, and how many seeds would settle them.

Seeds are the unit of replication.  An agent is a sequence of seeds, each an array of one cost or count per episode.

- Means are *equivalent*, *different* or *undecided* (`equivalence`): two one-sided tests against a stated margin.
- Tails are compared by one primary test (`tail_test`, `tail_tests`), chosen beforehand by simulation.
- Shares of episodes beyond a limit have intervals and a test (`share`, `share_test`).
- A CVaR that only restates the mean is recognised (`cvar_support`), and so is a total that one episode dominates
  (`influence`).
- `tail_plan` says what the same agents with more seeds would show.

benchmarks/verdicts.py measures false alarms and power; its tables are in results/verdicts.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from perepisode import metrics
from perepisode.evaluation import compare

SIGNIFICANT = 0.05
MARGIN_SHARE = 0.2  # of the range of mean return from the cleanest agent to the best: the default margin
INFLUENTIAL = 0.1  # of an agent's total: a single episode that carries as much is reported
POWER = 0.8  # with which a difference is found: for sample sizes
MAX_SEEDS = 200  # per agent: beyond it no sample size is sought
DEEPER = (1.0, 0.2, 0.1, 0.05)  # the primary test looks at these multiples of the CVaR level
ROUND_LEVELS = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)  # that can replace a CVaR level beyond the data's support
TAIL_EPISODES = 10  # over all seeds: fewer of them support no CVaR
EQUIVALENT, DIFFERENT, UNDECIDED = "equivalent", "different", "undecided"
MAX_SUBSETS = 32  # of a seed that has more episodes than another
_CLIP = 0.95  # one-sided p values above it count as it, so that one level cannot veto all others

Agent = Sequence[ArrayLike]  # one array of episodes per seed


# ---- means --------------------------------------------------------------------------------------------------


class Equivalence(NamedTuple):
    """mean(b) - mean(a) over seeds against a margin.

    *Equivalent* if two one-sided tests place the difference within ± margin; otherwise *different* if Welch's test
    finds a difference; otherwise *undecided*.

    Both can hold: precise data show a difference that the margin declares irrelevant.  The verdict is then
    *equivalent*, because the margin was set as the largest difference that does not matter, and with enough seeds
    no two agents would ever be equivalent otherwise.  `detectable` is still true, so that a page can say so.
    """

    difference: float
    half: float  # half width of the 95 % interval, never corrected; NaN where a seed count is one
    margin: float
    p_different: float
    p_equivalent: float  # the larger of the two one-sided p values

    @property
    def verdict(self) -> str:
        if self.p_equivalent < SIGNIFICANT:
            return EQUIVALENT
        return DIFFERENT if self.detectable else UNDECIDED

    @property
    def detectable(self) -> bool:
        """Whether a difference is found, however small."""
        return self.p_different < SIGNIFICANT

    @property
    def reversed(self) -> "Equivalence":
        """With the two agents exchanged."""
        return self._replace(difference=-self.difference)


def equivalence(a: ArrayLike, b: ArrayLike, margin: float) -> Equivalence:
    """Welch's two one-sided tests of |mean(b) - mean(a)| < margin, from one number per seed.

    A NaN margin, where none can be stated, or a single seed never gives *equivalent*.  Seeds that are all alike carry
    no error of their own: an exact permutation of seed labels then decides whether two constants differ.
    """
    from scipy.special import stdtr

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if margin < 0:
        raise ValueError(f"margin={margin} is negative; use the largest difference that does not matter")
    apart, half, _ = compare.difference(b, a)
    if min(a.size, b.size) < 2:
        return Equivalence(apart, math.nan, margin, math.nan, math.nan)
    p_different, error, freedom = _welch(a, b, capped=False)
    if error > 0:
        p_equivalent = float(stdtr(freedom, (abs(apart) - margin) / error))
    else:
        p_equivalent = float(abs(apart) > margin) if margin == margin else math.nan
    return Equivalence(apart, half, margin, float(p_different), p_equivalent)


def corrected(found: Sequence[Equivalence]) -> list[Equivalence]:
    """The verdicts of several pairs on one mean: p of either kind is corrected by Holm for all of them.

    Among identical agents at most one table in twenty then has a pair that is called different; among agents whose
    means differ by the margin or more, at most one has a pair that is called equivalent.
    """
    different = compare.holm([one.p_different for one in found])
    equivalent = compare.holm([one.p_equivalent for one in found])
    return [one._replace(p_different=p, p_equivalent=q) for one, p, q in zip(found, different, equivalent)]


def default_margin(returns: ArrayLike, costs: ArrayLike, share: float = MARGIN_SHARE) -> float:
    """A share of the range of mean return between the best agent and the cleanest one, from one mean per agent.

    The range is what avoiding all harm costs, so the margin is a share of that price.  NaN where the best agent is
    also the cleanest: avoiding harm then costs nothing, and the data state no margin.
    """
    returns, costs = np.asarray(returns, np.float64), np.asarray(costs, np.float64)
    cleanest = returns[costs == costs.min()].max()
    spread = float(returns.max() - cleanest)
    return share * spread if spread > 0 else math.nan


# ---- tails --------------------------------------------------------------------------------------------------


class LevelTest(NamedTuple):
    """CVaR at one level: the seed means, their ratio b / a on the log scale, Welch's p."""

    level: float
    a: float
    b: float
    ratio: float
    p: float  # uncorrected

    @property
    def reversed(self) -> "LevelTest":
        """With the two agents exchanged."""
        return LevelTest(self.level, self.b, self.a, 1 / self.ratio, self.p)


class TailTest(NamedTuple):
    """The primary test of equal tails and what it consists of.

    Welch's test on the logarithm of the CVaR over seeds, at the stated level and at a fifth, a tenth and a twentieth
    of it (10, 2, 1 and 0.5 %), as far as every seed has an episode there.  One-sided p values are combined by
    Cauchy's rule, which holds for dependent tests; p is twice the smaller of the two directions.

    Seeds with more episodes than others are cut into subsets of the smaller size (`_subset_cvars`), and the tests of
    all subsets are combined in the same way.  Their mean would be known better than the other agent's CVaR, and
    Welch's test finds heavy tails that are alike too often then.
    """

    p: float  # NaN with a single seed
    corrected: float  # by Holm over all pairs that were tested together
    heavier: int  # 1: b has the heavier tail, -1: a has, 0: neither
    levels: tuple[LevelTest, ...]
    cvar_welch: float  # secondary: Welch's test of the plain CVaR at the stated level, uncorrected

    @property
    def clearest(self) -> LevelTest:
        """The level at which the tails differ most clearly in the direction of the verdict."""
        sides = [one for one in self.levels if (one.ratio - 1) * self.heavier > 0] or list(self.levels)
        return min(sides, key=lambda one: one.p if one.p == one.p else math.inf)

    @property
    def reversed(self) -> "TailTest":
        """With the two agents exchanged."""
        return self._replace(heavier=-self.heavier, levels=tuple(one.reversed for one in self.levels))


class TailSample(NamedTuple):
    """One agent, prepared once for all of its pairs: each seed's episodes sorted, none below zero."""

    seeds: tuple[np.ndarray, ...]
    positive: float  # total over all episodes
    often: int  # how many episodes are above zero

    @property
    def smallest(self) -> int:
        return min(seed.size for seed in self.seeds)


def tail_sample(agent: Agent) -> TailSample:
    """Episodes and seeds in an order that does not depend on the table's; negative costs count as zero."""
    seeds = tuple(np.maximum(np.sort(np.asarray(seed, np.float64)), 0.0) for seed in agent)
    seeds = tuple(sorted(seeds, key=lambda seed: (seed.sum(), seed.size)))
    if not seeds or min(seed.size for seed in seeds) == 0:
        raise ValueError("an agent needs at least one seed, and every seed at least one episode")
    return TailSample(seeds, float(sum(seed.sum() for seed in seeds)), int(sum((seed > 0).sum() for seed in seeds)))


def tail_tests(
    agents: Sequence[Agent | TailSample],
    pairs: Sequence[tuple[int, int]] | None = None,
    alpha: float = metrics.CVAR_ALPHA,
) -> list[TailTest]:
    """The primary test of every pair, all pairs of agents unless stated, corrected by Holm."""
    samples = [agent if isinstance(agent, TailSample) else tail_sample(agent) for agent in agents]
    pairs = list(combinations(range(len(samples)), 2)) if pairs is None else pairs
    cached: dict[tuple[int, int], list[np.ndarray]] = {}

    def cvars(index: int, episodes: int) -> list[np.ndarray]:
        if (index, episodes) not in cached:
            cached[index, episodes] = _subset_cvars(samples[index], episodes, tail_levels(episodes, alpha))
        return cached[index, episodes]

    tests = []
    for i, j in pairs:
        episodes = min(samples[i].smallest, samples[j].smallest)
        tests.append(_tail_test(samples[i], samples[j], cvars(i, episodes), cvars(j, episodes), episodes, alpha))
    corrected = compare.holm([test.p for test in tests])
    return [test._replace(corrected=p) for test, p in zip(tests, corrected)]


def tail_test(a: Agent | TailSample, b: Agent | TailSample, alpha: float = metrics.CVAR_ALPHA) -> TailTest:
    """The primary test of one pair that was fixed beforehand."""
    return tail_tests([a, b], [(0, 1)], alpha)[0]


def tail_levels(episodes: int, alpha: float = metrics.CVAR_ALPHA) -> np.ndarray:
    """The levels of the primary test: those of `DEEPER` at which a seed has at least one episode."""
    levels = alpha * np.array(DEEPER)
    return levels[: max(1, int((levels * episodes > 1 - 1e-9).sum()))]


def level_cvars(episodes: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """CVaR at each level of the episodes on the last axis: the last episode of a tail counts in part.

    `metrics.cvar` rounds the tail up to whole episodes, which would favour seeds with more episodes.
    """
    count = episodes.shape[-1]
    sizes = np.maximum(levels * count, 1.0)
    whole = np.floor(sizes + 1e-9).astype(int)
    kept = min(count, int(whole.max()) + 1)
    tail = np.sort(np.partition(episodes, count - kept, axis=-1)[..., count - kept :], axis=-1)[..., ::-1]
    total, following = np.cumsum(tail, axis=-1), tail[..., np.minimum(whole, kept - 1)]
    return (total[..., whole - 1] + np.maximum(sizes - whole, 0.0) * following) / sizes


def offsets(total: ArrayLike, often: ArrayLike, levels: np.ndarray, episodes: int) -> np.ndarray:
    """What is added to each CVaR before the logarithm: one typical harmful episode of the pair, in the tail.

    Seeds without any harm have a logarithm then, and the test does not depend on the unit of cost.
    """
    total, often = np.asarray(total, np.float64), np.asarray(often, np.float64)
    typical = np.where(often > 0, total / np.maximum(often, 1), 1.0)
    return typical[..., None] / np.maximum(levels * episodes, 1.0)


def combined(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p and direction (1: b is larger) of log CVaRs a[..., level, seed] against b: Welch per level, Cauchy's rule."""
    p, _, _ = _welch(a, b)
    larger = b.mean(-1) > a.mean(-1)
    sides = []
    for side in (larger, ~larger):
        one_sided = np.clip(np.where(side, p / 2, 1 - p / 2), 1e-15, _CLIP)
        sides.append(0.5 - np.arctan(np.tan(np.pi * (0.5 - one_sided)).mean(-1)) / np.pi)
    up, down = sides
    return np.minimum(1.0, 2 * np.minimum(up, down)), np.where(up < down, 1, np.where(down < up, -1, 0))


def _tail_test(
    a: TailSample, b: TailSample, cvars_a: list[np.ndarray], cvars_b: list[np.ndarray], episodes: int, alpha: float
) -> TailTest:
    levels = tail_levels(episodes, alpha)
    added = offsets(a.positive + b.positive, a.often + b.often, levels, episodes)
    subsets = np.arange(max(len(seed) for seed in (*cvars_a, *cvars_b)))
    logs = [  # [level, subset, seed]
        np.array([np.log(seed[subsets % len(seed)] + added) for seed in cvars]).T for cvars in (cvars_a, cvars_b)
    ]
    means = [np.array([seed.mean(0) for seed in cvars]).T for cvars in (cvars_a, cvars_b)]  # [level, seed]
    apart = logs[1].mean((1, 2)) - logs[0].mean((1, 2))
    p, heavier, each, plain = math.nan, 0, np.full(levels.size, math.nan), math.nan
    if min(len(a.seeds), len(b.seeds)) > 1:
        p, heavier = combined(*(log.reshape(-1, log.shape[-1]) for log in logs))
        each, _ = combined(*logs)
        plain = float(_welch(means[0][0], means[1][0], capped=False)[0])
    numbers = zip(levels, means[0].mean(1), means[1].mean(1), np.exp(apart), each)
    return TailTest(float(p), float(p), int(heavier), tuple(LevelTest(*map(float, row)) for row in numbers), plain)


def _subset_cvars(sample: TailSample, episodes: int, levels: np.ndarray) -> list[np.ndarray]:
    """Of each seed: the CVaRs [subset, level] of subsets of so many episodes.

    The logarithm of a CVaR depends on how many episodes it is taken of.  A seed with more than the smallest of the
    pair is therefore cut into random subsets of that size, which have the same law.  The cut does not depend on the
    order of the table.  Each seed has a cut of its own: else the worst episodes of all seeds would meet in one subset.
    """
    found = []
    for position, seed in enumerate(sample.seeds):
        if seed.size == episodes:
            found.append(level_cvars(seed, levels)[None])
            continue
        shuffled = seed[np.random.default_rng([seed.size, position]).permutation(seed.size)]
        starts = episodes * np.arange(min(math.ceil(seed.size / episodes), MAX_SUBSETS))
        subsets = shuffled[(starts[:, None] + np.arange(episodes)) % seed.size]
        found.append(level_cvars(subsets, levels))
    return found


# ---- shares of episodes beyond a limit ----------------------------------------------------------------------


class Share(NamedTuple):
    """P(> limit): the seed mean and its interval, which stays within 0 and 1 and is open at none exceeding."""

    mean: float
    low: float
    high: float


class ShareTest(NamedTuple):
    """P_b(> limit) - P_a(> limit), its interval from the two shares' own (Newcombe), and p of equal shares."""

    a: Share
    b: Share
    difference: float
    low: float
    high: float
    p: float
    corrected: float

    @property
    def reversed(self) -> "ShareTest":
        """With the two agents exchanged."""
        return ShareTest(self.b, self.a, -self.difference, -self.high, -self.low, self.p, self.corrected)


def share(agent: Agent, limit: float, level: float = 0.95) -> Share:
    """P(> limit) with Wilson's interval at the effective number of episodes, t instead of the normal quantile.

    Seeds that differ more than chance allows make episodes count for less: their number is divided by the ratio of
    the variance over seeds to the binomial one, which is taken as at least one.
    """
    over, episodes = _exceeding(agent, limit)
    return _share(over, episodes, level)


def share_test(a: Agent, b: Agent, limit: float) -> ShareTest:
    """Welch's test over seeds on Freeman and Tukey's transform, with at least the binomial variance.

    2 asin(sqrt(share)), in its form for small counts, has nearly the same variance at every share.
    """
    return share_tests([a, b], limit)[0]


def share_tests(
    agents: Sequence[Agent], limit: float, pairs: Sequence[tuple[int, int]] | None = None
) -> list[ShareTest]:
    """The test of every pair, corrected by Holm."""
    counted = [_exceeding(agent, limit) for agent in agents]
    shares = [_share(over, episodes) for over, episodes in counted]
    tests = []
    for i, j in combinations(range(len(agents)), 2) if pairs is None else pairs:
        a, b = shares[i], shares[j]
        low = b.mean - a.mean - math.hypot(b.mean - b.low, a.high - a.mean)
        high = b.mean - a.mean + math.hypot(b.high - b.mean, a.mean - a.low)
        p = float(exceedance_p(*counted[i], *counted[j]))
        tests.append(ShareTest(a, b, b.mean - a.mean, low, high, p, p))
    return [test._replace(corrected=p) for test, p in zip(tests, compare.holm([test.p for test in tests]))]


def exceedance_p(over_a: np.ndarray, episodes_a: np.ndarray, over_b: np.ndarray, episodes_b: np.ndarray) -> np.ndarray:
    """p of equal shares from how many of each seed's episodes exceed the limit; seeds are on the last axis.

    A transformed share depends on its number of episodes.  Seeds with more than the smallest of the pair therefore
    enter with the expectation over random subsets of that size.
    """
    if min(over_a.shape[-1], over_b.shape[-1]) < 2:
        return np.full(over_a.shape[:-1], math.nan)
    size = int(min(episodes_a.min(), episodes_b.min()))
    pooled = (over_a.sum(-1) + over_b.sum(-1)) / (episodes_a.sum() + episodes_b.sum())
    binomial = np.minimum(1.0, 2 * np.minimum(pooled, 1 - pooled) * size)  # variance of the transform, times episodes
    sides = []
    for over, episodes in ((over_a, episodes_a), (over_b, episodes_b)):
        values, seeds = _freeman_tukey(over, episodes, size), over.shape[-1]
        variance = np.maximum(values.var(-1, ddof=1), binomial * (1 / episodes).mean())
        sides.append((values.mean(-1), variance / seeds, seeds))
    return _p_of_means(sides[0], sides[1])[0]


def _exceeding(agent: Agent, limit: float) -> tuple[np.ndarray, np.ndarray]:
    seeds = [np.asarray(seed, np.float64) for seed in agent]
    return np.array([(seed > limit).sum() for seed in seeds]), np.array([seed.size for seed in seeds])


def _share(over: np.ndarray, episodes: np.ndarray, level: float = 0.95) -> Share:
    from scipy.special import stdtrit

    shares, total = over / episodes, float(episodes.sum())
    mean = float(shares.mean())
    if shares.size < 2:
        return Share(mean, math.nan, math.nan)
    binomial = mean * (1 - mean) / total
    effective = total * binomial / max(float(shares.var(ddof=1)) / shares.size, binomial) if binomial else total
    t = float(stdtrit(shares.size - 1, (1 + level) / 2))
    shrink = 1 + t * t / effective
    centre = (mean + t * t / (2 * effective)) / shrink
    half = t * math.sqrt(mean * (1 - mean) / effective + t * t / (4 * effective**2)) / shrink
    return Share(mean, max(0.0, centre - half), min(1.0, centre + half))


def _freeman_tukey(over: np.ndarray, episodes: np.ndarray, size: int) -> np.ndarray:
    """asin(sqrt(x / (n + 1))) + asin(sqrt((x + 1) / (n + 1))) of counts x[..., seed] among n = `size` episodes."""
    every = np.arange(size + 1)
    transform = np.arcsin(np.sqrt(every / (size + 1))) + np.arcsin(np.sqrt((every + 1) / (size + 1)))
    values = transform[np.minimum(over, size)]
    for seed, count in enumerate(episodes):
        if count == size:
            continue
        found, where = np.unique(over[..., seed], return_inverse=True)
        values[..., seed] = (_subset_law(found, int(count), size) @ transform)[where].reshape(over.shape[:-1])
    return values


def _subset_law(over: np.ndarray, episodes: int, size: int) -> np.ndarray:
    """The hypergeometric law [over, count]: how many of `size` episodes out of all exceed, if `over` of all do."""
    from scipy.special import gammaln

    def log_choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
        inside = (k >= 0) & (k <= n)
        n, k = np.where(inside, n, 0), np.where(inside, k, 0)
        return np.where(inside, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)

    every, over = np.arange(size + 1.0), np.asarray(over, np.float64)[:, None]
    log = log_choose(over, every) + log_choose(episodes - over, size - every)
    law = np.exp(log - log.max(axis=1, keepdims=True))
    return law / law.sum(axis=1, keepdims=True)


# ---- what the data can support ------------------------------------------------------------------------------


class Support(NamedTuple):
    """Which agents have too few harmful episodes for the CVaR, and a level that all of them support."""

    beyond: tuple[bool, ...]  # of each agent: P(> 0) < alpha, so that its CVaR is mean / alpha
    level: float  # the largest round level that every agent's data support; NaN where there is none


def cvar_support(agents: Sequence[Agent], alpha: float = metrics.CVAR_ALPHA) -> Support:
    """Recognise CVaRs at a level beyond the data's support: P(> 0) < alpha, so that CVaR = mean / alpha."""
    pooled = [np.concatenate([np.asarray(seed, np.float64) for seed in agent]) for agent in agents]
    shares, fewest = [float((costs > 0).mean()) for costs in pooled], min(costs.size for costs in pooled)
    fits = (at for at in ROUND_LEVELS if at < alpha and at <= min(shares) and at * fewest >= TAIL_EPISODES)
    return Support(tuple(share < alpha for share in shares), next(fits, math.nan))


class Influence(NamedTuple):
    """The episode with the largest cost: its share of the agent's total over all seeds."""

    share: float
    value: float
    seed: int  # position among the agent's seeds
    episode: int  # position among that seed's episodes
    flagged: bool


def influence(agent: Agent, at_least: float = INFLUENTIAL) -> Influence:
    """How much of an agent's total its single worst episode carries; flagged from a tenth on."""
    seeds = [np.maximum(np.asarray(seed, np.float64), 0.0) for seed in agent]
    which = int(np.argmax([seed.max() for seed in seeds]))
    episode = int(seeds[which].argmax())
    value, total = float(seeds[which][episode]), float(sum(seed.sum() for seed in seeds))
    part = value / total if total > 0 else 0.0
    return Influence(part, value, which, episode, part >= at_least)


# ---- sample sizes -------------------------------------------------------------------------------------------


class TailPlan(NamedTuple):
    """What the primary test would show of two agents like these; estimates from these data, not promises."""

    power: float  # with as many seeds as there are
    seeds: int | None  # per agent, for 80 % power; None where more than `MAX_SEEDS` are needed
    ratio: float  # of CVaRs, at every level, that would be found with 80 % power and as many seeds as there are


def tail_plan(
    a: Agent | TailSample,
    b: Agent | TailSample,
    comparisons: int = 1,
    alpha: float = metrics.CVAR_ALPHA,
    power: float = POWER,
) -> TailPlan:
    """Power now, the seeds needed, and the detectable ratio, where p is corrected for so many comparisons.

    New seeds are drawn from normal laws with the means and covariances of the log CVaRs over the seeds at hand.
    Correcting by the number of comparisons, rather than by Holm, errs on the safe side.
    """
    samples = [one if isinstance(one, TailSample) else tail_sample(one) for one in (a, b)]
    seeds = [len(sample.seeds) for sample in samples]
    if min(seeds) < 2:
        return TailPlan(math.nan, None, math.nan)
    logs = _log_cvars(samples[0], samples[1], alpha)
    apart = logs[1].mean(1) - logs[0].mean(1)

    def at(shift: np.ndarray, sizes: Sequence[int]) -> float:
        return _simulated_power(logs, shift, sizes, SIGNIFICANT / comparisons)

    needed = _smallest(lambda size: at(apart, (size, size)) >= power, 2, MAX_SEEDS)
    low, high = 0.0, 1.0
    while at(np.full_like(apart, high), seeds) < power and high < 32:
        high *= 2
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if at(np.full_like(apart, middle), seeds) >= power else (middle, high)
    return TailPlan(at(apart, seeds), needed, float(np.exp(high)) if high < 32 else math.inf)


def _log_cvars(a: TailSample, b: TailSample, alpha: float) -> list[np.ndarray]:
    """logs[level, seed] of both agents, as the primary test takes them."""
    episodes = min(a.smallest, b.smallest)
    levels = tail_levels(episodes, alpha)
    added = offsets(a.positive + b.positive, a.often + b.often, levels, episodes)
    return [
        np.array([np.log(seed + added).mean(0) for seed in _subset_cvars(sample, episodes, levels)]).T
        for sample in (a, b)
    ]


def _simulated_power(
    logs: Sequence[np.ndarray], shift: np.ndarray, sizes: Sequence[int], alpha: float, draws: int = 600
) -> float:
    """The share of made-up comparisons, with so many seeds per agent, that find b heavier or lighter as it is."""
    generator, made = np.random.default_rng(0), []
    for log, size in zip(logs, sizes):
        residuals = (log - log.mean(1, keepdims=True)) / np.sqrt(log.shape[1] - 1)
        made.append(residuals @ generator.standard_normal((draws, log.shape[1], size)))
    p, direction = combined(made[0], made[1] + shift[:, None])
    return float(((p < alpha) & (direction == (1 if shift.mean() >= 0 else -1))).mean())


def _smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number for which it holds, if it holds from there on; None where it fails at `high`."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


# ---- Welch's test on whole arrays ---------------------------------------------------------------------------


def _welch(a: np.ndarray, b: np.ndarray, capped: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two-sided p, standard error and degrees of freedom over the last axis.

    Where no seed differs from another there is no error: p is then that of an exact permutation of seed labels, the
    smallest that so many seeds allow, or one where the two agents have the same value.
    """
    n_a, n_b = a.shape[-1], b.shape[-1]
    return _p_of_means((a.mean(-1), a.var(-1, ddof=1) / n_a, n_a), (b.mean(-1), b.var(-1, ddof=1) / n_b, n_b), capped)


def _p_of_means(
    a: tuple[np.ndarray, np.ndarray, int], b: tuple[np.ndarray, np.ndarray, int], capped: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same from (mean, squared standard error, seeds) of each.

    Between 3 and 8 normal seeds Welch's test finds a difference at 0.05 / 6 in 1.6 times as many cases as it should:
    three seeds that are close by chance hardly count in its degrees of freedom.  `capped` allows no more of these
    than if both agents had the smaller number of seeds.  With equal numbers nothing changes.
    """
    from scipy.special import stdtr

    (mean_a, error_a, n_a), (mean_b, error_b, n_b) = a, b
    scale = np.maximum(abs(mean_a), abs(mean_b))
    error, apart = error_a + error_b, mean_b - mean_a
    flat = error <= (1e-12 * scale) ** 2  # rounding of equal numbers is no spread
    safe = np.where(flat, 1.0, error)
    freedom = np.where(flat, 1.0, safe**2 / np.where(flat, 1, error_a**2 / (n_a - 1) + error_b**2 / (n_b - 1)))
    freedom = np.minimum(freedom, 2 * (min(n_a, n_b) - 1)) if capped else freedom
    p = 2 * stdtr(freedom, -abs(apart) / np.sqrt(safe))
    constant = np.where(abs(apart) <= 1e-12 * scale, 1.0, min(1.0, 2 / math.comb(n_a + n_b, n_a)))
    return np.where(flat, constant, p), np.where(flat, 0.0, np.sqrt(safe)), freedom
