"""A run's id changes with its environment's version, and counting code cannot change without a new version."""

import ast
import hashlib
import json
from pathlib import Path

import pytest

import perepisode
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.temptation import Temptation
from perepisode.runs import Run, RunFolder

# environment and version: the counting code and its digest.  If a change affects any count, increment the environment's
# `version` and add it here; if it provably does not, update only the digest.
COUNTED = {
    ("craftax", 1): (["craftax/detectors.py", "craftax/events.py"], "6b9d06df7b848027"),
    ("temptation", 1): (["temptation/__init__.py:step"], "17097106838cf435"),
}


def code(location: str) -> str:
    """The lines of a module, or of one of its functions, without docstrings, comments and blank lines."""
    file, _, function = location.partition(":")
    text = (Path(perepisode.__file__).parent / "environments" / file).read_text()
    remaining = dict(enumerate(text.splitlines(), 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1):
                remaining.pop(number)
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first, last = node.lineno, node.end_lineno or 0
    lines = [line for number, line in remaining.items() if not function or first <= number <= last]
    return "\n".join(line for line in lines if line.strip() and not line.strip().startswith("#"))


def test_counting_code_does_not_change_without_a_new_version():
    assert {name for name, _ in COUNTED} <= ENVIRONMENTS.keys()
    for name in {name for name, _ in COUNTED}:
        locations, known = COUNTED[name, ENVIRONMENTS[name].version]
        digest = hashlib.sha256("".join(map(code, locations)).encode()).hexdigest()[:16]
        assert digest == known, f"the counting code of {name} changed ({digest}): see the comment above COUNTED"


def test_another_version_is_another_run(tmp_path, monkeypatch):
    run = Run("temptation", "temptation", total_timesteps=10**6, config=Temptation.ppo)
    folder, before = RunFolder.of(tmp_path, run), run.id
    folder.open(run, "cpu")
    assert "version" not in json.loads((folder.path / "run.json").read_text())
    monkeypatch.setattr(Temptation, "version", 2)
    assert run.id != before
    with pytest.raises(ConfigError, match="written by another version"):
        folder.read()
    later = RunFolder.of(tmp_path, run)
    later.open(run, "cpu")
    assert later.read().id == run.id
    assert json.loads((later.path / "run.json").read_text())["version"] == 2
    monkeypatch.setattr(Temptation, "version", 1)
    assert run.id == before
    with pytest.raises(ConfigError, match="written by another version"):
        later.read()
