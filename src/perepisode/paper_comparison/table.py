"""The paper's printed numbers and the same quantities here, measured in the paper's way."""

import pandas as pd

from perepisode.paper_comparison import measures, numbers
from perepisode.report.formatting import count, percent
from perepisode.report.statistics.distilled import Utility
from perepisode.report.statistics.points import Episodes, View
from perepisode.report.style import dilemma_name
from perepisode.report.tables import Table

NAN = float("nan")
SHARES = ("p_any", "p_over_1", "p_2", "p_over_2", "hypervolume_gain", "share_of_unconstrained")
INTEGERS = (None, "runs", "seeds", "episodes", "steps", "worst")


def paper_versus_here(episodes: Episodes, utilities: dict[str, Utility]) -> Table | None:
    """Every printed number that has a counterpart here, and the deviation; None for another environment."""
    if not numbers.apply_to(episodes.environment):
        return None
    views = measures.views(episodes)
    printed = measures.rows(views, utilities)
    rows = [row for row in printed if row["here"] == row["here"]]
    frame = pd.DataFrame(rows)
    shown = {
        "Where": list(frame["where"]),
        "Dilemma": [dilemma_name(name) if name else "" for name in frame["dilemma"]],
        "Agent": list(frame["agent"]),
        "Quantity": list(frame["quantity"]),
        "Paper": [_show(row["measure"], row["paper"], row["paper_ci"]) for row in rows],
        "Here": [_show(row["measure"], row["here"], row["here_ci"]) for row in rows],
        "Deviation": [_deviation(row) for row in rows],
    }
    note = _note(views, len(printed) - len(rows))
    return Table("paper_versus_here", "The paper's numbers and ours", note, shown, frame, wide=True)


def _show(measure: str | None, value: float, ci: float = NAN, sign: str = "") -> str:
    """A number in the format of its measure; `sign` is "+" for a deviation."""
    half = f"{ci:.2f}"
    if measure in SHARES and not sign:
        return percent(value, ci)
    if measure in SHARES:
        text = f"{100 * value:{sign}.1f} %"
    elif measure == "rate":
        text, half = f"{value:{sign}.1e}", f"{ci:.1e}"
    elif measure in INTEGERS:
        text, ci = f"{value:{sign}.4g}", NAN
    else:
        text = f"{value:{sign}.4f}" if measure.startswith("hypervolume") else f"{value:{sign}.2f}"
    text += f" ± {half}" if ci == ci else ""
    return text.replace("-", "−").replace(" ", "\u00a0")


def _deviation(row: dict) -> str:
    if row["measure"] == "welch":
        return ""  # depends on the spread of a few seeds: its deviation is meaningless
    relative = f" ({100 * row['relative']:+.0f} %)" if row["relative"] == row["relative"] else ""
    return _show(row["measure"], row["deviation"], sign="+") + relative.replace("-", "−").replace(" ", "\u00a0")


def _note(views: dict[str, View], missing: int) -> str:
    steps = measures.of_study("steps", views)
    counter = next(iter(views.values())).counter
    counted = "counted by its detector" if counter == "paper" else "exact counts (the table has no others)"
    parts = [f"Measured in the paper's way: episodes that finish within its window, {counted}."]
    if missing:
        parts.append(f"{missing} more printed numbers have no counterpart among these runs.")
    if steps == steps and steps != numbers.STEPS:
        parts.append(f"Training length differs: {count(steps)} steps per run, the paper's {count(numbers.STEPS)}.")
    return " ".join(parts)
