"""What a report leaves for papers and programs: figures in three formats, tables in two, a summary."""

import dataclasses
import html as markup
import json
import re

import numpy as np
import pandas as pd
import pytest
import synthetic

from perepisode.config import ConfigError
from perepisode.report import exports, page
from perepisode.report.drawing import canvas
from perepisode.report.tables import Table

HOSTILE = r"50% & $x_{1}$ #1 ~a^b \input{/etc/passwd} <b>|"


def report(folder):
    synthetic.external(episodes=30).to_csv(folder / "episodes.csv", index=False)
    return page.build(folder / "episodes.csv", folder / "out", formats=exports.FORMATS).parent


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return report(tmp_path_factory.mktemp("exports"))


def test_every_figure_and_table_is_linked_in_all_formats(out):
    html = (out / "index.html").read_text()
    figures, tables = (re.findall(rf'id="{kind}-([\w-]+)"', html) for kind in ("figure", "table"))
    assert {"tail_violations", "exceedance_violations", "cvar_levels_violations"} <= set(figures)
    assert {"complete_violations", "definitions"} <= set(tables)
    wanted = {f"figures/{name}.{kind}" for name in figures for kind in ("svg", "pdf", "png")}
    wanted |= {f"data/{name}.csv" for name in (*figures, *tables)} | {f"tables/{name}.tex" for name in tables}
    linked = re.findall(r'href="((?:figures|data|tables)/[^"]+)"', html)
    assert sorted(linked) == sorted(wanted)
    assert {str(path.relative_to(out)) for path in out.glob("*/*")} == wanted
    markdown = (out / "report.md").read_text()
    assert set(re.findall(r"\[\w+\]\(((?:figures|data|tables)/[^)]+)\)", markdown)) == wanted


def test_files_are_what_their_names_say(out):
    for kind, start in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<svg xmlns")):
        found = list((out / "figures").glob(f"*.{kind}"))
        assert found
        assert all(path.read_bytes().startswith(start) for path in found)


def test_a_report_made_again_has_the_same_bytes(out, tmp_path):
    again = report(tmp_path)
    for path in out.glob("figures/*"):
        assert path.read_bytes() == (again / "figures" / path.name).read_bytes(), path.name
        assert b"CreationDate" not in path.read_bytes()


def test_only_the_asked_formats_are_written(tmp_path):
    synthetic.external(episodes=10).to_csv(tmp_path / "episodes.csv", index=False)
    built = page.build(tmp_path / "episodes.csv", tmp_path / "out")
    assert {path.suffix for path in (tmp_path / "out/figures").iterdir()} == {".svg"}
    assert not re.search(r'href="[^"]*\.(pdf|png)"', built.read_text())
    with pytest.raises(ConfigError, match="'gif' is not a figure format; choose from svg, pdf, png"):
        page.build(tmp_path / "episodes.csv", tmp_path / "out", formats=("gif",))


def table(cells: list[str], heading: str = "Agent") -> Table:
    shown = {heading: cells, "CVaR 10 %": ["1.04\u00a0±\u00a00.07"] * len(cells)}
    return Table("one", "One\ntable", "", shown, pd.DataFrame(shown))


def test_latex_prints_the_text_of_the_cells():
    lines = exports.latex(table(["[ESR] (k=1)", "−2 ≥ λ, 10⁻⁸", "σ ≠ Ω ε ∞"]), ("Agent",)).splitlines()
    assert lines == [
        r"% One table: needs \usepackage{booktabs}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Agent & CVaR 10 \% \\",
        r"\midrule",
        r"{[}ESR] (k=1) & 1.04~$\pm$~0.07 \\",
        r"$-$2 $\geq$ $\lambda$, 10$^{-8}$ & 1.04~$\pm$~0.07 \\",
        r"$\sigma$ $\neq$ $\Omega$ $\varepsilon$ $\infty$ & 1.04~$\pm$~0.07 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_no_cell_becomes_a_command_or_a_column():
    made = exports.latex(table([HOSTILE], HOSTILE), ())
    for line in made.splitlines()[3:6:2]:
        assert len(re.findall(r"(?<!\\)&", line)) == 1
        assert line.endswith(r"\\")
        assert set(re.findall(r"\\([a-zA-Z]+)", line)) <= {"textasciitilde", "textasciicircum", "textbackslash", "pm"}
        assert len(re.findall(r"(?<!\\)\$", line)) % 2 == 0
        assert not re.search(r"(?<!\\)[%#_]", line)


def test_tables_of_a_report_have_a_cell_for_each_column(out):
    for path in out.glob("tables/*.tex"):
        lines = path.read_text().splitlines()
        columns = len(re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[1])[1])
        rows = [line for line in lines[3:-2] if line != r"\midrule"]
        assert len(rows) > 1
        assert all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows), path.name
        assert not re.search("[±−≥×\u00a0]", path.read_text()), path.name


def test_the_summary_says_what_the_page_says(out):
    summary = json.loads((out / "summary.json").read_text())
    first = (out / "index.html").read_text().split("<nav")[0].replace("\u00a0", " ")
    shown = " ".join(re.sub(r"<[^>]+>", " ", markup.unescape(first)).split())
    assert " ".join(summary["headline"].split()) in shown
    assert [card["label"] for card in summary["cards"]] == re.findall(r'class="name">(.*?)<', first)


def test_a_summary_has_no_number_that_json_lacks():
    @dataclasses.dataclass
    class Found:
        headline: str = "“equal”"
        pairs: tuple = ({"p": float("nan"), "ratio": float("inf"), "t": np.float64(2.5)},)

    text = exports.summary(Found(), about="x")
    assert json.loads(text, parse_constant=pytest.fail) == {
        "headline": "“equal”", "pairs": [{"p": None, "ratio": None, "t": 2.5}], "about": "x",
    }  # fmt: skip


def test_colours_of_drawings_follow_the_page_and_addresses_do_not():
    svg = '<path style="fill: #1271b1; stroke: #abcdef" clip-path="url(#facade-p1)"/><use href="#decade-1"/>'
    assert canvas.following(svg) == (
        '<path style="fill: var(--1271b1, #1271b1); stroke: var(--abcdef, #abcdef)" clip-path="url(#facade-p1)"/>'
        '<use href="#decade-1"/>'
    )
    assert list(canvas.dark_colours([svg, svg])) == ["#1271b1", "#abcdef"]
