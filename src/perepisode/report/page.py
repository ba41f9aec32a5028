"""One self-contained page from episodes tables: `build` reads, compares, draws and writes."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

import perepisode
from perepisode import metrics, safe_io
from perepisode.evaluation import episodes as episodes_table
from perepisode.report import discussion as own_words
from perepisode.report import exports, findings
from perepisode.report.blocks import Inputs
from perepisode.report.cost_measure import NAN
from perepisode.report.drawing import canvas
from perepisode.report.drawing.canvas import Drawn
from perepisode.report.links import filled, titles
from perepisode.report.sections import Section, sections
from perepisode.report.statistics import curves as training
from perepisode.report.statistics import distilled
from perepisode.report.statistics.points import Episodes, View
from perepisode.report.style import dilemma_name, look, named, on_page
from perepisode.runs import write_atomically
from perepisode.zoo import AgentSource

TEXT_COLUMNS = (
    "Agent", "Read between", "Kept", "Counted by", "Compared with", "Where", "Dilemma", "Quantity", "Policy",
    "Kind", "The same", "Unit of violations", "File", "Key", "Value", "Metric", "Meaning", "Run",
)  # fmt: skip
# sections for experts, or about the measuring: a click away
FURTHER = ("budget_sweep_", "matched_wider_", "matched_interpolated_", "hypervolume_", "apart_")
FOLDED = ("training", "utilities", "optima", "measuring", "paper", "reading", "not-shown")


def build(
    episode_paths: str | Path | Iterable[str | Path],
    out_dir: str | Path,
    curves: Iterable[str | Path | AgentSource] = (),
    utilities: Iterable[str | Path] = (),
    exact: Iterable[str | Path | dict] = (),
    watch: Iterable[str | Path] = (),
    discussion: str | Path | None = None,
    cost_limit: float = NAN,
    alpha: float = metrics.CVAR_ALPHA,
    names: Mapping[str, str] | None = None,
    formats: Iterable[str] = ("svg",),
    echo: Callable[[Inputs, findings.Finding], None] = lambda *_: None,
) -> Path:
    """Write index.html, report.md, summary.json, and of every figure and table its files; return the page's path.

    `curves` are trained agents, run folders or their metrics.jsonl, `utilities` distilled utilities, `exact` the
    exact optima of the miniature (files, or items with label, kind, return, mean_violations, cvar, p_over,
    distribution), `watch` folders that `perepisode watch` wrote, to link to, `discussion` a text whose numbers are
    read from this report's tables (see report/discussion.py).  `cost_limit` is what an episode may have, `alpha` the share of
    the episodes that the CVaR averages, and `names` has labels for methods.  `formats` are the kinds of files that
    every figure is written as, of svg, pdf and png.  `echo` hears what was found.
    """
    kinds = exports.asked(formats)
    table = episodes_table.read(episode_paths, without=episodes_table.REPLAY_COLUMNS)
    study = Episodes(table, cost_limit, alpha)
    del table  # the sorted columns are all that is needed from here on
    read = {name: (utility, top) for name, utility, top in map(distilled.read, utilities)}
    drawn = training.read(curves, study.arms)
    inputs = Inputs(study, study.views(), drawn, read, _read_exact(exact), _linked(watch, out_dir))
    with named(names or {}, study.methods):
        finding = findings.find(study, inputs.views)
        with on_page(_appearing(finding, inputs.views)), canvas.style():
            found = sections(inputs)
            if discussion is not None:
                frames = {block.name: block.frame for section in found for block in section.blocks}
                found.insert(0, Section("discussion", "Discussion", words=own_words.read(discussion, frames)))
            page = _write(Path(out_dir), inputs, finding, found, kinds)
        echo(inputs, finding)
    return page


def _appearing(finding: findings.Finding, views: list[View]) -> list[str]:
    """Methods in order of appearance: those of the first screen, then all others."""
    cards = [card.method for card in finding.cards if card.method]
    return [*cards, *(point.method for view in views for point in view.points)]


def _linked(pages: Iterable[str | Path], out: str | Path) -> list[tuple[str, str]]:
    """Title and address, seen from `out`, of every page of episodes to watch."""
    return [("; ".join(titles(Path(page))), os.path.relpath(Path(page) / "index.html", out)) for page in pages]


def _read_exact(exact: Iterable[str | Path | dict]) -> list[dict]:
    items = []
    for one in exact:
        if isinstance(one, dict):
            items.append(one)
            continue
        items += safe_io.read_json(one, "write it again, as a list of exact optima", list)
    for item in items:
        if not isinstance(item, dict):
            raise ValueError(f"an exact optimum is an object with a label, not {item!r:.40}")
        for key in ("label", "kind", "return", "mean_violations", "cvar"):
            if key not in item:
                raise ValueError(f"exact optimum {item.get('label', item)!r} has no {key!r}; it needs one")
        shares = item.get("distribution", [])
        numbers = [item["return"], item["mean_violations"], item["cvar"], item.get("p_over", 0.0)]
        numbers += shares if isinstance(shares, list) else [None]
        if not all(np.isfinite(safe_io.as_float(value)) for value in numbers):
            raise ValueError(f"exact optimum {item['label']!r} holds what is not a number; write it again")
    return items


def _write(
    out: Path, inputs: Inputs, finding: findings.Finding, found: list[Section], formats: tuple[str, ...]
) -> Path:
    blocks = [block for section in found for block in section.blocks]
    exports.write(out, blocks, formats, TEXT_COLUMNS)
    figures = [block for block in blocks if isinstance(block, Drawn)]
    kicker = _kicker(inputs)
    content = {
        "title": f"Per-episode report: {kicker}",
        "kicker": kicker,
        "finding": finding,
        "picture": _first_picture(found),
        "sections": found,
        "folded": FOLDED,
        "further": [block for block in blocks if block.name.startswith(FURTHER)],
        "colour": lambda method: canvas.followed(look(method).colour),
        "dark_colours": canvas.dark_colours([*(one.svg for one in figures), *_marks(inputs.views)]),
        "following": canvas.following,
        "files": lambda block: exports.files(block, formats),
        "literal": _literal,
        "text_columns": TEXT_COLUMNS,
        "zip": zip,
        "footer": f"perepisode {perepisode.__version__}. Every figure and table is beside this page, for papers and "
        "programs.",
    }
    write_atomically(out / exports.SUMMARY, exports.summary(finding, about=kicker))
    for name, template in (("report.md", "template.md"), ("index.html", "template.html")):
        write_atomically(out / name, filled(Path(__file__).with_name(template), **content))
    return out / "index.html"


def _first_picture(found: list[Section]) -> Drawn | None:
    """The first figure of the first dilemma: the page shows it beside the verdict instead of in its section."""
    figures = (block for section in found if section.name.startswith("dilemma-") for block in section.blocks)
    return next((block for block in figures if isinstance(block, Drawn)), None)


def _marks(views: list[View]) -> list[str]:
    """The colours of methods, which tables show too."""
    return [f"mark: {look(point.method).colour}" for view in views for point in view.points]


def _kicker(inputs: Inputs) -> str:
    agents = sum(len(view.points) for view in inputs.views)
    names = ", ".join(dilemma_name(view.dilemma) for view in inputs.views)
    rows = f"{inputs.episodes.rows:,}".replace(",", "\u2009")
    return f"{inputs.episodes.environment} · {names} · {agents} agents · {rows} episodes"


def _literal(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("[", "\\[")
