"""Matched pairs, tables and the paper's numbers, on cases small enough to check by hand."""

import numpy as np
import pandas as pd
import pytest
import synthetic

from perepisode.evaluation import compare
from perepisode.evaluation import episodes as tables_of
from perepisode.report import matched, measuring, paper_numbers, tables, versus
from perepisode.report.points import Episodes


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


def test_interpolation_reads_the_rival_at_the_exact_return(view):
    chosen = matched.focal(view)
    read = matched.interpolated(view, chosen, "ser")
    weight = (34.15 - 32.9) / (35.2 - 32.9)
    assert read.tail.returns.mean == pytest.approx(34.15)
    assert read.tail.cvar.mean == pytest.approx((1 - weight) * 0.5 + weight * 2.5)
    assert read.between.startswith("w=1 → w=0.1")


def test_a_frontier_that_does_not_reach_is_left_out_with_the_reason():
    rows = {key: HAND[key] for key in (("ser", "w=1"), ("esr", "k=1"))}
    view = agents(rows).view("violations")
    read = matched.interpolated(view, matched.focal(view), "ser")
    assert read.tail is None
    assert "32.90 to 32.90" in read.between
    assert tables.matched_interpolated(view, matched.focal(view)) is None


def test_interpolation_is_as_uncertain_as_returns_make_it(view):
    """Arms with one return a seed: what varies is CVaR - slope × return, of the focal agent too."""
    read, steep = matched.interpolated(view, matched.focal(view), "ser"), (2.5 - 0.5) / (35.2 - 32.9)
    weight = (34.15 - 32.9) / (35.2 - 32.9)
    low = compare.t_interval(np.array([1, 0]) - steep * np.array([32.8, 33.0]))
    high = compare.t_interval(np.array([3, 2]) - steep * np.array([35.0, 35.4]))
    assert read.tail.cvar.half == pytest.approx(np.hypot((1 - weight) * low.half, weight * high.half))
    assert np.isnan(read.tail.returns.half)  # held, not measured
    own = compare.Interval(1.0, compare.t_interval(-steep * np.array([34.0, 34.3])).half, 2)
    assert read.tail.against_focal == pytest.approx(compare.welch_from_summary(read.tail.cvar, own))


def test_all_methods_are_read_at_the_nearest_level_that_each_reaches():
    rows = {
        ("unconstrained", ""): {1: (40.0, [4, 4]), 2: (40.0, [4, 4])},
        ("esr", "k=1"): {1: (20.0, [0, 0]), 2: (20.0, [0, 0])},
        ("esr", "k=4"): {1: (32.0, [0, 2]), 2: (32.0, [0, 2])},
        ("ser", "w=1"): {1: (30.0, [0, 4]), 2: (30.0, [0, 4])},
        ("lagrangian", "d=1"): {1: (34.0, [3, 3]), 2: (34.0, [3, 3])},
    }
    view = agents(rows).view("violations")
    chosen = matched.focal(view)
    at_return = matched.common(view, chosen, matched.RETURN)
    assert at_return.level == 34.0  # the Lagrangian's lowest; ESR's is 20, SER's 30
    assert [read.between for read in at_return.reads] == ["k=4 → unconstrained, 25%", "w=1 → unconstrained, 40%", "d=1"]
    assert [read.tail.cvar.mean for read in at_return.reads] == pytest.approx([0.75 * 2 + 0.25 * 4, 4.0, 3.0])
    assert [read.tail.p_over.mean for read in at_return.reads] == pytest.approx([0.75 * 0.5 + 0.25, 0.7, 1.0])
    even = matched.common(view, chosen, matched.VIOLATIONS)
    assert even.level == 3.0
    assert [read.tail.returns.mean for read in even.reads] == pytest.approx([32 + 8 * 2 / 3, 35.0, 34.0])
    frame = tables.same_return(view, chosen).frame
    assert frame["agent"].tolist() == ["ESR", "SER", "Lagrangian"]
    assert "least" in tables.same_violations(view, chosen).note


def test_no_table_at_one_return_where_the_focal_agents_own_is_reached(view):
    assert tables.same_return(view, matched.focal(view)) is None
    assert matched.common(view, matched.focal(view), matched.RETURN).level == pytest.approx(34.15)


