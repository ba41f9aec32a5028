"""An author's discussion in a report, with every number read from the report's tables.

The file is text: a line `### heading` begins a part, an empty line a paragraph.  In it,

    {{ percent(value("complete_no_killing", "ESR (k=1)", "p_any")) }}

is column `p_any` of row `ESR (k=1)` of data/complete_no_killing.csv, so the text always agrees with the tables.  If
the first column does not identify a row, give a mapping: {"agent": "ESR (k=1)", "quantity": "return"}.  In a curve,
`value("multiplier_no_killing", {"arm": "d=1"}, "mean", steps=5e7)` reads the row nearest to that step.
`values("runs", {"agent": "ESR (k=1)", "seed": [42, 123]}, "return")` is a list with one number per seed, for
`| sum` or `| length`.

People exchange discussions together with tables, so a discussion is treated as untrusted data: text, numbers, `set`,
`macro`, `if`, and calls of the functions above.  It has no attribute access, imports or loops; size and work are
limited.
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
    """Headings and their paragraphs; ConfigError for a number that no table has."""

    work = WorkLimit()

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
        choices = [content if isinstance(content, list) else [content] for content in row.values()]
        return [value(table, dict(zip(row, chosen)), column) for chosen in product(*choices)]

    environment = _environment(work)
    formatters = {form.__name__: _with_few_digits(form) for form in (number, percent, plus_minus)}
    environment.globals = {"value": value, "values": values, "grouped": "{:,}".format, **formatters}
    if not Path(path).is_file():
        raise ConfigError(f"{path} does not exist; give the path of a discussion")
    try:
        template = safe_io.read_text(path, "write it again", LARGEST)
        _check_nodes(environment.parse(template))
        text = "".join(environment.from_string(template).generate())
        work.check_size(text, MAX_OUTPUT)
    except Exception as error:  # any error here is an error in the file
        if isinstance(error, ConfigError) and str(path) in str(error):
            raise
        raise ConfigError(f"{path} is not a valid discussion ({safe_io.first_line(error)})") from None
    parts: list[tuple[str, list[str]]] = []
    for paragraph in filter(None, map(_joined, _blocks(text))):
        if paragraph.startswith(HEADING):
            parts.append((paragraph.removeprefix(HEADING), []))
        elif not parts:
            raise ConfigError(f"{path} begins without a heading; put a line `{HEADING}...` first")
        else:
            parts[-1][1].append(paragraph)
    return parts


@dataclass
class WorkLimit:
    """The calls that a discussion may still make: without loops, all work begins with a call."""

    left: int = 5000

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ConfigError("it needs too much work; use fewer macros and values")

    def check_size(self, result: object, most: int) -> None:
        if isinstance(result, str | list | dict | tuple) and len(result) > most:
            raise ConfigError(f"it creates more than {most} characters or entries; write less")


LARGEST = 2**16  # bytes of the file
MAX_TEXT = 10_000  # characters or entries of one argument or result
MAX_OUTPUT = 1_000_000  # characters in all
MAX_DIGITS = 50  # decimals
NODES = {
    "Template", "Output", "TemplateData", "Name", "Const", "Assign", "Macro", "Call", "Keyword", "If", "CondExpr",
    "Test", "Filter", "List", "Tuple", "Dict", "Pair", "Concat", "Compare", "Operand", "And", "Or", "Not",
    "Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Neg", "Pos",
}  # fmt: skip
FILTERS = ("sum", "int", "float", "length", "round", "abs", "min", "max", "first", "last", "sort")


def _with_few_digits(form):
    def limited(value, *more, **named):
        if any(isinstance(option, int) and option > MAX_DIGITS for option in (*more, *named.values())):
            raise ConfigError(f"it writes a number with more than {MAX_DIGITS} digits; use fewer")
        return form(value, *more, **named)

    return limited


def _check_nodes(tree) -> None:
    """Reject everything that NODES does not list: loops, imports, attributes, blocks."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        if (name := type(node).__name__) not in NODES:
            raise ConfigError(
                f"line {node.lineno} has a {name}, which a discussion cannot use; `values` reads several rows"
            )
        if isinstance(node, nodes.Const) and isinstance(node.value, int) and abs(node.value) > 2**63:
            raise ConfigError(f"line {node.lineno} has a number that is too large; use a smaller one")


def _environment(work: WorkLimit):
    from jinja2 import StrictUndefined
    from jinja2.compiler import CodeGenerator
    from jinja2.sandbox import SandboxedEnvironment

    class LimitedEnvironment(SandboxedEnvironment):
        """Counts calls, and limits the size of their arguments and results."""

        intercepted_binops = frozenset(["+", "*", "%", "-", "/", "//"])

        def is_safe_attribute(self, obj, attr, value):
            return False

        def call(self, __context, __obj, *given, **named):
            work.spend()
            for argument in (*given, *named.values()):
                work.check_size(argument, MAX_TEXT)
            result = super().call(__context, __obj, *given, **named)
            work.check_size(result, MAX_TEXT)
            return result

        def call_binop(self, context, operator, left, right):
            numbers = all(isinstance(side, int | float) and abs(side) < 1e30 for side in (left, right))
            formatting = operator == "%" and isinstance(left, str) and not re.search(r"%[^a-z%]*(\d{3}|\*)", left)
            if not numbers and not formatting:
                raise ConfigError(f"it uses {operator} on text or on a number that is too large; join text with ~")
            work.check_size(right, MAX_TEXT)
            return super().call_binop(context, operator, left, right)

        def joined(self, *parts):
            """`a ~ b`: text that doubles in length would soon fill the memory."""
            result = "".join(map(str, parts))
            work.check_size(result, MAX_TEXT)
            return result

    class LimitedGenerator(CodeGenerator):
        def visit_Concat(self, node, frame):
            self.write("environment.joined(")
            for part in node.nodes:
                self.visit(part, frame)
                self.write(", ")
            self.write(")")

    LimitedEnvironment.code_generator_class = LimitedGenerator
    environment = LimitedEnvironment(undefined=StrictUndefined)
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    return environment


def _blocks(text: str) -> Iterable[str]:
    """Paragraphs; a heading is always one of its own."""
    lines = (f"\n\n{line}\n\n" if line.startswith(HEADING) else line for line in text.splitlines())
    return "\n".join(lines).split("\n\n")


def _joined(block: str) -> str:
    """A paragraph on one line; non-breaking spaces are kept."""
    return " ".join(line.strip() for line in block.splitlines()).strip()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(map(str, names)))
