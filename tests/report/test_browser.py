"""The page in a real browser: nothing fails, nothing is fetched, everything is seen."""

import itertools
import json

import pytest
import synthetic
from tests.browser import CHROMIUM, DRIVER

from perepisode.evaluation import episodes
from perepisode.report import page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed"),
]
HOSTILE = "<img src=x onerror=console.error(1)>"


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
