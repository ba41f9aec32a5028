"""Printing: tables that fit the terminal, and plain tables for files and pipes."""

import codecs
import io
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from perepisode import safe_io

GAP = 2  # spaces between two columns
REPLACEMENTS = {"±": "+-", "−": "-", "–": "-", "≥": ">=", "×": "x", "…": "...", "·": "-", "█": "#", "░": "."}
REPLACEMENTS |= dict.fromkeys(safe_io.SPACES, " ")


def write_anything() -> None:
    """Replace characters that the output's encoding lacks by similar ones; ASCII is enough for a table."""
    codecs.register_error("perepisode", _replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="perepisode")


def _replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(REPLACEMENTS.get(char, "?") for char in error.object[error.start : error.end]), error.end


def plain(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in aligned columns, for files and pipes."""
    rows = [[safe_io.printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headings), *rows]) for i in range(len(headings))]
    gap = GAP * " "
    lines = [gap.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [headings, *rows]]
    return "\n".join(lines)


def is_terminal() -> bool:
    """Whether stdout is a terminal, not a file or a pipe."""
    return sys.stdout is not None and sys.stdout.isatty()


def redraws() -> bool:
    """Whether stdout is a terminal that can redraw what was printed."""
    return is_terminal() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def console() -> Any:
    """A rich console of the terminal's size; rich itself assumes 80 columns if TERM is dumb."""
    from rich.console import Console

    size = shutil.get_terminal_size()
    return Console(width=size.columns, height=size.lines, highlight=False)


def echo(text: str, style: str = "") -> None:
    """Print a text, wrapped between words on a terminal and on one line elsewhere."""
    if not is_terminal():
        print(text)
        return
    from rich.text import Text

    console().print(Text(safe_io.printable(text), style=style))


def table(columns: Mapping[str, Sequence[str]], priority: Sequence[str]) -> None:
    """Print a table, given as cells by heading; the first column has the names, the others numbers.

    On a narrow terminal the columns without priority are dropped first, then those of the lowest priority.
    """
    if not is_terminal():
        print(plain(list(columns), list(zip(*columns.values()))))
        return
    from rich.table import Table
    from rich.text import Text

    screen = console()
    names, *numbers = fitting(columns, priority, screen.width)
    shown = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    shown.add_column(names)
    for heading in numbers:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in zip(*(columns[heading] for heading in (names, *numbers))):
        shown.add_row(*(Text(safe_io.printable(cell)) for cell in row))
    screen.print(shown)


def fitting(columns: Mapping[str, Sequence[str]], priority: Sequence[str], width: int) -> list[str]:
    """The headings that fit, in their own order; names may take two lines to make room for a column with priority."""
    from rich.cells import cell_len

    names, *numbers = columns
    cells = [names, *columns[names]]
    one_line, two_lines = max(map(cell_len, cells)), max(map(_width_in_two_lines, cells))
    ordered = sorted(numbers, key=lambda heading: priority.index(heading) if heading in priority else len(priority))
    kept, used = {names}, 0
    for heading in ordered:
        used += GAP + max(map(cell_len, [heading, *columns[heading]]))
        if used + (two_lines if heading in priority else one_line) > width:
            break
        kept.add(heading)
    return [heading for heading in columns if heading in kept]


def _width_in_two_lines(name: str) -> int:
    """The smallest width at which a name, broken between words, fits into two lines."""
    from rich.cells import cell_len

    words = name.split(" ")
    cuts = range(1, len(words) + 1)
    return min(max(cell_len(" ".join(words[:cut])), cell_len(" ".join(words[cut:]))) for cut in cuts)
