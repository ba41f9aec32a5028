"""The figures and tables of a dilemma's section, in reading order: one declaration each.

A declaration is a function of the case.  It returns the figure or table, a sentence that says why it is omitted, or
None.  Your own script declares in the same way before it builds a page (docs/how-to/plots-and-tables.md).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from perepisode.report import tables
from perepisode.report.drawing import figures, tail_figures
from perepisode.report.drawing.canvas import Drawing, Drawn, drawn
from perepisode.report.formatting import slug
from perepisode.report.statistics.curves import Curve
from perepisode.report.statistics.distilled import Utility
from perepisode.report.statistics.points import Episodes, Point, View
from perepisode.report.style import esr, per_episode
from perepisode.report.tables import Table


@dataclass(frozen=True)
class Inputs:
    """The data of a report."""

    episodes: Episodes
    views: list[View]
    curves: list[Curve]
    utilities: dict[str, tuple[Utility, float]]
    exact: list[dict]
    watch: list[tuple[str, Path]]  # replays: title, page


class Case(NamedTuple):
    """The agents of a dilemma, the focal one, and the arm of nearest return of every rival method."""

    view: View
    chosen: Point
    rivals: list[Point]
    inputs: Inputs


Shown = Drawn | Table | str | None
BLOCKS: dict[str, Callable[[Case], Shown]] = {}


def figure(title: str) -> Callable:
    """Declare a figure; its name on the page and in files is `<name of the function>_<dilemma>`."""

    def declared(draw: Callable[[Case], Drawing | str | None]):
        def block(case: Case) -> Shown:
            shown = drawn(f"{draw.__name__}_{slug(case.view.dilemma)}", title, partial(draw, case))
            if isinstance(shown, Drawn | str | None):
                return shown
            raise TypeError(f"{draw.__name__} returned a {type(shown).__name__}; return a Drawing, a string or None")

        _add(draw.__name__, block)
        return draw

    return declared


def table(make: Callable[[Case], Table | str | None]):
    """Declare a table; the table has its own name and title."""
    _add(make.__name__, make)
    return make


def _add(name: str, block: Callable[[Case], Shown]) -> None:
    if name in BLOCKS:
        raise ValueError(f"a figure or table named {name!r} is already declared; rename the function")
    BLOCKS[name] = block


@figure("CVaR against the mean")
def tail(case: Case) -> Drawing | None:
    return tail_figures.tail(case.view, case.inputs.exact) if len(case.view.main) > 1 else None


@figure("Share of episodes over each level")
def exceedance(case: Case) -> Drawing:
    return tail_figures.exceedance([case.chosen, *case.rivals], case.chosen.allowed)


@figure("CVaR from the worst 1 % to the worst 50 % of episodes")
def cvar_levels(case: Case) -> Drawing:
    return tail_figures.levels([case.chosen, *case.rivals])


@figure("Violations per episode")
def distributions(case: Case) -> Drawing | None:
    if not case.view.measure.is_count:
        return None  # nearly every cost is different: the figure of shares over each level shows them
    shown = [case.chosen, *case.rivals]
    return figures.distributions(shown, case.chosen.allowed, _exact_for(shown, case.inputs.exact))


@figure("Mean return against mean violations")
def frontier(case: Case) -> Drawing | str:
    if len(case.view.main) < 2:
        return "The frontier is omitted: it needs more than one agent."
    drawing = figures.frontier(case.view, case.chosen, case.inputs.exact)
    return drawing._replace(title=f"Mean return against mean {case.view.measure.name}")


@table
def side_by_side(case: Case) -> Table | str | None:
    name = case.view.measure.name
    why = f"Pairwise comparisons are omitted: any two agents differ in mean return and in mean {name}."
    return (tables.side_by_side(case.view) or why) if len(case.view.main) > 1 else None


@table
def matched_nearest(case: Case) -> Table | str:
    if not case.rivals:
        return "Matched agents are omitted: there is no second method with a sweep."
    return tables.matched_nearest(case.view, case.chosen)


@table
def matched_wider(case: Case) -> Table | None:
    return tables.matched_wider(case.view, case.chosen) if case.rivals else None


@table
def matched_interpolated(case: Case) -> Table | str | None:
    why = f"Interpolated agents are omitted: no rival's frontier reaches the return of {case.chosen.label}."
    return (tables.matched_interpolated(case.view, case.chosen) or why) if case.rivals else None


@table
def same_violations(case: Case) -> Table | str | None:
    return tables.same_violations(case.view, case.chosen) if case.rivals else None


@figure("Budget sweep")
def budget_sweep(case: Case) -> Drawing | str:
    if len([point for point in case.view.of(*per_episode()) if point.value == point.value]) < 2:
        return "The budget sweep is omitted: it needs a method with two or more per-episode budgets."
    return figures.budget_sweep(case.view)


@figure("The ESR family on the frontier")
def esr_family(case: Case) -> Drawing | None:
    """For the variants of ESR; the frontier shows ESR alone as well."""
    methods = {point.method for point in case.view.of(*esr())}
    return figures.esr_family(case.view) if len(methods) > 1 else None


@table
def hypervolume(case: Case) -> Table | str:
    return tables.hypervolume(case.view) or "Hypervolume is omitted: it needs ESR and a frontier of other agents."


def _exact_for(points: list[Point], exact: list[dict]) -> dict[str, list[float]]:
    """The exact distributions, by the label of the agent that each is the optimum for."""
    found = {}
    for point, item in itertools.product(points, exact):
        names = (point.label, f"{point.method} {point.arm}", point.arm if item["kind"] == point.method else None)
        if item["label"] in names and item.get("distribution"):
            found[point.label] = item["distribution"]
    return found
