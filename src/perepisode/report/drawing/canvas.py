"""Shared by all figures: style, size, files, inline SVG that follows the page's colours."""

import io
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from perepisode.report.style import on_dark

WIDTH, NARROW = 6.0, 4.2  # inches, on a desktop and on a phone: the same type is legible on both
DPI = 200
_WIDTH: ContextVar[float] = ContextVar("width of the figures that are being drawn", default=WIDTH)
_STYLE = Path(__file__).with_name("report.mplstyle")
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}\b")  # after a property name, which an address lacks


class Drawing(NamedTuple):
    """A figure, its data and its caption."""

    figure: Figure
    frame: pd.DataFrame
    caption: str
    title: str = ""  # instead of the declared title


@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """A figure as the page and the exports use it."""

    name: str
    title: str
    caption: str
    svg: str
    narrow: str  # the SVG for phones
    frame: pd.DataFrame
    figure: Figure

    def __repr__(self) -> str:
        return f"{self.name}: {self.caption}"

    def _repr_html_(self) -> str:
        """For notebooks, whose pages may be dark."""
        style = "background: #fff; max-width: 100%; height: auto; border-radius: 5px"
        return standalone(self.svg).replace(
            "<svg", f'<svg style="{style}" role="img" aria-label="{escape(self.title)}"', 1
        )


def style():
    """The report's matplotlib style, as a context."""
    return mpl.rc_context(fname=_STYLE)


def is_narrow() -> bool:
    """Whether the figure is being drawn for a phone."""
    return _WIDTH.get() < WIDTH


def sheet(height: float, rows: int = 1, columns: int = 1, **options) -> tuple[Figure, Any]:
    """A figure as wide as the page, and what `subplots` returns."""
    figure = Figure((_WIDTH.get(), height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def row_of_panels(height: float, number: int, **options) -> tuple[Figure, Any]:
    """A figure with panels side by side, on a phone one below the other."""
    if is_narrow():
        figure, panels = sheet(0.4 + 0.8 * height * number, number, 1, squeeze=False, **options)
        return figure, panels[:, 0]
    figure, panels = sheet(height, 1, number, squeeze=False, **options)
    return figure, panels[0]


def drawn(name: str, title: str, draw: Callable[[], Drawing | str | None]) -> Drawn | str | None:
    """A figure drawn twice: for a page and its files, and for a phone; or what `draw` returns instead."""
    drawing = draw()
    if not isinstance(drawing, Drawing):
        return drawing
    before = _WIDTH.set(NARROW)
    try:
        again = draw()
    finally:
        _WIDTH.reset(before)
    assert isinstance(again, Drawing)
    svg, narrow = to_svg(drawing.figure, name), to_svg(again.figure, f"{name}-narrow")
    drawing.figure.set_layout_engine("none")  # keep this layout in every file
    return Drawn(name, drawing.title or title, drawing.caption, svg, narrow, drawing.frame, drawing.figure)


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
