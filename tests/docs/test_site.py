"""The documentation site: opened from disk, without a network, on wide and narrow screens, light and dark."""

import os
import posixpath
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import CHROMIUM, DRIVER

ROOT = Path(__file__).parents[2]
WIDE, NARROW = 1400, 420
# References that a browser loads when it opens a page, unlike links
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("link", "href")}

pytestmark = [
    pytest.mark.site,
    pytest.mark.xdist_group("site"),
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("mkdocs", "material", "latex2mathml")),
        reason="the extra docs is not installed; `make docs` installs it",
    ),
]


class Page(HTMLParser):
    """The references and anchors of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.references: list[tuple[str, str, str]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.references += [(tag, key, attributes[key]) for key in ("href", "src", "action") if attributes.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built into a temporary folder; `--strict` turns warnings into errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    build = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert build.returncode == 0, build.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    return {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }


def markdown_pages(pages: dict[str, Page]) -> list[str]:
    """Pages that MkDocs made from Markdown; reports, replays and the leaderboard have their own tests."""
    others = re.compile(r"results/([^/]+/(report|watch)/.*index|benchmark/leaderboard)\.html|404\.html")
    return [name for name in pages if not others.fullmatch(name)]


def test_every_page_of_the_navigation_is_there(pages):
    for name in ("index", "getting-started", "results/index", "reference/cli", "reference/python", "development/index"):
        assert f"{name}.html" in pages
    for name in ("judge_your_agents", "train_with_a_budget"):
        assert f"examples/notebooks/{name}.html" in pages
    assert any(name.startswith("results/") and name.endswith("report/index.html") for name in pages)
    assert any(re.match(r"results/\w+/watch/\w+/index\.html", name) for name in pages)


def test_no_page_loads_anything_from_the_network(site, pages):
    for name, page in pages.items():
        for tag, key, address in page.references:
            if (tag, key) in LOADED and not (tag == "link" and address.startswith("data:")):
                assert urlsplit(address).scheme in ("", "data"), f"{name} loads {address}"
                assert not address.startswith("//"), f"{name} loads {address}"
    for sheet in site.rglob("*.css"):
        addresses = re.findall(r"url\(\s*[\"']?(?!data:|#)([^)\"']+)|@import", sheet.read_text(encoding="utf-8"))
        assert not [address for address in addresses if "//" in address], f"{sheet.name} loads {addresses}"


def test_every_link_leads_somewhere(site, pages):
    """Includes links that MkDocs does not check: in raw HTML, generated pages, reports and replays."""
    broken = []
    for name, page in pages.items():
        for _, _, address in page.references:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or name == "404.html" or address.startswith("javascript:"):
                continue
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
            )
            if not (site / target).is_file():
                broken.append(f"{name}: {address}")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors | {"__tabbed"}
            ):
                broken.append(f"{name}: no anchor {address}")
    assert not broken, "\n".join(broken)


def test_generated_parts_are_complete(site):
    """Every generator ran, and none returned nothing."""
    import perepisode

    for path in site.rglob("*.html"):
        assert "<!-- generate:" not in path.read_text(encoding="utf-8"), path
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert all(f"<code>{name}</code>" in python for name in perepisode.__all__)
    cli = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert all(f"--{option}" in cli for option in ("method", "seeds", "budget", "learning-rate", "out"))


class Address:
    """An address with the interface of a path, for Browser.open."""

    def __init__(self, address: str):
        self.address = address

    def as_uri(self) -> str:
        return self.address


@contextmanager
def served(site: Path):
    """The site on a local web server."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
class TestInABrowser:
    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    @pytest.mark.parametrize("width", [WIDE, NARROW])
    def test_every_page_opens_from_disk_without_errors_and_fits_the_screen(self, browser, site, pages, width, dark):
        wrong = []
        for name in markdown_pages(pages):
            browser.open(site / name, width, dark)
            if errors := browser.errors():
                wrong.append(f"{name}: {errors[:2]}")
            overflow = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if overflow > 0:
                wrong.append(f"{name} is {overflow} px wider than a screen of {width} px")
            scheme = browser.run("return document.body.dataset.mdColorScheme")
            if scheme != ("slate" if dark else "default"):
                wrong.append(f"{name} is {scheme} on a {'dark' if dark else 'light'} system")
        assert not wrong, "\n".join(wrong)

    @pytest.mark.parametrize("opened", ["disk", "server"])
    def test_search_finds_a_page(self, browser, site, opened):
        with served(site) as address:
            browser.open(site / "index.html" if opened == "disk" else Address(f"{address}/index.html"), WIDE)
            browser.run(
                "document.querySelector('#__search').click(); const box = document.querySelector('.md-search__input');"
                "box.focus(); box.value = 'Lagrangian'; box.dispatchEvent(new Event('input'));"
                "box.dispatchEvent(new Event('keyup'));"
            )
            for _ in range(100):
                if browser.run("return document.querySelectorAll('.md-search-result__item').length"):
                    return
                time.sleep(0.1)
            pytest.fail(f"no result; {browser.errors()}")

    def test_the_palette_can_be_chosen(self, browser, site):
        """The toggle cycles from the system's palette to light to dark, and other pages keep the choice."""
        with served(site) as address:
            browser.open(Address(f"{address}/index.html"), WIDE)
            for _ in range(2):
                browser.run("document.querySelector('[data-md-component=palette] label:not([hidden])').click()")
                time.sleep(0.3)
            assert browser.run("return document.body.dataset.mdColorScheme") == "slate"
            browser.open(Address(f"{address}/results/index.html"), WIDE)
            assert browser.run("return document.body.dataset.mdColorScheme") == "slate"
            browser.run("localStorage.clear()")

    def test_figures_follow_the_page_not_the_system(self, browser, site):
        """The dark palette can be chosen on a light system."""
        browser.open(site / "results" / "paper-length.html", WIDE)
        colour = "return getComputedStyle(document.querySelector('svg.figure path')).fill"
        light = browser.run(colour)
        browser.run("document.body.dataset.mdColorScheme = 'slate'")
        assert browser.run(colour) != light


def test_equations_need_no_script(site):
    text = "".join(path.read_text(encoding="utf-8") for path in (site / "concepts").glob("*.html"))
    assert "<math" in text
    assert 'class="arithmatex"' not in text
