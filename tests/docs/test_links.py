"""Every relative link of every Markdown file leads to a file, as on GitHub; the site has more tests of its own."""

import posixpath
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?![a-z][a-z0-9+.-]*:|#|/)([^)\s#]+)")
CODE = re.compile(r"^(?P<fence>[ ]*(`{3,}|~{3,})).*?^(?P=fence)[ ]*$|`[^`\n]+`", re.M | re.S)


def committed() -> list[Path]:
    """All but the texts that a report is written from: their links are those of the report."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", ":!results/discussion*", ":!*template*"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a clone of the repository")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_every_link_of_every_markdown_file_leads_somewhere():
    broken = []
    for path in committed():
        for target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
            if not Path(posixpath.normpath(path.parent / target)).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)
