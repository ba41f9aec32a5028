"""Runs on disk: interrupted, resumed, damaged, refused."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.cli import EXIT_DISK, EXIT_DIVERGED, EXIT_RESUME, EXIT_USAGE, Train, run
from perepisode.config import ConfigError
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.runs import Run, RunFolder, file_lock, find_run_folders
from perepisode.training import train as training
from perepisode.training.checkpoints import Checkpoints
from perepisode.training.train import DiskError, TrainingOptions, train

CONFIG = replace(TEMPTATION_PPO, num_envs=8, num_steps=16, update_epochs=1, num_minibatches=2, hidden_size=8)
UPDATES = 60
RUNS = [
    Run(
        "temptation",
        "temptation",
        "lagrangian",
        {"budget": 1},
        seed,
        1.0,
        CONFIG.steps_per_update * UPDATES,
        config=CONFIG,
    )
    for seed in (1, 2)
]


def options(out, **changes):
    return TrainingOptions(out=Path(out), chunk=5, checkpoint_seconds=0.0, **{"log": print, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The uninterrupted runs everything else is compared with."""
    out = tmp_path_factory.mktemp("whole")
    train(RUNS, options(out))
    return out


def results(out):
    """What must be the same however often a run was interrupted: weights to the bit, metrics but for the clock."""
    found = {}
    for folder in find_run_folders(Path(out)):
        rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
        for row in rows:
            row.pop("clock")
        found[folder.read().id] = ((folder.path / "policy.safetensors").read_bytes(), rows)
    return found


def start(out):
    """The same training in a process of its own."""
    program = (
        "import sys; from pathlib import Path; from tests.training.test_train import RUNS, exit_code, options, train;"
        "sys.exit(exit_code(lambda: train(RUNS, options(Path(sys.argv[1])))))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(out)], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE
    )


def exit_code(call):
    """The exit code that the command line returns for this call."""
    return run(lambda: 0 if call() else 1)


def wait_for_rows(out, rows, process):
    while process.poll() is None:
        if any(len(f.metrics.read_text().splitlines()) >= rows for f in find_run_folders(out) if f.metrics.exists()):
            return
        time.sleep(0.005)


def test_a_finished_run_is_complete(finished):
    folders = find_run_folders(finished)
    assert len(folders) == 2
    for folder in folders:
        assert folder.done
        rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
        assert [row["update"] for row in rows] == list(range(1, UPDATES + 1))
        episode = {"return", "length", "violations", "violations_std", "p_any", "p_over_1", "cvar"}
        episode |= {"utility", "lambda"}
        assert episode | {"entropy", "kl", "clip_fraction", "grad_norm"} <= set(rows[-1])
        assert set(rows[-1]["clock"]) == {"steps_per_second", "eta_seconds"}
        loaded, weights = folder.load()
        assert loaded == folder.read()
        assert weights["gru_hidden.0"].shape == (8, 24)


def test_starting_again_returns_at_once(finished, monkeypatch):
    monkeypatch.setattr(training, "run_chunk", None)  # nothing is trained
    before = results(finished)
    train(RUNS, options(finished))
    assert results(finished) == before


def test_methods_that_train_together_leave_what_each_leaves_alone(tmp_path):
    """Policies to the bit and of their own shape, and every row of the metrics; also after an interruption."""
    short = [replace(RUNS[0], total_timesteps=CONFIG.steps_per_update * 10)]
    short += [
        replace(short[0], method=name, method_settings=own) for name, own in (("esr", {"budget": 1}), ("saute", {}))
    ]
    with pytest.raises(training.Interrupted):
        train(short, options(tmp_path / "together", pending_signal=lambda: "SIGUSR1"))
    train(short, options(tmp_path / "together"))
    for one in short:
        train([one], options(tmp_path / "alone"))
    assert results(tmp_path / "together") == results(tmp_path / "alone")
    assert len(results(tmp_path / "alone")) == 3


