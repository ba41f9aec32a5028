"""One picture for a talk: agents side by side, with the shares of their episodes that have 0, 1, 2, 3+ violations."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from perepisode import metrics
from perepisode.methods import METHODS
from perepisode.report.drawing import canvas
from perepisode.report.drawing.canvas import DPI, Drawing
from perepisode.report.drawing.figures import seed_shares
from perepisode.report.formatting import count, number, percent
from perepisode.report.statistics.points import Point
from perepisode.report.style import INK, OVER, TEXT, dilemma_name, look, violation_name
from perepisode.runs import write_atomically

BINS = ("0", "1", "2", "3+")
EDGES = np.array([0, 1, 2, 3, np.inf])


def card(points: Sequence[Point], dilemma: str) -> Drawing:
    """Shares of episodes by violations, one panel per agent, each with its return, P(>1) and CVaR."""
    violations = violation_name(dilemma)
    figure = Figure((3.0 * len(points) + 0.4, 5.0))
    panels = figure.subplots(1, len(points), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.045, right=0.985, top=0.68, bottom=0.29, wspace=0.12)
    rows, highest = [], 0.0
    for axes, point in zip(panels, points):
        shares = seed_shares(point, EDGES).mean(axis=0)
        highest = max(highest, *shares)
        facts = {
            "return": point.mean_return,
            "p_over": point.interval(metrics.over_one).mean,
            "cvar": point.tail.mean,
        }
        _panel(axes, point, shares, facts, violations)
        rows.append({"agent": point.label, **dict(zip(BINS, shares)), **facts, "episodes": point.episodes})
    panels[0].set_ylim(0, max(0.72, 1.15 * highest))
    figure.text(0.045, 0.94, _title(rows), fontsize=14.5, fontweight="bold", color=INK)
    figure.text(0.045, 0.89, _scale(points, dilemma, violations), fontsize=9.5, color=TEXT)
    caption = f"Share of episodes by number of {violations}; hatched: more than one."
    return Drawing(figure, pd.DataFrame(rows), caption)


def on_page(points: Sequence[Point], dilemma: str) -> Drawing:
    return card(points, dilemma)


def write(points: Sequence[Point], dilemma: str, stem: Path) -> list[Path]:
    """The card as SVG and as PNG."""
    import io

    with canvas.style():
        figure = card(points, dilemma).figure
        svg, png = canvas.standalone(canvas.to_svg(figure, "card")), io.BytesIO()
        figure.savefig(png, format="png", dpi=DPI)
    paths = [stem.with_suffix(".svg"), stem.with_suffix(".png")]
    for path, content in zip(paths, (svg, png.getvalue())):
        write_atomically(path, content)
    return paths


def _title(rows: Sequence[dict]) -> str:
    """A finding only if returns are within 5 % of each other and the CVaRs differ by half or more."""
    returns, tails = ([row[key] for row in rows] for key in ("return", "cvar"))
    alike = max(returns) - min(returns) <= 0.05 * abs(max(returns))
    if len(rows) > 2 and alike and max(tails) >= 1.5 * min(tails):
        span = f"{number(min(returns), 1)} to {number(max(returns), 1)}"
        return f"Nearly equal returns ({span}), different worst episodes"
    return "Episodes by violations"


def _scale(points: Sequence[Point], dilemma: str, violations: str) -> str:
    steps = {seed.total_timesteps for point in points for seed in point.seeds}
    trained = f", trained for {count(steps.pop())} steps" if len(steps) == 1 else ""
    episodes = sorted({point.episodes for point in points})
    span = f"{episodes[0]:,}" if len(episodes) == 1 else f"{episodes[0]:,} to {episodes[-1]:,}"
    seeds = "one agent each" if {len(point.seeds) for point in points} == {1} else "mean over seeds"
    return f"{dilemma_name(dilemma)}{trained}, {seeds}; share of {span} episodes by number of {violations}"


def _panel(axes, point: Point, shares: np.ndarray, facts: dict[str, float], violations: str) -> None:
    colour = look(point.method).colour
    for position, share in enumerate(shares):
        over = position > 1
        axes.bar(position, share, width=0.74, facecolor="none" if over else colour, edgecolor=OVER if over else colour,
                 hatch="////" if over else None, linewidth=1.2)  # fmt: skip
        axes.annotate(percent(share), (position, share), (0, 3), textcoords="offset points", ha="center", fontsize=9,
                      color=OVER if over and share >= 0.0005 else INK, fontweight="bold" if over else None)  # fmt: skip
    axes.text(0.0, 1.27, point.label, transform=axes.transAxes, fontsize=12.5, fontweight="bold")
    for line, text in enumerate(METHODS[point.method].tagline if point.method in METHODS else ()):
        tagline = text.format(value=point.value)
        axes.text(0.0, 1.18 - 0.075 * line, tagline, transform=axes.transAxes, fontsize=9.5, color=TEXT)
    axes.set_xticks(range(len(BINS)), BINS)
    axes.set_xlabel(f"{violations} in one episode")
    axes.set_yticks([])
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    lines = (("return", number(facts["return"], 1)), ("more than one", percent(facts["p_over"])),
             ("mean, worst 10 % of episodes", number(facts["cvar"])))  # fmt: skip
    for line, (name, value) in enumerate(lines):
        height = -0.33 - 0.105 * line
        axes.text(0.0, height, name, transform=axes.transAxes, fontsize=10, color=TEXT)
        axes.text(1.0, height, value, transform=axes.transAxes, fontsize=11.5, ha="right", color=INK, fontweight="bold")
