"""Ground truth for `temptation`: the exact distribution under a linear price and the exact optimum of any utility.

The utility is that of expected scalarised returns (ESR).  Plain NumPy in float64, independent of the environment's code
and of JAX, which makes it an oracle for tests.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from perepisode.environments.temptation import Temptation

CELLS = 100  # the gain is discretised into this many equal cells, each represented by its midpoint


@dataclass(frozen=True)
class Exact:
    """Exact statistics of an optimal policy, per episode."""

    mean_return: float
    utility: float  # E[u(G)], NaN without a utility
    counts: np.ndarray  # P(v = 0), P(v = 1), …

    @property
    def mean_count(self) -> float:
        return float(self.counts @ np.arange(len(self.counts)))

    @property
    def p_any(self) -> float:
        return float(1.0 - self.counts[0])

    def p_over(self, budget: float) -> float:
        return float(self.counts[np.arange(len(self.counts)) > budget].sum())

    def cvar(self, alpha: float = 0.1) -> float:
        """Mean over the worst share `alpha` of episodes, the limit of the sample conditional value at risk (CVaR)."""
        left, total = alpha, 0.0
        for count in range(len(self.counts) - 1, -1, -1):
            share = min(left, float(self.counts[count]))
            total, left = total + share * count, left - share
        return total / alpha


def linear_price(env: Temptation, price: float) -> Exact:
    """The policy that accepts every gain above `price`, optimal for r_ext - price c.  Its counts are binomial."""
    accept = env.offer_prob * max(0.0, 1.0 - price / env.max_gain)
    counts = stats.binom.pmf(np.arange(env.horizon + 1), env.horizon, accept)
    price = min(price, env.max_gain)
    paid = env.horizon * env.offer_prob * (env.max_gain**2 - price**2) / (2.0 * env.max_gain)
    mean_return = env.horizon * env.wage + paid
    return Exact(mean_return, mean_return - price * float(counts @ np.arange(env.horizon + 1)), counts)


def price_for_mean_count(env: Temptation, mean_count: float) -> float:
    """The price at which a linear agent accepts `mean_count` offers per episode: the limit of λ."""
    return max(0.0, env.max_gain * (1.0 - mean_count / (env.horizon * env.offer_prob)))


def price_for_mean_return(env: Temptation, mean_return: float) -> float:
    """The price at which a linear agent earns `mean_return`, to match it to another agent."""
    paid = mean_return - env.horizon * env.wage
    return math.sqrt(max(0.0, env.max_gain**2 - 2.0 * env.max_gain * paid / (env.horizon * env.offer_prob)))


Utility = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of return and count


def esr_optimum(env: Temptation, utility: Utility, most: int = 20, judged_by: Utility | None = None) -> Exact:
    """Exact maximiser of E[u(R_ext, v)] by backward induction over (time, accrued return, count).

    With `judged_by`, `Exact.utility` is the expectation of that utility under this policy.

    The accrued return is the certain wage plus the accepted gains, kept on a grid of half cells that contains every sum
    of midpoints.  Counts above `most` are unreachable; make it large enough.
    """
    value, accepts = _backward_induction(env, utility, most)
    probability = np.zeros_like(value)
    probability[0, 0] = 1.0
    for accept in accepts:
        probability = _next_probability(probability, accept, _midpoints(), env.offer_prob)
    taken = np.arange(value.shape[1]) * env.max_gain / CELLS / 2.0
    mean_return = env.horizon * env.wage + float((probability.sum(axis=0) * taken).sum())
    reached = float(value[0, 0])
    if judged_by is not None:
        count = np.arange(len(value))[:, None].astype(float)
        reached = float((probability * judged_by(env.horizon * env.wage + taken[None, :], count)).sum())
    return Exact(mean_return, reached, probability.sum(axis=1))


def esr_tables(env: Temptation, utility: Utility, most: int = 20) -> np.ndarray:
    """The optimal policy: bool[time, cell of the gain, count, half cells of gains taken], True to accept."""
    return np.stack(_backward_induction(env, utility, most)[1])


def _backward_induction(env: Temptation, utility: Utility, most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Value at the start, [count, taken], and the accepted cells of each step in order of time."""
    most = min(most, env.horizon)
    taken = np.arange(most * 2 * CELLS + 1) * env.max_gain / CELLS / 2.0
    count = np.arange(most + 1)[:, None].astype(float)
    value = utility(env.horizon * env.wage + taken[None, :], count)
    accepts = []
    for _ in range(env.horizon):
        refuse, accept = _action_values(value, _midpoints())
        take = accept > refuse[None]
        accepts.append(take)
        value = (1.0 - env.offer_prob) * refuse + env.offer_prob * np.where(take, accept, refuse[None]).mean(axis=0)
    return value, accepts[::-1]


def _midpoints() -> np.ndarray:
    """Midpoints of the gain's cells, in half cells."""
    return 2 * np.arange(CELLS) + 1


def _action_values(value: np.ndarray, midpoints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value of declining, [count, taken], and of accepting each midpoint, [cell, count, taken]."""
    accept = np.full((len(midpoints), *value.shape), -np.inf)
    for cell, shift in enumerate(midpoints):
        accept[cell, :-1, :-shift] = value[1:, shift:]
    return value, accept


def _next_probability(before: np.ndarray, accept: np.ndarray, midpoints: np.ndarray, offer_prob: float) -> np.ndarray:
    """Distribution over (count, taken) one step later."""
    after = (1.0 - offer_prob) * before
    for cell, shift in enumerate(midpoints):
        moved = before * accept[cell] * offer_prob / len(midpoints)
        after = after + before * ~accept[cell] * offer_prob / len(midpoints)
        after[1:, shift:] += moved[:-1, :-shift]
    return after
