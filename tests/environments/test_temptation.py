"""Temptation against its definition, and its exact optima against brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from perepisode.config import ConfigError
from perepisode.environments.base import EndCause, Environment
from perepisode.environments.temptation import Temptation
from perepisode.environments.temptation.exact import (
    CELLS,
    esr_optimum,
    linear_price,
    price_for_mean_count,
    price_for_mean_return,
)


def tlo(tolerance, charge):
    return lambda r, v: expit(12.0 * (tolerance - v)) * r - charge * v


def test_one_episode_by_hand():
    env = Temptation(horizon=3, wage=0.5, offer_prob=1.0)
    state = env.reset(jax.random.key(0))
    gains, paid, taken, causes = [], [], [], []
    for t, action in enumerate((1, 0, 1)):
        gains.append(float(state.gain))
        state, outcome = env.step(jax.random.key(10 + t), state, jnp.int32(action))
        paid.append(float(outcome.task_reward))
        taken.append(int(outcome.violations[0]))
        causes.append(int(outcome.end_cause))
    assert paid == pytest.approx([0.5 + gains[0], 0.5, 0.5 + gains[2]])
    assert taken == [1, 0, 1]
    assert causes == [EndCause.RUNNING, EndCause.RUNNING, EndCause.TIMEOUT]


def test_accepting_without_an_offer_is_not_a_violation():
    env = Temptation(offer_prob=0.0)
    _, outcome = env.step(jax.random.key(1), env.reset(jax.random.key(0)), jnp.int32(1))
    assert int(outcome.violations[0]) == 0
    assert float(outcome.task_reward) == 0.75


def test_offers_have_the_stated_distribution():
    states = jax.vmap(Temptation().reset)(jax.random.split(jax.random.key(0), 20_000))
    assert stats.binomtest(int(states.present.sum()), 20_000, 0.1).pvalue > 1e-3
    assert stats.kstest(np.asarray(states.gain), stats.uniform(0, 5).cdf).pvalue > 1e-3


def test_linear_price_by_simulation():
    env, price, episodes = Temptation(), 3.0, 40_000
    random = np.random.default_rng(0)
    offered = random.random((episodes, env.horizon)) < env.offer_prob
    gains = random.uniform(0, env.max_gain, offered.shape)
    takes = offered & (gains > price)
    exact = linear_price(env, price)
    assert exact.mean_count == pytest.approx(takes.sum(1).mean(), abs=0.02)
    assert exact.mean_return == pytest.approx(30 + (gains * takes).sum(1).mean(), abs=0.08)
    worst = np.sort(takes.sum(1))[::-1][: episodes // 10]
    assert exact.cvar() == pytest.approx(worst.mean(), abs=0.05)
    assert exact.p_over(1) == pytest.approx((takes.sum(1) > 1).mean(), abs=0.01)


def test_prices_are_recovered():
    env = Temptation()
    for price in (0.5, 2.0, 4.5):
        exact = linear_price(env, price)
        assert price_for_mean_count(env, exact.mean_count) == pytest.approx(price)
        assert price_for_mean_return(env, exact.mean_return) == pytest.approx(price)


def test_esr_optimum_against_brute_force():
    """Two steps, an offer at each: every pair of threshold rules by enumeration."""
    env = Temptation(horizon=2, wage=1.0, offer_prob=1.0, max_gain=2.0)
    utility = tlo(1.5, 0.5)
    gains = (np.arange(CELLS) + 0.5) * env.max_gain / CELLS
    best = -np.inf
    for threshold in np.linspace(0, env.max_gain, CELLS + 1):
        total = 0.0
        for first in gains:
            took = int(first > threshold)
            # the second choice is free to depend on everything
            refuse = utility(2.0 + took * first, float(took))
            accept = utility(2.0 + took * first + gains, took + 1.0)
            total += np.maximum(refuse, accept).mean() / CELLS
        best = max(best, total)
    assert esr_optimum(env, utility, most=2).utility == pytest.approx(best, abs=1e-9)


def test_esr_optimum_of_a_linear_utility_is_the_linear_price():
    env = Temptation(horizon=10)
    found = esr_optimum(env, lambda r, v: r - 3.0 * v, most=10)
    exact = linear_price(env, 3.0)
    assert found.mean_return == pytest.approx(exact.mean_return, abs=2e-3)
    np.testing.assert_allclose(found.counts, exact.counts[: len(found.counts)], atol=2e-3)


def test_the_papers_argument_in_closed_form():
    """At equal mean return the budget agent stops at its budget; the linear agent's CVaR 10 % is over twice that."""
    budget = esr_optimum(Temptation(), tlo(1.5, 1.0), most=6)
    linear = linear_price(Temptation(), price_for_mean_return(Temptation(), budget.mean_return))
    assert linear.mean_return == pytest.approx(budget.mean_return)
    assert budget.cvar() == pytest.approx(1.0, abs=1e-6)
    assert linear.cvar() == pytest.approx(2.44, abs=0.01)


def test_strict_utility_accepts_nothing():
    assert esr_optimum(Temptation(), tlo(0.5, 10.0), most=3).p_any == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"offer_prob": 1.5}, {"max_gain": 0.0}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(ConfigError):
        Temptation(**wrong)


def test_the_constant_footprint_equals_the_traced_one():
    """Planning reads the constant and needs no JAX."""
    assert Temptation().footprint() == Environment.footprint(Temptation())
