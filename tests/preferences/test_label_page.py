"""The labelling page in a real browser, with the command in a process of its own that can be killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

import perepisode
from perepisode.evaluation import episodes
from perepisode.preferences import labels
from tests.browser import CHROMIUM, DRIVER, Browser
from tests.preferences import labelling

pytestmark = [
    pytest.mark.browser,
    pytest.mark.processes,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed"),
]
KEYS = {"left": "ArrowLeft", "right": "ArrowRight", "equal": "e", "both_unacceptable": "b", "skip": "s"}


class Command:
    """`perepisode label` as a process."""

    def __init__(self, table: Path, out: Path, *options: str):
        words = ["label", table, "--out", out, "--no-browser", *options]
        source = str(Path(perepisode.__file__).parents[1])
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perepisode", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": source},
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", first := self.process.stdout.readline())
        assert found, first
        self.address = found[0]

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """Exit code, and what it printed after the address."""
        self.process.send_signal(how)
        printed, _ = self.process.communicate(timeout=60)
        return self.process.returncode, printed

    def stored(self) -> list[labels.Label]:
        return labels.read(self.out) if self.out.exists() else []


@contextmanager
def labelling_at(table: Path, out: Path, *options: str):
    command = Command(table, out, *options)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.communicate()


class Rater:
    """What a person does on the page."""

    def __init__(self, browser: Browser, address: str, width: int = 1400):
        self.browser = browser
        browser.errors()  # of the last page, which has lost its server
        browser.open(address, width)
        self.wait("Boolean(state)")

    def wait(self, condition: str) -> None:
        for _ in range(600):
            if self.browser.run(f"return {condition}"):
                return
            time.sleep(0.05)
        raise TimeoutError(f"{condition} did not become true; the page shows {self.said()!r}")

    def said(self) -> str:
        return self.browser.run("return document.body.innerText")

    def answer(self, answer: str, by: str) -> None:
        self.act(KEYS[answer] if by == "key" else f"[data-answer={answer}]", by)

    def undo(self, by: str) -> None:
        self.act("u" if by == "key" else "#undo", by)

    def act(self, what: str, by: str) -> None:
        """Press or click, and wait for the next state."""
        self.browser.run("document.body.dataset.before = JSON.stringify(state); shownAt = -1e9")
        (self.browser.press if by == "key" else self.browser.click)(what)
        self.wait("!busy && JSON.stringify(state) !== document.body.dataset.before")

    @property
    def count(self) -> str:
        return self.browser.run("return document.querySelector('#count').textContent")


@pytest.fixture
def table(tmp_path) -> Path:
    return episodes.write(labelling.table(), tmp_path / "episodes.parquet")


@pytest.mark.parametrize("width", [1400, 420])
def test_twenty_pairs_with_two_undone_and_a_kill(browser, table, tmp_path, width):
    out, options = tmp_path / "labels.jsonl", ("--rater", "Ada", "--pairs", "20")
    given = [["left", "right", "equal", "both_unacceptable"][i % 4] for i in range(20)]
    with labelling_at(table, out, *options) as command:
        rater = Rater(browser, command.address, width)
        for number, answer in enumerate(given[:9]):
            rater.answer(answer, by=("key", "mouse")[number % 2])
        rater.undo(by="key")
        rater.undo(by="mouse")
        assert rater.count == "7 of 20 labelled, 13 left"
        rater.answer(given[7], by="mouse")
        rater.answer(given[8], by="key")
        browser.run("shownAt = -1e9")
        browser.press(KEYS[given[9]])  # killed without waiting: this label may be stored, and no other may be lost
        command.end(signal.SIGKILL)
    stored = command.stored()
    assert [label.answer for label in stored] in (given[:9], given[:10])
    with labelling_at(table, out, *options) as command:
        rater = Rater(browser, command.address, width)
        assert rater.count == f"{len(stored)} of 20 labelled, {20 - len(stored)} left"
        for number, answer in enumerate(given[len(stored) :]):
            rater.answer(answer, by=("key", "mouse")[number % 2])
        assert rater.count == "20 of 20 labelled, 0 left"
        assert "All pairs are labelled" in rater.said()
        assert browser.errors() == []
        page_width, window_width = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert page_width <= window_width
        found = command.stored()
        code, printed = command.end(signal.SIGINT)
    assert [label.answer for label in found] == given
    first_time = [label for label in found if label.repeat_of is None]
    assert len({label.pair for label in first_time}) == len(first_time)
    assert {label.rater for label in found} == {"Ada"}
    labels.check(found, episodes.read(table))
    assert code == 0
    assert printed.splitlines()[-1] == f"20 labels in {out}; next: perepisode distill --labels {out}"
    assert "Traceback" not in printed


def test_two_raters_in_two_browsers_with_a_server_each_share_a_file(browser, table, tmp_path):
    out = tmp_path / "labels.jsonl"
    second = Browser(browser.port, tmp_path / "profile")
    try:
        with labelling_at(table, out) as one, labelling_at(table, out) as two:
            raters = {}
            for name, screen, command in (("Ada", browser, one), ("Bob", second, two)):
                screen.open(command.address)
                for key in (*name, "Enter"):  # the page asks for the name
                    screen.press(key)
                raters[name] = Rater(screen, command.address)  # and remembers it
            for answer in ("left", "equal", "right"):
                for rater in raters.values():
                    rater.answer(answer, by="key")
            assert [rater.count for rater in raters.values()] == ["3 of 100 labelled, 97 left"] * 2
            found = one.stored()
            assert [(label.rater, label.answer) for label in found] == [
                (name, answer) for answer in ("left", "equal", "right") for name in ("Ada", "Bob")
            ]
    finally:
        second.close()


def test_one_answer_for_a_double_click_a_held_key_and_a_second_tab(browser, table, tmp_path):
    with labelling_at(table, tmp_path / "labels.jsonl", "--rater", "Ada") as command:
        rater = Rater(browser, command.address)
        browser.run("window.stale = state.pair.id; shownAt = -1e9")
        browser.click("[data-answer=left]")
        browser.click("[data-answer=left]")
        held = "new KeyboardEvent('keydown', {key: 'ArrowLeft', repeat: true, bubbles: true})"
        browser.run(f"shownAt = -1e9; for (let i = 0; i < 5; i++) document.body.dispatchEvent({held})")
        rater.wait("!busy && state.answered === 1")
        browser.run(  # a tab that still shows the first pair answers it in another way
            "state = {...state, pair: {...state.pair, id: stale}}; shownAt = -1e9; answer('right')"
        )
        rater.wait("!busy && state.pair.id !== stale")
        assert "Not saved: this pair was taken back or answered elsewhere." in rater.said()
        assert "Saved: right is better." not in rater.said()
        assert [label.answer for label in command.stored()] == ["left"]
        assert rater.count.startswith("1 of 100")
        assert [error for error in browser.errors() if "409 (Conflict)" not in error] == []


def test_ctrl_c_ends_cleanly_while_a_film_is_made(table, tmp_path):
    with labelling_at(table, tmp_path / "labels.jsonl") as command:
        with urllib.request.urlopen(command.address + "state?rater=Ada", timeout=60) as response:
            assert json.load(response)["pair"]
        code, printed = command.end(signal.SIGINT)
    assert code == 0
    assert printed.splitlines()[-1].startswith("0 labels in ")


def test_both_episodes_play_step_and_scrub(browser, table, tmp_path):
    with labelling_at(table, tmp_path / "labels.jsonl", "--rater", "Ada") as command:
        rater = Rater(browser, command.address)
        rater.wait("players.length === 2")
        positions = "return ['left', 'right'].map(id => +document.querySelector(`#${id} .scrub`).value)"
        for _ in range(3):
            browser.press(".")
        assert browser.run(positions) == [3, 3]
        browser.press(",")
        assert browser.run(positions) == [2, 2]
        browser.press(" ")
        assert browser.run("return document.querySelector('#both').textContent") == "Pause both"
        rater.wait("players.every(player => player.position > 4)")
        browser.press(" ")
        stopped = browser.run(positions)
        browser.click("#left .scrub")  # its middle; the arrow keys answer afterwards and do not scrub
        left, right = browser.run(positions)
        assert abs(left - 20) <= 1
        assert right == stopped[1]
        assert "agent: " in rater.said()
        row = browser.run("return state.pair.left.row")
        yields = browser.run("return [...document.querySelectorAll('#left .jumps button')].map(b => b.textContent)")
        assert len(yields) == episodes.read(table)["violations"].iloc[row]
        rater.answer("left", by="key")
        assert len(command.stored()) == 1
        tops = browser.run(
            "const top = () => document.querySelector('.answers').getBoundingClientRect().top, before = top();"
            "for (const stage of document.querySelectorAll('.stage')) stage.hidden = true; return [before, top()]"
        )
        assert tops[0] == tops[1]  # a film that arrives must not move the buttons under the rater's finger
        addresses = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert addresses
        assert all(address.startswith((command.address, "data:")) for address in addresses)


def test_a_speed_that_was_chosen_with_the_mouse_does_not_keep_the_arrow_keys(browser, table, tmp_path):
    """With the keyboard they go on choosing: an arrow must not become an answer half way through the speeds."""
    with labelling_at(table, tmp_path / "labels.jsonl", "--rater", "Ada") as command:
        rater = Rater(browser, command.address)
        chosen = "speed.dispatchEvent(new Event('change')); shownAt = -1e9"
        browser.run(f"speed.focus(); {chosen}")
        browser.press("ArrowLeft")
        assert browser.run("return document.activeElement === speed && !busy && state.answered") == 0
        browser.run(f"speed.dispatchEvent(new Event('pointerdown')); {chosen}")
        rater.answer("left", by="key")
        assert [label.answer for label in command.stored()] == ["left"]


def test_text_from_files_and_raters_is_shown_as_text(browser, tmp_path):
    """In the rater's name, the environment, the dilemma, the agents and the name of the file."""
    foreign = labelling.of_another_program(labelling.table(), dilemma=labelling.HOSTILE)
    path = tmp_path / "<img src=x onerror=console.error(2)>.csv"
    foreign.assign(environment=labelling.HOSTILE, method=labelling.HOSTILE).to_csv(path, index=False)
    with labelling_at(path, tmp_path / "labels.jsonl", "--rater", labelling.HOSTILE) as command:
        rater = Rater(browser, command.address)
        rater.answer("left", by="key")
        rater.wait("document.querySelectorAll('.why:not([hidden])').length === 2")
        assert "There is no film: the table of another program has no keys and actions to replay." in rater.said()
        for text in (labelling.HOSTILE, path.name, "Rater: <img src=x"):
            assert text in rater.said()
        assert browser.run("return document.querySelectorAll('img').length") == 0
        assert browser.errors() == []
        assert command.stored()[0].rater == labelling.HOSTILE


