"""An author's own words in a report, with every number read from the report's tables.

The file is text: a line `### heading` begins a part, an empty line a paragraph.  In it,

    {{ percent(value("complete_no_killing", "ESR (k=1)", "p_any")) }}

is column `p_any` of the row `ESR (k=1)` of data/complete_no_killing.csv, so that words cannot outlive their numbers.
Where the first column does not tell rows apart, a row is a mapping: {"agent": "ESR (k=1)", "quantity": "return"}.
Of a curve, `value("multiplier_no_killing", {"arm": "d=1"}, "mean", steps=5e7)` reads the row nearest to that step.
`values("runs", {"agent": "ESR (k=1)", "seed": [42, 123]}, "return")` is a list, a number for each of the seeds, to be
added up by `| sum` or counted by `| length`.

A discussion travels with tables between people, so it is data: words, numbers, `set`, `macro`, `if`, and calls of what
it is given.  It looks into nothing, imports nothing and has no loops; its size and its work are limited.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.report.formatting import number, percent, plus_minus

HEADING = "### "


def read(path: str | Path, tables: Mapping[str, pd.DataFrame]) -> list[tuple[str, list[str]]]:
    """Headings and their paragraphs; ConfigError where a number is asked for that no table has."""

    work = Work()

    def value(table: str, row: str | Mapping[str, object], column: str, steps: float | None = None):
        work.spend()
        if table not in tables:
            hint = " (those of training come with --runs)" if table.startswith(("training_", "multiplier_")) else ""
            raise ConfigError(
                f"{path} reads table {table!r}, which this report does not have{hint}; it has {_listed(tables)}"
            )
        frame = tables[table]
        wanted = row if isinstance(row, Mapping) else {frame.columns[0]: row}
        for name in (*wanted, column, *(() if steps is None else ("steps",))):
            if name not in frame:
                raise ConfigError(f"{path} reads column {name!r} of {table}, which has {_listed(frame.columns)}")
        found = frame
        for name, content in wanted.items():
            found = found.loc[found[name] == content]
        if steps is not None:
            away = (found["steps"] - steps).abs()
            found = found.loc[away == away.min()]
        if len(found) != 1:
            names = f"; its rows: {_listed(frame.iloc[:, 0])}"
            raise ConfigError(f"{path} reads row {row!r} of {table}: there are {len(found)} such rows{names}")
        return found[column].item()

    def values(table: str, row: Mapping[str, object], column: str):
        several = [content if isinstance(content, list) else [content] for content in row.values()]
        return [value(table, dict(zip(row, one)), column) for one in product(*several)]

    environment = _environment(work)
    writing = {how.__name__: _with_few_digits(how) for how in (number, percent, plus_minus)}
    environment.globals = {"value": value, "values": values, "grouped": "{:,}".format, **writing}
    if not Path(path).is_file():
        raise ConfigError(f"there is no discussion {path}")
    try:
        written = safe_io.read_text(path, "write it anew", LARGEST)
        _refuse_all_but_words(environment.parse(written))
        text = "".join(environment.from_string(written).generate())
        work.longer(text, MAX_WORDS)
    except Exception as error:  # whatever is wrong with it is wrong with the file
        if isinstance(error, ConfigError) and str(path) in str(error):
            raise
        raise ConfigError(f"{path} is no readable discussion ({safe_io.first_line(error)})") from None
    parts: list[tuple[str, list[str]]] = []
    for paragraph in filter(None, map(_joined, _blocks(text))):
        if paragraph.startswith(HEADING):
            parts.append((paragraph.removeprefix(HEADING), []))
        elif not parts:
            raise ConfigError(f"{path} begins without a heading; begin with a line `{HEADING}...`")
        else:
            parts[-1][1].append(paragraph)
    return parts


@dataclass
class Work:
    """What a discussion may still do: without loops every bit of work begins with a call."""

    left: int = 5000

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ConfigError("it asks for too much work; use fewer macros and values")

    def longer(self, made: object, most: int) -> None:
        if isinstance(made, str | list | dict | tuple) and len(made) > most:
            raise ConfigError(f"it makes something longer than {most} characters or entries; write less")


LARGEST = 2**16  # bytes of the file
MAX_TEXT = 10_000  # characters of what one call or sum takes or makes
MAX_WORDS = 1_000_000  # characters in all
MAX_DIGITS = 50  # behind the point
NODES = {
    "Template", "Output", "TemplateData", "Name", "Const", "Assign", "Macro", "Call", "Keyword", "If", "CondExpr",
    "Test", "Filter", "List", "Tuple", "Dict", "Pair", "Concat", "Compare", "Operand", "And", "Or", "Not",
    "Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Neg", "Pos",
}  # fmt: skip
FILTERS = ("sum", "int", "float", "length", "round", "abs", "min", "max", "first", "last", "sort")


def _with_few_digits(how):
    def written(value, *more, **named):
        if any(isinstance(one, int) and one > MAX_DIGITS for one in (*more, *named.values())):
            raise ConfigError(f"it writes a number with more than {MAX_DIGITS} digits")
        return how(value, *more, **named)

    return written


def _refuse_all_but_words(tree) -> None:
    """Only what is listed: no loop, no import, no attribute, no block."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        if (name := type(node).__name__) not in NODES:
            raise ConfigError(
                f"line {node.lineno} has a {name}, which a discussion may not; `values` reads several rows"
            )
        if isinstance(node, nodes.Const) and isinstance(node.value, int) and abs(node.value) > 2**63:
            raise ConfigError(f"line {node.lineno} has a number that is too large")


