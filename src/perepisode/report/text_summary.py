"""A report on the console: the table of all agents, and the headline last."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from perepisode import console
from perepisode.evaluation import episodes
from perepisode.report import tables
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.statistics.points import Episodes
from perepisode.report.style import dilemma_name

ESSENTIAL = 3  # columns that every terminal shows: return, mean and CVaR


def report(study: Episodes, headline: str) -> None:
    for columns in dict.fromkeys(file["columns"] for file in study.provenance if "columns" in file):
        console.echo(f"Columns read under other names: {columns}.")
    _agents(study)
    console.echo(headline, "bold")


def evaluated(path: Path) -> None:
    """Every agent of an episodes table, or one line if a report would reject the table."""
    try:
        _agents(Episodes(episodes.read(path, without=episodes.REPLAY_COLUMNS)))
    except ValueError as error:
        console.echo(f"no summary of these agents: {error}")


def _agents(study: Episodes) -> None:
    """The page's table of all agents, for each dilemma."""
    for view in study.views():
        table = tables.complete(view, study.dilemmas)
        what = "All agents" if view.external else dilemma_name(view.dilemma)
        console.echo(f"{what}, {tables.basis(view)}, means over seeds:")
        first = _by_importance(view.measure, list(table.shown))
        console.table(_fitted(table.shown, first) if console.is_terminal() else table.shown, first)
        print()


def _by_importance(measure: CostMeasure, headings: list[str]) -> list[str]:
    """The columns that a narrow terminal shows: return, mean, CVaR, then probabilities."""
    risks = [heading for heading in headings if heading.startswith("P(")]
    risks.sort(
        key=lambda heading: heading == measure.p_any and not measure.is_count
    )  # nearly every episode costs something
    wanted = ("Return", measure.heading, measure.cvar_heading, *risks, "Worst", "Seeds")
    return [heading for heading in wanted if heading in headings]


def _fitted(columns: Mapping[str, Sequence[str]], first: list[str]) -> dict[str, Sequence[str]]:
    """Drop intervals, that of the return first, until the essential columns fit."""
    shown, room = dict(columns), console.console().width
    for heading in first[:ESSENTIAL]:
        if set(first[:ESSENTIAL]) <= set(console.fitting(shown, first, room)):
            break
        shown[heading] = [re.split("\\s(?=[±(])", cell)[0] for cell in shown[heading]]
    return shown