def test_wider_budgets_are_paired_with_their_own_neighbours(view):
    frame = tables.matched_wider(view, matched.focal(view)).frame
    assert frame["focal"].tolist() == ["ESR (k=4)"] * 2
    assert frame["agent"].tolist() == ["ESR (k=4)", "SER (w=0.1)"]  # 34.85 against 35.2 and 32.9
    assert frame["p_over"].tolist() == [0.0, 0.0]  # of four, not of one
    assert frame["welch_t"][1] == pytest.approx(compare.welch([3, 2], [4, 4]).t)


def test_cost_of_compliance(view):
    frame = tables.cost_of_compliance(view, matched.focal(view)).frame.set_index("agent")
    free, own = compare.t_interval([37.0, 37.2]), compare.t_interval([34.0, 34.3])
    assert frame.loc["ESR (k=1)", "gap"] == pytest.approx(37.1 - 34.15)
    assert frame.loc["ESR (k=1)", "gap_ci"] == pytest.approx(np.hypot(free.half, own.half))
    assert frame.index[0] == "Unconstrained"
    assert {"SER (w=0.1)", "SER (w=1)"} <= set(frame.index)


def test_hypervolume_without_and_with_esr(view):
    area = tables.hypervolumes(view)["per episode"]
    reference = (32.9, 2.5)
    base = [(37.1, 2.5), (35.2, 1.0), (32.9, 0.125)]
    assert (area["reference_return"], area["reference_violations"]) == pytest.approx(reference)
    assert area["without"] == pytest.approx(compare.hypervolume(base, reference))
    assert area["with"] == pytest.approx(compare.hypervolume([*base, (34.15, 0.75), (34.85, 1.5)], reference))
    assert tables.hypervolumes(view)["per step"]["with"] == pytest.approx(area["with"] / 10)


def test_complete_table_counts_all_dilemmas(study):
    table = tables.complete(study.view("no_killing"), study.dilemmas)
    assert {"violations_sustainability", "violations_proportional_force"} <= set(table.frame)
    assert "Sustainability" in table.shown
    assert len(table.rows) == len(study.view("no_killing").points)


def test_every_printed_number_has_a_counterpart_in_the_full_study(study):
    frame = versus.paper_versus_here(study, {}).frame
    assert len(frame) == len(paper_numbers.NUMBERS)
    told = frame[frame["measure"].notna() & ~frame["measure"].fillna("").str.startswith("utility")]
    assert told["here"].notna().all()
    assert (frame["deviation"] - (frame["here"] - frame["paper"])).abs().max() < 1e-12


def test_paper_versus_here_uses_the_papers_protocol_and_detector(study):
    frame = versus.paper_versus_here(study, {}).frame
    row = frame[(frame["agent"] == "ESR (k=1)") & (frame["measure"] == "cvar") & (frame["dilemma"] == "no_killing")]
    view = study.view("no_killing", "window", "paper")
    point = next(point for point in view.main if (point.method, point.arm) == ("esr", "k=1"))
    assert row["here"].iloc[0] == pytest.approx(point.interval(matched.cvar).mean)


def test_paper_versus_here_says_where_the_scale_differs():
    changed = synthetic.craftax(episodes=40).assign(steps=2_000_000)
    note = versus.paper_versus_here(Episodes(tables_of.complete(changed)), {}).note
    assert "2\u00a0×\u00a010⁶ training steps" in note
    other = Episodes(tables_of.complete(synthetic.temptation(episodes=40)))
    assert "not Craftax" in versus.paper_versus_here(other, {}).note


def test_table_cells_line_up(study):
    view = study.view("no_killing")
    chosen = matched.focal(view)
    for table in (
        tables.matched_nearest(view, chosen),
        tables.complete(view, study.dilemmas),
        measuring.protocols(study, view, chosen),
        measuring.missed(study, "no_killing"),
        measuring.apart(view),
        measuring.runs([view]),
    ):
        assert {len(cells) for cells in table.shown.values()} == {len(table.frame)}, table.name
