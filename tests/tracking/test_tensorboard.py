"""TensorBoard's own reader sees every step of metrics.jsonl once, with its values, whatever happened in between."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perepisode import tracking
from perepisode.runs import RunFolder, file_lock, find_run_folders
from perepisode.tracking import live
from perepisode.training import progress
from perepisode.training.train import TrainingOptions, train
from tests.boundary.command_line import answer, refused
from tests.tracking.made_up import CONFIG, RUNS, UPDATES, expected, made_up, row

TRAIN = f"train --method esr --gamma 1 --seeds 1 2 --steps {CONFIG.steps_per_update * UPDATES} --num-envs 8"
TRAIN += " --num-steps 16 --update-epochs 1 --num-minibatches 2 --hidden-size 8 --chunk 2 --track tensorboard"


def shown(folder: RunFolder, purge: bool = True) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder.path), size_guidance={"scalars": 0}, purge_orphaned_data=purge).Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def as_float32(values: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    return {name: [(step, float(np.float32(value))) for step, value in pairs] for name, pairs in values.items()}


def assert_shown(folder: RunFolder) -> None:
    assert shown(folder) == as_float32(expected(folder))


def send(folder: RunFolder) -> int:
    with tracking.feed("tensorboard", folder) as feed:
        return feed.send_new()


def hyperparameters(folder: RunFolder) -> tuple[str, dict]:
    """What the HParams tab shows: the name of the trial and its hyperparameters."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    reader = EventAccumulator(str(folder.path)).Reload()
    content = reader.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    info = metadata.parse_session_start_info_plugin_data(content)
    return info.group_name, dict(info.hparams)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A population that was tracked while it trained."""
    out = tmp_path_factory.mktemp("tracked")
    said = []
    shown = live.Tracked(progress.Progress(), ["tensorboard"], out, said.append)
    folders = train(RUNS, TrainingOptions(out, chunk=10, progress=shown))
    assert not said
    return folders


def test_every_run_of_a_population_is_shown_with_the_values_of_its_metrics(trained):
    assert len(trained) == 2
    for folder in trained:
        assert_shown(folder)
        assert len(shown(folder)["train/kl"]) == UPDATES
        assert {"train/return", "train/violations", "train/cvar", "clock/steps_per_second"} <= set(shown(folder))


def test_its_hyperparameters_are_shown(trained):
    for folder, run in zip(trained, RUNS):
        group, values = hyperparameters(folder)
        assert group == run.id
        assert values["seed"].number_value == run.seed
        assert values["budget"].number_value == 1
        assert values["hidden_size"].number_value == 8
        assert values["anneal_lr"].bool_value is True
        assert values["method"].string_value == "esr"


def test_seeds_share_a_group_and_other_settings_do_not(tmp_path):
    from perepisode.tracking.feed import Description

    wider = replace(RUNS[0], config=replace(CONFIG, hidden_size=16))
    first, second, other = (Description.of(made_up(tmp_path, run)).group for run in (*RUNS, wider))
    assert first == second
    assert first.startswith("temptation.esr.k=1.gamma1.")
    assert other != first


def test_a_run_of_a_plugin_that_is_not_loaded_is_sent(tmp_path):
    folder = made_up(tmp_path)
    plain = json.loads((folder.path / "run.json").read_text())
    (folder.path / "run.json").write_text(json.dumps({**plain, "agent": "mine", "method": "own.py:Mine", "env": "e"}))
    folder.append_metrics([row(1)])
    assert send(folder) == 1
    assert hyperparameters(folder)[1]["agent"].string_value == "mine"


def test_sending_again_sends_what_came_since(tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(update) for update in range(1, 6)])
    assert send(folder) == 5
    assert send(folder) == 0
    assert len(list(folder.path.glob("events*"))) == 1  # nothing new, hence no new file
    folder.append_metrics([row(update) for update in range(6, 9)])
    assert send(folder) == 3
    assert_shown(folder)
    assert hyperparameters(folder)[0] == RUNS[0].id


def test_a_line_that_is_still_being_written_waits(tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(1), row(2)])
    whole = folder.metrics.read_text()
    folder.metrics.write_text(whole[:-9])
    with tracking.feed("tensorboard", folder) as feed:
        assert feed.send_new() == 1
        folder.metrics.write_text(whole)
        assert feed.send_new() == 1
    assert_shown(folder)


def test_steps_that_do_not_increase_are_not_sent(tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(1), row(2), row(2), row(1), row(3)])
    assert send(folder) == 3
    assert [step for step, _ in shown(folder)["train/kl"]] == [row(update)["steps"] for update in (1, 2, 3)]


KILLS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=5)


@settings(max_examples=60)
@given(KILLS)
def test_after_any_kills_each_step_is_shown_once(tmp_path_factory, kills):
    """Each start trains some updates, sends a part of them, and is killed while it writes the event file; the next
    resumes from an earlier checkpoint, and its clock differs."""
    folder = made_up(tmp_path_factory.mktemp("killed"))
    done = 0
    for start, (updates, lost, part) in enumerate(kills):
        folder.truncate_metrics(done)
        with tracking.feed("tensorboard", folder) as feed:
            feed.send_new()
            for update in range(done + 1, done + updates + 1):
                folder.append_metrics([row(update, speed=float(start))])
                feed.send_new()
        newest = sorted(folder.path.glob("events*"))[-1]
        size = newest.stat().st_size
        os.truncate(newest, size - int(part * min(size, 400)))
        done = max(0, done + updates - lost)
    send(folder)
    assert_shown(folder)


@pytest.mark.processes
@pytest.mark.parametrize("checkpoint_seconds", ["0", "600"])  # resumed from the last chunk, and from the beginning
def test_kill_nine_and_resume(tmp_path, checkpoint_seconds):
    words = [*TRAIN.split(), "--checkpoint-seconds", checkpoint_seconds, "--out", str(tmp_path)]
    command = [sys.executable, "-m", "perepisode", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    rows = random.Random(time.time_ns()).randint(4, UPDATES // 2)
    while process.poll() is None:
        found = [path for path in tmp_path.glob("*/metrics.jsonl") if len(path.read_bytes().splitlines()) >= rows]
        if len(found) == 2 and all(list(path.parent.glob("events*")) for path in found):
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folders = find_run_folders(tmp_path)
    assert not any(folder.done for folder in folders), process.stdout.read()
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "receives no more" not in again.stdout
    for folder in folders:
        assert folder.done
        assert_shown(folder)
        assert [step for step, _ in shown(folder)["train/kl"]] == [row(u)["steps"] for u in range(1, UPDATES + 1)]


def test_a_tracker_that_fails_is_one_line_and_training_continues(tmp_path, monkeypatch):
    """The event file is on a full disk."""
    full = partial(open, "/dev/full", "wb")
    monkeypatch.setattr("perepisode.tracking.tensorboard.open", lambda *_: full(), raising=False)
    said = []
    shown = live.Tracked(progress.Progress(), ["tensorboard"], tmp_path, said.append)
    folders = train(RUNS[:1], TrainingOptions(tmp_path, chunk=10, progress=shown))
    assert folders[0].done
    (line,) = said
    assert line == (
        "tensorboard receives no more metrics (OSError: [Errno 28] No space left on device); send the rest later: "
        f"perepisode track {tmp_path} --to tensorboard"
    )
    monkeypatch.undo()
    assert tracking.send("tensorboard", tmp_path) == (UPDATES, 1)
    assert_shown(folders[0])


def test_a_tracker_that_hangs_delays_the_end_of_training_only_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "FINISH_SECONDS", 0.1)
    monkeypatch.setattr("perepisode.tracking.tensorboard.TensorBoard.send", lambda *_: time.sleep(3600))
    said = []
    folder = made_up(tmp_path)
    tracked = live.Tracked(progress.Progress(), ["tensorboard"], tmp_path, said.append)
    tracked.start(RUNS[:1], 0)
    folder.append_metrics([row(1)])
    tracked.update(1, [[row(1)]])
    tracked.stop()
    assert "it did not finish within 0 s" in said[0]


def test_two_processes_do_not_send_the_same_run(tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(1)])
    with file_lock(folder.path / ".tensorboard.lock", "it"):
        message = refused("track", tmp_path)
    assert "the tensorboard record of" in message
    assert "wait for it" in message


def test_the_command_sends_the_runs_of_a_folder(tmp_path):
    for run in RUNS:
        made_up(tmp_path, run).append_metrics([row(update) for update in range(1, 4)])
    code, out, err = answer("track", tmp_path)
    assert (code, err) == (0, "")
    assert out == f"sent 6 rows of 2 runs to tensorboard\nnext: tensorboard --logdir {tmp_path}\n"
    for folder in find_run_folders(tmp_path):
        assert_shown(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --track tensorbored", "invalid choice 'tensorbored' for argument '--track'"),
        ("track nowhere", "nowhere does not exist"),
        ("track .", "contains no run folder; give the folder of `perepisode train --out`"),
    ],
)
def test_wrong_words_are_one_line(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*words.split())


@pytest.mark.parametrize("name", tracking.NAMES)
def test_a_missing_library_is_refused_before_training_with_the_extra_that_installs_it(name, tmp_path, monkeypatch):
    monkeypatch.setattr("perepisode.lazy._installed", lambda library: library != name)
    monkeypatch.setattr("perepisode.training.train.train", lambda *_: pytest.fail("it started to train"))
    monkeypatch.chdir(tmp_path)
    message = refused("train", "--track", name)
    assert f"perepisode train --track {name} needs {name}; " in message
    assert f"[{name}]" in message
    assert not list(tmp_path.iterdir())
