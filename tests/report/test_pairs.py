"""Pairwise comparisons: which pairs are tested, that chance rarely passes for a difference, and that nothing is called
equal without a test that shows it."""

import numpy as np
import pandas as pd
import pytest
from benchmarks import verdicts as simulated
from scipy import stats

from perepisode.evaluation import compare, episodes, verdicts
from perepisode.report import findings, tables
from perepisode.report.cost_measure import NAN, CostMeasure
from perepisode.report.statistics import matched, pairs
from perepisode.report.statistics.analysis_plan import AnalysisPlan
from perepisode.report.statistics.matched import RETURN, VIOLATIONS
from perepisode.report.statistics.points import Episodes, Point, Seed, View

TABLES = 100


def study(agents, plan=None) -> Episodes:
    """From {method: ([return of each seed], [worst of each seed's ten episodes], cost of the others)}."""
    return Episodes(table_of(agents), **({"plan": plan} if plan else {}))


def table_of(agents) -> pd.DataFrame:
    rows = [
        {"method": method, "seed": seed, "return": gained, "violations": worst if episode == 0 else rest}
        for method, (returns, tails, rest) in agents.items()
        for seed, (gained, worst) in enumerate(zip(returns, tails))
        for episode in range(10)
    ]
    return episodes.complete(pd.DataFrame(rows))


def spread(middle, half):
    """Three seeds whose 95 % interval is middle ± half."""
    step = half * np.sqrt(3) / stats.t.ppf(0.975, 2)
    return [middle - step, middle, middle + step]


def test_means_differ_beyond_the_seeds_error():
    """Half a point apart with ± 1.2 and ± 0.8 is not known to differ, four points apart is."""
    found = study({
        "A": (spread(20.0, 1.2), [5.0, 6.0, 7.0], 1.0),
        "B": (spread(20.5, 0.8), [5.0, 6.0, 7.0], 1.0),
        "C": (spread(24.0, 0.8), [5.0, 6.0, 7.0], 1.0),
    }).view("violations")  # fmt: skip
    a, b, c = found.main
    assert matched.may_be_equal(RETURN, a, b)
    assert not matched.may_be_equal(RETURN, a, c)
    assert matched.may_be_equal(VIOLATIONS, a, c)
    alone = study({"A": ([20.0], [5.0], 1.0), "B": ([20.1], [5.0], 1.0), "C": ([20.5], [5.0], 1.0)}).view("violations")
    near = [matched.may_be_equal(RETURN, alone.main[0], other) for other in alone.main]
    assert near == [True, True, False]  # 1 % of one seed


FOUR = {
    "A": ([20.0, 20.5, 21.0], [50.0, 52.0, 51.0], 10.0),
    "B": ([20.1, 20.3, 21.2], [100.0, 104.0, 99.0], 5.0),  # mean costs of 14.1 and 14.6
    "C": ([20.2, 20.6, 20.9], [60.0, 70.0, 50.0], 9.5),
    "D": ([30.2, 30.6, 30.9], [900.0, 909.0, 905.0], 60.0),  # differs from every other one in both means
}


def arrays(name):
    """The same episodes, without any code of the report."""
    _, tails, rest = FOUR[name]
    return [np.array([worst, *[rest] * 9]) for worst in tails]


def test_pairs_that_differ_in_both_means_are_left_out_and_p_is_holms():
    found = study(FOUR).view("violations")
    compared = pairs.compared(found)
    by_name = {(pair.one.label, pair.other.label): pair for pair in compared.pairs}
    assert set(by_name) == {("A", "B"), ("A", "C"), ("B", "C")}
    assert (compared.chosen_by, compared.skipped, compared.tested) == (pairs.BY_DATA, 3, 3)
    raw = {key: verdicts.tail_test(*map(arrays, key)).p for key in by_name}
    first, second, third = sorted(raw, key=raw.get)
    by_hand = {first: 3 * raw[first], second: max(3 * raw[first], 2 * raw[second])}
    by_hand[third] = max(by_hand[second], raw[third])
    assert {key: pair.p for key, pair in by_name.items()} == pytest.approx(by_hand)
    welch = stats.ttest_ind(FOUR["A"][1], FOUR["B"][1], equal_var=False).pvalue  # the worst of ten is CVaR 10 %
    frame = tables.side_by_side(found).frame
    assert frame.loc[0, ["agent", "other", "tails_differ"]].tolist() == ["B", "A", True]
    assert frame.loc[0, "welch_cvar_p"] == pytest.approx(welch)
    assert frame.loc[0, "ratio"] == pytest.approx(101 / 51)
    assert frame["p"].tolist() == pytest.approx([by_hand["A", "B"], by_hand["B", "C"], by_hand["A", "C"]])
    nearest = tables.matched_nearest(found, found.main[0]).frame.set_index("agent")["p"]
    assert nearest["B"] == pytest.approx(by_hand["A", "B"])
    assert np.isnan(nearest["D"])  # not compared: not tested