@pytest.mark.processes
@pytest.mark.parametrize("attempt", range(2))
def test_kill_nine_and_resume_equals_uninterrupted(finished, tmp_path, attempt):
    process = start(tmp_path)
    wait_for_rows(tmp_path, random.Random(time.time_ns()).randint(1, UPDATES // 2), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not any(folder.done for folder in find_run_folders(tmp_path)), "it was done before it could be killed"
    again = start(tmp_path)
    assert again.wait(timeout=300) == 0, again.stderr.read().decode()[-2000:]
    assert results(tmp_path) == results(finished)


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_checkpoints_and_says_resume_me(finished, tmp_path, number):
    process = start(tmp_path)
    wait_for_rows(tmp_path, 5, process)
    process.send_signal(number)
    assert process.wait(timeout=120) == EXIT_RESUME
    assert signal.Signals(number).name in process.stderr.read().decode()
    train(RUNS, options(tmp_path))
    assert results(tmp_path) == results(finished)


def test_a_signal_that_came_before_the_loop_is_heeded(finished, tmp_path):
    """JAX can swallow what a handler raises while it compiles; the note of it must still count."""
    with pytest.raises(training.Interrupted, match="SIGUSR1 after 5 of"):
        train(RUNS, options(tmp_path, pending_signal=lambda: "SIGUSR1"))
    train(RUNS, options(tmp_path))
    assert results(tmp_path) == results(finished)


def stopped_halfway(tmp_path, monkeypatch):
    """A population interrupted after a few checkpoints, in this process."""
    received = iter([None] * 6 + ["SIGTERM"] * 2)
    monkeypatch.setattr(
        training.Signals,
        "received",
        property(lambda self: next(received, "SIGTERM"), lambda self, value: None),
        raising=False,
    )
    with pytest.raises(training.Interrupted):
        train(RUNS, options(tmp_path))
    monkeypatch.undo()
    home = next((tmp_path / "populations").iterdir()) / "checkpoints"
    return sorted((path for path in home.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


@pytest.mark.parametrize("damage", ["truncated", "missing", "flipped"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(finished, tmp_path, monkeypatch, damage):
    checkpoints = stopped_halfway(tmp_path, monkeypatch)
    assert len(checkpoints) >= 2
    if damage == "missing":
        shutil.rmtree(checkpoints[-1] / "state")
    for path in (path for path in checkpoints[-1].rglob("state/**/d/*") if path.is_file()):
        if damage == "truncated":
            os.truncate(path, path.stat().st_size // 2)
        else:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)
    said = []
    train(RUNS, options(tmp_path, log=said.append))
    assert any(f"checkpoint {checkpoints[-1].name} is damaged" in line for line in said), said
    assert results(tmp_path) == results(finished)


def test_a_full_disk_is_one_clear_line_and_harms_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", disk], capture_output=True).returncode
    ):
        pytest.skip("cannot mount a small disk here")
    try:
        with pytest.raises(DiskError, match="earlier files are intact"):
            train(RUNS, options(disk))
        for folder in find_run_folders(disk):
            folder.read()
            assert not folder.done
            for line in folder.metrics.read_text().splitlines()[:-1] if folder.metrics.exists() else ():
                json.loads(line)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_an_unwritable_folder_exits_with_its_own_code(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    command = Train(method=("esr",), seeds=(1,), total_timesteps=1e5, out=tmp_path / "file" / "out")
    assert run(command) == EXIT_DISK
    assert "cannot write to" in capsys.readouterr().err


def test_only_one_process_trains_a_population(tmp_path):
    home = tmp_path / "populations" / training.population_id(RUNS)
    said = f"is being run by process {os.getpid()}.*; wait for it"
    with file_lock(home / "lock", "it"), pytest.raises(ConfigError, match=said):
        train(RUNS, options(tmp_path))


def test_a_folder_of_another_version_is_refused(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    folder = find_run_folders(tmp_path / "out")[0]
    plain = json.loads((folder.path / "run.json").read_text())
    (folder.path / "run.json").write_text(json.dumps({**plain, "gamma": 0.5}))
    with pytest.raises(ConfigError, match="another version or edited"):
        folder.read()
    (folder.path / "run.json").write_text(json.dumps({**plain, "format": 99}))
    with pytest.raises(ConfigError, match="has format 99"):
        folder.read()
    (folder.path / "run.json").write_text("{")
    with pytest.raises(ConfigError, match="is damaged"):
        folder.read()


def test_a_damaged_or_unfinished_policy_is_refused(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    folder = find_run_folders(tmp_path / "out")[0].path
    content = bytearray((folder / "policy.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "policy.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match="damaged"):
        RunFolder(folder).load()
    (folder / "policy.safetensors").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        RunFolder(folder).load()
    (folder / "done").unlink()
    with pytest.raises(ConfigError, match="not finished"):
        RunFolder(folder).load()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": ("magic",)}, "method 'magic' is unknown; choose from unconstrained"),
        ({"env": "minecraft"}, "env 'minecraft' is unknown"),
        ({"dilemma": "lying"}, "dilemma 'lying' is unknown"),
        (
            {"set": ("num_envs=10", "num_minibatches=4")},
            "num_envs=10 does not divide into num_minibatches=4; use a multiple of 4",
        ),
        ({"set": ("budget=-1",)}, "budget=-1 is out of range; budget must be a number, at least 0"),
        ({"set": ("budget=one",)}, "budget='one' is not a number"),
        ({"total_timesteps": float("nan")}, "total_timesteps=nan is out of range"),
        (
            {"total_timesteps": 1e99},
            r"total_timesteps=1e\+99 is out of range; total_timesteps must be a number, at least 1 and at most 1e\+15",
        ),
        ({"seeds": (-1,)}, "seeds=-1 is out of range; seeds must be a whole number, at least 0 and at most 4294967295"),
        ({"seeds": (99999999999999999999,)}, "seeds=99999999999999999999 is out of range"),
        ({"chunk": 0}, "chunk=0 is out of range; chunk must be a whole number, at least 1"),
        ({"checkpoint_seconds": -1.0}, "checkpoint_seconds=-1.0 is out of range"),
        ({"method": ("ser",), "set": ("weight=inf",)}, "weight=inf is out of range"),
        (
            {"method": ("lagrangian",), "set": ("budget=1", "lambda_lr=fast")},
            "lambda_lr='fast' is not a number; lambda_lr must be",
        ),
        ({"set": ("budget=nan",)}, "budget=nan is out of range"),
        ({"set": ("rho_u=inf",)}, "rho_u=inf is out of range"),
        (
            {"set": ("offer_prob=1.5",)},
            "offer_prob=1.5 is out of range; offer_prob must be a number, at least 0 and at most 1",
        ),
        ({"set": ("horizon=2.5",)}, "horizon=2.5 is not a whole number"),
        ({"set": ("learning_rate=0",)}, "learning_rate=0 is out of range; learning_rate must be a number, above 0"),
        ({"set": ("anneal_lr=maybe",)}, "anneal_lr=maybe must be true or false"),
        ({"set": ("budget=1,2,1",)}, "--budget 1 2 1 names a value twice"),
        ({"set": ("budget=1", "budget=2")}, "budget is given twice"),
        ({"gamma": (0.0,)}, "gamma=0.0 is out of range; gamma must be a number, above 0 and at most 1"),
        ({"gamma": (1.01,)}, "gamma=1.01 is out of range"),
        ({"total_timesteps": 10}, "less than one rollout"),
        ({"method": ("esr_distilled",)}, "needs utility; give --utility"),
        ({"method": ("esr_distilled",), "set": ("utility=nowhere.json",)}, "nowhere.json cannot be read"),
        ({"set": ("colour=red",)}, "no setting is called 'colour' here; esr has budget, .*; temptation has horizon"),
        ({"set": ("colour",)}, "write name=value"),
        ({"seeds": ()}, "there is no run to train"),
        ({"gamma": ()}, "there is no run to train"),
        ({"seeds": (1, 1)}, "the same run was given twice: esr k=1, seed 1"),
        ({"method": ("esr", "magic")}, "method 'magic' is unknown; choose from unconstrained"),
        ({"method": ()}, "there is no run to train"),
        ({"method": ("esr", "esr:budget=1,2")}, "the same run was given twice: esr k=1, seed 42"),
        ({"method": ("esr:weight=1",)}, "--method esr:weight=1: esr has no setting 'weight'; it has budget"),
        ({"method": ("esr:budget=1:budget=2",)}, "budget is given twice; give its values together: budget=1,2"),
        ({"method": ("esr:budget=1,1",)}, "--budget 1 1 names a value twice"),
        ({"method": ("esr:budget=-1", "unconstrained")}, "budget=-1 is out of range"),
        (
            {"method": ("ser:weight=1", "esr"), "set": ("lambda_lr=1",)},
            "no setting is called 'lambda_lr' here; ser has weight",
        ),
        ({"method": ("ser", "unconstrained")}, "ser needs weight"),
        ({"method": ("esr:budget=1",), "set": ("budget=2",)}, "budget is given twice: every method that has it was"),
        (
            {"method": ("esr", "saute", "lagrangian"), "set": ("budget=1",)},
            "budget means 'k, violations allowed per episode' to .* and 'd, mean violations allowed per episode' to "
            r"lagrangian; give each its own: --method esr:budget=\.\.\. saute:budget=\.\.\. lagrangian:budget=",
        ),
        ({"set": ("precision=fp8",)}, "precision 'fp8' is unknown; choose from bf16, fp32"),
    ],
)
def test_wrong_input_is_one_line_before_anything_compiles(given, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(training, "run_chunk", None)  # reaching the compiler would fail loudly
    assert run(Train(out=tmp_path / "out", **given)) == EXIT_USAGE
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1
    assert re.search(words, error), error
    assert not (tmp_path / "out").exists()


def asked(*methods, **given):
    runs, _ = Train(method=methods, **{"seeds": (1,), **given}).runs()
    return [(run.method, dict(run.method_settings)) for run in runs]


def test_several_methods_are_asked_for_in_one_command():
    own = ("esr:budget=1,2", "ser:weight=0.1", "lagrangian:budget=0.5")
    assert asked(*own) == [
        ("esr", {"budget": 1}),
        ("esr", {"budget": 2}),
        ("ser", {"weight": 0.1}),
        ("lagrangian", {"budget": 0.5}),
    ]
    # what is given to all goes to those that have it: here to one method, here to two that mean the same by it
    assert asked("ser", "unconstrained", set=("weight=0.1",)) == [("ser", {"weight": 0.1}), ("unconstrained", {})]
    assert asked("esr", "saute", set=("budget=2",)) == [("esr", {"budget": 2}), ("saute", {"budget": 2})]
    # and passes over the method that has its own
    assert asked("esr", "lagrangian:budget=0.5", set=("method.budget=2",)) == [
        ("esr", {"budget": 2}),
        ("lagrangian", {"budget": 0.5}),
    ]
    runs, _ = Train(method=own, seeds=(1, 2), set=("horizon=30", "hidden_size=8"), gamma=(1.0,)).runs()
    assert len(runs) == 8
    assert {(run.env_settings["horizon"], run.config.hidden_size, run.gamma) for run in runs} == {(30, 8, 1.0)}
    assert len({run.structure for run in runs}) == 1


def test_run_ids_do_not_depend_on_how_numbers_are_written():
    one = replace(RUNS[0], method_settings={"budget": 1})
    other = replace(RUNS[0], method_settings={"budget": 1.0})
    assert one.id == other.id
    assert one.id != replace(one, seed=99).id
    assert RunFolder.of(Path("out"), one).path.name == f"temptation.lagrangian.d=1.gamma1.s1.{one.id}"


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    may_write = threading.Event()
    write = checkpoints._manager.save
    monkeypatch.setattr(checkpoints._manager, "save", lambda *a, **k: may_write.wait(60) and write(*a, **k))
    state = {"x": jnp.arange(4.0)}
    checkpoints.save(1, state)  # returns though nothing is written yet
    checkpoints.raise_write_error()
    assert not list((tmp_path / "checkpoints").glob("1"))
    may_write.set()
    checkpoints.wait()
    np.testing.assert_array_equal(checkpoints.restore(state, print)["x"], state["x"])
    checkpoints.close()


def test_a_checkpoint_that_could_not_be_written_is_told(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path / "checkpoints")

    def full(*_, **__):
        raise RuntimeError("no space left")

    monkeypatch.setattr(checkpoints._manager, "save", full)
    checkpoints.save(1, {"x": jnp.zeros(2)})
    with pytest.raises(OSError, match="checkpoint 1 was not written"):
        checkpoints.wait()
    checkpoints.close()


def test_checkpoints_go_when_every_run_is_done(finished):
    home = next((finished / "populations").iterdir())
    assert [path.name for path in home.iterdir() if path.name == "checkpoints"] == []


def test_a_state_that_reads_back_otherwise_than_it_was_written_is_noticed(tmp_path, monkeypatch):
    """One bit of one number, which no reader of the format stumbles over."""
    checkpoints = Checkpoints(tmp_path)
    like = {"weights": np.arange(6.0), "update": np.int32(3)}
    for update in (1, 2):
        checkpoints.save(update, like)
        checkpoints.wait()
    whole = checkpoints._manager.restore

    def flipped(update, args):
        found = whole(update, args=args)
        if update == 2:
            found["state"]["0001"] = np.nextafter(np.asarray(found["state"]["0001"]), 9.0)
        return found

    monkeypatch.setattr(checkpoints._manager, "restore", flipped)
    said = []
    restored = checkpoints.restore(like, said.append)
    assert len(said) == 1
    assert "checkpoint 2 is damaged (checksum of 0001 differs)" in said[0]
    np.testing.assert_array_equal(restored["weights"], like["weights"])
    checkpoints.close()


def test_a_training_of_which_nothing_is_left_ends_with_a_code_of_its_own(tmp_path, capsys):
    """One that loses some of its runs says which, and suggests to judge the others."""
    steps = CONFIG.steps_per_update * 2
    sizes = ("num_envs=8", "num_steps=16", "update_epochs=1", "num_minibatches=2", "hidden_size=8")
    lost = Train(
        method=("ser",),
        seeds=(1,),
        total_timesteps=steps,
        set=("weight=0.1", "learning_rate=1e30", *sizes),
        out=tmp_path,
    )
    assert run(lost) == EXIT_DIVERGED
    said = capsys.readouterr()
    assert "every run diverged" in said.err
    assert "next:" not in said.out
    some = replace(lost, set=("weight=0.1,1e38", *sizes))
    assert run(some) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert re.search(r"next: perepisode evaluate .* \(without temptation\.ser\.w=1e\+38\.s1\.\w+: diverged\)", last)
