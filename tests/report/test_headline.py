"""The headline: the clearest statement that the data support, with numbers that pandas computes again."""

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic

import perepisode
from perepisode import metrics
from perepisode.config import ConfigError
from perepisode.evaluation import verdicts
from perepisode.report.statistics import analysis_plan, pairs

EXAMPLES = Path(__file__).parents[2] / "examples"
EQUALITY = re.compile(r"\b(equal|equivalent|same|identical|nearly)\b", re.IGNORECASE)


def agents(**of) -> pd.DataFrame:
    """{name: [(mean return of a seed, its counts)]}, returns half a point around their mean."""
    rows = []
    for name, seeds in of.items():
        for seed, (gained, counts) in enumerate(seeds):
            returns = gained + 0.5 * np.where(np.arange(len(counts)) % 2, 1, -1)
            rows.append(pd.DataFrame({"method": name, "seed": seed, "return": returns, "violations": counts}))
    return pd.concat(rows, ignore_index=True)


def headline(table, **options) -> str:
    return perepisode.report(table, quiet=True, **options).headline.replace("\u00a0", " ")


def rare(seeds=5, episodes=400, first=0, often=0.3, worst=1):
    """Counts that are zero or `worst`; from seed to seed one more episode has some."""
    found = []
    for seed in range(seeds):
        violating = round(episodes * often) + seed + first
        found.append((30.0 + 0.1 * seed, [worst] * violating + [0] * (episodes - violating)))
    return found


def test_rare_catastrophes_are_called_what_they_are():
    """Mean costs of 20 each; one agent has 2 % of episodes with a cost of 640."""
    table = pd.read_csv(EXAMPLES / "catastrophes" / "episodes.csv")
    report = perepisode.report(EXAMPLES / "catastrophes" / "episodes.csv", quiet=True)
    tails = {
        name: np.mean([own["EpCost"].nlargest(6).mean() for _, own in each.groupby("seed")])  # 2 % of 300
        for name, each in table.groupby("algo")
    }
    text = f"FOCOPS has a heavier tail than all three others: it averages a cost of {tails['FOCOPS']:.0f} per episode"
    assert report.headline.startswith(text)
    rest = [f"{tails[name]:.0f} for {name}" for name in ("CPO", "PPO-Lag", "P3O")]
    assert f"against {rest[0]}, {rest[1]} and {rest[2]}." in report.headline
    assert report.headline.endswith("Whether mean return or mean cost differs is undecided.")
    largest = table[table["algo"] == "FOCOPS"]["EpCost"]
    share = 100 * largest.max() / largest.sum()
    assert any(f"FOCOPS {share:.1f} %" in text.replace("\u00a0", " ") for text in report.caveats)
    assert any("would need" in text and "seeds per agent" in text for text in report.findings)


def test_undecided_is_never_called_equal():
    """Two seeds with returns half a point apart and a spread of one: nothing is known of the difference."""
    table = agents(A=[(20.0, [0, 1, 3] * 9), (22.0, [0, 1, 2] * 9)], B=[(20.5, [0, 1, 2] * 9), (22.5, [1, 1, 2] * 9)])
    report = perepisode.report(table, quiet=True)
    assert not EQUALITY.search(report.headline)
    assert "Whether mean return or mean violations differ is undecided" in report.headline
    assert report.pairs["return_verdict"].tolist() == ["undecided"]


def test_equivalence_is_said_where_it_was_shown():
    table = agents(A=rare(often=0.2), B=rare(often=0.2, first=1, worst=3))
    text = headline(table, margin=1.0)
    assert text.startswith("B has a heavier tail than A: ")
    assert "ean return is equivalent to within 1.00" in text
    assert "mean violations differ" in text
    assert "undecided" in headline(table, margin=0.05)


