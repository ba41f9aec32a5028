"""The house's floors: a module imports what lies below it, or beside it in its own room, and nothing above.

Imports inside functions count too: they are there to keep JAX away from commands that do not need it, never to hide a
circle.  Imports for type checkers alone do not count.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import perepisode

ROOT = Path(perepisode.__file__).parent
FLOORS = (
    ("settings", "metrics", "compilation", "legacy", "__init__"),
    ("lazy",),
    ("config", "pytree", "safe_io"),
    ("plugins", "console"),
    ("environments",),
    ("methods",),
    ("wrappers",),
    ("runs",),
    ("training",),
    ("zoo",),
    ("evaluation",),
    ("interop",),
    ("report",),
    ("paper_comparison",),
    ("replay",),
    ("study",),
    ("agents",),
    ("cli",),
    ("api",),
    ("__main__",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def room(module: str) -> str:
    """Of `perepisode.report.page`: report; of the package itself: __init__."""
    return module.split(".")[1] if "." in module else "__init__"


def imported(path: Path) -> Iterator[str]:
    """What a module imports of the package, by full name, in functions too."""
    for node in _but_for_types(ast.parse((ROOT / path).read_text())):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: write imports in full"
        yield from named(node)


def named(node: ast.AST) -> Iterator[str]:
    """The modules of the package that an import names."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names if one.name.split(".")[0] == "perepisode")
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perepisode":
        for one in node.names:
            below = ROOT / Path(*node.module.split(".")[1:]) / one.name
            own = below.is_dir() or below.with_suffix(".py").exists()
            yield f"{node.module}.{one.name}" if own else node.module


def _but_for_types(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _but_for_types(child)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_nothing_imports_from_above(path):
    own = path.parts[0].removesuffix(".py")
    assert own in FLOOR, f"{own} has no floor yet: give it one"
    for name in imported(path):
        assert room(name) == own or FLOOR[room(name)] < FLOOR[own], f"{path} imports {name}, which lies above it"


def test_within_a_room_there_is_no_circle():
    """Depth first through what each module imports when it is itself imported."""
    edges = {_name(path): {name for name in _at_import(path) if room(name) == room(_name(path))} for path in MODULES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " → ".join((*above[above.index(name) :], name))
        if name not in done:
            for other in sorted(edges.get(name, ())):
                visit(other, (*above, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def _at_import(path: Path) -> Iterator[str]:
    for node in ast.parse((ROOT / path).read_text()).body:
        yield from named(node)


def _name(path: Path) -> str:
    parts = ("perepisode", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
