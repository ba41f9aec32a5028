"""The labels file: what is written is read, whatever a kill, a second process or a stranger did to it."""

import json
import multiprocessing
import os
import resource
from dataclasses import replace

import numpy as np
import pytest

from perepisode.config import ConfigError
from perepisode.preferences import labels
from perepisode.preferences.labels import Label, Undo
from tests.preferences.made_up import episode, label, plane, table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.jsonl"


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_is_written_is_read(path):
    row = table(*plane(3)).iloc[0].to_dict() | {"settings": json.dumps({"horizon": 25, "env.wage": 1.0, "gamma": 1})}
    one = labels.reference(row, "temptation")
    assert dict(one.env_settings) == {"horizon": 25, "wage": 1.0}
    first, second = Label("Ann", one, episode(31, 2), "left"), label((30, 0), (31, 2), "both_unacceptable", number=5)
    for written in (first, second):
        labels.append(path, written)
    assert {found.id: found for found in labels.read(path)} == {first.id: first, second.id: second}
    assert lines(path)[0]["left"]["return"] == row["return"]


def test_the_digest_names_keys_and_actions():
    """And the environment with its settings: the same actions have another return where the wage is another."""
    row = table(*plane(2)).iloc[0].to_dict()
    others = [
        row | {"actions": b"\1" + row["actions"][1:]},
        row | {"reset_key": "f" * 16},
        row | {"episode_key": "f" * 16},
        row | {"environment": "craftax"},
        row | {"settings": '{"wage": 2.0}'},
    ]
    assert len({labels.digest(one) for one in (row, *others)}) == 6
    assert labels.digest(row | {"settings": '{"gamma": 1, "weight": 0.2}'}) == labels.digest(row)  # of the agent
    assert labels.digest(row | {"return": 99.0}) == labels.digest(row)


def test_an_undo_takes_back_a_label_of_the_same_rater(path):
    for number in range(3):
        labels.append(path, label((30, 0), (31, 2), "left", number=number))
    labels.append(path, Undo("Ann-1", "Ann"))
    labels.append(path, Undo("Ann-2", "Bo"))
    labels.append(path, Undo("nobody", "Ann"))
    assert [one.id for one in labels.read(path)] == ["Ann-0", "Ann-2"]
    assert len(lines(path)) == 6  # nothing is rewritten


@pytest.mark.parametrize("kept", [1, 9, 200, -1])
def test_a_line_cut_short_by_a_kill_is_closed_off(path, kept):
    labels.append(path, label((30, 0), (31, 2), "left"))
    labels.append(path, label((30, 0), (31, 2), "right", number=1))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[:first] + whole[first:][:kept])
    said = []
    labels.append(path, label((32, 1), (31, 2), "equal", number=2))
    complete = kept == -1  # only the end of the line is missing: the answer is there
    found = labels.read(path, said.append)
    assert [one.id for one in found] == ["Ann-0", *(["Ann-1"] if complete else []), "Ann-2"]
    assert len(said) == (0 if complete else 1)
    assert all("line 2: cut short" in line for line in said)


