"""Build one self-contained page from episodes tables: read, compare, draw, write."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.evaluation import episodes as episodes_table
from perepisode.evaluation.episodes import Tables
from perepisode.report import exports, findings
from perepisode.report.blocks import Inputs
from perepisode.report.drawing import canvas
from perepisode.report.drawing.canvas import Drawn
from perepisode.report.formatting import listed
from perepisode.report.links import links_in, render, titles
from perepisode.report.sections import Section, glossary
from perepisode.report.statistics import curves as training
from perepisode.report.statistics import distilled, matched
from perepisode.report.statistics.analysis_plan import UNPLANNED, AnalysisPlan
from perepisode.report.statistics.points import Episodes, View
from perepisode.report.style import dilemma_name, look, named
from perepisode.runs import made_with, write_atomically
from perepisode.zoo import AgentSource

if TYPE_CHECKING:
    from perepisode.report.result import Report

TEXT_COLUMNS = (
    "Agent", "Interpolated between", "Protocol", "Detector", "Compared with", "Where", "Dilemma", "Quantity", "Policy",
    "Kind", "Unit of violations", "File", "Key", "Value", "Metric", "Meaning", "Run", "Heavier tail", "Lighter tail",
    "Tails", "Clearest at", "Entry",
)  # fmt: skip
# collapsed: for experts, or about the measurement
FURTHER = ("budget_sweep_", "matched_wider_", "matched_interpolated_", "esr_family_", "hypervolume_", "apart_")
MAX_FILES = 3  # named at the top
FOLDED = ("training", "utilities", "optima", "measuring", "paper", "reading", "not-shown")


def build(
    episode_paths: Tables,
    out_dir: str | Path,
    formats: Iterable[str] = ("svg",),
    echo: Callable[[Report], None] = lambda report: None,
    **options,
) -> Path:
    """Write index.html, report.md, summary.json and the files of every figure and table; return the page's path.

    `options` are those of `prepare`, `formats` the file formats of figures (svg, pdf, png), and `echo` a function that
    receives the report.
    """
    formats = exports.checked(formats)
    report = prepare(episode_paths, **options)
    path = report.save(out_dir, formats)
    echo(report)
    return path


def prepare(
    episode_paths: Tables,
    curves: Iterable[str | Path | AgentSource] = (),
    utilities: Iterable[str | Path] = (),
    exact: Iterable[str | Path | dict] = (),
    watch: Iterable[str | Path] = (),
    discussion: str | Path | None = None,
    plan: AnalysisPlan = UNPLANNED,
    names: Mapping[str, str] | None = None,
) -> Report:
    """Read and compare; nothing is written.

    `curves` are trained agents, run folders or their metrics.jsonl, `utilities` distilled utilities, `exact` exact
    optima (files, or items with label, kind, return, mean_violations, cvar, p_over, distribution), `watch` folders that
    `perepisode watch` wrote, and `discussion` a text whose numbers are read from this report's tables
    (report/discussion.py).  `plan` has what is fixed beforehand, `names` are labels for methods.
    """
    from perepisode.report.result import Report

    table = episodes_table.read(episode_paths, without=episodes_table.REPLAY_COLUMNS)
    study = Episodes(table, plan.cost_limit, plan.alpha, plan)
    del table  # the study keeps the columns it needs
    read = {name: (utility, top) for name, utility, top in map(distilled.read, utilities)}
    links = [("; ".join(titles(Path(page))), Path(page) / "index.html") for page in watch]
    inputs = Inputs(study, study.views(), training.read(curves, study.arms), read, _read_exact(exact), links)
    with named(names or {}, study.methods):
        check_plan(plan, inputs.views)
    return Report(inputs, names or {}, discussion)


def check_plan(plan: AnalysisPlan, views: list[View]) -> None:
    """Raise ConfigError if the plan is about agents or a dilemma that the table does not have."""
    about = [view for view in views if plan.is_about(view.dilemma)]
    if not about:
        known = ", ".join(view.dilemma for view in views)
        raise ConfigError(f"{plan.path} is about dilemma {plan.dilemma!r}; the table has {known}")
    if plan.fixes_pairs and not any(matched.planned(view) for view in about):
        labels = [point.label for view in about for point in view.main]
        wanted = [plan.focal, *(name for pair in plan.pairs for name in pair)]
        missing = next((name for name in wanted if name and not any(view.labelled(name) for view in about)), wanted[0])
        known = ", ".join(dict.fromkeys(labels))
        raise ConfigError(f"the plan names {missing!r}, which no table has as an agent; they are {known}")


def in_order(finding: findings.Finding, views: list[View]) -> list[str]:
    """Methods in order of appearance: those of the first screen, then all others."""
    cards = [card.method for card in finding.cards if card.method]
    return [*cards, *(point.method for view in views for point in view.points)]


def _read_exact(exact: Iterable[str | Path | dict]) -> list[dict]:
    items = []
    for given in exact:
        remedy = "write it again, as a list of exact optima"
        items += [given] if isinstance(given, dict) else safe_io.read_json(given, remedy, list)
    for item in items:
        if not isinstance(item, dict):
            raise ValueError(f"{item!r:.40} is not an exact optimum; write an object with a label")
        for key in ("label", "kind", "return", "mean_violations", "cvar"):
            if key not in item:
                raise ValueError(f"exact optimum {item.get('label', item)!r} has no {key!r}; add it")
        shares = item.get("distribution", [])
        numbers = [item["return"], item["mean_violations"], item["cvar"], item.get("p_over", 0.0)]
        numbers += shares if isinstance(shares, list) else [None]
        if not all(np.isfinite(safe_io.as_float(value)) for value in numbers):
            raise ValueError(f"exact optimum {item['label']!r} has a value that is not a number; correct it")
    return items


def write(
    out: Path, inputs: Inputs, finding: findings.Finding, content: list[Section], formats: tuple[str, ...]
) -> Path:
    blocks = [block for section in content for block in section.blocks]
    exports.write(out, blocks, formats, TEXT_COLUMNS)
    figures = [block for block in blocks if isinstance(block, Drawn)]
    about = kicker(inputs)
    variables = {
        "title": f"Per-episode report: {about}",
        "kicker": about,
        "glossary": glossary(inputs),
        "finding": finding,
        "picture": first_picture(content, finding),
        "sections": content,
        "folded": FOLDED,
        "further": [block for block in blocks if block.name.startswith(FURTHER)],
        "colour": lambda method: canvas.followed(look(method).colour),
        "dark_colours": canvas.dark_colours([*(figure.svg for figure in figures), *_marks(inputs.views)]),
        "following": canvas.following,
        "files": lambda block: exports.files(block, formats),
        "literal": _literal,
        "text_columns": TEXT_COLUMNS,
        "links_in": links_in,
        "zip": zip,
        "unbroken": unbroken,
        "relative": partial(os.path.relpath, start=out),
        "footer": f"Made with {', '.join(map(' '.join, made_with().items()))}.",
    }
    write_atomically(out / exports.SUMMARY, exports.summary(finding, about=about, made_with=made_with()))
    for name, template in (("report.md", "template.md"), ("index.html", "template.html")):
        write_atomically(out / name, render(Path(__file__).with_name(template), **variables))
    return out / "index.html"


def first_picture(content: list[Section], finding: findings.Finding) -> Drawn | None:
    """The figure that shows the headline: the page has it next to the findings instead of in its section.

    Figures that are taller than wide, with a panel for each of many agents, do not fit the first screen.
    """
    figures = [block for section in content for block in section.blocks if isinstance(block, Drawn)]
    wanted = [figure for name in finding.pictures for figure in figures if figure.name.startswith(f"{name}_")]
    fitting = (one for one in wanted if np.less_equal(*one.figure.get_size_inches()[::-1]))
    return next(fitting, next(iter([*wanted, *figures]), None))


def _marks(views: list[View]) -> list[str]:
    """The colours of the methods, for the marks in tables."""
    return [f"mark: {look(point.method).colour}" for view in views for point in view.points]


def kicker(inputs: Inputs) -> str:
    agents = sum(len(view.points) for view in inputs.views)
    names = ", ".join(dilemma_name(view.dilemma) for view in inputs.views)
    rows = f"{inputs.episodes.rows:,}".replace(",", "\u2009")
    return f"{_origin(inputs)} · {names} · {agents} agents · {rows} episodes"


def _origin(inputs: Inputs) -> str:
    """The environment; of another library's table, which does not name it, the user's files."""
    if not inputs.views[0].external:
        return inputs.episodes.environment
    files = [safe_io.printable(Path(file["path"]).name) for file in inputs.episodes.provenance if file.get("path")]
    return listed(files if len(files) <= MAX_FILES else [files[0], f"{len(files) - 1} more files"]) or "episodes"


def unbroken(text: str) -> str:
    """No line breaks within "10 %", "p < 0.001" and "0.1 – 0.8", which browsers would break behind the dash."""
    text = text.replace(" %", "\u00a0%").replace("\u00a0–\u00a0", "\u00a0–\u2060\u00a0")
    return re.sub(r"(?<=\bp) ([<=]) ", "\u00a0\\1\u00a0", text)


def _literal(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("[", "\\[")
