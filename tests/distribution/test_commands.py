"""Commands in the documentation work after `pip install perepisode`, or their page says that they need the clone."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
FOR_READERS = [page for page in PAGES if page.parent.name != "development"]  # those pages are about the clone
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
CLONE = re.compile(r"(?:`|^ *)(make [a-z-]+|results/\S+\.py|python (?:benchmarks|results|examples)/\S+)", re.M)


@pytest.mark.parametrize("page", FOR_READERS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_installing_needs_no_clone(page):
    for command in re.findall(r"pip install [^`\n]*", page.read_text(encoding="utf-8")):
        assert not re.search(r"'?\.(\[|$| )", command), command
        for extras in re.findall(r"perepisode\[([^\]]*)\]", command):
            assert set(extras.split(",")) <= set(EXTRAS), command


@pytest.mark.parametrize("page", FOR_READERS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_with_a_command_of_the_clone_says_so(page):
    text = page.read_text(encoding="utf-8")
    assert not CLONE.findall(text) or re.search(r"\bclone\b", text)
