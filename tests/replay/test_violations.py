"""How a replay shows violations: words, marks on the pictures, the poster, jumps and slow playback."""

import base64
import io
import json
import time
from dataclasses import dataclass
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from tests.browser import CHROMIUM, DRIVER

from perepisode.config import ConfigError
from perepisode.environments.base import EndCause, Environment, Outcome, Region, Violation
from perepisode.replay import captions, frames, page
from perepisode.replay.captions import summary
from perepisode.replay.episode import replay
from perepisode.replay.selection import SelectedEpisode, Selection

PIXELS, COLUMNS, ROWS = 16, 8, 5
RED, YELLOW, BLACK, GREY = (200, 30, 30), (230, 200, 40), (0, 0, 0), (120, 120, 120)
WALK, HIT, PICK, HIT_TWO = range(4)


@dataclass(frozen=True)
class Meadow(Environment):
    """An animal, red, walks down its column; a second stands still; a flower, yellow, grows in the corner.

    The picture scrolls by a pixel per step, so that places differ from frame to frame.
    """

    name, dilemmas, actions = "meadow", ("animals", "flowers"), 4
    violation_names = MappingProxyType({"animals": "animals hit"})

    def reset(self, key):
        return {"time": jnp.int32(0), "gone": jnp.zeros(3, bool)}

    def step(self, key, state, action):
        harmed = jnp.array([[False] * 3, [True, False, False], [False, False, True], [True, True, False]])[action]
        counts = jnp.stack([harmed[:2].sum(), harmed[2]]).astype(jnp.int32)
        after = {"time": state["time"] + 1, "gone": harmed}  # what is harmed is back after one more step
        return after, Outcome(jnp.float32(0), counts, counts, {}, jnp.int32(EndCause.RUNNING))

    def observe(self, state):
        return state["gone"].astype(jnp.float32)

    def describe(self, action, outcome):
        return ("walks", "hits", "picks", "hits")[action]

    @property
    def draw(self):
        return draw


def places(time):
    """Row and column of the animals and the flower, in pixels."""
    return ((time % ROWS) * PIXELS, 2 * PIXELS + time % PIXELS), (PIXELS, 6 * PIXELS), (4 * PIXELS, 7 * PIXELS)


def draw(state):
    rows, columns = jnp.arange(ROWS * PIXELS)[:, None], jnp.arange(COLUMNS * PIXELS)[None]
    picture = jnp.broadcast_to(jnp.array(GREY), (ROWS * PIXELS, COLUMNS * PIXELS, 3))
    for index, ((top, left), colour) in enumerate(zip(places(state["time"]), (RED, RED, YELLOW))):
        inside = (rows >= top) & (rows < top + PIXELS) & (columns >= left) & (columns < left + PIXELS)
        shown = jnp.where(state["gone"][index], jnp.array(BLACK), jnp.array(colour))
        picture = jnp.where(inside[..., None], shown, picture)
    return picture.astype(jnp.uint8)


@dataclass(frozen=True)
class Told(Meadow):
    """Says which and where."""

    def describe_violations(self, key, before, action, after, outcome):
        kinds = ("animals", "hits the runner"), ("animals", "hits the sleeper"), ("flowers", "picks the flower")
        return [
            Violation(dilemma, text, 1, *(self.region(state, index) for state in (before, after)))
            for index, (dilemma, text) in enumerate(kinds)
            if after["gone"][index]
        ]

    def region(self, state, index):
        top, left = places(int(state["time"]))[index]
        return Region(left, top, PIXELS, PIXELS)


@dataclass(frozen=True)
class Undrawn(Told):
    draw = None


ACTIONS = [WALK] * 60
ACTIONS[11], ACTIONS[29], ACTIONS[30], ACTIONS[49] = PICK, HIT, HIT_TWO, HIT  # steps 12, 30, 31 and 50
ROW = {
    "episode_key": "0" * 16,
    "reset_key": "0" * 16,
    "dilemma": "animals",
    "environment": "meadow",
    "method": "esr",
    "arm": "k=1",
    "value": 1.0,
    "seed": 42,
    "run": "a",
    "detector": "exact",
}


def played(env=None, actions=ACTIONS):
    return replay({**ROW, "actions": bytes(actions)}, env or Told())


def written(out, env=None, actions=ACTIONS):
    """A page with one episode."""
    found, selected = played(env, actions), SelectedEpisode(0, ROW, None, None)
    view = page.view(0, selected, found, [], found.described())
    return page.write(out, Selection(out / "episodes.parquet", 1, [selected], []), [view])


