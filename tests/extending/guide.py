"""Follows the pages on extending perepisode: their files and commands, in an empty folder."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from perepisode import cli
from perepisode.algorithms import AGENTS
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    DOCS / "tutorials" / "add-a-method.md",
    DOCS / "tutorials" / "add-an-agent.md",
    DOCS / "tutorials" / "bring-your-environment.md",
    DOCS / "how-to" / "new-dilemma.md",
    DOCS / "how-to" / "plots-and-tables.md",
]


def section(heading: str) -> str:
    """The section with this heading, on any of the pages."""
    parts = [part for page in PAGES for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)]
    (found,) = [part for part in parts if part.startswith(f"{heading}\n")]
    return found


def code(heading: str) -> str:
    """The code that a section shows."""
    return re.findall(r"```python\n(.*?)```", section(heading), re.DOTALL)[0]


def module(heading: str) -> tuple[str, str]:
    """Name and text of the file that a section shows."""
    return re.findall(r"`(\w+)\.py`", section(heading))[0], code(heading)


def commands(heading: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", section(heading), re.DOTALL)[0].splitlines()


@contextlib.contextmanager
def folder(path: Path, *headings: str, **modules: str) -> Iterator[Path]:
    """Work in `path` with the files of these sections and `modules`; then nothing stays registered or imported."""
    for name, text in [*map(module, headings), *modules.items()]:
        (path / f"{name}.py").write_text(text)
    registries = [(registry, dict(registry)) for registry in (AGENTS, METHODS, ENVIRONMENTS, os.environ)]
    here, search = Path.cwd(), list(sys.path)
    os.environ.pop("PEREPISODE_PLUGINS", None)
    os.chdir(path)
    try:
        yield path
    finally:
        os.chdir(here)
        sys.path[:] = search
        for registry, before in registries:
            registry.clear()
            registry.update(before)
        for name in imported_from(path):
            del sys.modules[name]


def imported_from(path: Path) -> list[str]:
    return [name for name, one in sys.modules.items() if Path(getattr(one, "__file__", None) or "/").parent == path]


def call(*words: str) -> tuple[int, str, str]:
    """Runs `perepisode` with these arguments; returns exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main(list(words))
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), err.getvalue()
    raise AssertionError("main() must raise SystemExit")


def follow(heading: str) -> dict[str, str]:
    """Runs every command of a section; returns what each printed, by its name."""
    printed = {}
    for line in commands(heading):
        program, *words = shlex.split(line)
        if program == "export":
            name, _, value = words[0].partition("=")
            os.environ[name] = value
            continue
        assert program == "perepisode", line
        code, out, err = call(*words)
        assert code == 0, f"{line}\n{err}"
        printed[words[0]] = out
    return printed


def player(page: str) -> dict:
    """The data of the first episode on a page to watch."""
    return json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[0])
