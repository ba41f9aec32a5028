"""The bundled agents: their numbers here, on the machine that trained them, and in the paper."""

from dataclasses import dataclass

import pandas as pd

from perepisode import zoo
from perepisode.metrics import METRIC_SPECS
from perepisode.paper_comparison import numbers
from perepisode.report.formatting import count, number, percent
from perepisode.report.statistics.points import Point, View
from perepisode.report.tables import Table

SHOWN = ("return", "p_any", "p_over_1", "cvar")
PLACES = {"here": "here", "trained": "where it was trained", "paper": "the paper"}
UNIT = percent(0.0)[-2:]  # the end of a percentage


@dataclass(frozen=True)
class BundledAgent:
    """One bundled agent's numbers in three places; a missing number is missing there."""

    point: Point
    here: dict[str, float]
    trained: dict[str, float]
    paper: dict[str, float]

    def written(self, name: str) -> str:
        """ "0.3 % (0.3, 0.4)": here, and in brackets where it was trained and in the paper."""
        here, *others = (_written(values, name) for values in (self.here, self.trained, self.paper))
        return f"{here} ({', '.join(other.removesuffix(UNIT) for other in others)})"


def agents(view: View) -> list[BundledAgent]:
    """The bundled agents of a view, by increasing CVaR where they were trained."""
    bundled = zoo.bundled()
    alone = [point for point in view.main if len(point.seeds) == 1 and point.seeds[0].run in bundled]
    found = [_agent(point, bundled[point.seeds[0].run].metadata["evaluation"]) for point in alone]
    return sorted(found, key=lambda agent: agent.trained["cvar"])


def table(view: View) -> Table | None:
    found = agents(view)
    if not found:
        return None
    rows = [(agent.point.label, place, getattr(agent, place)) for agent in found for place in PLACES]
    shown = {
        "Agent": [label if place == "here" else "" for label, place, _ in rows],
        "Where": [PLACES[place] for _, place, _ in rows],
        "Episodes": [f"{values['episodes']:,.0f}" if "episodes" in values else "–" for *_, values in rows],
    }
    for name in SHOWN:
        heading = METRIC_SPECS[name].heading if name in METRIC_SPECS else name.capitalize()
        shown[heading] = [_written(values, name) for *_, values in rows]
    frame = pd.DataFrame([{"agent": label, "where": place, **values} for label, place, values in rows])
    steps = ", ".join(dict.fromkeys(count(agent.point.seeds[0].total_timesteps) for agent in found))
    note = (
        f"Exact counts here and where the agents were trained ({steps} steps, one seed); the paper's numbers are by "
        f"its own detector, over three seeds of {count(numbers.STEPS)} steps."
    )
    return Table("elsewhere", "Bundled agents: here, where they were trained, and in the paper", note, shown, frame)


def _agent(point: Point, evaluation: dict[str, float]) -> BundledAgent:
    here = {"episodes": point.episodes, "return": point.mean_return}
    here |= {name: METRIC_SPECS[name].of(point.seeds[0].counts) for name in SHOWN if name in METRIC_SPECS}
    printed = [row for row in numbers.NUMBERS if (row.method, row.arm) == (point.method, point.arm)]
    wanted = [row for row in printed if row.dilemma == numbers.NK and row.measure in SHOWN]
    paper = {str(row.measure): row.value for row in reversed(wanted)}  # its first table takes precedence
    return BundledAgent(point, here, {name: evaluation[name] for name in here}, paper)


def _written(values: dict[str, float], name: str) -> str:
    value = values.get(name, float("nan"))
    if name == "return":
        return number(value, 1)
    return (percent if METRIC_SPECS[name].share else number)(value)
