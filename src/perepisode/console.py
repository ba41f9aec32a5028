"""What is printed for people: tables that fit the terminal they are seen on, and plain ones for files and pipes."""

import codecs
import io
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from perepisode import safe_io

GAP = 2  # blanks between two columns
PLAINER = {"±": "+-", "−": "-", "–": "-", "≥": ">=", "×": "x", "…": "...", "·": "-", "█": "#", "░": "."}
PLAINER |= dict.fromkeys(safe_io.SPACES, " ")


def write_anything() -> None:
    """Where the terminal or the file has no such sign, one that it has stands for it: ASCII is enough for a table."""
    codecs.register_error("perepisode", _plainer)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="perepisode")


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAINER.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def plain(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns for any terminal, file or pipe."""
    rows = [[safe_io.printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headings), *rows]) for i in range(len(headings))]
    between = GAP * " "
    lines = [between.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [headings, *rows]]
    return "\n".join(lines)


def seen() -> bool:
    """Whether a person looks on, and not a file or another program."""
    return sys.stdout is not None and sys.stdout.isatty()


def redraws() -> bool:
    """Whether that person's terminal lets what was printed be drawn over."""
    return seen() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def console() -> Any:
    """Its size is asked here: rich takes a terminal that calls itself simple for eighty columns wide."""
    from rich.console import Console

    size = shutil.get_terminal_size()
    return Console(width=size.columns, height=size.lines, highlight=False)


def say(text: str, style: str = "") -> None:
    """On a terminal broken between words; elsewhere a line of its own."""
    if not seen():
        print(text)
        return
    from rich.text import Text

    console().print(Text(safe_io.printable(text), style=style))


def table(columns: Mapping[str, Sequence[str]], first: Sequence[str]) -> None:
    """Print a table, given as columns by their headings: names, then numbers.

    On a terminal that is too narrow for all of them those are left out that do not stand `first`, then the last of
    those that do.
    """
    if not seen():
        print(plain(list(columns), list(zip(*columns.values()))))
        return
    from rich.table import Table
    from rich.text import Text

    screen = console()
    names, *numbers = fitting(columns, first, screen.width)
    shown = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    shown.add_column(names)
    for heading in numbers:
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in zip(*(columns[heading] for heading in (names, *numbers))):
        shown.add_row(*(Text(safe_io.printable(cell)) for cell in row))
    screen.print(shown)


def fitting(columns: Mapping[str, Sequence[str]], first: Sequence[str], room: int) -> list[str]:
    """The headings that fit side by side, in their own order; for those that stand `first` names may take two lines."""
    from rich.cells import cell_len

    names, *numbers = columns
    each = [names, *columns[names]]
    whole, halved = max(map(cell_len, each)), max(map(_halved, each))
    ordered = sorted(numbers, key=lambda heading: first.index(heading) if heading in first else len(first))
    kept, taken = {names}, 0
    for heading in ordered:
        taken += GAP + max(map(cell_len, [heading, *columns[heading]]))
        if taken + (halved if heading in first else whole) > room:
            break
        kept.add(heading)
    return [heading for heading in columns if heading in kept]


def _halved(name: str) -> int:
    """The least width in which two lines hold a name, broken between its words."""
    from rich.cells import cell_len

    words = name.split(" ")
    cuts = range(1, len(words) + 1)
    return min(max(cell_len(" ".join(words[:cut])), cell_len(" ".join(words[cut:]))) for cut in cuts)
