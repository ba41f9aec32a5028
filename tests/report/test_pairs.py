"""Pairwise comparisons: matched within the seeds' error, and tested so that chance rarely passes for a difference."""

import numpy as np
import pandas as pd
import pytest
from benchmarks import false_alarms
from scipy import stats

from perepisode.evaluation import episodes
from perepisode.report import findings, tables
from perepisode.report.statistics import matched, pairs
from perepisode.report.statistics.matched import RETURN, VIOLATIONS
from perepisode.report.statistics.points import Episodes

FILES = 120


def study(agents) -> Episodes:
    """From {method: ([return of each seed], [worst of each seed's ten episodes], cost of the others)}."""
    rows = [
        {"method": method, "seed": seed, "return": gained, "violations": worst if episode == 0 else rest}
        for method, (returns, tails, rest) in agents.items()
        for seed, (gained, worst) in enumerate(zip(returns, tails))
        for episode in range(10)
    ]
    return Episodes(episodes.complete(pd.DataFrame(rows)))


def spread(middle, half):
    """Three seeds whose 95 % interval is middle ± half."""
    step = half * np.sqrt(3) / stats.t.ppf(0.975, 2)
    return [middle - step, middle, middle + step]


def test_returns_are_the_same_within_the_seeds_error():
    """Half a point apart with ± 1.2 and ± 0.8 is the same return, four points apart is not."""
    found = study({
        "A": (spread(20.0, 1.2), [5.0, 6.0, 7.0], 1.0),
        "B": (spread(20.5, 0.8), [5.0, 6.0, 7.0], 1.0),
        "C": (spread(24.0, 0.8), [5.0, 6.0, 7.0], 1.0),
    }).view("violations")  # fmt: skip
    a, b, c = found.main
    assert matched.is_matched(RETURN, a, b)
    assert not matched.is_matched(RETURN, a, c)
    assert matched.is_matched(VIOLATIONS, a, c)
    alone = study({"A": ([20.0], [5.0], 1.0), "B": ([20.1], [5.0], 1.0), "C": ([20.5], [5.0], 1.0)}).view("violations")
    assert [matched.is_matched(RETURN, alone.main[0], other) for other in alone.main] == [
        True,
        True,
        False,
    ]  # 1 % of one seed


THREE = {
    "A": ([20.0, 20.5, 21.0], [50.0, 52.0, 51.0], 10.0),
    "B": ([20.1, 20.3, 21.2], [100.0, 104.0, 99.0], 5.0),  # means of 14.1 and 14.6
    "C": ([20.2, 20.6, 20.9], [60.0, 70.0, 50.0], 9.5),
    "D": ([30.2, 30.6, 30.9], [900.0, 909.0, 905.0], 60.0),  # matched with none
}


def test_all_matched_pairs_are_tested_and_p_is_holms():
    found = study(THREE).view("violations")
    compared = {(pair.one.label, pair.other.label): pair for pair in pairs.compared(found)}
    assert set(compared) == {("A", "B"), ("A", "C"), ("B", "C")}
    raw = {
        key: stats.ttest_ind(THREE[key[0]][1], THREE[key[1]][1], equal_var=False).pvalue for key in compared
    }  # the worst of ten episodes is the CVaR
    first, second, third = sorted(raw, key=raw.get)
    by_hand = {first: 3 * raw[first], second: max(3 * raw[first], 2 * raw[second])}
    by_hand[third] = max(by_hand[second], raw[third])
    assert {key: pair.p for key, pair in compared.items()} == pytest.approx(by_hand)
    gap = stats.ttest_ind(*(THREE[name][1] for name in ("B", "A")), equal_var=False).confidence_interval(0.95)
    assert compared["A", "B"].tails[:2] == pytest.approx(((gap.low + gap.high) / 2, (gap.high - gap.low) / 2))
    frame = tables.side_by_side(found).frame
    assert frame.loc[0, ["agent", "other", "same"]].tolist() == ["B", "A", "return and cost"]
    assert frame.loc[0, "ratio"] == pytest.approx(101 / 51)
    assert frame["welch_p"].tolist() == pytest.approx(sorted(by_hand.values()))
    nearest = tables.matched_nearest(found, found.main[0]).frame.set_index("agent")["welch_p"]
    assert nearest["B"] == pytest.approx(by_hand["A", "B"])
    assert np.isnan(nearest["D"])  # not matched: not tested


def test_single_agents_with_equal_means_are_the_headline():
    of = study(THREE)
    finding = findings.find(of, [of.view("violations")])
    assert finding.headline == (
        "Equal mean cost, twice the CVaR 10 %: B averages a cost of 101 per episode in its worst 10 % of episodes, A "
        "51.0 (mean cost 14.6 and 14.1)."
    )
    assert [card.value for card in finding.cards[:2]] == ["101\u00a0±\u00a07", "51.0\u00a0±\u00a02.5"]
    assert finding.cards[2].value == "2.0 ×"
    assert any(
        text.startswith("No comparison was specified in advance. A comes first in figures") for text in finding.caveats
    )
    assert any("corrected for 3 comparisons (Holm)" in text for text in finding.caveats)
    assert finding.compared[0]["pairs"][0]["p"] == pytest.approx(pairs.compared(of.view("violations"))[0].p)


