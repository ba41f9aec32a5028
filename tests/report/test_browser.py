"""The page in a real browser: nothing fails, nothing is fetched, everything is seen, on every screen."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from tests.browser import CHROMIUM, DRIVER

from perepisode import metrics
from perepisode.evaluation import episodes
from perepisode.methods import METHODS
from perepisode.report import page
from perepisode.report.statistics.analysis_plan import AnalysisPlan

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed"),
]
ROOT = Path(__file__).parents[2]
RESULTS, EXAMPLES = ROOT / "results", ROOT / "examples"
COMMITTED = ("craftax", "loud", "paper_length")
HOSTILE = "<img src=x onerror=console.error(1)>"
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true);"
# the words in figures, each with its box on the page
WORDS = """
const drawings = () => [...document.querySelectorAll('figure svg')].filter(svg => svg.checkVisibility());
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


@pytest.fixture(scope="module")
def costs(tmp_path_factory):
    """Another library's costs, with a limit."""
    plan = AnalysisPlan(cost_limit=25.0)
    return page.build(EXAMPLES / "costs" / "episodes.csv", tmp_path_factory.mktemp("costs"), plan=plan)


@pytest.fixture(scope="module")
def catastrophes(tmp_path_factory):
    """Costs over three decades."""
    plan = AnalysisPlan(cost_limit=25.0)
    table = EXAMPLES / "catastrophes" / "episodes.csv"
    return page.build(table, tmp_path_factory.mktemp("catastrophes"), plan=plan)


@pytest.fixture(scope="module")
def sb3(tmp_path_factory):
    return page.build(sorted((EXAMPLES / "sb3").glob("*.parquet")), tmp_path_factory.mktemp("sb3"))


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """Counts from 0 to 11, the large ones rare: as many bars with labels as a figure has."""
    folder, draw = tmp_path_factory.mktemp("spread"), np.random.default_rng(2)
    parts = [
        pd.DataFrame({"method": name, "seed": seed, "return": draw.normal(20, 2, 6000),
                      "violations": np.append(draw.poisson(1, 5988).clip(0, 4), np.arange(12))})
        for name in ("PPO-Lag", "CPO") for seed in range(3)
    ]  # fmt: skip
    pd.concat(parts).to_csv(folder / "episodes.csv", index=False)
    return page.build(folder / "episodes.csv", folder / "out")


@pytest.fixture(scope="module", params=["path", "many", "costs", "catastrophes", "sb3", "spread", *COMMITTED])
def every(request):
    """Pages of all kinds; results/check.py sees to it that a committed one is what its tables give today."""
    name = request.param
    return RESULTS / name / "report" / "index.html" if name in COMMITTED else request.getfixturevalue(name)


def test_no_console_error_and_no_request(browser, path):
    browser.open(path)
    assert browser.errors() == []
    fetched = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in fetched if not name.startswith("data:")] == []


