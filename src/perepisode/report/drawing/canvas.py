"""Shared by all figures: style, size, files, inline SVG that follows the page's colours, labels of points."""

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

WIDTH = 6.0  # inches: text stays legible on a phone, where the figure is as wide as the screen
DPI = 200
_HALO = [withStroke(linewidth=2.2, foreground=PAPER)]
_STYLE = Path(__file__).with_name("report.mplstyle")
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}\b")  # after a property name, which an address lacks


class Drawing(NamedTuple):
    """A figure, its data and its caption."""

    figure: Figure
    frame: pd.DataFrame
    caption: str
    title: str = ""  # instead of the declared title


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure as the page and the exports use it."""

    name: str
    title: str
    caption: str
    svg: str
    frame: pd.DataFrame
    figure: Figure

    def _repr_html_(self) -> str:
        return f'<div style="background: #fff; max-width: 40rem">{standalone(self.svg)}</div>'


def style():
    """The report's matplotlib style, as a context."""
    return mpl.rc_context(fname=_STYLE)


def sheet(height: float, rows: int = 1, columns: int = 1, **options) -> tuple[Figure, Any]:
    """A figure as wide as the page, and what `subplots` returns."""
    figure = Figure((WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def drawn(name: str, title: str, drawing: Drawing) -> Drawn:
    svg = to_svg(drawing.figure, name)
    drawing.figure.set_layout_engine("none")  # keep this layout in every file
    return Drawn(name, title, drawing.caption, svg, drawing.frame, drawing.figure)


def to_svg(figure: Figure, name: str) -> str:
    """Inline SVG without prolog, metadata and addresses; its ids are unique on the page."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}, _STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    _, start, text = buffer.getvalue().partition("<svg")
    text = start + re.sub(r'<metadata>.*?</metadata>|<!--.*?-->| xmlns(:\w+)?="[^"]*"', "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return re.sub(r"\n\s*", "\n", text)


def standalone(svg: str) -> str:
    """Inline SVG as a separate file."""
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return svg.replace("<svg", f"<svg {names}", 1)


def encoded(figure: Drawn, kind: str) -> bytes:
    """The figure as svg, pdf or png; always the same bytes."""
    if kind == "svg":
        return standalone(figure.svg).encode()
    buffer = io.BytesIO()
    with style():
        figure.figure.savefig(buffer, format=kind, dpi=DPI, metadata={"CreationDate": None} if kind == "pdf" else None)
    return buffer.getvalue()


def followed(colour: str) -> str:
    """A CSS colour that a dark page can replace."""
    return f"var(--{colour[1:]}, {colour})"


def following(svg: str) -> str:
    """Inline SVG whose colours a dark page can replace."""
    return _COLOUR.sub(lambda found: followed(found[0]), svg)


def dark_colours(texts: Iterable[str]) -> dict[str, str]:
    """Every colour in these texts, and its replacement on a dark page."""
    return {colour: on_dark(colour) for colour in sorted({found for text in texts for found in _COLOUR.findall(text)})}


def name_points(axes: Axes, named: Sequence[tuple[float, float, str]]) -> set[str]:
    """Write each (x, y, name) next to its point where it overlaps neither a name, a point nor the frame.

    Earlier entries have priority; a name without room is omitted.  Returns the names that are written.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    positions = axes.transData.transform([(x, y) for x, y, _ in named]) / scale if named else []
    frame = np.array(axes.get_window_extent().extents) / scale
    taken = [(px - 4, py - 4, px + 4, py + 4) for px, py in positions]
    written = set()
    for (x, y, name), (px, py) in zip(named, positions):
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
