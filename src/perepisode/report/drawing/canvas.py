"""How every figure is drawn: look, size, inline SVG, names beside points."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

WIDTH = 6.6  # inches: the page's text width, so that nothing is scaled on a wide screen
INK, FAINT, BAND = "#222222", "#9a9a9a", "#f3ead2"
_HALO = [withStroke(linewidth=2.2, foreground="white")]
_LOOK = Path(__file__).with_name("report.mplstyle")


class Drawing(NamedTuple):
    """A figure, its data, and the sentence that says what to see in it."""

    figure: Figure
    frame: pd.DataFrame
    caption: str
    title: str = ""  # where what is drawn decides it


@dataclass(frozen=True)
class Drawn:
    """A figure as the page shows it."""

    name: str
    title: str
    caption: str
    svg: str
    frame: pd.DataFrame


def style():
    """The report's look, as a context: the caller's matplotlib settings are left alone."""
    return mpl.rc_context(fname=_LOOK)


def sheet(height: float, rows: int = 1, columns: int = 1, **options) -> tuple[Figure, Any]:
    """A figure as wide as the page and its axes, as matplotlib gives them: one, or an array."""
    figure = Figure((WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def drawn(name: str, title: str, made: Drawing) -> Drawn:
    return Drawn(name, title, made.caption, to_svg(made.figure, name), made.frame)


def to_svg(figure: Figure, name: str) -> str:
    """Inline SVG: no prolog, no metadata, no address; ids differ from those of every other figure."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}, _LOOK):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    _, start, text = buffer.getvalue().partition("<svg")
    text = start + re.sub(r'<metadata>.*?</metadata>|<!--.*?-->| xmlns(:\w+)?="[^"]*"', "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return re.sub(r"\n\s*", "\n", text)


def standalone(svg: str) -> str:
    """Inline SVG as a file of its own."""
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return svg.replace("<svg", f"<svg {names}", 1)


def name_points(axes: Axes, named: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each (x, y, name, colour) beside its point where it hits neither a name, a point nor the frame.

    Earlier entries choose first; a name without room is left out rather than written over another.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    places = axes.transData.transform([(x, y) for x, y, *_ in named]) / scale if named else []
    frame = np.array(axes.get_window_extent().extents) / scale
    taken = [(px - 4, py - 4, px + 4, py + 4) for px, py in places]
    for (x, y, name, colour), (px, py) in zip(named, places):
        wide, high = 4.6 * len(name), 8.0
        for dx, dy in ((6, -11), (6, 4), (-6 - wide, 4), (-6 - wide, -11), (-wide / 2, 8), (-wide / 2, -16)):
            box = (px + dx, py + dy, px + dx + wide, py + dy + high)
            inside = frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                axes.annotate(name, (x, y), (dx, dy), textcoords="offset points", fontsize=7.5, color=colour,
                              path_effects=_HALO, zorder=6)  # fmt: skip
                break


def _overlap(one: tuple, other: tuple) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