@pytest.mark.parametrize("width", [1280, 420])
def test_figures_are_visible_and_do_not_overlap(browser, path, width):
    browser.open(path, width)
    boxes = browser.run(
        UNFOLD + WORDS + "return drawings().map(s => {"
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
def test_words_in_figures_do_not_overlap(browser, every, width):
    browser.open(every, width)
    many, over = browser.run(
        UNFOLD + WORDS + "const all = drawings().map(svg => [svg, words(svg)]);"
        "const over = all.flatMap(([svg, boxes]) => boxes.flatMap((one, i) => boxes.slice(i + 1).filter(other =>"
        "Math.min(one.right, other.right) - Math.max(one.left, other.left) > -0.5 &&"
        "Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1.5)"
        ".map(other => [svg.closest('figure').id, i, one, other])));"
        "return [all.flatMap(([_, boxes]) => boxes).length, over]"
    )
    assert many > 40
    assert over == []


@pytest.mark.parametrize("width", [1400, 420])
def test_words_in_figures_cover_no_marks_and_legends_no_axes(browser, every, width):
    browser.open(every, width)
    marks, covered, legends, inside = browser.run(
        UNFOLD + WORDS + "const box = one => one.getBoundingClientRect();"
        "const meet = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&"
        "Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;"
        "const name = one => one.closest('figure').id;"
        "const marks = svg => [...svg.querySelectorAll('g[id*=axes_] > g[id*=line2d_] use')].map(box);"
        "const legends = svg => [...svg.querySelectorAll('g[id*=legend_]')].map(box);"
        "const panels = svg => [...svg.querySelectorAll('g[id*=axes_] > g[id*=patch_]:first-child')].map(box);"
        "const all = drawings();"
        "return [all.flatMap(marks).length,"
        "all.flatMap(svg => words(svg).filter(word => marks(svg).some(mark => meet(word, mark))).map(() => name(svg))),"
        "all.flatMap(legends).length,"
        "all.filter(svg => legends(svg).some(one => panels(svg).some(other => meet(one, other)))).map(name)]"
    )
    assert marks > 30
    assert legends >= 2
    assert covered == []
    assert inside == []


@pytest.mark.parametrize("width", [1400, 420])
def test_letters_in_figures_are_large_enough(browser, every, width):
    """Text is drawn as paths in units of a hundredth of its size."""
    browser.open(every, width)
    sizes = browser.run(
        UNFOLD + WORDS + "return drawings().flatMap(svg => [...svg.querySelectorAll('g[id*=text_] > g[transform]')]"
        ".map(one => { const m = one.getScreenCTM(); return 100 * Math.sqrt(Math.abs(m.a * m.d - m.b * m.c)) }))"
    )
    assert len(sizes) > 40
    assert min(sizes) > 10


def test_letters_in_figures_are_large_enough_on_paper(browser, every):
    """A4 less its margins is 688 pixels wide, of which 96 make an inch: 7.5 pixels are letters of 5.6 points."""
    browser.open(every, 688, medium="print")
    sizes = browser.run(
        UNFOLD + WORDS + "return drawings().flatMap(svg => [...svg.querySelectorAll('g[id*=text_] > g[transform]')]"
        ".map(one => { const m = one.getScreenCTM(); return 100 * Math.sqrt(Math.abs(m.a * m.d - m.b * m.c)) }))"
    )
    assert len(sizes) > 40
    assert min(sizes) > 7.5


def test_a_caption_names_every_agent_below_the_least_possible(every):
    """Means over runs may lie below the bound for single runs; the caption of the figure then says which do."""
    captions = re.findall(
        r'<figure id="figure-(tail_[^"]*)">.*?<figcaption>(.*?)</figcaption>', every.read_text(), re.S
    )
    assert captions
    for name, caption in captions:
        frame = pd.read_csv(every.parent / "data" / f"{name}.csv")
        if "least_cvar" not in frame:
            continue
        for row in frame.itertuples():
            if row.cvar < metrics.least_cvar(row.violations) - 0.02:  # the bound for the number of episodes is lower
                said = caption.partition("Curves:")[0].replace("&#39;", "'")
                assert row.agent in said or f"{row.agent} (mean" in caption


def test_no_table_is_cut_off_on_a_desktop_or_on_paper(browser, every):
    """A4 less its margins is 688 pixels wide."""
    for width, medium in ((1400, "screen"), (688, "print")):
        browser.open(every, width, medium=medium)
        cut = browser.run(
            UNFOLD + "return [...document.querySelectorAll('.scroll')].filter(one => one.checkVisibility())"
            ".filter(one => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth)"
            ".map(one => one.parentElement.id)"
        )
        assert cut == [], medium


def test_a_table_says_that_it_scrolls_until_its_end(browser, every):
    browser.open(every, 420)
    said = (
        "return [...document.querySelectorAll('.table')].map(one => { const box = one.querySelector('.scroll');"
        "return [box.scrollWidth > box.clientWidth + 1,"
        "getComputedStyle(one.querySelector('.hint')).visibility == 'visible'] })"
    )
    frames = "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    browser.run(UNFOLD + frames)
    before = browser.run(said)
    assert any(scrolls for scrolls, _ in before)
    assert all(scrolls == hint for scrolls, hint in before)
    browser.run("document.querySelectorAll('.scroll').forEach(one => { one.scrollLeft = 10000 });" + frames)
    assert not any(hint for _, hint in browser.run(said))


def test_links_in_a_discussion_are_links(browser):
    browser.open(RESULTS / "loud" / "report" / "index.html")
    assert browser.run(
        "return [...document.querySelectorAll('#discussion p a')]"
        ".map(one => [one.textContent, one.getAttribute('href')])"
    ) == [["results/paper_length", "../../paper_length/report/index.html"]]


def test_no_markdown_is_left_on_a_page(browser, every):
    browser.open(every)
    assert "](" not in browser.run("return document.body.textContent")


def test_every_method_is_explained_before_the_findings(browser, every):
    browser.open(every)
    explained, sentences = browser.run(
        "const top = one => one.getBoundingClientRect().top;"
        "return [[...document.querySelectorAll('.agents dt')].map(one => one.textContent.slice(0, -1)),"
        "top(document.querySelector('.verdict ul')) - top(document.querySelector('.agents'))]"
    )
    table = pd.concat(pd.read_csv(path) for path in (every.parent / "data").glob("complete_*.csv"))
    known = {METHODS[name].label for name in table["method"] if name in METHODS}
    assert known <= set(explained)
    assert any(name.startswith("CVaR") for name in explained)
    said = browser.run("return document.querySelector('.verdict ul').textContent")
    assert ("±" in said) <= ("±" in explained)
    assert ("(undecided)" in said) <= ("undecided" in explained)
    assert sentences > 0


def test_the_title_of_another_librarys_page_is_its_file(browser, costs):
    browser.open(costs)
    assert browser.run("return document.querySelector('.agents').previousElementSibling.textContent") == "Terms"
    assert (
        browser.run("return document.title")
        == "Per-episode report: episodes.csv · Cost · 4 agents · 3\u2009600 episodes"
    )
    assert "external" not in browser.run("return document.body.textContent")


def test_text_is_not_clipped_in_drawings(browser, either):
    """Every drawn group stays inside its drawing's frame."""
    browser.open(either)
    outside = browser.run(
        UNFOLD + WORDS + "return drawings().filter(svg => {"
        "const frame = svg.getBoundingClientRect(); return words(svg).some(box =>"
        "box.left < frame.left - 1 || box.right > frame.right + 1 ||"
        "box.top < frame.top - 1 || box.bottom > frame.bottom + 1) }).map(svg => svg.closest('figure').id)"
    )
    assert outside == []


def test_the_first_screen_holds_headline_numbers_and_picture(browser, every):
    browser.open(every, 1400)
    headline, cards, picture = browser.run(
        "return ['h1', '.cards', 'header figure svg'].map(one => document.querySelector(one).getBoundingClientRect())"
        ".map(box => [box.top, box.bottom])"
    )
    assert headline[1] <= cards[0] < cards[1] <= picture[0]
    assert picture[1] < 1000


def test_headline_numbers_and_picture_are_on_the_first_sheet_of_paper(browser, every):
    """A4 less its margins is 688 by 1017 pixels; a figure moves to the next sheet as a whole."""
    browser.open(every, 688, medium="print")
    assert browser.run("return document.querySelector('header figure').getBoundingClientRect().bottom") < 1017


def test_intervals_on_cards_are_not_broken(browser, every):
    browser.open(every, 420)
    lines = browser.run(
        "return [...document.querySelectorAll('.card .big')].map(one => [one.firstChild, one.textContent.indexOf('(')])"
        ".filter(([_, start]) => start >= 0).map(([text, start]) => { const range = document.createRange();"
        "range.setStart(text, start); range.setEnd(text, text.textContent.indexOf(')'));"
        "return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size })"
    )
    assert set(lines) <= {1}


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
