"""The picture of the architecture and the table of packages, from the code and from tests/test_layers.py.

The build fails if the picture names a package that does not exist, or omits one that does.
"""

import ast
import html
from pathlib import Path
from typing import NamedTuple

from mkdocs.exceptions import PluginError
from reference import cell

import perepisode

PACKAGE = Path(perepisode.__file__).parent
LAYERS = Path(__file__).parents[2] / "tests" / "test_layers.py"


class Stage(NamedTuple):
    """One stage of the data path: its package, what it does, and what it hands to the next stage."""

    package: str
    does: str
    output: str = ""
    related: tuple[tuple[str, str], ...] = ()  # further packages that take part in this stage


STAGES = (
    Stage(
        "environments",
        "An environment steps and its detectors count violations. It is a set of pure functions of one episode.",
        "an <code>Outcome</code>: task reward, violations of every dilemma, cause of the episode's end",
        (("interop", "The environments in gymnax, Gymnasium and Stable-Baselines3; a recorder for any agent."),),
    ),
    Stage(
        "methods",
        "The objective turns what the episode has accrued into one reward per step. It may update multipliers, "
        "end episodes and add observations.",
        "one scalar reward per step",
        (("wrappers", "The same objectives around an environment, for trainers of other libraries."),),
    ),
    Stage(
        "training",
        "A population trains many runs in one program: different methods, settings and seeds side by side.",
        "a run folder: configuration, metrics of every update, checkpoints, final policy",
        (
            ("algorithms", "The agents: learning algorithms with their networks, one file each."),
            ("runs", "What a run is, its id, and its folder."),
            ("tracking", "Copies the metrics to TensorBoard, Weights & Biases or MLflow."),
            ("study", "Plans the paper's matrix and runs it, here or on SLURM."),
        ),
    ),
    Stage(
        "evaluation",
        "Detector-only rollouts: the agent acts without its training reward, and every violation is counted.",
        "the episodes table: one row per episode, with the keys that replay it",
        (
            ("zoo", "Reads trained agents: run folders, agent files, bundled agents."),
            ("benchmark", "Fixed protocols, results that anyone can recompute, leaderboards."),
            ("agents", "Exports a finished run as one file with a model card."),
            ("replay", "Replays single episodes from their keys, as pictures."),
            ("preferences", "People compare replayed episodes; their answers become a utility to train on."),
        ),
    ),
    Stage(
        "metrics",
        "Per-episode counts become numbers: mean, P(≥1), P(&gt;k), CVaR.",
        "one value per agent and seed",
    ),
    Stage(
        "report",
        "Comparisons at matched return with intervals over seeds, then figures, tables and one HTML page.",
        related=(("paper_comparison", "Compares the results with the numbers that the paper prints."),),
    ),
)  # fmt: skip


def picture() -> str:
    """The path of the data, as HTML that fits a narrow screen too."""
    drawn = {name for stage in STAGES for name in (stage.package, *(name for name, _ in stage.related))}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    if unknown := drawn - packages - modules:
        raise PluginError(f"architecture.py draws {', '.join(sorted(unknown))}, which perepisode does not have")
    if missing := packages - drawn:
        raise PluginError(f"architecture.py omits {', '.join(sorted(missing))}; add each to a stage in STAGES")
    parts = []
    for stage in STAGES:
        related = "".join(f"<li>{_code(name)} {html.escape(text, quote=False)}</li>" for name, text in stage.related)
        parts.append(
            f'<div class="stage"><div class="stage__box"><p>{_code(stage.package)} {stage.does}</p></div>'
            + (f'<ul class="stage__related">{related}</ul>' if related else "")
            + "</div>"
        )
        if stage.output:
            parts.append(f'<p class="stage__output">{stage.output}</p>')
    return '<div class="stages" role="group" aria-label="The path of the data">' + "".join(parts) + "</div>"


def layers() -> str:
    """Every top-level package and module, in the order in which they may import one another."""
    order = _order()
    level = {name: number for number, names in enumerate(order) for name in names if not name.startswith("__")}
    lines = ["| | package or module | contents | imports |", "|---:|---|---|---|"]
    for name in sorted(level, key=lambda name: (level[name], name)):
        imports = sorted(_imports(name) & level.keys() - {name}, key=lambda name: (level[name], name))
        lines.append(f"| {level[name] + 1} | `{name}` | {_purpose(name)} | {', '.join(map(_quoted, imports))} |")
    return "\n".join(lines)


def _order() -> tuple[tuple[str, ...], ...]:
    """The tuple of tuples of names that tests/test_layers.py checks imports against."""
    for node in ast.parse(LAYERS.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue
            if isinstance(value, tuple) and ("environments",) in value:
                return value
    raise PluginError(f"{LAYERS} no longer states the order of packages as a tuple of tuples")


def _imports(name: str) -> set[str]:
    """The top-level packages that a package or module imports, inside functions too."""
    path = PACKAGE / name
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    imported = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perepisode":
                inner = (node.module or "").split(".")[1:]
                imported |= {inner[0]} if inner else {alias.name for alias in node.names}
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("perepisode.")}
    return imported


def _purpose(name: str) -> str:
    path = PACKAGE / name / "__init__.py" if (PACKAGE / name).is_dir() else PACKAGE / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not text:
        raise PluginError(f"{path} has no docstring; the table of packages prints its first paragraph")
    return cell(text.split("\n\n")[0])


def _quoted(name: str) -> str:
    return f"`{name}`"


def _code(name: str) -> str:
    return f"<code>{html.escape(name)}</code>"


GENERATORS = {"picture": picture, "layers": layers}