def test_an_agent_with_a_per_episode_budget_is_specified_in_advance():
    """It alone is compared: three tests, not six."""
    returns = [20.0, 20.5, 21.0]
    rows = {"esr": (returns, [1.0, 1.1, 1.2], 0.5), "A": (returns, [2.0, 2.1, 2.3], 0.5),
            "B": (returns, [2.0, 2.2, 2.3], 0.5), "C": (returns, [1.0, 1.3, 1.2], 0.5)}  # fmt: skip
    of = study(rows)
    compared = pairs.compared(of.view("violations"))
    assert [(pair.one.method, pair.other.method) for pair in compared] == [("esr", "A"), ("esr", "B"), ("esr", "C")]
    raw = [stats.ttest_ind(rows[name][1], rows["esr"][1], equal_var=False).pvalue for name in "ABC"]
    assert min(pair.p for pair in compared) == pytest.approx(3 * min(raw))
    finding = findings.find(of, [of.view("violations")])
    assert finding.headline == (
        "Equal mean return, a lower CVaR 10 % than two of three others: ESR averages a cost of 1.10 per episode in its "
        "worst 10 % of episodes; B more (2.17); A more (2.13); C 1.17, no significant difference."
    )
    assert not any("specified in advance" in text for text in finding.caveats)
    rows["C"] = (returns, [0.1, 0.2, 0.1], 0.05)
    of = study(rows)
    assert "Equal mean return, mixed differences in CVaR 10 %: " in findings.find(of, [of.view("violations")]).headline


def test_seeds_that_are_all_alike_claim_nothing():
    of = study({"A": ([20.0] * 3, [1.0] * 3, 0.0), "B": ([20.0] * 3, [2.0] * 3, 0.0)})
    (pair,) = pairs.compared(of.view("violations"))
    assert np.isnan(pair.p)
    assert "twice the CVaR 10 % (identical seeds, no test)" in findings.find(of, [of.view("violations")]).headline


def claimed(view) -> bool:
    """Whether the page says of any two agents that their tails differ."""
    of = type("Study", (), {"has": lambda *_: False, "mean_length": lambda *_: np.nan, "unfinished": 0, "settings": [],
                            "environment": "external"})()  # fmt: skip
    finding = findings.find(of, [view])
    words = " ".join([finding.headline, *finding.sentences])
    return "higher CVaR" in words or "times the CVaR" in words or "twice" in words


@pytest.mark.parametrize("law", false_alarms.LAWS)
def test_identical_agents_rarely_show_a_significant_difference(law):
    """In at most 6 % of tables; results/false_alarms.md has 5,000 tables for each of these."""
    alarms = before = 0
    cells = [(2, 3, False), (8, 3, False), (4, 8, False), (8, 3, True)]
    for agents, seeds, focal in cells:
        now, old = false_alarms.false_alarms(law, agents, seeds, FILES, focal)
        alarms, before = alarms + now, before + old
    assert alarms <= 0.06 * FILES * len(cells)
    assert before > 0.06 * FILES * len(cells)  # as it was


def test_the_page_claims_what_the_simulation_counts():
    generator = np.random.default_rng(5)
    laws = [false_alarms.even_costs] * 2 + [false_alarms.twice_the_tail]
    views = [false_alarms.table(laws, 3, generator) for _ in range(12)]
    views += [false_alarms.table([false_alarms.counts] * 3, 3, generator) for _ in range(12)]
    found = [bool(false_alarms.claims(view)) for view in views]
    assert 3 < sum(found) < 21
    assert [claimed(view) for view in views] == found


def test_true_differences_are_found():
    """One agent of eight seeds has the others' mean and twice their tail."""
    assert false_alarms.power(2, 8, FILES) >= 0.9 * FILES
    assert false_alarms.power(4, 8, FILES) >= 0.9 * FILES
    assert false_alarms.power(4, 8, FILES, focal=True) >= 0.9 * FILES
    assert false_alarms.power(2, 3, FILES) >= 0.4 * FILES


def test_programs_get_numbers():
    of = study(THREE)
    (data,) = findings.find(of, [of.view("violations")]).compared
    assert (data["measured"], data["whole_counts"], data["fixed_beforehand"], data["p_corrected_for"]) == (
        "cost", False, False, 3,
    )  # fmt: skip
    first = data["pairs"][0]
    assert (first["heavier"], first["lighter"], first["tails_differ"]) == ("B", "A", True)
    assert (first["same_return"], first["same_cost"]) == (True, True)
    assert first["differences"]["cvar"]["mean"] == 101 - 51
    assert first["ratio"] == pytest.approx(101 / 51)
    agent = next(one for one in data["agents"] if one["agent"] == "A")
    assert agent["cvar"] == {"mean": 51.0, "half_width": pytest.approx(stats.t.ppf(0.975, 2) / np.sqrt(3))}
    assert agent["cost"]["mean"] == pytest.approx(0.9 * 10 + 5.1)
