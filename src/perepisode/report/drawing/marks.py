"""Shared by figures: agents as points with intervals, exact optima, limits, axes, legends."""

import itertools
import textwrap
from collections.abc import Collection, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from perepisode import metrics
from perepisode.evaluation.compare import Interval
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.drawing.names import name_points
from perepisode.report.statistics.points import Point
from perepisode.report.style import INK, OVER, look, per_episode, sweeps

LETTER, HANDLE = 4.8, 38.0  # points: the width of a letter in a legend, and of what is before it


def draw_points(
    axes: Axes,
    method: str,
    means: list[Interval],
    heights: list[Interval],
    joined: bool = True,
    nonnegative: bool = False,
) -> None:
    """A method's arms with their intervals, joined if they are a sweep; bars of `nonnegative` heights end at zero."""
    label, colour, marker, line = look(method)
    x, y = ([interval.mean for interval in each] for each in (means, heights))
    axes.errorbar(
        x, y, halves(heights, nonnegative), halves(means), fmt="none", ecolor=colour, elinewidth=0.9, alpha=0.45,
        zorder=2,
    )  # fmt: skip
    axes.plot(x, y, label=label, color=colour, marker=marker, ms=7, lw=1.1, mec="white", mew=0.6,
              linestyle=line if joined and sweeps(method) else "none",
              zorder=4 if method in per_episode() else 3)  # fmt: skip


def halves(intervals: Sequence[Interval], nonnegative: bool = True) -> np.ndarray:
    """How far intervals reach down and up."""
    if nonnegative:
        return np.transpose([CostMeasure.error_bar(interval.mean, interval.half) for interval in intervals])
    return np.nan_to_num([[interval.half for interval in intervals]] * 2)


def over_seeds(points: Sequence[Point]) -> str:
    """What the error bars are, for a caption; one seed has none."""
    return " (± 95 % t interval over seeds)" if any(len(point.seeds) > 1 for point in points) else ""


def draw_exact(axes: Axes, exact: Sequence[dict], key: str, line: str = ":") -> None:
    for kind, marker in zip(dict.fromkeys(item["kind"] for item in exact), itertools.cycle("x+1")):
        pairs = sorted((item["mean_violations"], item[key]) for item in exact if item["kind"] == kind)
        axes.plot(*zip(*pairs), linestyle=line, marker=marker, ms=6, lw=1.2, color=INK, alpha=0.75,
                  label=f"exact optimum, {kind}", zorder=5)  # fmt: skip


def name_of(point: Point) -> str:
    """The label next to a marker; the legend names the method."""
    return point.arm or look(point.method).label


def mean_of(point: Point) -> float:
    return point.interval(metrics.mean).mean


def against_mean(axes: Axes, measure: CostMeasure, height: str) -> None:
    axes.set(xlabel=f"mean {measure.per_episode}", ylabel=height)
    axes.margins(0.08)


def mark_limit(axes: Axes, allowed: float, name: str) -> None:
    """A line with a pattern and a name of its own, since colour alone does not identify it."""
    axes.axvline(allowed, color=OVER, lw=1.4, ls=(0, (6, 2, 1, 2, 1, 2)), zorder=2)
    axes.text(allowed, 1.0, f" {name} ", transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=9,
              color=OVER)  # fmt: skip


def in_percent(axis: Axis) -> None:
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axis.set_minor_formatter(NullFormatter())


def plain_log_ticks(axis: Axis, within: Sequence[float] = (1, 2, 5)) -> None:
    """Ticks of a logarithmic axis `within` each decade, as plain numbers."""
    axis.set_major_locator(LogLocator(subs=within))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def name_all(axes: Axes, named: Sequence[tuple[float, float, str]]) -> None:
    """Names next to points, and a legend below of everything that is not named there."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    written, height = {name for *_, name in named}, figure.get_figheight()
    while True:
        legend_below(axes, written=written)  # makes the axes smaller, so it comes first
        texts = name_points(axes, named)
        if written <= (placed := {text.get_text() for text in texts}):
            return
        for artist in (*texts, *figure.legends):
            artist.remove()
        figure.set_figheight(height)
        written &= placed


def legend_below(*panels: Axes, written: Collection[str] = (), **options) -> None:
    """A legend below the figure, where it covers nothing, of everything not `written` next to its mark."""
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    labelled = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())}
    entries = {label: handle for label, handle in labelled.items() if label not in written}
    if not entries:
        return
    room = 72 * figure.get_figwidth()
    columns = max(1, min(3, len(entries), int(room / (LETTER * max(map(len, entries)) + HANDLE))))
    labels = [textwrap.fill(label, int((room - HANDLE) / LETTER)) for label in entries]
    rows = -(-len(entries) // columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, rows - 2))
    figure.legend(entries.values(), labels, loc="outside lower center", ncols=columns, columnspacing=1.4, **options)