def _environment(work: Work):
    from jinja2 import StrictUndefined
    from jinja2.compiler import CodeGenerator
    from jinja2.sandbox import SandboxedEnvironment

    class Words(SandboxedEnvironment):
        """Calls are counted, and what they take and make is measured."""

        intercepted_binops = frozenset(["+", "*", "%", "-", "/", "//"])

        def is_safe_attribute(self, obj, attr, value):
            return False

        def call(self, __context, __obj, *given, **named):
            work.spend()
            for one in (*given, *named.values()):
                work.longer(one, MAX_TEXT)
            made = super().call(__context, __obj, *given, **named)
            work.longer(made, MAX_TEXT)
            return made

        def call_binop(self, context, operator, left, right):
            numbers = all(isinstance(one, int | float) and abs(one) < 1e30 for one in (left, right))
            filling = operator == "%" and isinstance(left, str) and not re.search(r"%[^a-z%]*(\d{3}|\*)", left)
            if not numbers and not filling:
                raise ConfigError(f"it takes {operator} of what are no numbers, or too large; join words by ~")
            work.longer(right, MAX_TEXT)
            return super().call_binop(context, operator, left, right)

        def joined(self, *parts):
            """`a ~ b`: words that double in length would soon fill a memory."""
            made = "".join(map(str, parts))
            work.longer(made, MAX_TEXT)
            return made

    class Measured(CodeGenerator):
        def visit_Concat(self, node, frame):
            self.write("environment.joined(")
            for part in node.nodes:
                self.visit(part, frame)
                self.write(", ")
            self.write(")")

    Words.code_generator_class = Measured
    made = Words(undefined=StrictUndefined)
    made.filters = {name: made.filters[name] for name in FILTERS}
    return made


def _blocks(text: str) -> Iterable[str]:
    """Paragraphs; a heading is one however the lines about it are set."""
    lines = (f"\n\n{line}\n\n" if line.startswith(HEADING) else line for line in text.splitlines())
    return "\n".join(lines).split("\n\n")


def _joined(block: str) -> str:
    """On one line; spaces that must not break stay as they are."""
    return " ".join(line.strip() for line in block.splitlines()).strip()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(map(str, names)))