def player(path) -> dict:
    data = path.read_text().partition('<script type="application/json">')[2].partition("</script>")[0]
    return json.loads(data)


# Words


def test_captions_number_the_violations_of_each_dilemma():
    described = played().described()
    own, others = (captions.captions(described, name) for name in ("animals", "flowers"))
    assert [one.sentence("animals") for one in own + others] == [
        "step 30: hits the runner (violation 1)",
        "step 31: hits the runner and hits the sleeper (violations 2–3)",
        "step 50: hits the runner (violation 4)",
        "step 12: picks the flower (violation 1 of Flowers)",
    ]
    assert [one.jump for one in own[1:]] == [
        "violations 2–3 at step 31: hits the runner and hits the sleeper",
        "violation 4 at step 50: hits the runner",
    ]
    assert summary(own[:2]) == [one.sentence("animals") for one in own[:2]]
    assert summary(own * 2)[3:] == ["violations in 3 further steps"]


def test_an_environment_that_does_not_describe_its_violations_is_shown_by_their_names():
    described = played(Meadow()).described()
    told = [one for name in Meadow.dilemmas for one in captions.captions(described, name)]
    assert [one.sentence("animals") for one in told] == [
        "step 30: animals hit (violation 1)",
        "step 31: animals hit (violations 2–3)",
        "step 50: animals hit (violation 4)",
        "step 12: violation 1 of Flowers",
    ]
    assert not any(one.before or one.after for one in told)


def test_equal_texts_are_counted():
    described = {7: [Violation("animals", "hits a hare"), Violation("animals", "hits a hare")]}
    (one,) = captions.captions(described, "animals")
    assert one.sentence("animals") == "step 7: hits a hare ×2 (violations 1–2)"


@pytest.mark.parametrize(("count", "named"), [(0, 0), (2, 2)])
def test_words_that_disagree_with_the_count_are_refused(count, named):
    @dataclass(frozen=True)
    class Wrong(Meadow):
        def describe_violations(self, key, before, action, after, outcome):
            return [Violation("animals", "hits", count), Violation("flowers", "picks", 0)]

    with pytest.raises(ConfigError, match=rf"{named} violations of animals in step 30, which counts 1") as caught:
        played(Wrong(), [WALK] * 29 + [HIT]).described()
    assert "\n" not in str(caught.value)


def test_the_description_sees_one_step_as_it_was_played():
    seen = []

    @dataclass(frozen=True)
    class Looks(Meadow):
        def describe_violations(self, key, before, action, after, outcome):
            episode_key = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32))
            assert key == jax.random.fold_in(episode_key, 2 * int(before["time"]) + 1)  # as reset_pool defines it
            again, counted = self.step(key, before, action)
            assert (again["time"], again["gone"].tolist()) == (after["time"], after["gone"].tolist())
            assert counted.violations.tolist() == outcome.violations.tolist()
            seen.append((int(before["time"]), action))
            return super().describe_violations(key, before, action, after, outcome)

    played(Looks()).described()
    assert seen == [(11, PICK), (29, HIT), (30, HIT_TWO), (49, HIT)]


# The page's data


def test_without_pictures_the_words_remain(tmp_path):
    data = player(written(tmp_path, Undrawn()))
    assert data["film"] is None
    assert [one["caption"] for one in data["events"]][:2] == [
        "step 30: hits the runner (violation 1)",
        "step 31: hits the runner and hits the sleeper (violations 2–3)",
    ]
    assert all(one["before"] == one["after"] == [] for one in data["events"])
    assert "blue squares" not in (tmp_path / "index.html").read_text()


def test_an_episode_with_few_of_its_pictures_has_those_of_violations(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "MAX_FRAMES", 20)
    monkeypatch.setattr(frames, "BEFORE", 3)
    monkeypatch.setattr(frames, "AFTER", 1)
    film = player(written(tmp_path))["film"]
    assert len(film["at"]) < len(ACTIONS)
    assert {*range(9, 14), *range(27, 33), *range(47, 52)} <= set(film["at"])
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(film["strips"][0].partition(",")[2]))))
    assert picture.shape[:2] == (film["height"], film["width"] * film["strip"])


# In a browser


def in_browser(test):
    needed = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed")
    return pytest.mark.browser(needed(test))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return written(tmp_path_factory.mktemp("page"))


def go(browser, position: int) -> None:
    browser.run(f"players[0].go({position})")
    settle(browser)


