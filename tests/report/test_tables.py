"""Matched pairs, tables and the paper's numbers, on cases small enough to check by hand."""

import numpy as np
import pandas as pd
import pytest
import synthetic
from scipy import stats

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation import episodes as tables_of
from perepisode.paper_comparison import numbers
from perepisode.paper_comparison.table import paper_versus_here
from perepisode.report import findings, measurement, tables
from perepisode.report.formatting import number
from perepisode.report.statistics import frontiers, matched
from perepisode.report.statistics.points import Episodes


def agents(rows, **columns):
    """A table from {(method, arm): {seed: (return, counts)}}."""
    parts = [
        pd.DataFrame({"method": method, "arm": arm, "seed": seed, "return": value, "violations": counts, **columns})
        for (method, arm), seeds in rows.items()
        for seed, (value, counts) in seeds.items()
    ]
    return Episodes(tables_of.complete(pd.concat(parts, ignore_index=True)))


HAND = {
    ("unconstrained", ""): {1: (37.0, [2, 3, 2, 3]), 2: (37.2, [3, 3, 2, 2])},
    ("ser", "w=0.1"): {1: (35.0, [0, 3, 0, 1]), 2: (35.4, [0, 2, 1, 1])},
    ("ser", "w=1"): {1: (32.8, [0, 0, 0, 1]), 2: (33.0, [0, 0, 0, 0])},
    ("esr", "k=1"): {1: (34.0, [1, 1, 1, 0]), 2: (34.3, [1, 1, 0, 1])},
    ("esr", "k=4"): {1: (34.9, [1, 4, 1, 0]), 2: (34.8, [1, 4, 0, 1])},
}


@pytest.fixture(scope="module")
def view():
    return agents(HAND, length=10.0).view("violations")


@pytest.fixture(scope="module")
def study():
    return Episodes(tables_of.complete(synthetic.craftax(episodes=80)))


def test_focal_agent_tolerates_one_violation(view):
    assert matched.focal(view).label == "ESR (k=1)"


def test_nearest_partner_and_its_welch_test(view):
    chosen = matched.focal(view)
    (partner,) = matched.partners(view, chosen)
    assert partner.label == "SER (w=0.1)"  # 35.2 and 32.9 against 34.15
    frame = tables.matched_nearest(view, chosen).frame.set_index("agent")
    assert frame.loc["SER (w=0.1)", "cvar"] == 2.5  # worst of 4 in each seed: 3 and 2
    assert frame.loc["SER (w=0.1)", "p_over"] == 0.25
    assert frame.loc["SER (w=0.1)", "welch_t"] == pytest.approx(compare.welch([3, 2], [1, 1]).t)
    assert frame.loc["ESR (k=1)", "cvar"] == 1.0
    assert frame["tail_episodes"].tolist() == [2, 2]


HALVES = {key: {seed: (gain, np.array(counts) / 2) for seed, (gain, counts) in HAND[key].items()} for key in HAND}


@pytest.fixture(scope="module")
def costs():
    """Half violations are costs, between which a straight line is all there is (for counts see test_matched.py)."""
    return agents(HALVES).view("violations")


def test_interpolation_reads_the_rival_at_the_exact_return(costs):
    read = matched.interpolated(costs, matched.focal(costs), "ser")
    weight = (34.15 - 32.9) / (35.2 - 32.9)
    assert read.tail.returns.mean == pytest.approx(34.15)
    assert read.tail.cvar.mean == pytest.approx((1 - weight) * 0.25 + weight * 1.25)
    assert read.between.startswith("w=1 → w=0.1")


def test_a_frontier_that_does_not_reach_is_left_out_with_the_reason():
    rows = {key: HAND[key] for key in (("ser", "w=1"), ("esr", "k=1"))}
    view = agents(rows).view("violations")
    read = matched.interpolated(view, matched.focal(view), "ser")
    assert read.tail is None
    assert "32.90 to 32.90" in read.between
    assert tables.matched_interpolated(view, matched.focal(view)) is None


