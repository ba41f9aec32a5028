"""A report's files for papers and programs: figures, tables as CSV and LaTeX, and the findings as JSON."""

import dataclasses
import json
import re
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from perepisode.config import ConfigError
from perepisode.report.drawing import canvas
from perepisode.report.drawing.canvas import Drawn
from perepisode.report.tables import Table
from perepisode.runs import write_atomically

FORMATS = ("svg", "pdf", "png")  # of figures
SUMMARY = "summary.json"


def _greek(letter: str) -> str:
    r""" "$\beta$" for β: LaTeX uses Unicode's names, with two exceptions."""
    name = unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda").replace("epsilon", "varepsilon")
    return f"$\\{name.capitalize() if letter.isupper() else name}$"


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$",
    "≠": r"$\neq$", "≈": r"$\approx$", "∞": r"$\infty$", "→": r"$\to$", "√": r"$\surd$", "⌈": r"$\lceil$",
    "⌉": r"$\rceil$", **{letter: _greek(letter) for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"},
    "–": "--", "—": "---", "“": "``", "”": "''", "…": r"\ldots{}", "\u00a0": "~", "\u2009": r"\,", "\u202f": r"\,",
}  # fmt: skip
_SUPERSCRIPTS, _DIGITS = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"), str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def checked(formats: Iterable[str]) -> tuple[str, ...]:
    """The formats of figures, always with SVG, which report.md shows."""
    wanted = set(formats) | {"svg"}
    if unknown := wanted - set(FORMATS):
        raise ConfigError(f"{min(unknown)!r} is not a figure format; choose from {', '.join(FORMATS)}")
    return tuple(known for known in FORMATS if known in wanted)


def files(block: Drawn | Table, formats: tuple[str, ...]) -> dict[str, str]:
    """The files of a figure or table: format, address."""
    data = {"CSV": f"data/{block.name}.csv"}
    if isinstance(block, Drawn):
        return {**{kind.upper(): f"figures/{block.name}.{kind}" for kind in formats}, **data}
    return {**data, "LaTeX": f"tables/{block.name}.tex"}


def write(out: Path, blocks: Iterable[Drawn | Table], formats: tuple[str, ...], text_columns: Collection[str]) -> None:
    for folder in ("data", "figures", "tables"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for block in blocks:
        block.frame.to_csv(out / "data" / f"{block.name}.csv", index=False)
        if isinstance(block, Drawn):
            for kind in formats:
                write_atomically(out / "figures" / f"{block.name}.{kind}", canvas.encoded(block, kind))
        else:
            write_atomically(out / "tables" / f"{block.name}.tex", latex(block, text_columns))


def latex(table: Table, text_columns: Collection[str]) -> str:
    """The table as the page shows it, for a document that loads booktabs; columns of numbers are right-aligned."""
    columns = "".join("l" if heading in text_columns else "r" for heading in table.shown)
    return "\n".join([
        f"% {table.title}: needs \\usepackage{{booktabs}}".replace("\n", " "),
        f"\\begin{{tabular}}{{{columns}}}", r"\toprule", _line(table.shown), r"\midrule", *map(_line, table.rows),
        r"\bottomrule", r"\end{tabular}", "",
    ])  # fmt: skip


def _line(cells: Iterable[str]) -> str:
    return " & ".join(map(_literal, cells)) + r" \\"


def _literal(cell: str) -> str:
    """Escape for LaTeX; a bracket at the start of a line would be an option of the line before."""
    text = "".join(_LATEX.get(character, character) for character in cell.replace("\n", " "))
    text = _SUPERSCRIPTS.sub(lambda found: f"$^{{{found[0].translate(_DIGITS)}}}$", text)
    return f"{{{text[0]}}}{text[1:]}" if text[:1] in ("[", "*") else text


def summary(finding: Any, **more: Any) -> str:
    """The findings as JSON, with unknown numbers as null."""
    return json.dumps(_plain({**dataclasses.asdict(finding), **more}), ensure_ascii=False, indent=1) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return None
    return value