def settle(browser) -> None:
    """Wait until the picture of the current position is drawn."""
    for _ in range(200):
        if browser.run(
            "const film = players[0].film; return film.canvas.dataset.frame == film.frame(players[0].position)"
        ):
            return
        time.sleep(0.02)
    raise TimeoutError("the picture was not drawn")


def state(browser) -> tuple[int, str]:
    return browser.run("return [players[0].position, document.querySelector('.caption').textContent]")


MARKS = """
const canvas = document.querySelector('canvas'), box = canvas.getBoundingClientRect();
const copy = Object.assign(document.createElement('canvas'), {width: canvas.width, height: canvas.height});
const pixels = copy.getContext('2d', {willReadFrequently: true});
pixels.drawImage(canvas, 0, 0);
return [...document.querySelectorAll('.mark')].map(mark => {
  const ring = mark.getBoundingClientRect(), scale = canvas.width / box.width;
  const x = (ring.left + ring.width / 2 - box.left) * scale, y = (ring.top + ring.height / 2 - box.top) * scale;
  const half = ring.width / 2 * scale;
  const pixel = (dx, dy) => [...pixels.getImageData(x + dx, y + dy, 1, 1).data.slice(0, 3)];
  const edge = canvas.width / 8 / 2 - 1.5; // just inside of the cell
  return {centre: pixel(0, 0), corners: [[-1, -1], [-1, 1], [1, -1], [1, 1]].map(([i, j]) => pixel(i * edge, j * edge)),
          wide: half / (edge + 1.5), css: mark.className};
})
"""


@in_browser
@pytest.mark.parametrize("width", [420, 1400])
def test_rings_surround_what_is_harmed_before_and_its_place_after(browser, shown, width):
    browser.open(shown, width)
    expected = {
        29: [("own before", RED)],
        30: [("own after", BLACK), ("own before", BLACK), ("own before", RED)],  # the runner is hit twice in a row
        31: [("own after", BLACK), ("own after", BLACK)],
        32: [],
        11: [("other before", YELLOW)],
        12: [("other after", BLACK)],
        49: [("own before", RED)],
        50: [("own after", BLACK)],
    }
    for position, marks in expected.items():
        go(browser, position)
        found = browser.run(MARKS)
        centres = [(one["css"].removeprefix("mark "), tuple(one["centre"])) for one in found]
        assert sorted(centres) == sorted(marks), position
        for one in found:
            assert one["corners"] == [one["centre"]] * 4, position  # all of the cell, and nothing but the cell
            assert 1.1 < one["wide"] < 1.8
    assert browser.errors() == []


@in_browser
def test_the_poster_is_the_moment_before_the_first_violation_of_the_runs_own_dilemma(browser, shown):
    browser.open(shown)
    settle(browser)
    assert state(browser)[0] == 29
    assert [one["centre"] for one in browser.run(MARKS)] == [list(RED)]
    assert state(browser)[1] == "step 30: hits the runner (violation 1)"
    assert browser.run("return players[0].button.textContent") == "Play from the start"
    assert browser.run("players[0].play(); players[0].pause(); return players[0].position") == 0
    assert browser.run("return players[0].button.textContent") == "Play"


@in_browser
def test_the_poster_of_an_episode_without_own_violations(browser, tmp_path):
    browser.open(written(tmp_path / "other", actions=[WALK] * 11 + [PICK] + [WALK] * 5))
    assert state(browser) == [11, "step 12: picks the flower (violation 1 of Flowers)"]
    assert browser.run("return document.querySelector('.slow')") is None
    browser.open(written(tmp_path / "none", actions=[WALK] * 17))
    assert browser.run("return [players[0].position, players[0].button.textContent]") == [0, "Play"]
    assert browser.errors() == []


@in_browser
def test_a_jump_lands_just_before_the_violation(browser, shown):
    browser.open(shown)
    found = browser.run(
        "return [...document.querySelectorAll('[data-step]')].map(button => {"
        "  button.click(); return [button.textContent, players[0].position, players[0].caption.children.length]; })"
    )
    assert found == [
        ["violation 1 at step 30: hits the runner", 29, 1],
        ["violations 2–3 at step 31: hits the runner and hits the sleeper", 30, 2],  # also what has just happened
        ["violation 4 at step 50: hits the runner", 49, 1],
        ["violation 1 at step 12: picks the flower", 11, 1],
    ]


