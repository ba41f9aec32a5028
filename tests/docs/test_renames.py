"""docs/reference/renames.md lists every name that legacy.py translates, and leads to names that exist."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import perepisode
from perepisode import legacy
from perepisode.environments.base import Environment
from perepisode.methods.objective import Objective

HOME = Path(perepisode.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "renames.md").read_text(encoding="utf-8")


def rows(section: str) -> list[list[str]]:
    """The cells of a section's tables."""
    text = next(part for part in PAGE.split("\n## ") if part.startswith(f"{section}\n"))
    lines = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return [name.lstrip("-@") for name in re.findall(r"`([^`]+)`", cell)]


def renames(section: str) -> set[tuple[str, str, str]]:
    """(owner, old, new) of a section whose tables have three columns."""
    return {
        (owner, names(old)[0], names(new)[0])
        for owners, old, new in rows(section)
        for owner in names(owners) or [owners]
    }


def test_settings_are_those_that_are_translated():
    owners = {"PPO": legacy.PPO, **legacy.METHODS, **legacy.ENVIRONMENTS}
    expected = {(owner, *pair) for owner, table in owners.items() for pair in table.items()}
    values = {(setting, *pair) for setting, table in legacy.VALUES.items() for pair in table.items()}
    expected |= {row for row in values if row[0] != "only"}
    expected |= {
        (f"{command} --only", *pair) for command in ("matrix", "study") for pair in legacy.VALUES["only"].items()
    }
    assert renames("Settings") == expected


def test_options_are_those_that_are_translated():
    options = {(command, *pair) for command, table in legacy.OPTIONS.items() for pair in table.items()}
    expected = {(command, old, new.replace("_", "-")) for command, old, new in options}
    expected |= {(command, "steps", "total-timesteps") for command in ("train", "matrix", "study")}
    assert renames("Other options") == expected | {("all", legacy.ENV_VARIABLE, "PEREPISODE_PLUGINS")}


def test_files_are_those_that_are_translated():
    tables = {"run.json": [legacy.RUN], "metrics.jsonl": [legacy.METRICS], "bench file": [legacy.BENCH]}
    tables["agent file"] = [legacy.AGENT, legacy.POLICY]
    expected = {(file, *pair) for file, found in tables.items() for table in found for pair in table.items()}
    columns = legacy.renamed_columns(["in_first", "steps", "audit_offers"])
    expected |= {("episodes table", *(name.replace("offers", "*") for name in pair)) for pair in columns.items()}
    assert renames("Files") == expected


@pytest.mark.parametrize(("old", "new"), rows("Modules"))
def test_modules_have_moved(old, new):
    assert find_spec(f"perepisode.{names(new)[0]}")
    assert not (HOME / names(old)[0].replace(".", "/")).with_suffix(".py").exists()


def test_classes_and_functions_exist_under_their_new_names_only():
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in HOME.rglob("*.py")]
    statements = [node for module in modules for node in module.body]
    defined = {node.name for node in statements if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in statements:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    for old, new in rows("Classes and functions"):
        assert names(new)[0].split(".")[-1] in defined, new
        if names(old)[0][0].isupper():
            assert names(old)[0] not in defined, old


def test_attributes_exist_under_their_new_names_only():
    for owner, old, new in renames("Attributes and arguments"):
        cls = {"an environment": Environment, "a method": Objective}.get(owner)
        if cls:
            known = {*vars(cls), *cls.__annotations__}
            assert new in known, f"{owner}: {new}"
            assert old not in known, f"{owner}: {old}"