@pytest.fixture
def full_disk(path):
    """From its call on, the file cannot grow by more than so many bytes."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda more: resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + more, unlimited[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


@pytest.mark.parametrize("room", [0, 1, 300])
def test_what_a_full_disk_takes_in_part_leaves_no_trace(path, full_disk, room):
    """Otherwise the rater is told that an answer was not saved, and a later reader of its line that it was cut."""
    labels.append(path, label((30, 0), (31, 2), "left"))
    before = path.read_bytes()
    full_disk(room)
    with pytest.raises(OSError, match="too large"):
        labels.append(path, label((30, 0), (31, 2), "right", number=1))
    assert path.read_bytes() == before
    full_disk(10_000)
    labels.append(path, label((30, 0), (31, 2), "right", number=1))
    said = []
    assert [one.answer for one in labels.read(path, said.append)] == ["left", "right"]
    assert not said


def test_labels_are_in_the_order_of_their_file_if_its_clock_was_set_back(path, tmp_path):
    """And several files are merged by time."""
    for number, minute in enumerate([30, 10, 40]):
        one = label((30, 0), (31, 2), "left", number=number, time=f"2026-01-01T00:{minute}:00Z")
        labels.append(path, one)
    assert [one.id for one in labels.read(path)] == ["Ann-0", "Ann-1", "Ann-2"]
    other = tmp_path / "other.jsonl"
    labels.append(other, label((30, 0), (31, 2), "left", "Bo", time="2026-01-01T00:35:00Z"))
    assert [one.id for one in labels.read([path, other])] == ["Ann-0", "Ann-1", "Bo-0", "Ann-2"]


def test_a_label_is_not_written_if_somebody_else_wrote_meanwhile(path):
    assert labels.append(path, label((30, 0), (31, 2), "left"), size=0)
    size = path.stat().st_size
    assert labels.append(path, label((30, 0), (31, 2), "left", "Bo"), size)
    assert not labels.append(path, label((30, 0), (31, 2), "left", "Cy"), size)
    assert [one.rater for one in labels.read(path)] == ["Ann", "Bo"]


def append_many(path, rater):
    for number in range(50):
        labels.append(path, label((30, 0), (31, 2), "left", rater, number))


@pytest.mark.processes
def test_several_processes_append_to_one_file(path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_many, args=(path, rater)) for rater in "ABC"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(one.id for one in labels.read(path)) == sorted(f"{r}-{n}" for r in "ABC" for n in range(50))


def test_an_answer_is_on_disk_when_append_returns(path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(path.read_bytes()))
    labels.append(path, label((30, 0), (31, 2), "left"))
    assert synced[0].endswith(b"}\n")
    assert len(synced) == 2  # the file, and the folder that names it


def test_files_and_folders_together_count_each_id_once(path, tmp_path):
    labels.append(path, label((30, 0), (31, 2), "left"))
    (tmp_path / "copy.jsonl").write_bytes(path.read_bytes())
    labels.append(tmp_path / "copy.jsonl", label((30, 0), (31, 2), "right", number=1))
    assert [one.id for one in labels.read(tmp_path)] == ["Ann-0", "Ann-1"]
    labels.append(path, label((30, 0), (31, 2), "right"))
    with pytest.raises(ConfigError, match="two different labels have the id Ann-0"):
        labels.read(path)


def changed(where: str, value) -> bytes:
    plain = label((30, 0), (31, 2), "left").to_json()
    *sides, name = where.split(".")
    (plain[sides[0]] if sides else plain)[name] = value
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"[1, 2]", "contains a list instead of a dict"),
        (b"hello", "is damaged"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b'{"kind": "label", "version": 1}', "it has no rater"),
        (changed("kind", "verdict"), "neither label nor undo"),
        (changed("kind", ["label"]), "neither label nor undo"),
        (changed("version", 2), "not of version 1"),
        (changed("answer", "maybe"), "the answer is none of left, right, equal, both_unacceptable, skip"),
        (changed("rater", "x" * 61), "1 to 60 printable characters"),
        (changed("rater", 7), "1 to 60 printable characters"),
        (changed("rater", "a\u202eb"), "control characters"),
        (changed("time", "yesterday"), "time is malformed"),
        (changed("id", "../x"), "id is malformed"),
        (changed("left.digest", "sha256:1"), "digest is malformed"),
        (changed("left.return", "12"), "return is not a number in range"),
        (changed("left.return", float("nan")), "return is not a number in range"),
        (changed("left.return", True), "return is not a number in range"),
        (changed("left.violations", -1), "violations is not a number in range"),
        (changed("left.violations", 10**400), "violations is not a number in range"),
        (changed("left.end_cause", "bored"), "end_cause is none of"),
        (changed("left.env_settings", {"a": {}}), "plain values"),
        (changed("left.dilemma", "other"), "differ in environment or dilemma"),
        (changed("left", episode(31, 2).to_json()), "left and right are one episode"),
        (changed("rater", "<img src=x>" * 2000), "longer than 20,000 bytes"),
    ],
)
def test_anything_else_is_refused_in_one_line(path, line, says):
    path.write_bytes(line + b"\n")
    with pytest.raises(ConfigError, match=says) as refused:
        labels.read(path)
    message = str(refused.value)
    assert "labels.jsonl, line 1" in message
    assert "\n" not in message
    assert "<img" not in message


def test_too_many_lines_are_refused_before_they_are_parsed(path):
    path.write_bytes(b"{}\n" * (labels.MAX_LABELS + 1))
    with pytest.raises(ConfigError, match="more than 20,000 lines"):
        labels.read(path)


def test_a_missing_file_and_an_empty_folder_are_refused(path, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        labels.read(path)
    with pytest.raises(ConfigError, match="no labels file"):
        labels.read(tmp_path)


def test_a_label_that_could_not_be_read_is_not_written(path):
    with pytest.raises(ConfigError, match="the answer is none of"):
        labels.append(path, replace(label((30, 0), (31, 2), "left"), answer="maybe"))
    assert not path.exists()


def test_labels_are_checked_against_their_table():
    episodes = table(*plane(4))
    left, right = (labels.reference(episodes.iloc[row].to_dict(), "temptation") for row in (0, 1))
    labels.check([Label("Ann", left, right, "left")], episodes)
    with pytest.raises(ConfigError, match="does not contain"):
        labels.check([Label("Ann", left, episode(1, 1), "left")], episodes)
    with pytest.raises(ConfigError, match="other numbers"):
        labels.check([Label("Ann", replace(left, return_=np.pi), right, "left")], episodes)