def test_a_pair_reads_the_same_from_both_sides():
    a, b = (point for point in study(FOUR).view("violations").main if point.label in "AB")
    one, other = (pairs._tested(study(FOUR).view("violations"), [both])[0].oriented for both in ((a, b), (b, a)))
    assert (one.one.label, one.other.label) == (other.one.label, other.other.label) == ("A", "B")
    assert (one.p, one.ratio) == pytest.approx((other.p, other.ratio))
    assert one.returns == pytest.approx(other.returns)
    assert one.tail.levels[0] == pytest.approx(other.tail.levels[0])
    assert one.returns.difference == pytest.approx(np.mean([0.1, -0.2, 0.2]))  # B minus A
    assert (one.heavier.label, one.lighter.label) == ("B", "A")


def test_margins_are_stated_or_come_from_the_agents():
    view = study(FOUR).view("violations")
    a, b = view.main[:2]
    costs = {name: np.mean([each.mean() for each in arrays(name)]) for name in FOUR}
    assert view.return_margin == pytest.approx(0.2 * (np.mean(FOUR["D"][0]) - np.mean(FOUR["A"][0])))  # A is cleanest
    assert view.cost_margin(a, b) == pytest.approx(0.2 * min(costs["A"], costs["B"]))
    given = study(FOUR, AnalysisPlan(margin=0.75, cost_margin=3.0)).view("violations")
    assert (given.return_margin, given.cost_margin(a, b)) == (0.75, 3.0)
    by_name = {(pair.one.label, pair.other.label): pair for pair in pairs.compared(given).pairs}
    words = {key: (pair.returns.verdict, pair.means.verdict) for key, pair in by_name.items()}
    assert words["A", "B"] == (verdicts.UNDECIDED, verdicts.EQUIVALENT)  # ± 1.2 of return, ± 0.7 of cost
    assert study(FOUR, AnalysisPlan(margin=5.0)).view("violations").return_margin == 5.0


def test_a_share_describes_a_pair_only_if_it_shows_the_same():
    given = Episodes(table_of(FOUR), 60.0, plan=AnalysisPlan(pairs=(("A", "B"),)))
    (pair,) = pairs.compared(given.view("violations")).pairs
    pair = pair.oriented
    assert (pair.one.method, pair.other.method) == ("A", "B")  # 0 and 3 of 30 episodes over 60
    for difference, p, describes in ((0.1, 0.01, True), (0.1, 0.5, False), (-0.1, 0.01, False), (0.1, NAN, True)):
        stated = pair._replace(over=pair.over._replace(difference=difference, p=p))
        assert stated.worse_by_share == describes
    assert not pair._replace(over=None).worse_by_share


def test_an_agent_with_a_per_episode_budget_is_compared_alone():
    """Three tests, not six."""
    returns = [20.0, 20.5, 21.0]
    rows = {"esr": (returns, [1.0, 1.1, 1.2], 0.5), "A": (returns, [2.0, 2.1, 2.3], 0.5),
            "B": (returns, [2.0, 2.2, 2.3], 0.5), "C": (returns, [1.0, 1.3, 1.2], 0.5)}  # fmt: skip
    compared = pairs.compared(study(rows).view("violations"))
    assert compared.chosen_by == pairs.BY_BUDGET
    assert [(pair.one.method, pair.other.method) for pair in compared.pairs] == [
        ("esr", "A"),
        ("esr", "B"),
        ("esr", "C"),
    ]
    alike = [np.array([worst, *[0.5] * 9]) for worst in rows["esr"][1]]
    raw = [verdicts.tail_test(alike, [np.array([worst, *[0.5] * 9]) for worst in rows[name][1]]).p for name in "ABC"]
    assert [pair.p for pair in compared.pairs] == pytest.approx(compare.holm(raw))


def test_a_plan_fixes_the_pairs():
    plan = AnalysisPlan(pairs=(("A", "D"), ("C", "B")), path="plan.toml")
    compared = pairs.compared(study(FOUR, plan).view("violations"))
    assert [(pair.one.label, pair.other.label) for pair in compared.pairs] == [("A", "D"), ("C", "B")]
    assert (compared.chosen_by, compared.tested) == (pairs.BY_PLAN, 2)
    compared = pairs.compared(study(FOUR, AnalysisPlan(focal="C")).view("violations"))
    assert [(pair.one.label, pair.other.label) for pair in compared.pairs] == [("C", "A"), ("C", "B"), ("C", "D")]


def test_a_plan_can_make_the_share_over_a_limit_primary():
    rows = {"A": ([20.0, 20.1, 20.2] * 2, [90.0] * 6, 1.0), "B": ([20.0, 20.1, 20.2] * 2, [30.0] * 6, 20.0)}
    plan = AnalysisPlan(measure="p_over", cost_limit=10.0, pairs=(("A", "B"),))
    view = Episodes(table_of(rows), 10.0, 0.1, plan).view("violations")
    (pair,) = pairs.compared(view).pairs
    assert (pair.heavier.label, pair.lighter.label, pair.differ) == ("B", "A", True)  # all of its episodes exceed
    assert pair.p == pair.over.corrected < 0.05
    (plain,) = pairs.compared(Episodes(table_of(rows), 10.0).view("violations")).pairs
    assert plain.heavier.label == "A"


