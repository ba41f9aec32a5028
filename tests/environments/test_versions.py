"""A run's id changes when what its world counts does: a world has a version, and its counting cannot change unseen."""

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

# world and version: where it counts, and the digest of that code.  If a change counts anything otherwise, raise the
# world's `version` and enter it here; if it provably counts the same, enter the digest alone.
COUNTED = {
    ("craftax", 1): (["craftax/detectors.py", "craftax/events.py"], "e8f3aba6d8564eb1"),
    ("temptation", 1): (["temptation/__init__.py:step"], "17097106838cf435"),
}


def code(place: str) -> str:
    """The lines of a module, or of its function of that name, but for docstrings, comments and empty ones."""
    file, _, function = place.partition(":")
    text = (Path(perepisode.__file__).parent / "environments" / file).read_text()
    left = dict(enumerate(text.splitlines(), 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1):
                left.pop(number)
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first, last = node.lineno, node.end_lineno or 0
    lines = [line for number, line in left.items() if not function or first <= number <= last]
    return "\n".join(line for line in lines if line.strip() and not line.strip().startswith("#"))


def test_what_counts_has_not_changed_without_its_version():
    assert {name for name, _ in COUNTED} <= ENVIRONMENTS.keys()
    for name in {name for name, _ in COUNTED}:
        places, known = COUNTED[name, ENVIRONMENTS[name].version]
        digest = hashlib.sha256("".join(map(code, places)).encode()).hexdigest()[:16]
        assert digest == known, f"{name} counts by other code than before ({digest}): see the comment above COUNTED"


def test_another_version_is_another_run(tmp_path, monkeypatch):
    run = Run("temptation", "temptation", total_timesteps=10**6, ppo=Temptation.ppo)
    folder, before = RunFolder.of(tmp_path, run), run.id
    folder.open(run, "cpu")
    assert "version" not in json.loads((folder.path / "run.json").read_text())
    monkeypatch.setattr(Temptation, "version", 2)
    assert run.id != before
    with pytest.raises(ConfigError, match="made by another version"):
        folder.read()
    later = RunFolder.of(tmp_path, run)
    later.open(run, "cpu")
    assert later.read().id == run.id
    assert json.loads((later.path / "run.json").read_text())["version"] == 2
    monkeypatch.setattr(Temptation, "version", 1)
    assert run.id == before
    with pytest.raises(ConfigError, match="made by another version"):
        later.read()
