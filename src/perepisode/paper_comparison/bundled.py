"""Agents that ship: what they do here, what they did where they were trained, and what the paper prints."""

from dataclasses import dataclass
from functools import partial

import pandas as pd

from perepisode import metrics
from perepisode import zoo as agents
from perepisode.paper_comparison import numbers
from perepisode.report.formatting import count, number, percent
from perepisode.report.statistics.points import Point, View
from perepisode.report.tables import Table

MEASURES = {  # as `paper_numbers` calls them: heading, and how they are written
    "return": ("Return", partial(number, digits=1)),
    "p_any": ("P(≥1)", percent),
    "over_1": ("P(>1)", percent),
    "cvar": (metrics.CVAR, number),
}
UNIT = percent(0.0)[-2:]  # what a share ends with


@dataclass(frozen=True)
class Known:
    """One bundled agent's numbers in three places; an empty place is one without such a number."""

    point: Point
    here: dict[str, float]
    trained: dict[str, float]
    paper: dict[str, float]

    def written(self, measure: str) -> str:
        """ "0.3 % (0.3, 0.4)": here, and in brackets where it was trained and in the paper."""
        here, *others = (_written(place, measure) for place in (self.here, self.trained, self.paper))
        return f"{here} ({', '.join(other.removesuffix(UNIT) for other in others)})"


def known(view: View) -> list[Known]:
    """The view's agents that ship, the lightest tail first, as it was where they were trained."""
    bundled = agents.bundled()
    alone = [point for point in view.main if len(point.seeds) == 1 and point.seeds[0].run in bundled]
    found = [_known(point, bundled[point.seeds[0].run].metadata["evaluation"]) for point in alone]
    return sorted(found, key=lambda one: one.trained["cvar"])


def table(view: View) -> Table | None:
    """Here, on the device that trained them, and in the paper."""
    found = known(view)
    if not found:
        return None
    where = {"here": "here", "trained": "where it was trained", "paper": "the paper"}
    rows = [(one.point.label, place, getattr(one, place)) for one in found for place in where]
    shown = {
        "Agent": [label if place == "here" else "" for label, place, _ in rows],
        "Where": [where[place] for _, place, _ in rows],
        "Episodes": [f"{judged['episodes']:,.0f}" if "episodes" in judged else "–" for *_, judged in rows],
    }
    shown |= {heading: [_written(judged, key) for *_, judged in rows] for key, (heading, _) in MEASURES.items()}
    frame = pd.DataFrame([{"agent": label, "where": place, **judged} for label, place, judged in rows])
    steps = ", ".join(dict.fromkeys(count(one.point.seeds[0].total_timesteps) for one in found))
    note = (
        f"Exact counts here and where the agents were trained ({steps} steps, one seed); the paper's counts are its "
        f"own detector's, over three seeds of {count(numbers.STEPS)} steps."
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
    printed = [one for one in numbers.NUMBERS if (one.method, one.arm) == (point.method, point.arm)]
    wanted = [one for one in printed if one.dilemma == numbers.NK and one.measure in MEASURES]
    paper = {str(one.measure): one.value for one in reversed(wanted)}  # its first table has the last word
    return Known(point, here, trained, paper)


def _written(place: dict[str, float], measure: str) -> str:
    return MEASURES[measure][1](place.get(measure, float("nan")))
