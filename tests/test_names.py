"""Every public class of the package has a name of its own."""

import ast
from collections import defaultdict
from pathlib import Path

import perepisode

ROOT = Path(perepisode.__file__).parent


def test_no_two_public_classes_share_a_name():
    """Except in `wrappers`, where each library has the same wrapper."""
    modules = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        if "wrappers" not in path.relative_to(ROOT).parts:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in modules.items() if len(files) > 1}
