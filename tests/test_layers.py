"""The layers of the package: a module imports from lower layers or from its own package, never from a higher layer.

Imports inside functions count too: they keep JAX away from commands that do not need it and must not hide a cycle.
Imports for type checking do not count.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import perepisode

ROOT = Path(perepisode.__file__).parent
LAYERS = (
    ("legacy", "metrics", "compilation", "__init__"),
    ("settings",),
    ("lazy",),
    ("config", "pytree", "safe_io"),
    ("plugins", "console", "option_files"),
    ("environments",),
    ("methods",),
    ("wrappers",),
    ("algorithms",),
    ("runs",),
    ("training",),
    ("tracking",),
    ("zoo",),
    ("evaluation",),
    ("interop",),
    ("report",),
    ("paper_comparison",),
    ("replay",),
    ("preferences",),
    ("study",),
    ("agents",),
    ("benchmark",),
    ("cli",),
    ("api",),
    ("__main__",),
)
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def package(module: str) -> str:
    """`perepisode.report.page` → report; the package itself → __init__."""
    return module.split(".")[1] if "." in module else "__init__"


def imported(path: Path) -> Iterator[str]:
    """The package's modules that this module imports, by full name, including imports in functions."""
    for node in _without_type_checking(ast.parse((ROOT / path).read_text())):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: use absolute imports"
        yield from modules_of(node)


def modules_of(node: ast.AST) -> Iterator[str]:
    """The package's modules that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "perepisode")
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perepisode":
        for alias in node.names:
            path = ROOT / Path(*node.module.split(".")[1:]) / alias.name
            is_module = path.is_dir() or path.with_suffix(".py").exists()
            yield f"{node.module}.{alias.name}" if is_module else node.module


def _without_type_checking(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _without_type_checking(child)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_no_module_imports_from_a_higher_layer(path):
    own = path.parts[0].removesuffix(".py")
    assert own in LAYER, f"{own} has no layer; add it to LAYERS"
    for name in imported(path):
        assert package(name) == own or LAYER[package(name)] < LAYER[own], f"{path} imports {name} from a higher layer"


def test_no_package_has_an_import_cycle():
    """Depth-first search over the imports at module level."""
    edges = {
        _name(path): {name for name in _at_import(path) if package(name) == package(_name(path))} for path in MODULES
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(edges.get(name, ())):
                visit(other, (*path, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def _at_import(path: Path) -> Iterator[str]:
    for node in ast.parse((ROOT / path).read_text()).body:
        yield from modules_of(node)


def _name(path: Path) -> str:
    parts = ("perepisode", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
