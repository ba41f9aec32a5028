"""Operating points against plain pandas on the same table."""

import numpy as np
import pytest
import synthetic

from perepisode import metrics
from perepisode.evaluation import episodes as tables
from perepisode.report.statistics.points import Episodes


@pytest.fixture(scope="module")
def table():
    return tables.complete(synthetic.craftax(episodes=80))


@pytest.fixture(scope="module")
def study(table):
    return Episodes(table)


def find(view, method, arm):
    return next(point for point in view.points if (point.method, point.arm, point.main) == (method, arm, True))


@pytest.mark.parametrize(("protocol", "counter"), [("first", "exact"), ("window", "paper")])
def test_metrics_of_a_point_equal_pandas(table, study, protocol, counter):
    point = find(study.view("no_killing", protocol, counter), "lagrangian", "d=1")
    rows = table[(table["dilemma"] == "no_killing") & (table["method"] == "lagrangian") & (table["arm"] == "d=1")]
    rows = rows[rows[f"in_{protocol}"]]
    column = "violations" if counter == "exact" else "violations_no_killing_paper"
    by_seed = rows.groupby("seed")
    assert point.returns == pytest.approx(by_seed["return"].mean().to_numpy())
    assert point.per_seed(metrics.mean) == pytest.approx(by_seed[column].mean().to_numpy())
    assert point.per_seed(metrics.cvar) == pytest.approx(by_seed[column].apply(metrics.cvar).to_numpy())
    assert point.rates == pytest.approx((by_seed[column].sum() / by_seed["length"].sum()).to_numpy())
    assert [seed.seed for seed in point.seeds] == sorted(synthetic.SEEDS)


def test_unconstrained_runs_count_for_every_dilemma(table, study):
    point = study.view("sustainability").unconstrained
    rows = table[(table["method"] == "unconstrained") & table["in_first"]]
    expected = rows.groupby("seed")["violations_sustainability"].mean().to_numpy()
    assert point.per_seed(metrics.mean) == pytest.approx(expected)


def test_gamma_one_twins_are_kept_apart(study):
    view = study.view("no_killing")
    assert {point.gamma for point in view.main} == {0.99}
    assert {(point.method, point.gamma) for point in view.variants} == {("esr", 1.0), ("esr_distilled", 1.0)}
    assert "ESR (k=0, γ=1)" in [point.label for point in view.variants]


def test_agents_trained_on_the_papers_detector_are_kept_apart(table):
    other = table[(table["method"] == "esr") & (table["arm"] == "k=1")].copy()
    other["detector"], other["run"] = "paper", other["run"] + "-paper"
    both = Episodes(tables.complete(tables.pd.concat([table, other], ignore_index=True)))
    apart = [point.label for point in both.view("no_killing").variants]
    assert "ESR (k=1, trained on paper detector)" in apart


def test_a_recorded_table_joins_ours_on_equal_terms(table):
    """A recorder knows neither γ nor the paper's counts: what is not known sets nobody apart and is counted nowhere."""
    ours = table[(table["dilemma"] == "no_killing") & (table["gamma"] == 0.99)]
    recorded = ["environment", "dilemma", "arm", "seed", "return", "violations", "violations_no_killing", "length"]
    same = ours.loc[(ours["method"] == "ser") & ours["in_first"], recorded]
    theirs = [tables.complete(same.assign(method=f"theirs {number}")) for number in range(9)]
    both = Episodes(tables.pd.concat([ours, *theirs], ignore_index=True))
    view = both.view("no_killing")
    assert not view.variants
    assert len(view.of(*both.methods)) > 2 * len(ours.groupby(["method", "arm"]))  # most have no γ that is known
    for one, other in zip(view.of("ser"), view.of("theirs 0"), strict=True):
        assert (one.tails == other.tails).all()
        assert (one.returns == other.returns).all()
    joined, alone = ([row for row in one.missed("no_killing") if row[1]] for one in (both, Episodes(ours)))
    assert joined == alone
    assert not both.view("no_killing", counter="paper").of("theirs 0")


def test_counts_that_are_not_known_do_not_make_detectors_differ():
    ours = tables.complete(synthetic.temptation(episodes=20))
    theirs = ours.drop(columns="violations_temptation_paper").assign(method="theirs " + ours["method"])
    both = Episodes(tables.pd.concat([ours, theirs], ignore_index=True))
    assert not both.has("temptation", "paper")


def test_binding(study):
    assert [study.view(name).binds for name in study.dilemmas] == [True, True, False]


def test_unfinished_episodes_are_left_out(table):
    changed = table.copy()
    changed.loc[changed.index[::4], "end_cause"] = "running"
    study = Episodes(changed)
    assert study.unfinished == len(changed.index[::4])
    kept = sum(point.episodes for point in study.view("no_killing").points)
    assert kept == ((changed["end_cause"] != "running") & _counted(changed)).sum()


def _counted(table):
    return ((table["dilemma"] == "no_killing") | (table["method"] == "unconstrained")) & table["in_first"]


def test_one_seed_twice_is_rejected(table):
    twin = table[table["run"] == table["run"].iloc[0]].assign(run="another")
    with pytest.raises(ValueError, match="report one of them"):
        Episodes(tables.pd.concat([table, twin], ignore_index=True))


def test_missed_share_is_the_detectors_blind_spot(study):
    label, violations, share = next(iter(study.missed("no_killing")))
    assert label == "Unconstrained"
    assert violations > 100
    assert share == pytest.approx(0.08, abs=0.04)


def test_budget_is_known_for_methods_that_state_one(study):
    view = study.view("no_killing")
    assert find(view, "esr", "k=2").budget == 2
    assert find(view, "lagrangian", "d=0.5").budget == 0.5
    assert np.isnan(find(view, "ser", "w=0.1").budget)