def test_interpolation_is_as_uncertain_as_returns_make_it(costs):
    """What varies over seeds is CVaR - slope × return, of the focal agent too, which gave the level."""
    read, steep = matched.interpolated(costs, matched.focal(costs), "ser"), (1.25 - 0.25) / (35.2 - 32.9)
    weight = (34.15 - 32.9) / (35.2 - 32.9)
    low, high = np.array([0.5, 0]) - steep * np.array([32.8, 33.0]), np.array([1.5, 1]) - steep * np.array([35.0, 35.4])
    bounds = stats.ttest_ind((1 - weight) * low, -weight * high, equal_var=False).confidence_interval(0.95)
    assert read.tail.cvar.half == pytest.approx((bounds.high - bounds.low) / 2)
    assert np.isnan(read.tail.returns.half)  # held, not measured
    own = compare.Interval(0.5, compare.t_interval(-steep * np.array([34.0, 34.3])).half, 2)
    assert read.tail.against_focal == pytest.approx(compare.welch_from_summary(read.tail.cvar, own))


def test_a_focal_agent_whose_tails_rise_with_its_returns_is_less_uncertain():
    """Its seeds differ along the rival's frontier: CVaR - slope × return varies less than CVaR."""
    rows = HALVES | {("esr", "k=1"): {1: (34.0, [0.5, 0, 0, 0]), 2: (34.3, [0.7, 0, 0, 0])}}
    view = agents(rows).view("violations")
    read, steep = matched.interpolated(view, view.arm("esr", "k=1"), "ser"), (1.25 - 0.25) / (35.2 - 32.9)
    residuals = np.array([0.5 - steep * 34.0, 0.7 - steep * 34.3])
    own = compare.Interval(0.6, compare.t_interval(residuals).half, 2)
    assert own.half < compare.t_interval([0.5, 0.7]).half
    assert read.tail.against_focal == pytest.approx(compare.welch_from_summary(read.tail.cvar, own))


def test_ends_that_lie_within_each_others_error_give_no_interval():
    rows = HALVES | {("ser", "w=1"): {1: (30.0, [0, 0, 0, 0.5]), 2: (35.0, [0, 0, 0, 0])}}  # 32.5 ± 32 against 35.2
    view = agents(rows).view("violations")
    read = matched.interpolated(view, matched.focal(view), "ser")
    assert read.between.endswith("(ends do not differ)")
    assert read.tail.cvar.mean == pytest.approx(0.25 + (34.15 - 32.5) / (35.2 - 32.5))
    assert np.isnan(read.tail.cvar.half)
    assert read.tail.against_focal is None


def test_methods_are_interpolated_to_the_mean_violations_that_most_of_them_reach():
    rows = {  # seeds are alike, so that all is exact
        ("unconstrained", ""): {1: (40.0, [4, 4]), 2: (40.0, [4, 4])},
        ("esr", "k=1"): {1: (20.0, [0, 0]), 2: (20.0, [0, 0])},
        ("esr", "k=4"): {1: (36.0, [3, 3]), 2: (36.0, [3, 3])},
        ("ser", "w=1"): {1: (30.0, [1, 1]), 2: (30.0, [1, 1])},
        ("ser", "w=0.1"): {1: (38.0, [3, 4]), 2: (38.0, [3, 4])},
        ("ser_racc", "w=0.1"): {1: (35.0, [2, 3]), 2: (35.0, [2, 3])},
        ("lagrangian", "d=4"): {1: (39.0, [3, 3, 4, 4]), 2: (39.0, [3, 3, 4, 4])},
    }
    view = agents(rows).view("violations")
    even = matched.at_equal_mean(view, matched.focal(view))
    assert even.level == 2.5  # ESR has 0 to 3, SER 1 to 3.5, SER+R_acc 2.5; the Lagrangian has 3.5 at the least
    assert [read.between for read in even.reads] == [
        "k=1 → k=4, 83%", "w=1 → w=0.1, 60%", "its frontier reaches violations from 3.50 to 3.50 only", "w=0.1",
    ]  # fmt: skip
    reached = [read.tail for read in even.reads if read.tail]
    # SER's ends have all episodes alike; as far from chance as they are, the tail would be below the least possible
    assert [one.cvar.mean for one in reached] == pytest.approx([3.0, metrics.least_cvar(2.5), 3.0])
    low, level, high = stats.poisson.sf(1, [1.0, 2.5, 3.5])
    assert [one.p_over.mean for one in reached] == pytest.approx(
        [5 / 6, level + 0.4 * (0.0 - low) + 0.6 * (1.0 - high), 1.0]
    )
    assert [one.returns.mean for one in reached] == pytest.approx([20 + 16 * 5 / 6, 30 + 8 * 0.6, 35.0])
    table = tables.same_violations(view, matched.focal(view))
    assert table.frame["agent"].tolist() == ["ESR", "SER", "SER+R_acc"]
    assert "Lagrangian is omitted" in table.note
    assert "the least possible is 3.00" in table.note


