"""What a dilemma's section compares, in reading order: one declaration for each figure and each table.

A declaration is a function of the case.  It returns what is shown, or a sentence that says why it is left out, or None
where there is nothing to say.  A script of one's own declares in the same way, before it builds a page.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
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
    """Everything a report may draw on."""

    episodes: Episodes
    views: list[View]
    curves: list[Curve]
    utilities: dict[str, tuple[Utility, float]]
    exact: list[dict]
    watch: list[tuple[str, str]]  # episodes to watch: title, address


class Case(NamedTuple):
    """The agents of a dilemma, the one whose tail is compared, and of every rival method the arm nearest in return."""

    view: View
    chosen: Point
    rivals: list[Point]
    inputs: Inputs


Shown = Drawn | Table | str | None
BLOCKS: dict[str, Callable[[Case], Shown]] = {}


def figure(title: str) -> Callable:
    """Declare a figure; on the page and in its files it is `<name of the function>_<dilemma>`."""

    def declared(draw: Callable[[Case], Drawing | str | None]):
        def block(case: Case) -> Shown:
            made = draw(case)
            if isinstance(made, Drawing):
                return drawn(f"{draw.__name__}_{slug(case.view.dilemma)}", made.title or title, made)
            if made is None or isinstance(made, str):
                return made
            raise TypeError(f"{draw.__name__} returned a {type(made).__name__}; return a Drawing, a sentence or None")

        _add(draw.__name__, block)
        return draw

    return declared


def table(make: Callable[[Case], Table | str | None]):
    """Declare a table, which names itself."""
    _add(make.__name__, make)
    return make


def _add(name: str, block: Callable[[Case], Shown]) -> None:
    if name in BLOCKS:
        raise ValueError(f"a dilemma's section has a block {name!r} already; call the function otherwise")
    BLOCKS[name] = block


@figure("The tail against the mean")
def tail(case: Case) -> Drawing | None:
    return tail_figures.tail(case.view, case.inputs.exact) if len(case.view.main) > 1 else None


@figure("Share of episodes beyond each level")
def exceedance(case: Case) -> Drawing:
    return tail_figures.exceedance([case.chosen, *case.rivals], case.chosen.allowed)


@figure("Mean of the worst episodes, from 1 % to 50 % of them")
def cvar_levels(case: Case) -> Drawing:
    return tail_figures.levels([case.chosen, *case.rivals])


@figure("Violations per episode")
def distributions(case: Case) -> Drawing | None:
    if not case.view.harm.whole:
        return None  # costs have no two episodes alike: they are read from the share beyond each level
    shown = [case.chosen, *case.rivals]
    return figures.distributions(shown, case.chosen.allowed, _exact_for(shown, case.inputs.exact))


@figure("Mean return against the mean of harm")
def frontier(case: Case) -> Drawing | str:
    if len(case.view.main) < 2:
        return "The frontier is left out: it needs more than one agent."
    made = figures.frontier(case.view, case.chosen, case.inputs.exact)
    return made._replace(title=f"Mean return against mean {case.view.harm.name}")


@table
def side_by_side(case: Case) -> Table | str | None:
    apart = f"Agents two by two are left out: no two have the same mean return or the same mean {case.view.harm.name}."
    return (tables.side_by_side(case.view) or apart) if len(case.view.main) > 1 else None


@table
def matched_nearest(case: Case) -> Table | str:
    if not case.rivals:
        return "Matched tails are left out: there is no second method with a sweep to match."
    return tables.matched_nearest(case.view, case.chosen)


@table
def matched_wider(case: Case) -> Table | None:
    return tables.matched_wider(case.view, case.chosen) if case.rivals else None


@table
def matched_interpolated(case: Case) -> Table | str | None:
    nowhere = f"Interpolated tails are left out: no rival's frontier reaches the return of {case.chosen.label}."
    return (tables.matched_interpolated(case.view, case.chosen) or nowhere) if case.rivals else None


@table
def same_violations(case: Case) -> Table | str | None:
    return tables.same_violations(case.view, case.chosen) if case.rivals else None


@figure("Budget sweep")
def budget_sweep(case: Case) -> Drawing | str:
    if len([point for point in case.view.of(*per_episode()) if point.value == point.value]) < 2:
        return "The budget sweep is left out: it needs a method at two budgets an episode or more."
    return figures.budget_sweep(case.view)


@figure("The ESR family on the frontier")
def esr_family(case: Case) -> Drawing | None:
    return figures.esr_family(case.view) if len(case.view.of(*esr())) > 1 else None


@table
def hypervolume(case: Case) -> Table | str:
    alone = "Hypervolume is left out: it needs ESR beside a frontier of other agents."
    return tables.hypervolume(case.view) or alone


def _exact_for(points: list[Point], exact: list[dict]) -> dict[str, list[float]]:
    """Exact distributions by the label of the agent that they are the optimum of."""
    found = {}
    for point, item in itertools.product(points, exact):
        names = (point.label, f"{point.method} {point.arm}", point.arm if item["kind"] == point.method else None)
        if item["label"] in names and item.get("distribution"):
            found[point.label] = item["distribution"]
    return found
