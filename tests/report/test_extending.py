"""docs/how-to/plots-and-tables.md: a user's script adds a metric and a figure."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from tests.extending import guide

from perepisode import metrics
from perepisode.report import blocks, page

T_OF_THREE = 4.302652729911275  # Student's, 97.5 %, of three seeds


@pytest.fixture(autouse=True)
def _nothing_stays_declared():
    registries = [(registry, dict(registry)) for registry in (metrics.METRIC_SPECS, blocks.BLOCKS)]
    yield
    for registry, before in registries:
        registry.clear()
        registry.update(before)


@pytest.fixture(scope="module")
def table():
    return synthetic.temptation(episodes=80)


def run(heading: str, table: pd.DataFrame, folder: Path, monkeypatch) -> str:
    """The page that the guide's own code builds from episodes.csv."""
    monkeypatch.chdir(folder)
    table.to_csv("episodes.csv", index=False)
    exec(compile(guide.code(heading), heading, "exec"), {})
    return (folder / "report" / "index.html").read_text()


def cells(html: str, block: str) -> list[list[str]]:
    """Heading and rows of a table of the page."""
    inside = html[html.index(f'id="table-{block}"') :]
    rows = re.findall(r"<tr.*?</tr>", inside[: inside.index("</table>")], re.DOTALL)
    return [[re.sub(r"<.*?>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
            for row in rows]  # fmt: skip


def test_a_metric_is_on_the_page_in_the_csv_and_among_the_definitions(table, tmp_path, monkeypatch):
    html = run("A metric", table, tmp_path, monkeypatch)
    exported = pd.read_csv(tmp_path / "report/data/complete_temptation.csv").set_index("agent")
    own = table[(table["method"] == "ser") & (table["arm"] == "w=0.1")]
    seeds = [sum(count >= 3 for count in seed["violations"]) / len(seed) for _, seed in own.groupby("seed")]
    assert len(set(seeds)) > 1
    assert exported.loc["SER (w=0.1)", "my_p_from_3"] == pytest.approx(sum(seeds) / 3)
    assert exported.loc["SER (w=0.1)", "my_p_from_3_ci"] == pytest.approx(T_OF_THREE * np.std(seeds, ddof=1) / 3**0.5)
    heading, *rows = cells(html, "complete_temptation")
    *_, before, mine = metrics.METRIC_SPECS.values()
    assert mine.heading == "My P(≥3)"
    assert heading.index("My P(≥3)") == heading.index(before.heading) + 1
    shown = next(row for row in rows if row[0] == "SER (w=0.1)")[heading.index("My P(≥3)")]
    assert shown == f"{100 * sum(seeds) / 3:.1f}\N{NO-BREAK SPACE}%"
    assert ["My P(≥3)", "share of episodes with three violations or more"] in cells(html, "definitions")
    assert (
        "| My P(≥3) | share of episodes with three violations or more |" in (tmp_path / "report/report.md").read_text()
    )


def test_a_metric_may_show_its_interval_or_the_largest_seed(table, tmp_path):
    metrics.register(metrics.MetricSpec("my_median", "My median", np.median, "", digits=1, interval=True))
    metrics.register(metrics.MetricSpec("my_most", "My most", metrics.mean, "mean of the worst seed", largest=True))
    table.to_csv(tmp_path / "episodes.csv", index=False)
    html = page.build(tmp_path / "episodes.csv", tmp_path / "out").read_text()
    heading, *rows = cells(html, "complete_temptation")
    free = next(row for row in rows if row[0] == "Unconstrained")
    seeds = table[table["method"] == "unconstrained"].groupby("seed")["violations"]
    middle = seeds.median()
    half = T_OF_THREE * middle.std() / 3**0.5
    assert half > 0.1
    assert free[heading.index("My median")] == f"{middle.mean():.1f}\u00a0±\u00a0{half:.1f}"
    assert free[heading.index("My most")] == f"{seeds.mean().max():.2f}"


def test_a_metric_for_counts_is_not_shown_for_costs(table, tmp_path):
    spec = metrics.MetricSpec("my_odd", "My odd", lambda counts: float((counts % 2).mean()), "share of odd counts")
    metrics.register(spec._replace(counts_only=True))
    for costs, name in ((table, "counts"), (table.assign(violations=table["violations"] / 2), "costs")):
        costs.to_csv(tmp_path / f"{name}.csv", index=False)
        html = page.build(tmp_path / f"{name}.csv", tmp_path / name).read_text()
        assert ("my_odd" in pd.read_csv(tmp_path / name / "data/complete_temptation.csv")) == (name == "counts")
        assert ("My odd" in cells(html, "complete_temptation")[0]) == (name == "counts")
        assert ("share of odd counts" in html) == (name == "counts")


def test_the_package_leaves_names_with_my_to_scripts():
    assert not [spec for spec in metrics.METRIC_SPECS.values() if spec.name.startswith("my_")]
    assert not [spec for spec in metrics.METRIC_SPECS.values() if spec.heading.startswith("My ")]


@pytest.mark.parametrize(("name", "heading"), [("cvar", "Tail"), ("tail", metrics.CVAR)])
def test_a_metric_cannot_take_the_place_of_another(name, heading):
    with pytest.raises(ValueError, match=r"collides with 'cvar' \(CVaR 10 %\); choose"):
        metrics.register(metrics.MetricSpec(name, heading, metrics.cvar, "a tail"))
    assert metrics.METRIC_SPECS["cvar"].heading == metrics.CVAR
    assert "tail" not in metrics.METRIC_SPECS


def test_a_metric_cannot_take_the_place_of_another_column(table, tmp_path):
    metrics.register(metrics.MetricSpec("return", "Mean", metrics.mean, "of the counts"))
    table.to_csv(tmp_path / "episodes.csv", index=False)
    with pytest.raises(ValueError, match="two columns 'return'; rename"):
        page.build(tmp_path / "episodes.csv", tmp_path / "out")


def test_a_figure_is_on_the_page_with_its_data(table, tmp_path, monkeypatch):
    html = run("A figure", table, tmp_path, monkeypatch)
    inside = html[html.index('id="figure-worst_episodes_temptation"') :]
    assert "<svg" in inside[: inside.index("</figure>")]
    assert "The worst episode of each agent" in inside[: inside.index("</figure>")]
    assert "<svg xmlns=" in (tmp_path / "report/figures/worst_episodes_temptation.svg").read_text()
    exported = pd.read_csv(tmp_path / "report/data/worst_episodes_temptation.csv").set_index("agent")
    own = table[(table["method"] == "esr") & (table["arm"] == "k=1")]
    assert exported.loc["ESR (k=1)", "worst"] == max(own["violations"])
    assert html.index('id="figure-frontier_temptation"') < html.index('id="figure-worst_episodes_temptation"')


def test_a_figure_without_data_says_so(table, tmp_path, monkeypatch):
    html = run("A figure", table[table["method"] == "esr"][lambda t: t["arm"] == "k=1"], tmp_path, monkeypatch)
    assert 'id="figure-worst_episodes' not in html
    assert "The worst episodes are omitted: they need more than one agent." in html


def test_a_figure_cannot_take_the_place_of_another_and_must_be_a_drawing(table, tmp_path):
    def tail(case):
        return "another"

    def bare(case):
        return table

    with pytest.raises(ValueError, match="'tail' is already declared"):
        blocks.figure("Tail")(tail)
    blocks.figure("Bare")(bare)
    table.to_csv(tmp_path / "episodes.csv", index=False)
    with pytest.raises(TypeError, match="bare returned a DataFrame; return a Drawing"):
        page.build(tmp_path / "episodes.csv", tmp_path / "out")