def test_a_budget_is_described_by_the_episodes_over_it():
    table = agents(esr=rare(often=0.5), ser=rare(often=0.4, worst=3), Lag=rare(often=0.3, worst=2)).assign(
        arm=lambda rows: np.where(rows["method"] == "esr", "k=1", "")
    )
    share = table[table["violations"] > 1].groupby("method").size() / 2000
    assert headline(table).startswith(
        "ESR (k=1) has a lighter tail than both others: it commits more than one violation in 0.0 % of its episodes, "
        f"against {100 * share['Lag']:.1f} % for Lag and {100 * share['ser']:.1f} % for SER."
    )


def test_a_limit_that_contradicts_the_tail_does_not_describe_it():
    """FOCOPS exceeds 25 in fewer episodes than the others, and has the heavier tail."""
    text = headline(EXAMPLES / "catastrophes" / "episodes.csv", cost_limit=25)
    assert "FOCOPS has a heavier tail" in text
    assert "limit of 25" not in text


def test_a_cvar_beyond_its_support_is_replaced():
    """Both violate in fewer than 10 % of episodes, where CVaR 10 % is ten times the mean."""
    table = agents(A=rare(often=0.02), B=rare(often=0.06))
    assert headline(table).startswith(
        "B has a heavier tail than A: it violates in 6.5 % of its episodes, against 2.5 % for A."
    )
    caveats = perepisode.report(table, quiet=True).caveats
    assert any("fewer than 10 % of episodes have any harm" in text and "Use P(≥1)" in text for text in caveats)
    costs = table.assign(cost=1.5 * table.pop("violations"))
    assert any("Use P(>0)" in text for text in perepisode.report(costs, quiet=True).caveats)


def test_a_deeper_cvar_beyond_the_support_of_one_agent_is_replaced_too():
    """The test sees most at a level of 2 or 1 %; A violates in 0.5 to 1.5 % of episodes, B in 30 %."""
    table = agents(A=rare(often=0.005), B=rare(often=0.3, worst=2))
    report = perepisode.report(table, quiet=True)
    assert report.headline.replace("\u00a0", " ").startswith(
        "B has a heavier tail than A: it violates in 30.5 % of its episodes, against 1.0 % for A."
    )
    assert "P(≥1) 30.5 % against 1.0 %. Differences of means" in report.findings[0].replace("\u00a0", " ")
    words = " ".join(text.get_text() for text in report.figure("tail").figure.axes[0].texts)
    assert "×" not in words  # no ratio of two CVaRs, one of which is a multiple of its mean
    assert "×" in " ".join(
        text.get_text()
        for text in perepisode.report(agents(A=rare(often=0.3), B=rare(often=0.3, worst=2)), quiet=True)
        .figure("tail")
        .figure.axes[0]
        .texts
    )


def test_a_share_that_hides_the_difference_does_not_replace_the_cvar():
    """Both violate in some 6 % of episodes, where CVaR 10 % is ten times the mean; B's worst episodes are far worse."""
    own = [[1] * (24 + seed) + [0] * (376 - seed) for seed in range(5)]
    worse = [[30 + seed] * 8 + [1] * (17 + seed) + [0] * (375 - seed) for seed in range(5)]
    text = headline(agents(**{name: [(30.0, counts) for counts in of] for name, of in (("A", own), ("B", worse))}))
    expected = np.mean([sum(sorted(counts)[-20:]) / 20 for counts in worse])  # 5 % of 400
    assert text.startswith(
        f"B has a heavier tail than A: it averages {expected:.1f} violations per episode in its worst 5 % of episodes, "
        "against 1.00 for A."
    )


def test_no_difference_is_described_where_the_data_support_it():
    """EUPG violates in 9 % of its episodes, at most twice, so that its CVaR 10 % is ten times its mean."""
    report = perepisode.report(EXAMPLES / "eupg", quiet=True)
    assert set(report.agents["p_any"] < 0.1) == {False, True}
    text = report.headline.replace("\u00a0", " ")
    assert text.startswith("No difference in tails was found: ESR (k=1, total_timesteps=480000) averages 1.0")
    assert "violations per episode in its worst 5 % of episodes, against 1.0" in text


