"""Agents that ship: what they do here, what they did where they were trained, and what the paper prints."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from perepisode import metrics
from perepisode import trained as agents
from perepisode.report.statistics import paper_numbers
from perepisode.report.statistics.points import Point, View
from perepisode.report.tables import Table
from perepisode.report.words import count, number, percent

MEASURES = ("return", "p_any", "over_1", "cvar")  # as `paper_numbers` calls them
HEADINGS = {"return": "Return", "p_any": "P(≥1)", "over_1": "P(>1)", "cvar": metrics.CVAR}
UNIT = percent(0.0)[-2:]  # what a share ends with
WRITTEN = {"return": lambda value: number(value, 1), "p_any": percent, "over_1": percent, "cvar": number}


@dataclass(frozen=True)
class Known:
    """One shipped agent's numbers in three places; an empty place is one without such a number."""

    point: Point
    here: dict[str, float]
    trained: dict[str, float]
    paper: dict[str, float]

    def written(self, measure: str) -> str:
        """ "0.3 % (0.3, 0.4)": here, and in brackets where it was trained and in the paper."""
        places = (self.here, self.trained, self.paper)
        here, *others = (WRITTEN[measure](place.get(measure, float("nan"))) for place in places)
        return f"{here} ({', '.join(other.removesuffix(UNIT) for other in others)})"


def known(view: View) -> list[Known]:
    """The view's agents that ship, the lightest tail first, as it was where they were trained."""
    shipped = agents.shipped()
    alone = [point for point in view.main if len(point.seeds) == 1 and point.seeds[0].run in shipped]
    found = [_known(point, shipped[point.seeds[0].run].about["judged"]) for point in alone]
    return sorted(found, key=lambda one: one.trained["cvar"])


def table(view: View) -> Table | None:
    """Here, on the device that trained them, and in the paper."""
    found = known(view)
    if not found:
        return None
    rows = [(one, place) for one in found for place in ("here", "trained", "paper")]
    where = {"here": "here", "trained": "where it was trained", "paper": "the paper"}
    cells = [getattr(one, place) for one, place in rows]
    shown = {"Agent": [one.point.label if place == "here" else "" for one, place in rows]}
    shown["Where"] = [where[place] for _, place in rows]
    shown["Episodes"] = [_episodes(place) for place in cells]
    shown |= {
        HEADINGS[measure]: [WRITTEN[measure](place.get(measure, float("nan"))) for place in cells]
        for measure in MEASURES
    }
    frame = pd.DataFrame([{"agent": one.point.label, "where": place, **getattr(one, place)} for one, place in rows])
    steps = ", ".join(dict.fromkeys(count(one.point.seeds[0].steps) for one in found))
    note = (
        f"Exact counts here and where the agents were trained ({steps} steps, one seed); the paper's counts are its "
        f"own detector's, over three seeds of {count(paper_numbers.STEPS)} steps."
    )
    return Table("elsewhere", "The agents that ship: here, where they were trained, and the paper", note, shown, frame)


def _known(point: Point, judged: dict[str, float]) -> Known:
    counts = point.seeds[0].counts
    here = {
        "episodes": point.episodes,
        "return": point.mean_return,
        "p_any": metrics.p_any(counts),
        "over_1": metrics.p_over(counts, 1),
        "cvar": metrics.cvar(counts),
    }
    trained = {key: judged["p_over_1" if key == "over_1" else key] for key in here}
    printed = [one for one in paper_numbers.NUMBERS if (one.method, one.arm) == (point.method, point.arm)]
    wanted = [one for one in printed if one.dilemma == paper_numbers.NK and one.measure in MEASURES]
    paper = {str(one.measure): one.value for one in reversed(wanted)}  # its first table has the last word
    return Known(point, here, trained, paper)


def _episodes(place: dict[str, float]) -> str:
    return f"{place['episodes']:,.0f}" if "episodes" in place else "–"
