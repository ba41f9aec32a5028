"""The page in a real browser: nothing fails, nothing is fetched, everything is seen, on every screen."""

import itertools
import json

import numpy as np
import pandas as pd
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
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true);"
# the words in figures, each with its box on the page
WORDS = """
const words = svg => [...svg.querySelectorAll('g[id*=text_]')].filter(g => !g.querySelector('g[id*=text_]'))
  .map(g => g.getBoundingClientRect()).filter(box => box.width > 0);
"""
# what is seen behind an element: the nearest background that is not transparent
CONTRAST = """
const parts = colour => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], .05);
const behind = one => { for (; one; one = one.parentElement) {
  const found = parts(getComputedStyle(one).backgroundColor); if (found.length < 4 || found[3] == 1) return found; }
  return [255, 255, 255]; };
const contrast = (colour, back) => {
  const [a, b] = [light(parts(colour)), light(back)].sort((x, y) => y - x); return a / b; };
"""


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


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Twelve methods of another library, one with a name that is longer than a telephone is wide."""
    folder = tmp_path_factory.mktemp("many")
    draw = np.random.default_rng(5)
    names = [*(f"Method-{index}" for index in range(11)), "A-method-whose-name-is-as-long-as-none-should-be-but-may"]
    parts = [
        pd.DataFrame({"method": name, "seed": seed, "return": draw.normal(20 + index, 2, 60),
                      "violations": draw.lognormal(1 + index / 4, 1, 60)})
        for index, name in enumerate(names) for seed in range(3)
    ]  # fmt: skip
    pd.concat(parts).to_csv(folder / "episodes.csv", index=False)
    return page.build(folder / "episodes.csv", folder / "out")


@pytest.fixture(scope="module", params=["path", "many"])
def either(request):
    return request.getfixturevalue(request.param)


def test_no_console_error_and_no_request(browser, path):
    browser.open(path)
    assert browser.errors() == []
    fetched = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in fetched if not name.startswith("data:")] == []


@pytest.mark.parametrize("width", [1280, 420])
def test_figures_are_visible_and_do_not_overlap(browser, path, width):
    browser.open(path, width)
    boxes = browser.run(
        UNFOLD + "return [...document.querySelectorAll('figure svg')].map(s => {"
        "const r = s.parentElement.getBoundingClientRect(); const g = s.getBBox();"
        "return [r.left, r.top + scrollY, r.right, r.bottom + scrollY, g.width, g.height]})"
    )
    assert len(boxes) >= 10
    for left, top, right, bottom, drawn_width, drawn_height in boxes:
        assert right - left > 380
        assert bottom - top > 200
        assert min(drawn_width, drawn_height) > 100
    for one, other in itertools.pairwise(sorted(boxes, key=lambda box: box[1])):
        assert one[3] <= other[1]


@pytest.mark.parametrize("width", [1400, 420])
def test_nothing_is_wider_than_the_screen_but_inside_a_table_that_scrolls(browser, either, width):
    browser.open(either, width)
    wider = browser.run(
        UNFOLD + "return [...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll > *, svg *'))"
        ".map(one => [one, one.getBoundingClientRect()])"
        f".filter(([one, box]) => box.left < -1 || box.right > {width + 1})"
        ".map(([one]) => one.outerHTML.slice(0, 80))"
    )
    assert wider == []
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_a_table_that_scrolls_shows_so_and_keeps_its_first_column(browser, either):
    browser.open(either, 420)
    tables = browser.run(
        UNFOLD + "return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 2)"
        ".map(one => { one.scrollLeft = 10000; const left = one.getBoundingClientRect().left;"
        "return [...one.querySelectorAll('tr')].map(row => row.cells[0].getBoundingClientRect())"
        ".map(cell => [cell.left - left, cell.width / one.clientWidth])"
        ".concat([[getComputedStyle(one).backgroundImage.split('gradient').length - 1, one.tabIndex]]) })"
    )
    assert len(tables) >= 3
    for *cells, (shadows, focus) in tables:
        assert (shadows, focus) == (4, 0)
        assert all(0 <= left < 2 and share < 0.55 for left, share in cells)


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_what_is_behind_them(browser, either, dark):
    browser.open(either, 420 if dark else 1400, dark)
    back, least, faint = browser.run(
        UNFOLD + CONTRAST + "const texts = [...document.querySelectorAll('body *')].filter(one => !one.closest('svg'))"
        ".filter(one => [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()))"
        ".map(one => [contrast(getComputedStyle(one).color, behind(one)), one.outerHTML.slice(0, 80)]);"
        "const drawn = [...document.querySelectorAll('svg g[id*=text_] path, svg g[id*=text_] use')]"
        ".filter(one => !one.closest('defs')).map(one => [getComputedStyle(one).fill, one])"
        ".filter(([fill]) => fill != 'none')"
        ".map(([fill, one]) => [contrast(fill, behind(one.closest('figure'))), one.closest('figure').id]);"
        "const all = texts.concat(drawn); return [behind(document.querySelector('h1')),"
        "Math.min(...drawn.map(([value]) => value)), all.filter(([value]) => value < 4.5)]"
    )
    assert (sum(back[:3]) < 100) == dark
    assert least > 4.5
    assert faint == []


def test_lines_of_figures_follow_a_dark_page(browser, path):
    seen = []
    for dark in (False, True):
        browser.open(path, 1400, dark)
        seen.append(browser.run(
            "return [...document.querySelectorAll('figure svg path')].filter(one => !one.closest('defs'))"
            ".map(one => getComputedStyle(one)).map(style => style.stroke != 'none' ? style.stroke : style.fill)"
        ))  # fmt: skip
    assert "rgb(3, 143, 92)" in seen[0]
    assert len(seen[0]) == len(seen[1]) > 500
    assert not {colour for colour in seen[0] if colour != "none"} & set(seen[1])


@pytest.mark.parametrize("width", [1400, 420])
def test_words_in_figures_do_not_overlap(browser, either, width):
    browser.open(either, width)
    many, over = browser.run(
        UNFOLD + WORDS + "const all = [...document.querySelectorAll('figure svg')].map(svg => [svg, words(svg)]);"
        "const over = all.flatMap(([svg, boxes]) => boxes.flatMap((one, i) => boxes.slice(i + 1).filter(other =>"
        "Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1.5 &&"
        "Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1.5)"
        ".map(other => [svg.closest('figure').id, i, one, other])));"
        "return [all.flatMap(([_, boxes]) => boxes).length, over]"
    )
    assert many > 60
    assert over == []


def test_text_is_not_clipped_in_drawings(browser, either):
    """Every drawn group stays inside its drawing's frame."""
    browser.open(either)
    outside = browser.run(
        UNFOLD + WORDS + "return [...document.querySelectorAll('figure svg')].filter(svg => {"
        "const frame = svg.getBoundingClientRect(); return words(svg).some(box =>"
        "box.left < frame.left - 1 || box.right > frame.right + 1 ||"
        "box.top < frame.top - 1 || box.bottom > frame.bottom + 1) }).map(svg => svg.closest('figure').id)"
    )
    assert outside == []


def test_the_first_screen_holds_headline_numbers_and_picture(browser, either):
    browser.open(either, 1400)
    headline, cards, picture = browser.run(
        "return ['h1', '.cards', 'header figure svg'].map(one => document.querySelector(one).getBoundingClientRect())"
        ".map(box => [box.top, box.bottom])"
    )
    assert headline[1] <= cards[0] < cards[1] <= picture[0]
    assert picture[1] < 1000


def test_a_link_to_a_folded_section_opens_it(browser, path):
    browser.open(path)
    shown = "return document.querySelector('#table-provenance').checkVisibility()"
    assert not browser.run(shown)
    browser.run("[...document.querySelectorAll('nav a')].find(one => one.hash == '#reading').click()")
    assert browser.run(shown)


def test_paper_has_every_table_and_no_darkness(browser, path):
    browser.open(path, 800, dark=True, medium="print")
    seen = browser.run("return [...document.querySelectorAll('table')].map(one => one.checkVisibility())")
    assert len(seen) > 10
    assert all(seen)
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_html_in_a_run_name_is_shown_as_text(browser, path):
    browser.open(path)
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.run("return document.querySelector('#table-runs').textContent")
