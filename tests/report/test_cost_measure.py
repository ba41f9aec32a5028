"""Counts and costs: distinguished once, then written, measured and bounded accordingly."""

import numpy as np
import pandas as pd
import pytest

from perepisode import metrics
from perepisode.evaluation import episodes
from perepisode.report import caveats, formatting, measurement, tables
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.drawing import figures
from perepisode.report.statistics import pairs
from perepisode.report.statistics.points import Episodes

COUNTS, COSTS = CostMeasure(True), CostMeasure(False, 25.0, 0.05, "cost")


def table(agents, **columns):
    """A table from {(method, arm): {seed: (return, violations of its episodes)}}."""
    parts = [
        pd.DataFrame({"method": method, "arm": arm, "seed": seed, "return": gained, "violations": each, **columns})
        for (method, arm), seeds in agents.items()
        for seed, (gained, each) in seeds.items()
    ]
    return episodes.complete(pd.concat(parts, ignore_index=True))


@pytest.mark.parametrize(
    ("value", "counts", "costs"),
    [
        (0.004, "0.00", "0.0040"), (0.07, "0.07", "0.070"), (1.0, "1.00", "1.00"), (24.56, "24.6", "24.6"),
        (168.4, "168", "168"), (12345.0, "1.2 × 10⁴", "1.2 × 10⁴"), (-0.35, "−0.35", "−0.35"), (np.nan, "–", "–"),
    ],
)  # fmt: skip
def test_digits_fit_the_size(value, counts, costs):
    assert COUNTS.text(value).replace("\u00a0", " ") == counts
    assert COSTS.text(value).replace("\u00a0", " ") == costs


def test_an_interval_does_not_reach_below_zero_in_text_or_in_figures():
    assert COUNTS.plus_minus(1.04, 0.07) == "1.04\u00a0±\u00a00.07"
    assert COUNTS.plus_minus(1.65, 3.56) == "1.65 (0\u00a0–\u00a05.21)"
    assert COUNTS.plus_minus(1.65) == "1.65"
    assert COUNTS.difference(-0.35, 0.6) == "−0.35\u00a0±\u00a00.60"
    assert COUNTS.difference(0.35, 0.6) == "+0.35\u00a0±\u00a00.60"
    assert CostMeasure.error_bar(1.65, 3.56) == (1.65, 3.56)
    assert CostMeasure.error_bar(1.65, 0.5) == (0.5, 0.5)
    assert CostMeasure.error_bar(1.65, np.nan) == (0.0, 0.0)


def test_bars_of_the_frontier_stay_above_zero():
    """Seeds with 0, 0 and 6 violations per episode: 2 ± 8.6."""
    alike = {seed: (30.0 + seed, [1, 2, 1, 2]) for seed in range(3)}
    view = Episodes(table({("A", ""): {0: (30.0, [0] * 4), 1: (31.0, [0] * 4), 2: (32.0, [6] * 4)}, ("B", ""): alike}))
    drawing = figures.frontier(view.view("violations"), view.view("violations").main[0], [])
    bars = [segment for lines in drawing.figure.axes[0].collections for segment in lines.get_segments()]
    assert len(bars) == 4
    assert min(segment[:, 0].min() for segment in bars) == 0.0
    assert max(segment[:, 0].max() for segment in bars) == pytest.approx(2 + 4.302652729911275 * 2)


def test_words_of_counts_and_of_costs():
    assert (COUNTS.name, COUNTS.per_episode, COUNTS.p_any, COUNTS.cvar_heading, COUNTS.worst_episodes) == (
        "violations", "violations per episode", "P(≥1)", "CVaR 10 %", "worst 10 % of episodes",
    )  # fmt: skip
    assert (COSTS.name, COSTS.per_episode, COSTS.p_any, COSTS.cvar_heading, COSTS.worst_episodes) == (
        "cost", "cost per episode", "P(>0)", "CVaR 5 %", "worst 5 % of episodes",
    )  # fmt: skip
    assert CostMeasure(True, alpha=0.03).worst_episodes == "worst 3 % of episodes"
    assert CostMeasure(False, word="violations").name == "cost"  # half a violation is a cost
    assert CostMeasure(True, word="cost").name == "cost"


def test_the_share_of_episodes_with_any_cost_is_not_that_of_at_least_one():
    """Half of these episodes cost at least 1, and two of three cost something."""
    found = tables.complete(Episodes(table({("A", ""): {1: (1.0, [0.5, 1.5, 0.0])}})).view("violations"), ())
    assert found.shown["P(>0)"] == ["66.7\xa0%"]
    always = tables.complete(Episodes(table({("A", ""): {1: (1.0, [0.5, 1.5])}})).view("violations"), ())
    assert "P(>0)" not in always.shown  # it is always 100 %
    assert "P(≥1)" not in found.shown
    assert "P(>1)" not in found.shown