def test_another_origin_cannot_label_or_read(browser, table, tmp_path):
    """Even if it knows the token."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href='data:,'><title>another page</title>")

        def log_message(self, *_):
            pass

    other = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=other.serve_forever, daemon=True).start()
    try:
        with labelling_at(table, tmp_path / "labels.jsonl", "--rater", "Ada") as command:
            rater = Rater(browser, command.address)
            pair = browser.run("return state.pair.id")
            browser.open(f"http://127.0.0.1:{other.server_port}/")
            body = json.dumps({"rater": "Ada", "pair": pair, "answer": "left"})
            browser.run(
                f"""window.done = []; const body = {json.dumps(body)}, address = {json.dumps(command.address)};
                const end = text => done.push(text);
                for (const options of [
                  {{method: "POST", body, mode: "no-cors"}},
                  {{method: "POST", body, mode: "no-cors", headers: {{"Content-Type": "text/plain"}}}},
                  {{method: "POST", body, headers: {{"Content-Type": "application/json"}}}},
                ]) fetch(address + "answer", options).then(r => end("sent " + r.status), () => end("blocked"));
                fetch(address + "state?rater=Ada").then(r => end("read " + r.status), () => end("blocked"));
                const frame = document.createElement("iframe");
                frame.onload = () => end("frame");
                frame.src = address;
                document.body.append(frame);"""
            )
            rater.wait("done.length === 5")
            assert sorted(browser.run("return done")) == ["blocked"] * 4 + ["frame"]
            assert browser.run("return frames[0].length === 0 && !document.querySelector('iframe').contentDocument")
            assert command.stored() == []
            rater = Rater(browser, command.address)
            rater.answer("left", by="key")
            assert len(command.stored()) == 1
    finally:
        other.shutdown()
        other.server_close()
