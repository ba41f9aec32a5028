"""Ground truth for `temptation`: exact distribution of a linear price, exact ESR optimum of any utility.

Slow and obvious NumPy in float64, independent of the world's own code and of JAX: it is the oracle.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from perepisode.environments.temptation import Temptation

CELLS = 100  # the gain is cut into this many equal cells, each standing at its midpoint


@dataclass(frozen=True)
class Exact:
    """What an optimal policy does, per episode."""

    mean_return: float
    utility: float  # E[u(G)], NaN where no utility was given
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
        """Mean of the worst `alpha` of episodes, the limit of the sample CVaR."""
        left, total = alpha, 0.0
        for count in range(len(self.counts) - 1, -1, -1):
            share = min(left, float(self.counts[count]))
            total, left = total + share * count, left - share
        return total / alpha


def linear_price(env: Temptation, price: float) -> Exact:
    """The policy that takes every gain above `price`: counts are binomial.  It is optimal for r_ext - price c."""
    accept = env.offer_prob * max(0.0, 1.0 - price / env.max_gain)
    counts = stats.binom.pmf(np.arange(env.horizon + 1), env.horizon, accept)
    price = min(price, env.max_gain)
    paid = env.horizon * env.offer_prob * (env.max_gain**2 - price**2) / (2.0 * env.max_gain)
    mean_return = env.horizon * env.wage + paid
    return Exact(mean_return, mean_return - price * float(counts @ np.arange(env.horizon + 1)), counts)


def price_for_mean_count(env: Temptation, mean_count: float) -> float:
    """The price at which a linear agent yields `mean_count` times an episode: where λ must settle."""
    return max(0.0, env.max_gain * (1.0 - mean_count / (env.horizon * env.offer_prob)))


def price_for_mean_return(env: Temptation, mean_return: float) -> float:
    """The price whose agent earns `mean_return`: the linear agent matched to another one."""
    paid = mean_return - env.horizon * env.wage
    return math.sqrt(max(0.0, env.max_gain**2 - 2.0 * env.max_gain * paid / (env.horizon * env.offer_prob)))


Utility = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of the return and the count


def esr_optimum(env: Temptation, utility: Utility, most: int = 20) -> Exact:
    """Exact maximiser of E[u(R_ext, v)] by backward induction over (time, accrued return, count).

    The accrued return splits into the wage, which is certain, and the gains taken, kept on a grid of half cells so
    that every sum of midpoints falls on it.  Counts above `most` are out of reach; make it large enough.
    """
    value, accepts = _backwards(env, utility, most)
    law = np.zeros_like(value)
    law[0, 0] = 1.0
    for take in accepts:
        law = _next_law(law, take, _midpoints(), env.offer_prob)
    taken = np.arange(value.shape[1]) * env.max_gain / CELLS / 2.0
    mean_return = env.horizon * env.wage + float((law.sum(axis=0) * taken).sum())
    return Exact(mean_return, float(value[0, 0]), law.sum(axis=1))


def esr_tables(env: Temptation, utility: Utility, most: int = 20) -> np.ndarray:
    """The optimal policy itself: bool[time, cell of the gain, count, half cells of gains taken], True to accept."""
    return np.stack(_backwards(env, utility, most)[1])


def _backwards(env: Temptation, utility: Utility, most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Value at the start, [count, taken], and what is accepted at each step, first step first."""
    most = min(most, env.horizon)
    taken = np.arange(most * 2 * CELLS + 1) * env.max_gain / CELLS / 2.0
    count = np.arange(most + 1)[:, None].astype(float)
    value = utility(env.horizon * env.wage + taken[None, :], count)
    accepts = []
    for _ in range(env.horizon):
        refuse, accept = _values_of_choice(value, _midpoints())
        take = accept > refuse[None]
        accepts.append(take)
        value = (1.0 - env.offer_prob) * refuse + env.offer_prob * np.where(take, accept, refuse[None]).mean(axis=0)
    return value, accepts[::-1]


def _midpoints() -> np.ndarray:
    """Of the gain's cells, in half cells."""
    return 2 * np.arange(CELLS) + 1


def _values_of_choice(value: np.ndarray, midpoints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value of refusing, [count, taken], and of accepting each midpoint, [cell, count, taken]."""
    accept = np.full((len(midpoints), *value.shape), -np.inf)
    for cell, shift in enumerate(midpoints):
        accept[cell, :-1, :-shift] = value[1:, shift:]
    return value, accept


def _next_law(law: np.ndarray, take: np.ndarray, midpoints: np.ndarray, chance: float) -> np.ndarray:
    """Distribution over (count, taken) one step later."""
    after = (1.0 - chance) * law
    for cell, shift in enumerate(midpoints):
        moved = law * take[cell] * chance / len(midpoints)
        after = after + law * ~take[cell] * chance / len(midpoints)
        after[1:, shift:] += moved[:-1, :-shift]
    return after
