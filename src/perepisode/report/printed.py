"""A report in the terminal: the table of all agents, and the headline last, where one looks."""

from pathlib import Path

from perepisode import terminal
from perepisode.evaluation import episodes
from perepisode.report import tables
from perepisode.report.blocks import Inputs
from perepisode.report.findings import Finding
from perepisode.report.harm import Harm
from perepisode.report.statistics.points import Episodes
from perepisode.report.style import dilemma_name


def report(inputs: Inputs, finding: Finding) -> None:
    for columns in dict.fromkeys(file["columns"] for file in inputs.episodes.provenance if "columns" in file):
        terminal.say(f"Columns by other names: {columns}.")
    _agents(inputs.episodes)
    terminal.say(finding.headline, "bold")


def judged(path: Path) -> None:
    """Every agent of an episodes table."""
    _agents(Episodes(episodes.read(path, without=episodes.REPLAY_COLUMNS)))


def _agents(study: Episodes) -> None:
    """A table for each dilemma, as the page has it."""
    for view in study.views():
        made = tables.complete(view, study.dilemmas)
        terminal.say(f"{dilemma_name(view.dilemma)}, {tables.basis(view)}, means over seeds:")
        terminal.table(made.shown, _first(view.harm, list(made.shown)))
        print()


def _first(harm: Harm, headings: list[str]) -> list[str]:
    """What a narrow terminal has room for: what an agent earns and does on average, its tail, then its risks."""
    risks = [heading for heading in headings if heading.startswith("P(") and heading != harm.any]
    return ["Return", harm.heading, harm.cvar, harm.any, *risks, "Worst", "Seeds"]