def test_costs_have_no_values_that_counts_would_imply(view, costs):
    assert "Independent violations with this mean" in tables.same_violations(view, matched.focal(view)).note
    assert "ndependent violations" not in tables.same_violations(costs, matched.focal(costs)).note


def test_no_reading_of_counts_has_a_tail_that_no_agent_of_its_mean_has():
    for generator in map(np.random.default_rng, range(20)):
        rows = {
            (method, arm): {seed: (30 + mean, generator.poisson(mean, 40)) for seed in range(3)}
            for (method, arm), mean in {
                ("unconstrained", ""): 3.0, ("esr", "k=1"): 0.3, ("ser", "w=1"): 0.02, ("ser", "w=0.1"): 1.0,
            }.items()
        }  # fmt: skip
        view = agents(rows).view("violations")
        read = matched.interpolated(view, matched.focal(view), "ser")
        assert read.tail.cvar.mean >= metrics.least_cvar(read.tail.mean.mean) - 1e-9


def test_a_method_that_the_unconstrained_agent_dominates_is_not_interpolated():
    rows = {key: HAND[key] for key in (("unconstrained", ""), ("esr", "k=1"))}
    rows[("ser", "w=1")] = {1: (30.0, [4, 4, 4, 4]), 2: (31.0, [4, 4, 4, 4])}
    view = agents(rows).view("violations")
    read = matched.interpolated(view, matched.focal(view), "ser")
    assert (read.tail, read.between) == (None, "the unconstrained agent dominates it in the means")
    assert matched.at_equal_mean(view, matched.focal(view)) is None


def test_how_far_esr_is_below_the_others_frontier(view):
    """The others' frontier: 32.9 at 0.125 violations, 35.2 at 1, 37.1 at 2.5.  k=1 has 0.75 of them, k=4 has 1.5."""
    short = frontiers.short_of_frontier(view)
    assert short["ESR (k=1)"] == pytest.approx(32.9 + 2.3 * 0.625 / 0.875 - 34.15)
    assert short["ESR (k=4)"] == pytest.approx(35.2 + 1.9 / 3 - 34.85)


def test_an_esr_agent_below_the_frontier_is_reported_although_hypervolume_cannot_decrease():
    others = {key: HAND[key] for key in HAND if key[0] != "esr"}
    for spread, verdict in (
        (0.05, "ESR (k=1) lies below the other methods'"),
        (1.0, "no ESR agent was found to lie off the other methods' frontier"),
    ):
        low = {("esr", "k=1"): {1: (33.2 - spread, [1, 1, 1, 0]), 2: (33.2 + spread, [1, 1, 0, 1])}}  # 34.54 at 0.75
        (sentence,) = findings._mean_view(agents(others | low, length=10.0).view("violations"))
        assert sentence.startswith(f"On average: {verdict}")
        assert f"ESR's returns differ from it by {number(33.2 - 34.54, 1)};" in sentence


def test_wider_budgets_are_paired_with_their_own_neighbours(view):
    frame = tables.matched_wider(view, matched.focal(view)).frame
    assert frame["focal"].tolist() == ["ESR (k=4)"] * 2
    assert frame["agent"].tolist() == ["ESR (k=4)", "SER (w=0.1)"]  # 34.85 against 35.2 and 32.9
    assert frame["p_over"].tolist() == [0.0, 0.0]  # of four, not of one
    assert frame["welch_t"][1] == pytest.approx(compare.welch([3, 2], [4, 4]).t)
    assert tables.matched_wider(view, matched.focal(view)).shown["Agent"] == ["ESR (k=4)", "SER (w=0.1)"]


def test_pairs_that_are_not_matched_are_marked(view):
    """Returns of 34.15 and 35.2 from two seeds each: 1.05 ± 1.3 apart.  From 38.05 they differ."""
    assert tables.matched_nearest(view, matched.focal(view)).shown["Agent"] == ["ESR (k=1)", "SER (w=0.1)"]
    far = agents(HAND | {("ser", "w=0.1"): {1: (38.0, [0, 3, 0, 1]), 2: (38.1, [0, 2, 1, 1])}}).view("violations")
    table = tables.matched_nearest(far, far.arm("esr", "k=4"))  # 34.85, w=1 has 32.9
    assert table.shown["Agent"] == ["ESR (k=4)", "SER (w=1) *"]
    assert "* Its mean return is not matched" in table.note
    apart = stats.ttest_ind([32.8, 33.0], [34.9, 34.8], equal_var=False).confidence_interval(0.95)
    assert table.frame["returns_difference"][1] == pytest.approx((apart.low + apart.high) / 2)
    assert table.frame["returns_difference_ci"][1] == pytest.approx((apart.high - apart.low) / 2)


