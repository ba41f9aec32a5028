"""How every figure is drawn: look, size, files, inline SVG that follows the page, names beside points."""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from perepisode.report.style import INK, PAPER, on_dark

WIDTH = 6.0  # inches: large enough letters on a telephone, where the figure is as wide as the screen
DPI = 200
_HALO = [withStroke(linewidth=2.2, foreground=PAPER)]
_LOOK = Path(__file__).with_name("report.mplstyle")
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}\b")  # after a property's name; an address has none before it


class Drawing(NamedTuple):
    """A figure, its data, and the sentence that says what to see in it."""

    figure: Figure
    frame: pd.DataFrame
    caption: str
    title: str = ""  # where what is drawn decides it


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure as the page shows it."""

    name: str
    title: str
    caption: str
    svg: str
    frame: pd.DataFrame
    figure: Figure


def style():
    """The report's look, as a context: the caller's matplotlib settings are left alone."""
    return mpl.rc_context(fname=_LOOK)


def sheet(height: float, rows: int = 1, columns: int = 1, **options) -> tuple[Figure, Any]:
    """A figure as wide as the page and its axes, as matplotlib gives them: one, or an array."""
    figure = Figure((WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def drawn(name: str, title: str, made: Drawing) -> Drawn:
    svg = to_svg(made.figure, name)
    made.figure.set_layout_engine("none")  # laid out once, and the same in every file
    return Drawn(name, title, made.caption, svg, made.frame, made.figure)


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


def written(one: Drawn, kind: str) -> bytes:
    """The figure's file of a kind: svg, pdf or png; the same bytes whenever it is made."""
    if kind == "svg":
        return standalone(one.svg).encode()
    buffer = io.BytesIO()
    with style():
        one.figure.savefig(buffer, format=kind, dpi=DPI, metadata={"CreationDate": None} if kind == "pdf" else None)
    return buffer.getvalue()


def followed(colour: str) -> str:
    """A colour in CSS that a dark page may replace."""
    return f"var(--{colour[1:]}, {colour})"


def following(svg: str) -> str:
    """Inline SVG whose colours a dark page may replace."""
    return _COLOUR.sub(lambda found: followed(found[0]), svg)


def dark_colours(texts: Iterable[str]) -> dict[str, str]:
    """What a dark page replaces: every colour in these texts, and what it is there."""
    return {colour: on_dark(colour) for colour in sorted({one for text in texts for one in _COLOUR.findall(text)})}


def name_points(axes: Axes, named: Sequence[tuple[float, float, str]]) -> set[str]:
    """Write each (x, y, name) beside its point where it hits neither a name, a point nor the frame.

    Earlier entries choose first; a name without room is left out rather than written over another.  Returns those
    that found room.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    places = axes.transData.transform([(x, y) for x, y, _ in named]) / scale if named else []
    frame = np.array(axes.get_window_extent().extents) / scale
    taken = [(px - 4, py - 4, px + 4, py + 4) for px, py in places]
    written = set()
    for (x, y, name), (px, py) in zip(named, places):
        wide, high = 5.2 * len(name), 9.0
        for dx, dy in ((6, -12), (6, 4), (-6 - wide, 4), (-6 - wide, -12), (-wide / 2, 8), (-wide / 2, -17)):
            box = (px + dx, py + dy, px + dx + wide, py + dy + high)
            inside = frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                written.add(name)
                axes.annotate(name, (x, y), (dx, dy), textcoords="offset points", fontsize=8.5, color=INK,
                              path_effects=_HALO, zorder=6)  # fmt: skip
                break
    return written


def _overlap(one: tuple, other: tuple) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
