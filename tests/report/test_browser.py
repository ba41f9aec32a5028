"""The page in a real browser: nothing fails, nothing is fetched, everything is seen."""

import itertools
import json
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest
import synthetic

from perepisode.evaluation import episodes
from perepisode.report import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed"),
]
HOSTILE = "<img src=x onerror=console.error(1)>"


class Browser:
    """As much of the WebDriver protocol as these tests need."""

    def __init__(self, port: int, profile):
        self.address = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
                     "--hide-scrollbars", "--disable-dev-shm-usage"]  # fmt: skip
        wanted = {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{answer['sessionId']}"

    def open(self, path, width: int = 1280) -> None:
        self._ask("POST", f"{self.session}/window/rect", {"width": width, "height": 1000})
        self._ask("POST", f"{self.session}/url", {"url": path.as_uri()})

    def run(self, script: str):
        return self._ask("POST", f"{self.session}/execute/sync", {"script": script, "args": []})

    def errors(self) -> list[str]:
        entries = self._ask("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def close(self) -> None:
        self._ask("DELETE", self.session)

    def _ask(self, verb: str, path: str, body: dict | None = None):
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            self.address + path, content, {"Content-Type": "application/json"}, method=verb
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    port = _free_port()
    driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        browser = Browser(port, tmp_path_factory.mktemp("profile"))
        yield browser
        browser.close()
    finally:
        driver.terminate()
        driver.wait(10)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    root = tmp_path_factory.mktemp("page")
    table = synthetic.craftax(episodes=40, dilemmas=("no_killing", "sustainability"))
    table["run"] = HOSTILE + table["run"]
    episodes.write(table, root / "episodes.parquet")
    synthetic.curves(root / "runs", updates=20)
    utility = root / "utility.json"
    utility.write_text(json.dumps(synthetic.utility("no_killing")))
    return page.build(root / "episodes.parquet", root / "out", curves=[root / "runs"], utilities=[utility])


def test_no_console_error_and_no_request(browser, path):
    browser.open(path)
    assert browser.errors() == []
    fetched = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in fetched if not name.startswith("data:")] == []


@pytest.mark.parametrize("width", [1280, 500])
def test_figures_are_visible_and_do_not_overlap(browser, path, width):
    browser.open(path, width)
    boxes = browser.run(
        "return [...document.querySelectorAll('figure svg')].map(s => {"
        "const r = s.parentElement.getBoundingClientRect(); const g = s.getBBox();"
        "return [r.left, r.top + scrollY, r.right, r.bottom + scrollY, g.width, g.height]})"
    )
    assert len(boxes) >= 10
    for left, top, right, bottom, drawn_width, drawn_height in boxes:
        assert right - left > 200
        assert bottom - top > 150
        assert min(drawn_width, drawn_height) > 100
    for one, other in itertools.pairwise(boxes):
        assert one[3] <= other[1]


@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_does_not_scroll_sideways(browser, path, width):
    browser.open(path, width)
    page_width, window_width = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert page_width <= window_width


def test_html_in_a_run_name_is_shown_as_text(browser, path):
    browser.open(path)
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.run("return document.querySelector('#table-runs').textContent")


def test_text_is_not_clipped_in_drawings(browser, path):
    """Every drawn group stays inside its drawing's frame."""
    browser.open(path)
    outside = browser.run(
        "return [...document.querySelectorAll('figure svg')].filter(s => {"
        "const f = s.getBoundingClientRect();"
        "return [...s.querySelectorAll('g[id*=text_]')].some(g => { const r = g.getBoundingClientRect();"
        "return r.width > 0 && (r.left < f.left - 1 || r.right > f.right + 1 ||"
        "r.top < f.top - 1 || r.bottom > f.bottom + 1)})"
        "}).map(s => s.closest('figure').id)"
    )
    assert outside == []