def test_one_seed_is_described_without_a_test():
    table = agents(A=rare(1, often=0.3), B=rare(1, often=0.3, worst=4))
    text = headline(table)
    assert text.endswith("(one seed per agent, so no test).")
    assert not re.search("heavier|lighter|differ|undecided|equivalent", text)


def test_agents_that_are_alike_show_no_difference():
    """The headline's contrast is the one with the least p, and the same that the number of seeds is about."""
    draw = np.random.default_rng(0)
    rates = {"A": [2] * 4, "B": [2.1] * 4, "C": [2.3] * 4, "D": [1, 2, 4, 2]}  # D's seeds differ too much to tell
    table = agents(**{name: [(20.0, draw.poisson(rate, 200)) for rate in rates[name]] for name in rates})
    report = perepisode.report(table, quiet=True)
    assert report.headline.startswith("No difference in tails was found among four agents; the clearest contrast is")
    assert "heavier" not in report.headline
    counts = {name: [own["violations"] for _, own in each.groupby("seed")] for name, each in table.groupby("method")}
    least = min(itertools.combinations("ABCD", 2), key=lambda two: verdicts.tail_test(*map(counts.get, two)).p)
    assert "D" not in least
    tails = {name: np.mean([metrics.cvar(seed) for seed in seeds]) for name, seeds in counts.items()}
    assert max(tails, key=tails.get) == "D"
    assert {card.label for card in report.finding.cards} == set(least)
    (power,) = [text for text in report.findings if "would need" in text]
    assert {*re.findall(r"verdict, (\w) against (\w)", power)[0]} == set(least)


def test_pairs_with_more_return_and_more_harm_are_not_compared_and_that_is_said():
    """B gains more by violating more, and so does C; D has less return and more violations than A."""
    table = agents(A=rare(often=0.2), B=[(gained + 5, counts) for gained, counts in rare(often=0.5)],
                   C=[(gained + 9, counts) for gained, counts in rare(often=0.9)])  # fmt: skip
    report = perepisode.report(table, quiet=True)
    text = "Of any two agents, the one with the higher mean return has more violations on average. A averages "
    assert report.headline.startswith(text)
    assert any(text.startswith("3 of 3 pairs are not compared: one agent has both") for text in report.caveats)
    worse = agents(A=rare(often=0.2), D=[(gained - 5, counts) for gained, counts in rare(often=0.5, worst=3)])
    text = headline(worse)
    assert text.startswith("D has a heavier tail than A: ")
    assert "Mean return and mean violations differ (return 25.2 and 30.2" in text


def test_agents_without_any_harm():
    table = agents(A=[(20.0, [0] * 50), (21.0, [0] * 50)], B=[(20.5, [0] * 50), (21.5, [0] * 50)])
    assert headline(table) == "No agent violates in any episode."
    assert headline(table.assign(cost=table.pop("violations"))) == "No agent has a cost in any episode."


def test_an_agent_with_one_seed_is_named():
    table = agents(A=rare(often=0.2), B=rare(often=0.2, worst=2), C=rare(1))
    report = perepisode.report(table, quiet=True)
    assert any(text.endswith("none of their comparisons is tested: C.") for text in report.caveats)
    assert any(text.startswith("Of the ") or "B has a heavier tail" in text for text in report.findings)


def test_cards_show_the_agents_of_the_headline():
    report = perepisode.report(EXAMPLES / "catastrophes" / "episodes.csv", quiet=True)
    assert [card.label for card in report.finding.cards] == ["FOCOPS", "P3O", "CPO"]
    assert {card.unit for card in report.finding.cards} == {"cost per episode, worst 2 % of episodes"}
    assert all("p = 0.014" in card.detail.replace("\u00a0", " ") for card in report.finding.cards[1:])


# ---- an analysis plan ---------------------------------------------------------------------------------------


