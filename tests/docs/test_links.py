"""Markdown files as GitHub shows them: relative links lead to files, and no text is lost on the site."""

import posixpath
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?![a-z][a-z0-9+.-]*:|#|/)([^)\s#]+)")
CODE = re.compile(r"^(?P<fence>[ ]*(`{3,}|~{3,})).*?^(?P=fence)[ ]*$|`[^`\n]+`", re.M | re.S)


def markdown_files() -> list[Path]:
    """All committed Markdown except the discussions of reports, whose links are relative to the report."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", ":!results/discussion*", ":!*template*"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a clone of the repository")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_every_relative_link_leads_to_a_file():
    broken = []
    for path in markdown_files():
        for target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
            if not Path(posixpath.normpath(path.parent / target)).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


def test_no_table_cell_ends_in_braces():
    """The site's extension `attr_list` reads `{...}` at the end of a cell as attributes and omits it."""
    cell = re.compile(r"\{[^}|\"]*\}[ ]*\|")
    lost = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in markdown_files()
        for match in cell.finditer(CODE.sub("", path.read_text(encoding="utf-8")))
    ]
    assert not lost, "\n".join(lost)


def test_every_source_file_that_the_documentation_names_exists():
    """Relative to the repository or to the package; the page on renames names old modules on purpose."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    homes = (ROOT, ROOT / "src" / "perepisode")
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in re.findall(r"`([\w/.]+/[\w.]+\.(?:py|json|parquet))`", page.read_text(encoding="utf-8"))
        if not any((home / name).exists() for home in homes)
    ]
    assert not missing, "\n".join(missing)
