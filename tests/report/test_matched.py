"""Tails between two arms, against agents whose tails are known exactly: the miniature's optima."""

import numpy as np
import pandas as pd
import pytest

from perepisode import metrics
from perepisode.environments.temptation import Temptation
from perepisode.environments.temptation import exact as truth
from perepisode.evaluation import compare, episodes
from perepisode.report.statistics import matched
from perepisode.report.statistics.points import Episodes
from perepisode.study.exact import stated_utility

WORLD, EPISODES = Temptation(), 20_000
BUDGETED = {k: truth.esr_optimum(WORLD, stated_utility(k), most=k + 2) for k in (1, 2)}


def linear(mean):
    """The exact linear agent with this mean."""
    return truth.linear_price(WORLD, truth.price_for_mean_count(WORLD, mean))


def exactly(shares):
    """Episodes with exactly these shares of counts, up to rounding."""
    ends = np.rint(np.cumsum(shares) * EPISODES).astype(int)
    return np.searchsorted(ends, np.arange(EPISODES), side="right")


def points(arms):
    """Arms of the miniature, two seeds alike."""
    rows = [
        pd.DataFrame({"method": method, "arm": arm, "seed": seed, "return": agent.mean_return, "violations": counts})
        for (method, arm), agent in arms.items()
        for counts in [exactly(agent.counts)]
        for seed in (1, 2)
    ]
    return Episodes(episodes.complete(pd.concat(rows, ignore_index=True))).view("violations")


@pytest.mark.parametrize("ends", [(0.02, 0.8), (0.4, 1.2), (0.8, 2.4), (1.6, 3.2)])
def test_between_two_prices_the_tail_is_that_of_the_exact_agent_there(ends):
    view = points({("ser", "w=1"): linear(ends[0]), ("ser", "w=0.1"): linear(ends[1])})
    low, high = view.of("ser")
    between = matched._Between(low, high)
    for weight in (0.25, 0.5, 0.75):
        agent = linear((1 - weight) * ends[0] + weight * ends[1])
        assert between.mean(0, 1, weight) == pytest.approx(agent.mean_count, abs=1e-3)
        assert between.cvar()(0, 1, weight) == pytest.approx(agent.cvar(), rel=0.015)
        assert between.over(0)(0, 1, weight) == pytest.approx(agent.p_any, abs=0.01)
        assert between.over(1)(0, 1, weight) == pytest.approx(agent.p_over(1), abs=0.01)
        spread = np.sqrt(np.square(np.arange(len(agent.counts))) @ agent.counts - agent.mean_count**2)
        assert between.std()(0, 1, weight) == pytest.approx(spread, rel=0.02)


def test_a_straight_line_between_tails_would_be_far_off():
    """Why it is not used."""
    chord = (linear(0.02).cvar() + 3 * linear(0.8).cvar()) / 4, (3 * linear(0.02).cvar() + linear(0.8).cvar()) / 4
    true = linear(0.02 + 0.75 * 0.78).cvar(), linear(0.02 + 0.25 * 0.78).cvar()
    assert chord[0] < 0.9 * true[0]
    assert chord[1] < 0.7 * true[1]


def test_between_two_budgets_an_agent_keeps_the_one_or_the_other():
    view = points({("esr", f"k={k}"): agent for k, agent in BUDGETED.items()})
    low, high = view.of("esr")
    between = matched._Between(low, high)
    for weight in (0.02, 0.3, 0.8):
        mixed = np.concatenate([np.repeat(exactly(BUDGETED[k].counts), n) for k, n in
                                ((1, round(100 * (1 - weight))), (2, round(100 * weight)))])  # fmt: skip
        assert between.cvar()(0, 1, weight) == pytest.approx(metrics.cvar(mixed))
        assert between.std()(0, 1, weight) == pytest.approx(mixed.std())
        assert between.over(1)(0, 1, weight) == pytest.approx(metrics.p_over(mixed, 1))


def test_ends_are_read_as_they_are():
    view = points({("ser", "w=1"): linear(0.4), ("ser", "w=0.1"): linear(1.2)})
    low, high = view.of("ser")
    positions = matched.VIOLATIONS.per_seed(low), matched.VIOLATIONS.per_seed(high)
    read = compare.interpolate(*positions, positions[1].mean(), matched._Between(low, high).cvar())
    assert read.value.mean == pytest.approx(metrics.cvar(high.seeds[0].counts))


def test_partners_are_nearest_in_return_not_in_violations():
    rows = [
        {"method": method, "arm": arm, "seed": seed, "return": earned, "violations": count}
        for method, arm, earned, count in (
            ("esr", "k=1", 30.0, 1.0),
            ("ser", "w=0.1", 30.2, 5.0),  # its return
            ("ser", "w=1", 20.0, 1.0),  # its violations
        )
        for seed in (1, 2)
    ]
    view = Episodes(episodes.complete(pd.DataFrame(rows))).view("violations")
    (partner,) = matched.partners(view, matched.focal(view))
    assert partner.arm == "w=0.1"