@in_browser
def test_the_caption_stays_while_playback_is_slow(browser, shown):
    browser.open(shown)
    at = {}
    for position in range(61):
        browser.run(f"players[0].go({position})")
        at[position] = state(browser)[1]
    four = "step 50: hits the runner (violation 4)"
    assert {position for position, text in at.items() if text == four} == {47, 48, 49, 50, 51}
    assert at[27] == at[29] == "step 30: hits the runner (violation 1)"
    assert at[30] == at[29] + at[32]
    assert at[32] == "step 31: hits the runner and hits the sleeper (violations 2–3)"
    assert at[26] == at[33] == at[46] == at[52] == ""
    assert at[11] == at[12] == "step 12: picks the flower (violation 1 of Flowers)"
    assert at[10] == at[13] == ""


# Frames at given times, instead of the browser's clock: the milliseconds that each position is shown
PLAY = """
let now = 0, next = null;
window.requestAnimationFrame = tick => { next = tick; return 1; };
performance.now = () => now;
const player = players[0], shown = {};
player.speed.value = %d; player.slow.checked = %s;
player.go(0); player.play();
while (player.position < player.data.length && now < 1e6) {
  shown[player.position] = (shown[player.position] || 0) + %d; now += %d;
  next(now);
}
return shown;
"""


def dwell(browser, speed: int, slow: bool, frame: int = 10) -> dict[int, int]:
    script = PLAY % (speed, "true" if slow else "false", frame, frame)
    return {int(position): shown for position, shown in browser.run(script).items()}


@in_browser
def test_playback_is_slow_around_violations_of_the_runs_own_dilemma(browser, shown):
    browser.open(shown)
    near = {*range(27, 33), *range(47, 52)}
    assert browser.run("return players[0].slow.checked")
    times = dwell(browser, 10, slow=True)
    assert set(times) == set(range(60))
    assert {position for position, shown in times.items() if shown > 150} == near
    assert all(390 <= times[position] <= 410 for position in near)
    assert all(90 <= shown <= 110 for position, shown in times.items() if position not in near)
    assert all(90 <= shown <= 110 for shown in dwell(browser, 10, slow=False).values())


@in_browser
def test_fast_playback_does_not_skip_a_violation(browser, shown):
    """At 100 steps per second and eight frames per second, twelve steps pass in a frame."""
    browser.open(shown)
    fast = dwell(browser, 100, slow=False, frame=125)
    assert len(fast) < 10
    slow = dwell(browser, 100, slow=True, frame=125)
    near = {*range(27, 33), *range(47, 52)}
    assert near <= set(slow)
    assert all(slow[position] >= 250 for position in near)
    assert len(set(slow) - near) < 10
    assert all(shown == 1000 for shown in dwell(browser, 1, slow=True).values())  # already slow


@in_browser
def test_a_viewer_who_prefers_reduced_motion_gets_a_steady_pace(browser, shown):
    browser.open(shown, reduced_motion=True)
    assert browser.run("return players[0].slow.checked") is False
    assert browser.run("return getComputedStyle(document.querySelector('.mark')).animationName") == "none"


@in_browser
def test_space_on_the_checkbox_changes_it_and_elsewhere_plays(browser, shown):
    browser.open(shown)
    press = (
        "const event = new KeyboardEvent('keydown', {key: ' ', bubbles: true, cancelable: true});"
        "%s.dispatchEvent(event); const playing = Boolean(players[0].timer); players[0].pause();"
        "return [event.defaultPrevented, playing];"
    )
    assert browser.run(press % "players[0].slow") == [False, False]
    assert browser.run(press % "document.body") == [True, True]


@in_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [420, 1400])
def test_nothing_overlaps(browser, shown, width, dark):
    browser.open(shown, width, dark)
    go(browser, 30)  # the longest caption
    overlapping = browser.run("""
        const names = '.film, .play, .scrub, .speed, .slow, .caption, .readout, .bar > .jumps, .plot';
        const boxes = [...document.querySelectorAll(names)].map(part => [part.className, part.getBoundingClientRect()]);
        const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
        return boxes.flatMap(([name, a], i) =>
            boxes.slice(i + 1).filter(([, b]) => b.height && !apart(a, b)).map(([other]) => name + ' / ' + other));
    """)
    assert overlapping == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    caption, paper = browser.run(
        "return ['.caption', 'body'].map(part => getComputedStyle(document.querySelector(part)))"
        ".map((style, i) => i ? style.backgroundColor : style.color)"
    )
    assert contrast(caption, paper) >= 4.5  # WCAG AA


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours "rgb(r, g, b)", as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = np.array([int(part) / 255 for part in colour[4:-1].split(",")])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
