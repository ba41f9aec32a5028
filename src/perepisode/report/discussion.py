"""An author's own words in a report, with every number read from the report's tables.

The file is text: a line `### heading` begins a part, an empty line a paragraph.  In it,

    {{ percent(value("complete_no_killing", "ESR (k=1)", "p_any")) }}

is column `p_any` of the row `ESR (k=1)` of data/complete_no_killing.csv, so that words cannot outlive their numbers.
Where the first column does not tell rows apart, a row is a mapping: {"agent": "ESR (k=1)", "quantity": "return"}.
Of a curve, `value("multiplier_no_killing", {"arm": "d=1"}, "mean", steps=5e7)` reads the row nearest to that step.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from perepisode.config import Refused
from perepisode.report.words import number, percent, plus_minus

HEADING = "### "


def read(path: str | Path, tables: Mapping[str, pd.DataFrame]) -> list[tuple[str, list[str]]]:
    """Headings and their paragraphs; Refused where a number is asked for that no table has."""
    import jinja2

    def value(table: str, row: str | Mapping[str, object], column: str, steps: float | None = None):
        if table not in tables:
            hint = " (those of training come with --runs)" if table.startswith(("training_", "multiplier_")) else ""
            raise Refused(
                f"{path} reads table {table!r}, which this report does not have{hint}; it has {_listed(tables)}"
            )
        frame = tables[table]
        wanted = row if isinstance(row, Mapping) else {frame.columns[0]: row}
        for name in (*wanted, column, *(() if steps is None else ("steps",))):
            if name not in frame:
                raise Refused(f"{path} reads column {name!r} of {table}, which has {_listed(frame.columns)}")
        found = frame
        for name, content in wanted.items():
            found = found.loc[found[name] == content]
        if steps is not None:
            away = (found["steps"] - steps).abs()
            found = found.loc[away == away.min()]
        if len(found) != 1:
            names = f"; its rows: {_listed(frame.iloc[:, 0])}"
            raise Refused(f"{path} reads row {row!r} of {table}: there are {len(found)} such rows{names}")
        return found[column].item()

    environment = _environment()
    environment.globals = {"value": value, "number": number, "percent": percent, "plus_minus": plus_minus}
    if not Path(path).is_file():
        raise Refused(f"there is no discussion {path}")
    try:
        text = environment.from_string(Path(path).read_text()).render()
    except Refused:
        raise
    except (OSError, ValueError, TypeError, jinja2.TemplateError) as error:
        raise Refused(f"{path} is no readable discussion ({error})") from error
    parts: list[tuple[str, list[str]]] = []
    for paragraph in filter(None, map(_joined, _blocks(text))):
        if paragraph.startswith(HEADING):
            parts.append((paragraph.removeprefix(HEADING), []))
        elif not parts:
            raise Refused(f"{path} begins without a heading; begin with a line `{HEADING}...`")
        else:
            parts[-1][1].append(paragraph)
    return parts


def _environment():
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    class Words(SandboxedEnvironment):
        """A discussion travels with tables between people: it may call what it is given, and look into nothing."""

        def is_safe_attribute(self, obj, attr, value):
            return (type(obj), attr) in ((list, "append"), (str, "format"))  # to add up, and to write a number

    return Words(undefined=StrictUndefined)


def _blocks(text: str) -> Iterable[str]:
    """Paragraphs; a heading is one however the lines about it are set."""
    lines = (f"\n\n{line}\n\n" if line.startswith(HEADING) else line for line in text.splitlines())
    return "\n".join(lines).split("\n\n")


def _joined(block: str) -> str:
    """On one line; spaces that must not break stay as they are."""
    return " ".join(line.strip() for line in block.splitlines()).strip()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(map(str, names)))