def test_all_agents_are_compared_with_the_only_budget():
    each = {seed: (20.0 + seed, [10, 20, 30, 40]) for seed in range(2)}
    view = Episodes(table({("PPO-Lag", "d=25"): each})).view("violations")
    found = tables.complete(view, ())
    assert found.shown["P(>25)"] == ["50.0\xa0%"]
    assert found.frame["p_over_25"].tolist() == [0.5]
    assert "P(>1)" not in found.shown


def test_a_limit_gives_the_share_over_it_and_the_mean_excess():
    each = {1: (20.0, [10.0, 26.0, 35.5, 25.0]), 2: (20.0, [10.0, 20.0, 20.0, 25.0])}  # 6 over on average; none
    view = Episodes(table({("A", ""): each}), limit=25.0, alpha=0.25).view("violations")
    found = tables.complete(view, ())
    assert found.frame["p_over_25"].tolist() == [0.25]
    assert found.frame["excess"].tolist() == [(1.0 + 10.5) / 2]
    assert found.frame["cvar"].tolist() == [(35.5 + 25.0) / 2]  # the worst of four
    assert found.shown["Excess"] == ["5.75"]
    assert found.shown["CVaR 25 %"] == ["30.2 (0\u00a0–\u00a097.0)"]  # 30.25 ± 12.706 × 5.25
    assert np.isnan(metrics.excess([1, 2], 2.0))


@pytest.mark.parametrize("size", [11, 32, 95])
def test_no_counts_have_a_tail_below_the_least_of_so_many_episodes(size):
    generator, below = np.random.default_rng(size), 0
    for mean in np.linspace(0.02, 2.5, 60):
        counts = np.full(size, int(mean))
        counts[: round(size * (mean - int(mean)))] += 1  # as even as can be
        own = counts.mean()
        assert metrics.cvar(counts) == pytest.approx(metrics.least_cvar(own, episodes=size))
        drawn = generator.poisson(mean, size)
        assert metrics.cvar(drawn) >= metrics.least_cvar(drawn.mean(), episodes=size) - 1e-9
        below += metrics.cvar(counts) < metrics.least_cvar(own) - 1e-9  # the bound for any number of episodes
    assert below > 0


def test_exact_optima_have_shares_without_half_widths():
    item = {"label": "k=1", "kind": "esr", "return": 1.0, "mean_violations": 0.5, "cvar": 1.0, "p_over": 0.0125}
    assert measurement.exact_optima([item]).shown["P(over budget)"] == ["1.25\u00a0%"]


def test_a_seed_that_never_violates_while_its_siblings_do_is_named():
    often = [0, 2, 3, 4] * 25
    unlike = {1: (30.0, [0] * 100), 2: (30.5, often), 3: (31.0, often)}
    alike = {1: (30.0, often), 2: (30.5, often), 3: (31.0, often[1:])}
    for_one = {1: (30.0, [0] * 100), 2: (30.5, [0] * 100), 3: (31.0, often)}
    by_chance = {1: (30.0, [0] * 4), 2: (30.5, [0, 0, 0, 1]), 3: (31.0, [0, 0, 1, 0])}
    rows = {("A", ""): unlike, ("B", ""): alike, ("C", ""): for_one, ("D", ""): by_chance}
    study = Episodes(table(rows))
    view = study.view("violations")
    unlike_seeds = [text for text in caveats.all_of(study, [view], view, pairs.compared(view)) if "unlike" in text]
    assert unlike_seeds == [
        "A: seed 1 is unlike the others (mean violations 0.00 against 2.25 and 2.25), and no mean describes them all.",
        "C: seed 3 is unlike the others (mean violations 2.25 against 0.00 and 0.00), and no mean describes them all.",
    ]
    assert tables.complete(view, ()).shown["Violations"][0] == "1.50 (0\u00a0–\u00a04.73)"


def test_no_interval_of_a_share_runs_below_zero():
    assert formatting.percent(0.01, 0.024).replace("\u00a0", " ") == "1.0 % (0 – 3.4)"
    assert formatting.percent(0.133, 0.038).replace("\u00a0", " ") == "13.3 % ± 3.8"
    assert formatting.percent(0.133).replace("\u00a0", " ") == "13.3 %"