def plan(tmp_path, text) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_fixes_the_comparison_and_is_printed(tmp_path):
    table = EXAMPLES / "catastrophes" / "episodes.csv"
    text = 'focal = "CPO"\nmargin = 1.5\ncost_margin = 12.0\ncost_limit = 25\n'
    report = perepisode.report(table, quiet=True, plan=plan(tmp_path, text))
    assert set(report.pairs[["agent", "other"]].stack()) == {"CPO", "FOCOPS", "P3O", "PPO-Lag"}
    assert len(report.pairs) == 3
    assert report.headline.startswith("CPO has a lighter tail than FOCOPS")
    assert any("fixed beforehand by plan.toml" in text for text in report.caveats)
    assert not any("chosen by the data" in text or "set by the data" in text for text in report.caveats)
    assert set(report.pairs["return_margin"]) == {1.5}
    stated = report.tables["analysis_plan"].set_index("Entry")["Value"]
    assert stated.to_dict() == {"focal": "CPO", "margin": "1.5", "cost_margin": "12.0", "cost_limit": "25"}
    without = perepisode.report(table, quiet=True)
    assert any("chosen by the data: no analysis plan" in text for text in without.caveats)
    assert "analysis_plan" not in without.tables


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("focal = 3", "focal = 3 is not a name"),
        ("focal = ", "is not TOML"),
        ("agent = 'A'", "unknown entry 'agent'; a plan has focal, pairs"),
        ("pairs = [['CPO']]", "is not a list of pairs of agents"),
        ("pairs = [['CPO', 'CPO']]", "compares an agent with itself"),
        ("pairs = [['CPO', 'P3O'], ['P3O', 'CPO']]", "or a pair twice"),
        ("focal = 'CPO'\npairs = [['P3O', 'FOCOPS']]", "a pair without the focal agent CPO"),
        ("margin = -1", "margin = -1 is not a number above 0"),
        ("alpha = true", "alpha = True is not a number above 0"),
        ("measure = 'mean'", "is unknown; use one of cvar, p_over"),
        ("measure = 'p_over'", "without a limit; add cost_limit"),
        ("focal = 'SAC'", "the plan names 'SAC', which no table has as an agent; they are CPO, FOCOPS, P3O, PPO-Lag"),
        ("dilemma = 'no_killing'", "is about dilemma 'no_killing'; the table has cost"),
    ],
)
def test_a_wrong_plan_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError) as error:
        perepisode.report(EXAMPLES / "catastrophes" / "episodes.csv", quiet=True, plan=plan(tmp_path, text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_number_that_contradicts_the_plan_is_refused(tmp_path):
    path = plan(tmp_path, "alpha = 0.05")
    with pytest.raises(ConfigError, match=r"alpha=0\.1 contradicts .*plan\.toml, which fixes 0\.05; leave it out"):
        perepisode.report(EXAMPLES / "costs" / "episodes.csv", quiet=True, plan=path, alpha=0.1)
    assert perepisode.report(EXAMPLES / "costs" / "episodes.csv", quiet=True, plan=path, alpha=0.05).pairs is not None


def test_a_plan_about_one_dilemma_leaves_the_other_as_it_is(tmp_path):
    table = synthetic.craftax(episodes=30, dilemmas=("no_killing", "sustainability"))
    text = 'dilemma = "sustainability"\npairs = [["SER (w=0.1)", "ESR (k=1)"]]'
    report = perepisode.report(table, quiet=True, plan=plan(tmp_path, text))
    assert (report.pairs["dilemma"] == "sustainability").sum() == 1
    assert (report.pairs["dilemma"] == "no_killing").sum() > 1


def test_the_documented_plan_is_read(tmp_path):
    """The example in the module's own text."""
    block = re.search(r"\n\n(    focal.*?)\n\nAgents", analysis_plan.__doc__, re.DOTALL)[1]
    read = analysis_plan.read(plan(tmp_path, re.sub("^    ", "", block, flags=re.MULTILINE)))
    assert (read.focal, read.pairs, read.margin) == ("ESR (k=1)", (("ESR (k=1)", "SER (w=0.1)"),), 0.5)
    assert pairs.BY_PLAN == "the analysis plan"
