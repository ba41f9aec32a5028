"""The page as a file: complete, self-contained, explicit about what is missing, and fast."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import synthetic
from scipy import stats

from perepisode.evaluation import episodes
from perepisode.report import page


@pytest.fixture(scope="module")
def craftax(tmp_path_factory):
    """The page of a full made-up study, with curves and utilities."""
    root = tmp_path_factory.mktemp("craftax")
    table = synthetic.craftax(episodes=60)
    table.loc[table["method"] == "ser", "run"] = "<script>alert(1)</script>" + table["run"]
    episodes.write(table, root / "episodes.parquet", {"device": "<b>cpu</b>", "code": "1234"})
    synthetic.curves(root / "runs", updates=30)
    utility = root / "utility.json"
    utility.write_text(json.dumps(synthetic.utility("no_killing")))
    return page.build(root / "episodes.parquet", root / "out", curves=[root / "runs"], utilities=[utility])


def build(table, folder, **inputs):
    folder.mkdir(exist_ok=True)
    table.to_csv(folder / "episodes.csv", index=False)
    return page.build(folder / "episodes.csv", folder / "out", **inputs).read_text()


def test_all_figures_and_tables_of_the_paper(craftax):
    names = set(re.findall(r'id="(?:figure|table)-([\w-]+)"', craftax.read_text()))
    for dilemma in ("no_killing", "sustainability"):
        for block in ("frontier", "distributions", "matched_nearest", "matched_interpolated", "matched_wider", "tail",
                      "exceedance", "cvar_levels", "same_violations", "budget_sweep", "esr_family", "hypervolume",
                      "cost", "complete", "protocols", "missed", "apart"):  # fmt: skip
            assert f"{block}_{dilemma}" in names
    assert {"training_no_killing", "multiplier_no_killing", "utility_slices", "frontiers"} <= names
    assert {"paper_versus_here", "runs", "definitions", "provenance"} <= names


def test_every_block_has_its_data_beside_it(craftax):
    html = craftax.read_text()
    for link in re.findall(r'href="(data/[^"]+)"', html):
        assert len(pd.read_csv(craftax.parent / link)) > 0, link
    for link in re.findall(r'href="((?:figures|tables|summary)[^"]+)"', html):
        assert (craftax.parent / link).stat().st_size > 0, link
    markdown = (craftax.parent / "report.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", markdown):
        assert (craftax.parent / link).exists(), link


def test_the_page_needs_nothing_from_elsewhere(craftax):
    html = craftax.read_text()
    assert "http:" not in html
    assert "https:" not in html
    assert "@import" not in html
    assert not re.findall(r'(?:src|href)="(?!#|data[:/]|figures/|tables/|summary.json")', html)


def test_ids_are_unique(craftax):
    ids = re.findall(r'\sid="([^"]+)"', craftax.read_text())
    assert len(ids) == len(set(ids))


def test_text_from_tables_is_escaped(craftax):
    html = craftax.read_text()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;b&gt;cpu&lt;/b&gt;" in html
    assert "<script>alert" not in (craftax.parent / "report.md").read_text()


def test_first_screen_states_finding_and_caveats(craftax):
    first = craftax.read_text().split("<nav")[0]
    assert "worst 10\u00a0% of episodes" in first
    for caveat in ("Few seeds", "averages 18 of 180 episodes", "does not bind", "favours short", "misses"):
        assert caveat in first, caveat


def test_hostile_method_names_and_dollar_signs(tmp_path):
    table = synthetic.external(episodes=30)
    table["method"] = table["method"].replace({"PPO": "<img src=x onerror=alert(1)> $x_{$"})
    html = build(table, tmp_path)
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt; $x_{$" in html


def test_dilemma_names_cannot_leave_the_folder(tmp_path):
    table = synthetic.external(episodes=20).assign(dilemma="../../evil <b>")
    build(table, tmp_path / "inner")
    assert {path.name for path in tmp_path.iterdir()} == {"inner"}
    assert (tmp_path / "inner/out/data/frontier_evil-b.csv").exists()


def test_one_seed_gives_no_interval_and_says_so(tmp_path):
    html = build(synthetic.temptation(episodes=60, seeds=(1,)), tmp_path)
    first = html.split("<nav")[0]
    assert "One seed only" in first
    assert "±" not in first
    assert "one seed per agent, so no test" in first
    for claim in ("heavier tail", "No difference", "equivalent", "undecided"):
        assert claim not in re.sub(r"<style.*?</style>", "", first, flags=re.DOTALL)


def test_miniature_with_exact_optima(tmp_path):
    html = build(synthetic.temptation(episodes=60), tmp_path, exact=synthetic.exact_optima())
    assert "exact optimal policy" in html
    assert "Exact optima" in html
    assert "Comparison with the paper" not in html


def test_pages_on_external_agents_omit_what_has_no_data(tmp_path):
    html = build(synthetic.external(), tmp_path)
    for reason in ("budget sweep is omitted", "Training curves and λ are omitted"):
        assert reason in html


def test_a_single_agent_is_described_not_compared(tmp_path):
    table = synthetic.external()
    html = build(table[table["method"] == "CPO"], tmp_path)
    assert "There is only one agent, so nothing here is a comparison" in html


def by_hand(method, arm, value, counts, seen=None, detector="exact", gained=30.0):
    """Three seeds of the same episodes: nothing to compute that cannot be checked by eye."""
    one = {
        "environment": "craftax",
        "dilemma": "no_killing",
        "method": method,
        "arm": arm,
        "value": value,
        "gamma": 0.99,
    }
    one |= {"detector": detector, "return": gained, "violations": counts, "violations_no_killing": counts}
    one |= {"violations_no_killing_paper": counts if seen is None else seen}
    return pd.concat(
        [pd.DataFrame({**one, "seed": seed, "run": f"{method}{arm}{detector}{seed}"}) for seed in (1, 2, 3)]
    )


def test_an_agent_trained_on_the_papers_detector_has_both_counts(tmp_path):
    table = pd.concat(
        [
            by_hand("esr", "k=1", 1.0, [0] * 9 + [1]),
            by_hand("esr", "k=1", 1.0, [0] * 8 + [1, 3], [0] * 8 + [1, 1], "paper"),
            by_hand("ser", "w=0.1", 0.1, [0] * 8 + [1, 2]),
        ]
    )
    first = build(table, tmp_path).split("<nav")[0]
    assert (
        "ESR (k=1, trained on paper detector): CVaR 10 % is 3.00 ± 0.00 by exact counts and 1.00 ± 0.00 by the "
        "detector that it was trained on; by the same two counts, 10.0 % and 0.0 % of its episodes exceed its budget. "
        "Trained on exact counts, CVaR 10 % is 1.00 ± 0.00."
    ) in first.replace("\u00a0", " ")


def test_two_agents_span_no_frontier_and_unequal_returns_are_stated(tmp_path):
    table = pd.concat([by_hand("esr", "k=1", 1.0, [0, 1]), by_hand("ser", "w=0.1", 0.1, [1, 2], gained=33.0)])
    html = build(table, tmp_path)
    assert "(return 33.0 and 30.0, violations 1.50 and 0.50)" in html.split("<nav")[0]
    assert "frontier" not in html.split("<nav")[0]
    assert "Hypervolume is omitted" in html


def test_a_report_links_to_the_episodes_to_watch(tmp_path):
    page_of = tmp_path / "watch" / "esr"
    page_of.mkdir(parents=True)
    (page_of / "titles.json").write_text(json.dumps(["ESR <k=1>, seed 7: 2 violations"]))
    html = build(synthetic.temptation(episodes=20), tmp_path, watch=[page_of])
    assert '<a href="../watch/esr/index.html">ESR &lt;k=1&gt;, seed 7: 2 violations</a>' in html
    markdown = (tmp_path / "out/report.md").read_text()
    assert "- [ESR &lt;k=1>, seed 7: 2 violations](../watch/esr/index.html)" in markdown
    with pytest.raises(ValueError, match="contains no replays"):
        build(synthetic.temptation(episodes=20), tmp_path, watch=[tmp_path])


def test_bad_optima_and_no_finished_episode_are_rejected(tmp_path):
    table = synthetic.temptation(episodes=10)
    with pytest.raises(ValueError, match="has no 'kind'"):
        build(table, tmp_path, exact=[{"label": "x"}])
    with pytest.raises(ValueError, match="evaluate for longer"):
        build(table.assign(end_cause="running"), tmp_path)


def test_window_only_tables_are_reported_with_a_caveat(tmp_path):
    html = build(synthetic.temptation(episodes=30).assign(in_first=False), tmp_path)
    assert "long ones are under-represented" in html


@pytest.mark.processes
def test_reporting_starts_no_device(tmp_path):
    code = "import sys, perepisode.report.page as p; p.build(sys.argv[1], sys.argv[2]); assert 'jax' not in sys.modules"
    synthetic.external(episodes=20).to_csv(tmp_path / "e.csv", index=False)
    subprocess.run([sys.executable, "-c", code, tmp_path / "e.csv", tmp_path / "out"], check=True)


@pytest.mark.slow
def test_a_million_episodes_in_two_gigabytes(tmp_path):
    table = synthetic.craftax(episodes=1_000_000 // 183)
    table = pd.concat([table] * int(np.ceil(1_000_000 / len(table))), ignore_index=True).iloc[:1_000_000]
    table["episode_index"] = np.arange(len(table))
    path = episodes.write(table, tmp_path / "million.parquet")
    # VmHWM, not ru_maxrss: the latter counts what the parent held when it forked
    code = "import sys; from perepisode.report import page; page.build(sys.argv[1], sys.argv[2])\n"
    code += "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    command = [sys.executable, "-c", code, path, tmp_path / "out"]
    peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(peak) < 2 * 1024**2  # kilobytes


def test_where_returns_do_not_match_the_findings_read_the_frontier_at_equal_return(tmp_path):
    """ESR's return is three quarters of the way between two arms of SER and beyond the Lagrangian's (costs)."""
    tails = {  # method, arm: return, twice the cost of the worst two of 20 episodes for each seed, all others have none
        ("esr", "k=1"): (31.0, [1, 1, 2]),
        ("ser", "w=1"): (28.0, [1, 2, 3]),
        ("ser", "w=0.1"): (32.0, [4, 6, 8]),
        ("lagrangian", "d=0.5"): (20.0, [0, 1, 1]),
        ("lagrangian", "d=1"): (25.0, [2, 2, 3]),
    }
    rows = [
        {
            "method": method,
            "arm": arm,
            "seed": seed,
            "return": level + 1e-6 * seed,  # three equal numbers would not differ from three others (2 of 20 labels)
            "violations": worst / 2 if episode < 2 else 0,
        }
        for (method, arm), (level, each) in tails.items()
        for seed, worst in enumerate(each)
        for episode in range(20)
    ]
    html = build(pd.DataFrame(rows), tmp_path).replace("\u00a0", " ")
    spread = [0.25 * 0.5, 0.75 * 1.0]  # standard deviations over seeds, each with its part
    freedom = (spread[0] ** 2 + spread[1] ** 2) ** 2 / (spread[0] ** 4 / 2 + spread[1] ** 4 / 2)  # Satterthwaite
    half = stats.t.ppf(0.975, freedom) * np.hypot(*spread) / np.sqrt(3)
    over = 0.25 * np.array([0, 0, 0.1]).mean() + 0.75 * 0.1
    found = re.search(r"CVaR 10 % interpolated to a return of 31.0: (.*?)</li>", html).group(1)
    expected = f"SER {0.25 * 1 + 0.75 * 3:.2f} ± {half:.2f} ({100 * over:.1f} % of episodes over), ESR (k=1) 0.67"
    assert found.startswith(expected)
    assert found.endswith("Not reached by Lagrangian (its frontier reaches returns from 20.00 to 25.00 only).")


def test_agents_of_equal_mean_are_compared_in_the_findings(tmp_path):
    """Seeds are alike; the Lagrangian has 1.2 violations on average, to which ESR is half way from k=1 to k=4."""
    tails = {  # method, arm: return, violations of the worst two of 20 episodes, of all others
        ("unconstrained", ""): (36.0, 5, 3),
        ("esr", "k=1"): (30.0, 4, 0),
        ("esr", "k=4"): (32.0, 20, 0),
        ("lagrangian", "d=0.5"): (31.0, 3, 1),
    }
    rows = [
        {"method": method, "arm": arm, "seed": seed, "return": level, "violations": worst if episode < 2 else rest}
        for (method, arm), (level, worst, rest) in tails.items()
        for seed in (1, 2)
        for episode in range(20)
    ]
    html = build(pd.DataFrame(rows), tmp_path).replace("\u00a0", " ")
    equal = re.search(r"CVaR 10 % interpolated to equal mean violations of 1.20: (.*?)</li>", html).group(1)
    assert equal.startswith("ESR 12.0 ± 0.0, Lagrangian 3.00 ± 0.00 (independent violations would give 3.43; 2.00 is")
    # the others' frontier: 31 at 1.2 violations, 36 at 3.2; k=1 has 0.4 and is left of it, k=4 has 2.0
    on_average = re.search(r"On average: (.*?)</li>", html).group(1).replace("&#39;", "'")
    assert on_average.startswith("ESR (k=4) lies below the other methods' frontier")
    assert "differ from it by −1.0; ESR (k=1) lies beyond its ends; ESR adds" in on_average