def test_seeds_that_are_all_alike_claim_nothing():
    of = study({"A": ([20.0] * 3, [1.0] * 3, 0.0), "B": ([20.0] * 3, [2.0] * 3, 0.0)})
    (pair,) = pairs.compared(of.view("violations")).pairs
    assert pair.p == pytest.approx(0.1)  # 2 of the 20 ways to label six seeds
    assert not pair.differ
    assert findings.find(of, [of.view("violations")]).headline.startswith("No difference in tails was found: ")


def test_programs_get_numbers():
    of = study(FOUR)
    (data,) = findings.find(of, [of.view("violations")]).compared
    assert (data["measured"], data["whole_counts"], data["comparisons_chosen_by"], data["p_corrected_for"]) == (
        "cost", False, "the data", 3,
    )  # fmt: skip
    first = data["pairs"][0]
    assert (first["heavier"], first["lighter"], first["tails_differ"]) == ("B", "A", True)
    assert first["means"]["return"]["verdict"] == verdicts.EQUIVALENT  # within a fifth of 30.6 - 20.5
    assert first["ratio"] == pytest.approx(101 / 51)
    agent = next(one for one in data["agents"] if one["agent"] == "A")
    assert agent["cvar"] == {"mean": 51.0, "half_width": pytest.approx(stats.t.ppf(0.975, 2) / np.sqrt(3))}
    assert agent["cost"]["mean"] == pytest.approx(0.9 * 10 + 5.1)


# ---- simulated studies --------------------------------------------------------------------------------------


def agent(name: str, draw: simulated.Draw, seeds: int, generator: np.random.Generator) -> Point:
    """A trained agent: returns of about 30, and the costs of 300 episodes per seed."""
    unknown, found = np.full(300, NAN), []
    for seed in range(seeds):
        costs = draw(generator, generator.lognormal(0.0, 0.03, (1, 1)), 300)[0]
        returns = generator.normal(generator.normal(30.0, 1.0), 4.0, 300)
        found.append(Seed(seed, f"{name} {seed}", NAN, costs, returns, unknown, unknown, {}))
    measure = CostMeasure.of((seed.counts for seed in found), NAN, 0.1, "cost")
    return Point(name, "", 1.0 if name == "esr" else NAN, NAN, "exact", True, "", tuple(found), measure)


def view_of(draws: list[simulated.Draw], seeds: int, generator: np.random.Generator, focal: bool = False) -> View:
    names = ["esr" if focal and not index else f"agent {index}" for index in range(len(draws))]
    points = tuple(agent(name, draw, seeds, generator) for name, draw in zip(names, draws))
    return View("violations", "first", "exact", points, points[0].measure, True)


def claims(view: View) -> list[pairs.Pair]:
    return [pair for pair in pairs.compared(view).pairs if pair.differ]


@pytest.mark.parametrize("law", simulated.LAWS)
def test_identical_agents_rarely_show_a_significant_difference(law):
    """In at most 6 % of tables: also where the pairs that are tested are chosen by the data."""
    generator, draw = np.random.default_rng(list(simulated.LAWS).index(law)), simulated.LAWS[law][0]
    cells = [(2, 5, False), (4, 3, False), (4, 8, False), (4, 5, True)]
    views = [view_of([draw] * agents, seeds, generator, focal) for agents, seeds, focal in cells for _ in range(TABLES)]
    assert sum(map(bool, map(claims, views))) <= 0.06 * len(views)
    for axis in (RETURN, VIOLATIONS):  # nor do their means
        called = [
            any(pair.on(axis).verdict == verdicts.DIFFERENT for pair in pairs.compared(view).pairs) for view in views
        ]
        assert sum(called) <= 0.06 * len(called)


def test_rare_catastrophes_are_found():
    """Before: in 4 % of tables with five seeds (results/verdicts)."""
    generator = np.random.default_rng(7)
    draws = [simulated.even] * 3 + [simulated.catastrophes]
    found = [claims(view_of(draws, 10, generator)) for _ in range(40)]
    heavy = [any(pair.heavier.label == "agent 3" for pair in each) for each in found]
    assert sum(heavy) >= 0.85 * len(heavy)


def claimed(view) -> bool:
    """Whether the page says of any two agents that their tails differ."""
    of = type("Study", (), {"has": lambda *_: False, "mean_length": lambda *_: np.nan, "unfinished": 0, "settings": [],
                            "environment": "external"})()  # fmt: skip
    finding = findings.find(of, [view])
    return "heavier tail" in " ".join([finding.headline, *finding.sentences])


def test_the_page_claims_what_the_tests_found():
    generator = np.random.default_rng(5)
    views = [view_of([simulated.light_costs] * 2 + [simulated.twice_costs], 3, generator) for _ in range(12)]
    views += [view_of([simulated.counts] * 3, 3, generator) for _ in range(12)]
    found = [bool(claims(view)) for view in views]
    assert 3 < sum(found) < 21
    assert [claimed(view) for view in views] == found