def test_cost_of_compliance(view):
    frame = tables.cost_of_compliance(view, matched.focal(view)).frame.set_index("agent")
    free, own = compare.t_interval([37.0, 37.2]), compare.t_interval([34.0, 34.3])
    assert frame.loc["ESR (k=1)", "gap"] == pytest.approx(37.1 - 34.15)
    assert frame.loc["ESR (k=1)", "gap_ci"] == pytest.approx(np.hypot(free.half, own.half))
    assert frame.index[0] == "Unconstrained"
    assert {"SER (w=0.1)", "SER (w=1)"} <= set(frame.index)


def test_hypervolume_without_and_with_esr(view):
    area = frontiers.hypervolumes(view)["per episode"]
    reference = (32.9, 2.5)
    base = [(37.1, 2.5), (35.2, 1.0), (32.9, 0.125)]
    assert (area["reference_return"], area["reference_violations"]) == pytest.approx(reference)
    assert area["without"] == pytest.approx(compare.hypervolume(base, reference))
    assert area["with"] == pytest.approx(compare.hypervolume([*base, (34.15, 0.75), (34.85, 1.5)], reference))
    assert frontiers.hypervolumes(view)["per step"]["with"] == pytest.approx(area["with"] / 10)


def test_complete_table_counts_all_dilemmas(study):
    table = tables.complete(study.view("no_killing"), study.dilemmas)
    assert {"violations_sustainability", "violations_proportional_force"} <= set(table.frame)
    assert "Sustainability" in table.shown
    assert len(table.rows) == len(study.view("no_killing").points)


def test_every_printed_number_has_a_counterpart_in_the_full_study(study):
    frame = paper_versus_here(study, {}).frame
    measured = [one for one in numbers.NUMBERS if one.measure and not one.measure.startswith("utility")]
    assert len(frame) == len(measured)
    assert frame["here"].notna().all()
    assert (frame["deviation"] - (frame["here"] - frame["paper"])).abs().max() < 1e-12


def test_paper_versus_here_uses_the_papers_protocol_and_detector(study):
    frame = paper_versus_here(study, {}).frame
    row = frame[(frame["agent"] == "ESR (k=1)") & (frame["measure"] == "cvar") & (frame["dilemma"] == "no_killing")]
    view = study.view("no_killing", "window", "paper")
    point = next(point for point in view.main if (point.method, point.arm) == ("esr", "k=1"))
    assert row["here"].iloc[0] == pytest.approx(point.interval(metrics.cvar).mean)


def test_paper_versus_here_says_where_the_scale_differs():
    changed = synthetic.craftax(episodes=40).assign(total_timesteps=2_000_000)
    note = paper_versus_here(Episodes(tables_of.complete(changed)), {}).note
    assert "2\u00a0×\u00a010⁶ steps per run" in note
    other = Episodes(tables_of.complete(synthetic.temptation(episodes=40)))
    assert paper_versus_here(other, {}) is None  # another game's numbers say nothing


def test_numbers_of_the_paper_without_a_counterpart_here_are_only_counted():
    table = synthetic.craftax(episodes=20, dilemmas=("no_killing",))
    found = paper_versus_here(Episodes(tables_of.complete(table[table["method"] != "lagrangian"])), {})
    assert not found.frame["agent"].str.startswith("Lagrangian").any()
    assert f"{len(numbers.NUMBERS) - len(found.frame)} more printed numbers have no counterpart" in found.note


def test_table_cells_line_up(study):
    view = study.view("no_killing")
    chosen = matched.focal(view)
    for table in (
        tables.matched_nearest(view, chosen),
        tables.complete(view, study.dilemmas),
        measurement.protocols(study, view, chosen),
        measurement.missed(study, "no_killing"),
        measurement.variants(view),
        measurement.runs([view]),
    ):
        assert {len(cells) for cells in table.shown.values()} == {len(table.frame)}, table.name
