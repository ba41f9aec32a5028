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
    rows = [_row(point) for point in points]
    for axes, point, row in zip(panels, points, rows):
        _panel(axes, point, row, violations)
    panels[0].set_ylim(0, _top(rows))
    figure.text(0.045, 0.94, _title(rows), fontsize=14.5, fontweight="bold", color=INK)
    figure.text(0.045, 0.89, _scale(points, dilemma, violations), fontsize=9.5, color=TEXT)
    caption = f"Share of episodes by number of {violations}; hatched: more than one."
    return Drawing(figure, pd.DataFrame(rows), caption)


def on_page(points: Sequence[Point], dilemma: str) -> Drawing:
    """The same in the type size of a report, whose page has the title."""
    violations, columns = violation_name(dilemma), 1 if canvas.is_narrow() else min(3, len(points))
    lines = -(-len(points) // columns)
    height = 2.3 if columns == 1 else 2.9
    apart = {"wspace": 0.08, "hspace": 0.08}
    figure, grid = canvas.sheet(height * lines, lines, columns, sharey=True, squeeze=False, gridspec_kw=apart)
    panels, rows = grid.flatten(), [_row(point) for point in points]
    for axes, point, row in zip(panels, points, rows):
        _bars(axes, point, row, 8.5)
        axes.set_title(point.label, loc="left", fontweight="bold", pad=30)
        axes.annotate("\n".join(_tagline(point)), (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points",
                      fontsize=8.5, color=TEXT)  # fmt: skip
        for line, (name, value) in enumerate(_facts(row, metrics.CVAR)):
            for text, side in ((name, "left"), (value, "right")):
                axes.annotate(text, (float(side == "right"), 0), (0, -30 - 13 * line), xycoords="axes fraction",
                              textcoords="offset points", ha=side, fontsize=8.5, color=TEXT if side == "left" else INK,
                              fontweight="bold" if side == "right" else None)  # fmt: skip
    for axes in panels[len(points) :]:
        axes.set_visible(False)
    panels[0].set_ylim(0, _top(rows))
    caption = f"{_scale(points, dilemma, violations)}; hatched: more than one."
    return Drawing(figure, pd.DataFrame(rows), caption, _title(rows))


def _row(point: Point) -> dict:
    shares = dict(zip(BINS, seed_shares(point, EDGES).mean(axis=0)))
    facts = {"return": point.mean_return, "p_over": point.interval(metrics.over_one).mean, "cvar": point.tail.mean}
    return {"agent": point.label, **shares, **facts, "episodes": point.episodes}


def _top(rows: Sequence[dict]) -> float:
    return max(0.72, 1.15 * max(row[name] for row in rows for name in BINS))


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
    """Names the range of returns, which claims no equality, where it is narrow and the CVaRs differ by half or more."""
    returns, tails = ([row[key] for row in rows] for key in ("return", "cvar"))
    alike = max(returns) - min(returns) <= 0.05 * abs(max(returns))
    if len(rows) > 2 and alike and max(tails) >= 1.5 * min(tails):
        span = f"{number(min(returns), 1)} to {number(max(returns), 1)}"
        return f"Mean returns of {span}, different worst episodes"
    return "Episodes by violations"


def _scale(points: Sequence[Point], dilemma: str, violations: str) -> str:
    steps = {seed.total_timesteps for point in points for seed in point.seeds}
    trained = f", trained for {count(steps.pop())} steps" if len(steps) == 1 else ""
    episodes = sorted({point.episodes for point in points})
    span = f"{episodes[0]:,}" if len(episodes) == 1 else f"{episodes[0]:,} to {episodes[-1]:,}"
    seeds = "one agent each" if {len(point.seeds) for point in points} == {1} else "mean over seeds"
    return f"{dilemma_name(dilemma)}{trained}, {seeds}; share of {span} episodes by number of {violations}"


def _panel(axes, point: Point, row: dict, violations: str) -> None:
    _bars(axes, point, row, 9)
    axes.text(0.0, 1.27, point.label, transform=axes.transAxes, fontsize=12.5, fontweight="bold")
    for line, tagline in enumerate(_tagline(point)):
        axes.text(0.0, 1.18 - 0.075 * line, tagline, transform=axes.transAxes, fontsize=9.5, color=TEXT)
    axes.set_xlabel(f"{violations} in one episode")
    for line, (name, value) in enumerate(_facts(row)):
        height = -0.33 - 0.105 * line
        axes.text(0.0, height, name, transform=axes.transAxes, fontsize=10, color=TEXT)
        axes.text(1.0, height, value, transform=axes.transAxes, fontsize=11.5, ha="right", color=INK, fontweight="bold")


def _bars(axes, point: Point, row: dict, size: float) -> None:
    colour = look(point.method).colour
    for position, share in enumerate(row[name] for name in BINS):
        over = position > 1
        axes.bar(position, share, width=0.74, facecolor="none" if over else colour, edgecolor=OVER if over else colour,
                 hatch="////" if over else None, linewidth=1.2)  # fmt: skip
        axes.annotate(percent(share), (position, share), (0, 3), textcoords="offset points", ha="center", fontsize=size,
                      color=OVER if over and share >= 0.0005 else INK, fontweight="bold" if over else None)  # fmt: skip
    axes.set_xticks(range(len(BINS)), BINS)
    axes.set_yticks([])
    axes.grid(False)
    axes.spines["left"].set_visible(False)


def _tagline(point: Point) -> list[str]:
    lines = METHODS[point.method].tagline if point.method in METHODS else ()
    return [line.format(value=point.value) for line in lines]


def _facts(row: dict, worst: str = "mean, worst 10 % of episodes") -> list[tuple[str, str]]:
    return list(
        zip(("return", "more than one", worst), (number(row["return"], 1), percent(row["p_over"]), number(row["cvar"])))
    )
