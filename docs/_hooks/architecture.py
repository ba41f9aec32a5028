"""The picture of the architecture and the table of packages, from the code and from tests/test_layers.py.

A package that the picture names and that does not exist, or one that it forgets, fails the build.
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
    """A station of the road, the package that it is, and what leaves it."""

    package: str
    does: str
    leaves: str = ""
    beside: tuple[tuple[str, str], ...] = ()  # packages that join or leave the road here


ROAD = (
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
    ),
    Stage(
        "training",
        "A PPO population trains many runs in one program: different methods, settings and seeds side by side.",
        "a run folder: configuration, metrics of every update, checkpoints, final policy",
        (
            ("runs", "What a run is, its id, and its folder."),
            ("study", "Plans the paper's matrix and runs it, here or on SLURM."),
        ),
    ),
    Stage(
        "evaluation",
        "Detector-only rollouts: the agent acts without its training reward, and every violation is counted.",
        "the episodes table: one row per episode, with the keys that replay it",
        (
            ("agents", "Exports a finished run as one file with a model card; bundled agents."),
            ("replay", "Replays single episodes from their keys, as pictures."),
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
        "the report",
    ),
)  # fmt: skip
# Of packages that say nothing of themselves in their __init__
PURPOSE = {
    "training": "PPO with a recurrent network, for a population of runs in one program.",
    "evaluation": "Rollouts of trained agents, the episodes table, and comparisons.",
    "study": "The matrix of runs: plan, run, resume, submit.",
}


def picture() -> str:
    """The road that data takes, as HTML that a telephone shows too."""
    named = [name for stage in ROAD for name in (stage.package, *(one for one, _ in stage.beside))]
    present = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"metrics", "runs"}
    if wrong := [name for name in named if name not in present]:
        raise PluginError(f"architecture.py draws {', '.join(wrong)}, which the package does not have")
    parts = []
    for number, stage in enumerate(ROAD):
        aside = "".join(f"<li>{_code(name)} {html.escape(text, quote=False)}</li>" for name, text in stage.beside)
        parts.append(
            f'<div class="stage"><div class="stage__box"><p>{_code(stage.package)} {stage.does}</p></div>'
            + (f'<ul class="stage__beside">{aside}</ul>' if aside else "")
            + "</div>"
        )
        last = number == len(ROAD) - 1
        parts.append("" if last else f'<p class="stage__leaves">{stage.leaves}</p>')
    return '<div class="road" role="group" aria-label="The road that data takes">' + "".join(parts) + "</div>"


def layers() -> str:
    """Every package and module of the top level, in the order in which they may import one another."""
    order = _order()
    level = {name: number for number, names in enumerate(order) for name in names}
    lines = ["| | package or module | what it holds | imports |", "|---:|---|---|---|"]
    for number, names in enumerate(order):
        for name in sorted(name for name in names if not name.startswith("__")):
            imports = sorted(
                (one for one in _imports(name) if one in level and one != name), key=lambda one: (level[one], one)
            )
            used = ", ".join(f"`{one}`" for one in imports if not one.startswith("__"))
            lines.append(f"| {number + 1} | `{name}` | {_purpose(name)} | {used} |")
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
    """The top-level packages that a package or module imports, in functions too."""
    path = PACKAGE / name
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perepisode":
                inner = (node.module or "").split(".")[1:]
                found |= {inner[0]} if inner else {alias.name for alias in node.names}
            if isinstance(node, ast.Import):
                found |= {one.name.split(".")[1] for one in node.names if one.name.startswith("perepisode.")}
    return found


def _purpose(name: str) -> str:
    path = PACKAGE / name / "__init__.py" if (PACKAGE / name).is_dir() else PACKAGE / f"{name}.py"
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or PURPOSE.get(name, "")
    return cell(said.split("\n\n")[0])


def _code(name: str) -> str:
    return f"<code>{html.escape(name)}</code>"


GENERATORS = {"picture": picture, "layers": layers}
