"""The README on a package index: no address that only the repository has, and a text that names files one can get."""

import email
import re
import sys
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
README = """
![Kills](figure.svg)

[Methods](docs/methods.md#esr) and [CRAX](https://pypi.org/project/crax-bench/), [below](#below).

```
perepisode report [a](b)
```
"""


@pytest.fixture
def package_page(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return import_module("hatch_build").package_page


def addresses(markdown: str) -> list[str]:
    """Of all links and images, as CommonMark reads them."""
    inline = [token.children or [] for token in MarkdownIt().enable("table").parse(markdown) if token.type == "inline"]
    attributes = [token.attrs for children in inline for token in children]
    return [str(found[name]) for found in attributes for name in ("href", "src") if name in found]


def test_without_a_repository_a_link_names_the_file_and_an_image_is_left_out(package_page):
    page = package_page(README, None, "1.2")
    assert "Methods (`docs/methods.md`) and [CRAX](https://pypi.org" in page
    assert addresses(page) == ["https://pypi.org/project/crax-bench/", "#below"]
    assert "perepisode report [a](b)" in page
    assert "Kills" not in page


def test_with_a_repository_links_lead_to_the_tag_of_the_version(package_page):
    page = package_page(README, "https://example.org/perepisode", "1.2")
    assert addresses(page) == [
        "https://example.org/perepisode/raw/v1.2/figure.svg",
        "https://example.org/perepisode/blob/v1.2/docs/methods.md#esr",
        "https://pypi.org/project/crax-bench/",
        "#below",
    ]
    assert "perepisode report [a](b)" in page


def test_the_page_of_the_wheel_needs_nothing_from_the_repository(distribution):
    with ZipFile(distribution.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        metadata = email.message_from_string(wheel.read(name).decode())
    page = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(addresses(page)) > 5
    assert all(re.match("https://|#", address) for address in addresses(page))
    assert page.count("\n## ") == (ROOT / "README.md").read_text().count("\n## ")


def test_the_source_distribution_has_every_file_that_the_page_names(distribution):
    links = [address.split("#")[0] for address in addresses((ROOT / "README.md").read_text()) if "://" not in address]
    missing = [path for path in links if not (distribution.source / path).exists() and not path.endswith(".svg")]
    assert not missing
