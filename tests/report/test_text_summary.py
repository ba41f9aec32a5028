"""The console output of `report` and `evaluate`: the table of all agents, then the page's headline."""

import contextlib
import io
import re

import pandas as pd
import pytest
import synthetic

from perepisode import cli
from perepisode.evaluation import episodes
from perepisode.report import text_summary


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return synthetic.craftax(episodes=40, dilemmas=("no_killing", "sustainability"))


def printed(call, *given) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        call(*given)
    return out.getvalue().splitlines()


def rows(lines: list[str], title: str) -> list[list[str]]:
    """The cells of the table below a title, its headings first."""
    begin = next(place for place, line in enumerate(lines) if line.startswith(title))
    return [re.split("  +", line) for line in lines[begin + 1 : lines.index("", begin)]]


def test_the_report_prints_its_table_and_its_headline(table, tmp_path):
    episodes.write(table, tmp_path / "episodes.parquet")
    out = tmp_path / "report"
    lines = printed(cli.main, ["report", str(tmp_path / "episodes.parquet"), "--out", str(out)])
    assert lines[-2:] == [f"wrote {out / 'index.html'}", "next: open it in a browser"]
    assert lines[-3] in (out / "report.md").read_text()
    assert lines[-3].startswith("No Killing: ")
    for title, dilemma in (("No Killing, ", "no_killing"), ("Sustainability, ", "sustainability")):
        headings, *agents = rows(lines, title)
        written = pd.read_csv(out / "data" / f"complete_{dilemma}.csv")
        assert headings[0] == "Agent"
        assert [agent[0] for agent in agents] == list(written["agent"])


def test_evaluated_agents_are_printed_one_by_one(table, tmp_path):
    own = table[(table["dilemma"] == "no_killing") & (table["gamma"] != 1)]
    episodes.write(own, tmp_path / "episodes.parquet")
    headings, *agents = rows(printed(text_summary.evaluated, tmp_path / "episodes.parquet"), "No Killing, ")
    found = {agent[0]: dict(zip(headings, agent)) for agent in agents}
    assert len(found) == own.groupby(["method", "arm"]).ngroups
    by_hand = own[(own["method"] == "lagrangian") & (own["arm"] == "d=1")].groupby("seed")
    shown = found["Lagrangian (d=1)"]
    assert shown["Return"].split()[0] == f"{by_hand['return'].mean().mean():.2f}"
    assert shown["Violations"].split()[0] == f"{by_hand['violations'].mean().mean():.2f}"
    assert shown["Seeds"] == "3"


def test_a_table_that_a_report_rejects_does_not_fail_an_evaluation(table, tmp_path):
    own = table[table["run"] == table["run"].iloc[0]]
    episodes.write(pd.concat([own, own.assign(run="a twin")]), tmp_path / "episodes.parquet")
    (line,) = printed(text_summary.evaluated, tmp_path / "episodes.parquet")
    assert line.startswith("no summary of these agents: two runs of unconstrained  have seed 42: ")


def test_a_narrow_terminal_shows_the_cvar_before_the_intervals(monkeypatch):
    """Names take 3 columns; with all intervals there would be 3 + 14 + 17 + 17 of them."""
    columns = {
        "Agent": ["ESR"],
        "Return": ["23.23\u00a0±\u00a05.48"],
        "Violations": ["0.05 (0\u00a0–\u00a00.09)"],
        "CVaR 10 %": ["1.42 (0\u00a0–\u00a03.02)"],
    }
    first = ["Return", "Violations", "CVaR 10 %"]

    def shown(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        return [cells[0] for cells in text_summary._fitted(columns, first).values()]

    full = [cells[0] for cells in columns.values()]
    assert shown(53) == full
    assert shown(52) == shown(47) == ["ESR", "23.23", *full[2:]]
    assert shown(46) == ["ESR", "23.23", "0.05", full[3]]
    assert shown(30) == ["ESR", "23.23", "0.05", "1.42"]
