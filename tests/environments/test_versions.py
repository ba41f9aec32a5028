"""A run's id changes when what its world counts does: a world has a version, and its counting cannot change unseen."""

import ast
import hashlib
import json
from pathlib import Path

import pytest

import perepisode
from perepisode.config import Refused
from perepisode.environments import WORLDS
from perepisode.environments.temptation import Temptation
from perepisode.runs import Run, RunFolder

# world and version: where it counts, and the digest of that code.  If a change counts anything otherwise, raise the
# world's `version` and enter it here; if it provably counts the same, enter the digest alone.
COUNTED = {
    ("craftax", 1): (["craftax/detectors.py", "craftax/events.py"], "947afd735c83cf80"),
    ("temptation", 1): (["temptation/__init__.py:step"], "ed45aacf76d7aa78"),
}


def code(place: str) -> str:
    """Of a module, or of its functions of that name, without comments, docstrings and line breaks."""
    file, _, function = place.partition(":")
    tree = ast.parse((Path(perepisode.__file__).parent / "environments" / file).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    found = [node for node in ast.walk(tree) if not function or getattr(node, "name", "") == function]
    return "".join(map(ast.unparse, found if function else [tree]))


def test_what_counts_has_not_changed_without_its_version():
    assert {name for name, _ in COUNTED} <= WORLDS.keys()
    for name in {name for name, _ in COUNTED}:
        places, known = COUNTED[name, WORLDS[name].version]
        digest = hashlib.sha256("".join(map(code, places)).encode()).hexdigest()[:16]
        assert digest == known, f"{name} counts by other code than before ({digest}): see the comment above COUNTED"


def test_another_version_is_another_run(tmp_path, monkeypatch):
    run = Run("temptation", "temptation", steps=10**6, learner=Temptation.learner)
    folder, before = RunFolder.of(tmp_path, run), run.id
    folder.open(run, "cpu")
    assert "version" not in json.loads((folder.path / "run.json").read_text())
    monkeypatch.setattr(Temptation, "version", 2)
    assert run.id != before
    with pytest.raises(Refused, match="made by another version"):
        folder.read()
    later = RunFolder.of(tmp_path, run)
    later.open(run, "cpu")
    assert later.read().id == run.id
    assert json.loads((later.path / "run.json").read_text())["version"] == 2
    monkeypatch.setattr(Temptation, "version", 1)
    assert run.id == before
    with pytest.raises(Refused, match="made by another version"):
        later.read()
