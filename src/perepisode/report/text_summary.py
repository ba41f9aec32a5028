"""A report in the terminal: the table of all agents, and the headline last, where one looks."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from perepisode import console
from perepisode.evaluation import episodes
from perepisode.report import tables
from perepisode.report.blocks import Inputs
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.findings import Finding
from perepisode.report.statistics.points import Episodes
from perepisode.report.style import dilemma_name

MOST = 3  # columns that no terminal should be without: return, mean and tail


def report(inputs: Inputs, finding: Finding) -> None:
    for columns in dict.fromkeys(file["columns"] for file in inputs.episodes.provenance if "columns" in file):
        console.say(f"Columns by other names: {columns}.")
    _agents(inputs.episodes)
    console.say(finding.headline, "bold")


def judged(path: Path) -> None:
    """Every agent of an episodes table.  What a report would refuse was judged all the same, and is said."""
    try:
        _agents(Episodes(episodes.read(path, without=episodes.REPLAY_COLUMNS)))
    except ValueError as error:
        console.say(f"there is no table of these agents: {error}")


def _agents(study: Episodes) -> None:
    """A table for each dilemma, as the page has it."""
    for view in study.views():
        made = tables.complete(view, study.dilemmas)
        what = "All agents" if view.external else dilemma_name(view.dilemma)
        console.say(f"{what}, {tables.basis(view)}, means over seeds:")
        first = _first(view.harm, list(made.shown))
        console.table(_fitted(made.shown, first) if console.seen() else made.shown, first)
        print()


def _first(harm: CostMeasure, headings: list[str]) -> list[str]:
    """What a narrow terminal has room for: what an agent earns and does on average, its tail, then its risks."""
    risks = [heading for heading in headings if heading.startswith("P(")]
    risks.sort(key=lambda heading: heading == harm.any and not harm.whole)  # nearly every episode costs something
    wanted = ("Return", harm.heading, harm.cvar, *risks, "Worst", "Seeds")
    return [heading for heading in wanted if heading in headings]


def _fitted(columns: Mapping[str, Sequence[str]], first: list[str]) -> dict[str, Sequence[str]]:
    """Without intervals, that of the return first, until there is room for what matters most."""
    shown, room = dict(columns), console.console().width
    for heading in first[:MOST]:
        if set(first[:MOST]) <= set(console.fitting(shown, first, room)):
            break
        shown[heading] = [re.split("\\s(?=[±(])", cell)[0] for cell in shown[heading]]
    return shown
