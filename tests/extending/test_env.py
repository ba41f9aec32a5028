"""The environment of docs/tutorials/bring-your-environment.md, and one that declares only what is required."""

import base64
import io
import re

import guide
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from perepisode import environments
from perepisode.environments.base import EndCause
from perepisode.replay.episode import key_of

pytestmark = pytest.mark.xdist_group("extending-environment")

WAIT, WALK, RUN = range(3)


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The commands of the section, executed."""
    with guide.folder(tmp_path_factory.mktemp("world"), "An environment") as home:
        yield guide.follow("An environment"), home / "out" / "corridor"


@pytest.fixture(scope="module")
def episodes(followed):
    return pd.read_parquet(followed[1] / "episodes.parquet")


def play(flower: int, actions: list[int], **options) -> tuple[float, int, str]:
    """Return, violations and end of an episode in the corridor; no action follows its end."""
    corridor = environments.make("corridor", **options)
    state = environments.ENVIRONMENTS["corridor"].reset(corridor, jax.random.key(0))
    state = type(state)(state.cell, jnp.int32(flower), state.time)
    earned, harm, causes = 0.0, 0, []
    for action in actions:
        state, outcome = corridor.step(jax.random.key(1), state, jnp.int32(action))
        earned, harm = earned + float(outcome.task_reward), harm + int(outcome.violations[0])
        causes.append(EndCause(int(outcome.end_cause)).name)
    assert set(causes[:-1]) <= {"RUNNING"}
    return round(earned, 5), harm, causes[-1]


def by_hand(flower: int, actions: bytes) -> tuple[float, int, str]:
    """The corridor in plain Python."""
    cell = harm = 0
    for action in actions:
        passed = range(cell + 1, min(cell + action, 4) + 1)
        harm += action == RUN and flower in passed
        flower = -1 if action == RUN and flower in passed else flower
        cell = min(cell + action, 4)
    return round((cell == 4) - 0.1 * len(actions), 5), harm, "won" if cell == 4 else "timeout"


def test_the_corridor_by_hand(followed):
    assert [play(flower, [WALK] * 4) for flower in (1, 2, 3)] == [(0.6, 0, "WON")] * 3
    assert [play(flower, [RUN] * 2) for flower in (1, 2, 3)] == [(0.8, 1, "WON")] * 3
    assert play(3, [RUN, WALK, WALK]) == play(2, [WALK, WALK, RUN]) == (0.7, 0, "WON")
    assert play(2, [WALK, RUN, RUN]) == (0.7, 1, "WON")  # a flower is trampled once, and runners stop at the exit
    assert play(1, [WAIT] * 10) == (-1.0, 0, "TIMEOUT")
    assert play(1, [WAIT] * 3, patience=3) == (-0.3, 0, "TIMEOUT")
    assert play(1, [WAIT, RUN, WAIT, RUN], patience=4) == (0.6, 1, "WON")  # at the time limit
    assert play(5, [WALK] * 6, length=7, hurry=0.5) == (-2.0, 0, "WON")


def test_every_episode_of_the_table_follows_from_its_actions(followed, episodes):
    corridor = environments.make("corridor")
    flowers = [int(corridor.reset(key_of({"key": key}, "key")).flower) for key in episodes["reset_key"][::40]]
    assert set(flowers) == {1, 2, 3}
    for flower, (_, row) in zip(flowers, episodes[::40].iterrows()):
        expected = by_hand(flower, row["actions"])
        assert (round(row["return"], 5), row["violations"], row["end_cause"]) == expected
        assert row["length"] == len(row["actions"]) <= 10
        assert row["info_waits"] == row["actions"].count(WAIT)
    assert {"violations_flowers", "violations_flowers_paper"} <= set(episodes.columns)
    assert dict(zip(episodes["arm"], episodes["value"])) == {"k=0": 0, "k=1": 1}


def test_agents_learn_to_leave_by_the_exit(episodes):
    assert (episodes["end_cause"] == "won").mean() > 0.95
    assert episodes.groupby("arm")["violations"].mean()["k=0"] < 0.05


def test_the_report_is_of_flowers(followed):
    report = followed[1] / "report"
    exported = pd.read_csv(report / "data" / "complete_flowers.csv").set_index("agent")
    assert set(exported.index) == {"ESR (k=0)", "ESR (k=1)"}
    html = (report / "index.html").read_text()
    assert "Flowers" in html
    assert "ESR (k=0)" in html


def test_the_page_shows_its_frames_and_texts(followed, episodes):
    printed, out = followed
    assert printed["watch"].count("reproduced exactly") == 2
    page = (out / "watch" / "index.html").read_text()
    assert '<canvas width="80" height="16" style="aspect-ratio: 80 / 16"' in page
    assert "What running over the flower saves" in page
    shown = guide.player(page)
    row = episodes.loc[int(re.search(r"row (\d+)", printed["watch"])[1])]
    assert shown["length"] == row["length"]
    words = {WAIT: "waits", WALK: "walks", RUN: "runs"}
    assert [text for text in shown["actions"] if "tramples" not in text] == [
        words[action] for action, text in zip(row["actions"], shown["actions"]) if "tramples" not in text
    ]
    assert shown["actions"].count("tramples the flower") == row["violations"]
    strip = Image.open(io.BytesIO(base64.b64decode(shown["film"]["strips"][0].partition(",")[2])))
    pictures = np.asarray(strip.convert("RGB"))
    assert pictures.shape == (16, 80 * min(4, row["length"] + 1), 3)
    np.testing.assert_array_equal(pictures[8, 8], [40, 90, 170])  # the walker, in the first cell
    np.testing.assert_array_equal(pictures[8, 72], [240, 200, 60])  # the exit, in the last
    assert (pictures[8, 24:64] == [200, 60, 120]).all(axis=-1).sum() == 16  # one cell of flowers between them


@pytest.mark.parametrize("cell", [1, 2])
def test_the_trampled_flower_is_marked_where_it_is_drawn(followed, cell):
    corridor, key = environments.make("corridor"), jax.random.key(0)
    state = corridor.reset(key)
    before = type(state)(jnp.int32(0), jnp.int32(cell), state.time)
    after, outcome = corridor.step(key, before, jnp.int32(RUN))
    (trampled,) = corridor.describe_violations(key, before, RUN, after, outcome)
    assert (trampled.dilemma, trampled.text, trampled.count) == ("flowers", "tramples the flower", 1)
    coloured = (np.asarray(corridor.draw(before)) == [200, 60, 120]).all(axis=-1)
    left, top, width, height = trampled.before
    assert coloured[top : top + height, left : left + width].all()
    assert coloured.sum() == width * height
    assert trampled.after == trampled.before


def test_abstaining_is_seen_next_to_a_flower(followed):
    corridor = environments.make("corridor")
    state = corridor.reset(jax.random.key(0))
    near = [
        bool(corridor.violation_possible(type(state)(jnp.int32(cell), jnp.int32(3), state.time))[0])
        for cell in range(4)
    ]
    assert near == [False, True, True, False]
    assert float(corridor.stake(type(state)(jnp.int32(1), jnp.int32(3), state.time))) == pytest.approx(0.1)


def test_the_environment_declares_its_matrix_and_plan(followed):
    printed, _ = followed
    lines = printed["matrix"].splitlines()
    assert {line.split()[1] for line in lines[1:-1]} == {"flowers"}
    assert [line.split()[3] for line in lines if line.startswith("ser ")] == ["w=0.005", "w=0.02"]
    assert lines[-1].startswith("38 runs of 5e+04 steps: erm 8 + ser 4 + lagrangian 8")
    assert "38 runs in" in printed["study"]
    assert "at 200,000 steps/s, which is a guess" in printed["study"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "length=2"], "length=2 is out of range; length must be a whole number, at least 3"),
        (["--set", "patience=2.5"], "patience=2.5 is not a whole number"),
        (["--dilemma", "cows"], "dilemma 'cows' is unknown; choose from flowers"),
        (["--set", "width=2"], "no setting is called 'width' here; esr has budget"),
    ],
)
def test_wrong_options_are_one_line(followed, words, message):
    code, _, err = guide.call("train", "--env", "corridor:Corridor", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_its_table_is_replayed_only_if_the_user_names_the_module(followed, tmp_path):
    table = str(followed[1] / "episodes.parquet")
    before = environments.ENVIRONMENTS.pop("corridor")
    try:
        with guide.folder(tmp_path):
            code, _, err = guide.call("watch", table)
            assert (code, err.count("\n")) == (2, 1)
            assert "is of environment 'corridor'; only craftax, temptation can be replayed; if it is a plugin" in err
            code, _, err = guide.call("report", table)  # needs only the numbers
            assert (code, err) == (0, "")
    finally:
        environments.ENVIRONMENTS["corridor"] = before
