"""A study on one machine: order, failures, concurrent starts, status from files, and kill -9 of everything."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import tiny

from perepisode.config import ConfigError
from perepisode.runs import file_lock
from perepisode.study import local, overview, plan, state
from perepisode.study.task_folder import STALE_SECONDS, TaskFolder

pytestmark = pytest.mark.processes

STAND_IN = """
import json, os, sys, time
from pathlib import Path
from perepisode.study import plan, state
from perepisode.study.task_folder import TaskFolder

out, name = Path(sys.argv[1]), sys.argv[2]
study = plan.load(out)
after = state.done_of(state.before(study, out, study.task(name)))
folder = TaskFolder.of(out, name)
with open(out / "order", "a") as file:
    file.write(json.dumps([name, os.environ.get("CUDA_VISIBLE_DEVICES", "")]) + "\\n")
with folder.at_work():
    time.sleep(0.3)
    print(name, "is running", flush=True)
    ending = json.loads((out / "endings").read_text()).get(name, "done")
    if ending == "done":
        folder.finish(seconds=0.3, after=after)
    elif ending == "killed":
        os.kill(os.getpid(), 9)
    elif ending == "stopped" and not (folder.path / "again").exists():
        (folder.path / "again").touch()
        sys.exit(75)
    elif ending == "stopped":
        folder.finish(seconds=0.3, after=after)
    elif ending == "dead at once":
        os._exit(3)
    else:
        folder.fail("as the test demands")
        sys.exit(int(ending))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A study with fake workers; how each task ends is given by name."""
    script = tmp_path / "worker.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(local, "WORKER", (sys.executable, str(script)))
    monkeypatch.setattr(local, "POLL_SECONDS", 0.05)
    out = tmp_path / "study"
    study = plan.save(tiny.study(late_updates=5), out)

    def work(slots=({},), tasks=(), **endings) -> int:
        (work.out / "endings").write_text(json.dumps({name.replace("_", "-"): end for name, end in endings.items()}))
        return local.run(study, work.out, list(slots), view=overview.StudyView(), tasks=tasks)

    work.out, work.study = out, study
    return work


def states(out: Path) -> dict[str, str]:
    return {one.task.name: one.state for one in state.read(plan.load(out), out)}


def started(out: Path) -> list[list[str]]:
    return [json.loads(line) for line in (out / "order").read_text().splitlines()]


def test_tasks_run_after_the_tasks_that_they_wait_for(stand_in):
    assert stand_in() == 0
    names = [name for name, _ in started(stand_in.out)]
    assert names == ["train-01", "train-02", "distill-temptation", "distilled-01", "exact", "report"]
    assert set(states(stand_in.out).values()) == {"done"}


def test_a_finished_study_starts_nothing(stand_in):
    stand_in()
    before = started(stand_in.out)
    assert stand_in() == 0
    assert started(stand_in.out) == before


def test_a_study_moves_between_machines(stand_in, tmp_path, capsys):
    """Each machine runs some tasks in a copy of the folder; nothing is run twice."""
    assert stand_in(tasks=("train-02",)) == 0
    assert stand_in(tasks=("train-02", "distilled-01")) == 1  # it waits for the other pack
    assert "distilled-01 waiting: for distill-temptation" in capsys.readouterr().err
    stand_in.out = shutil.copytree(stand_in.out, tmp_path / "another machine")
    assert stand_in(tasks=("train-01", "exact")) == 0
    assert stand_in() == 0
    names = [name for name, _ in started(stand_in.out)]
    assert names == ["train-02", "train-01", "exact", "distill-temptation", "distilled-01", "report"]
    with pytest.raises(ConfigError, match="this study has no task 'train-03'; it has train-01, "):
        stand_in(tasks=("train-03",))


@pytest.mark.parametrize("ending", ["1", "2", "killed"])
def test_a_failed_pack_does_not_stop_the_rest(stand_in, ending):
    assert stand_in(train_01=ending) == 1
    assert states(stand_in.out) == {
        "train-01": "failed",
        "train-02": "done",
        "distill-temptation": "blocked",
        "distilled-01": "blocked",
        "exact": "done",
        "report": "done",
    }
    assert stand_in() == 0  # the next start retries only what failed
    again = [name for name, _ in started(stand_in.out)][4:]
    assert again == ["train-01", "distill-temptation", "distilled-01", "report"]


def test_a_task_whose_worker_alone_was_stopped_resumes_in_the_same_start(stand_in):
    assert stand_in(train_01="stopped") == 0
    assert [name for name, _ in started(stand_in.out)].count("train-01") == 2


def test_a_worker_lives_while_its_process_or_its_heartbeat_does(tmp_path):
    folder = TaskFolder(tmp_path)
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a zombie until somebody waits for it
    here, now = socket.gethostname(), time.time()
    for host, pid, seconds, alive in (
        (here, os.getpid(), 10**6, True),  # its process is known to live, whatever the clock says
        (here, ended.pid, 0, False),
        ("elsewhere", ended.pid, STALE_SECONDS - 10, True),
        ("elsewhere", os.getpid(), STALE_SECONDS + 10, False),
    ):
        (tmp_path / "beat").write_text(json.dumps({"host": host, "pid": pid, "time": now - seconds}))
        assert (folder.beat is not None) == alive, (host, pid, seconds)
    ended.wait()


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("1", "as the test demands"),
        ("killed", "its process was killed by SIGKILL (out of memory?): train-02 is running"),
        ("dead at once", "its process exited with code 3: train-02 is running"),
    ],
)
def test_the_last_line_has_the_reason_and_the_log_of_the_failed_task(stand_in, capsys, ending, reason):
    assert stand_in(train_02=ending) == 1
    log = stand_in.out / "tasks" / "train-02" / "log"
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"perepisode: train-02 failed (2 more not done): {reason}; log: {log}"


def test_a_silent_death_is_not_explained_by_the_log_of_an_earlier_attempt(tmp_path, monkeypatch, capsys):
    out = tmp_path / "study"
    study = plan.save(tiny.study(), out)
    for code in ("print('first attempt'); raise SystemExit(3)", "raise SystemExit(4)"):
        monkeypatch.setattr(local, "WORKER", (sys.executable, "-c", code))
        assert local.run(study, out, [{}], view=overview.StudyView()) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "its process exited with code 3: first attempt; log" in first
    assert "its process exited with code 4; log" in second


NO_SUCH_FLAG = "--xla_that_no_jaxlib_knows=1"


@pytest.mark.parametrize(
    ("words", "log"),
    [
        (["demo", "--no-craftax", "--out", "demo"], "demo/temptation/tasks/train-01/log"),
        (["study", "run", "--env", "temptation", "--only", "unconstrained"], "study/tasks/train-01/log"),
    ],
    ids=["demo", "study run"],
)
def test_a_command_whose_workers_cannot_start_ends_with_their_error(tmp_path, words, log):
    """XLA aborts a process on an unknown flag, and nothing printed later hides that error."""
    environment = {**os.environ, "XLA_FLAGS": NO_SUCH_FLAG}
    command = [sys.executable, "-m", "perepisode", *words]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.startswith("perepisode: train-01 failed (")
    assert line.endswith(f"Unknown flag in XLA_FLAGS: {NO_SUCH_FLAG}; log: {log}")
    assert (tmp_path / log).exists()
    assert "wrote" not in answer.stdout


def test_a_full_disk_stops_the_study(stand_in, capsys):
    assert stand_in(train_01="74") == 74
    assert [name for name, _ in started(stand_in.out)] == ["train-01"]
    log = stand_in.out / "tasks" / "train-01" / "log"
    assert f"stopped: as the test demands; log: {log}; run the same" in capsys.readouterr().out


def test_each_worker_sees_its_own_gpu(stand_in, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert stand_in(slots=local.slots_for("gpu", 2)) == 0
    assert {gpu for _, gpu in started(stand_in.out)[:2]} == {"0", "1"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in local.slots_for("gpu", 2)] == ["3", "5"]


def test_a_second_start_is_refused(stand_in):
    with file_lock(stand_in.out / "lock", "x"), pytest.raises(ConfigError, match="is being run by process"):
        stand_in()


def test_status_needs_no_jax(stand_in):
    stand_in(train_02="1")
    code = (
        "import sys; from pathlib import Path; from perepisode.study.cli import StatusCommand;"
        "StatusCommand(Path(sys.argv[1]))();"
        "sys.exit('jax' in sys.modules or 'craftax' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(stand_in.out)], capture_output=True, text=True)
    assert answer.returncode == 0
    assert "train-02" in answer.stdout
    assert "as the test demands" in answer.stdout
    assert "1 failed" in answer.stdout


def test_two_studies_share_the_workers(stand_in, tmp_path, capsys, monkeypatch):
    """Tasks of the second fill the free workers, and a failure in one study leaves the other alone."""
    first, second = stand_in.out, tmp_path / "second"
    studies = {first: stand_in.study, second: plan.save(tiny.study(updates=30), second)}
    (first / "endings").write_text("{}")
    (second / "endings").write_text(json.dumps({"train-01": "1"}))
    order, start = [], local.Supervisor._start

    def recorded(self, out, folder, device):
        order.append(f"{out.name}/{folder.path.name}")
        return start(self, out, folder, device)

    monkeypatch.setattr(local.Supervisor, "_start", recorded)
    assert local.run_all(studies, [{}, {}], overview.StudyLines(2)) == 1
    assert order[:2] == ["study/train-01", "study/train-02"]
    assert order.index("second/train-01") < order.index("study/report")  # while the last pack waits for others
    assert set(states(first).values()) == {"done"}
    assert states(second) == {"train-01": "failed", "train-02": "done", "exact": "done", "report": "done"}
    shown = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert {"study/report done", "second/report done"} <= set(shown)
    assert "second/train-01 failed: as the test demands" in shown
    with file_lock(second / "lock", "that"), pytest.raises(ConfigError):
        local.run_all(studies, [{}], overview.StudyView())
    (second / "endings").write_text("{}")
    assert local.run_all(studies, [{}], overview.StudyView()) == 0


def test_time_left_is_estimated_per_environment():
    """One worker has 600 steps left at 10 per second in one environment, and 30 at 1 per second in another."""

    def running(env, steps, speed):
        return state.TaskState(
            plan.Task(env, "train", members=(plan.Member(env, env, 1, steps, {"env": env}),)), "running", speed=speed
        )

    both = [running("temptation", 600, 10.0), running("craftax", 30, 1.0)]
    assert state.seconds_left(both, workers=1) == pytest.approx(60 + 30)
    assert state.seconds_left([both[0], running("craftax", 30, 0.0)], workers=1) is None


def test_status_shows_progress_and_time_left(tmp_path):
    study = plan.save(tiny.study(updates=20), tmp_path)
    row = {"update": 5, "clock": {"steps_per_second": 1000.0, "eta_seconds": 30}}
    metrics = tmp_path / "runs" / study.tasks[0].members[0].folder / "metrics.jsonl"
    metrics.parent.mkdir(parents=True)
    metrics.write_text(json.dumps(row) + "\n" + '{"update": 6, "clo')  # the last line is being written
    with TaskFolder.of(tmp_path, "train-01").at_work():
        time.sleep(0.2)
        first, second, *_ = state.read(study, tmp_path)
    assert (first.state, first.share, first.speed, first.seconds_left) == ("running", 0.25, 2000.0, 30)
    assert second.state == "ready"
    left = 0.75 * study.tasks[0].steps + study.tasks[1].steps
    assert state.seconds_left([first, second]) == pytest.approx(left / 2000.0)
    assert "25 %" in overview.plain([first, second])


# ---- real workers -------------------------------------------------------------------------------------------

START = """
import sys
from pathlib import Path
from perepisode.study import local, plan

out = Path(sys.argv[1])
sys.exit(local.run(plan.load(out), out, [{}, {}]))
"""


def start(out: Path) -> subprocess.Popen:
    """A supervisor in its own process group, as a shell starts it."""
    return subprocess.Popen([sys.executable, "-c", START, str(out)], start_new_session=True, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_kill_9_of_the_whole_tree_changes_nothing(tmp_path):
    """Killed three times at random moments, the study has the episodes and metrics of an uninterrupted one."""
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    study = tiny.study(updates=60, late_updates=20)
    for out in (calm, rough):
        plan.save(study, out)
    assert start(calm).wait() == 0  # also fills the compilation cache, so that the kills hit the work itself
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    draw, finished = random.Random(seed), {}
    for _ in range(3):
        process = start(rough)
        _kill_between(process, rough, study, draw)
        finished |= _done(rough)
    assert start(rough).wait() == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "a finished run was trained again"
    pd.testing.assert_frame_equal(tiny.all_episodes(calm), tiny.all_episodes(rough))
    assert tiny.metrics_without_clock(calm) == tiny.metrics_without_clock(rough)
    weights = [sorted((out / "runs").glob("*/policy.safetensors")) for out in (calm, rough)]
    assert [path.read_bytes() for path in weights[0]] == [path.read_bytes() for path in weights[1]]


def _kill_between(process: subprocess.Popen, out: Path, study: plan.Study, draw: random.Random) -> None:
    """Let the study make some random progress, then kill supervisor and workers at once."""
    target = _share(out, study) + draw.uniform(0.05, 0.3)
    while _share(out, study) < target and process.poll() is None:
        time.sleep(0.02)
    time.sleep(draw.uniform(0.0, 0.5))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.returncode in (0, -signal.SIGKILL)


def _share(out: Path, study: plan.Study) -> float:
    tasks = state.read(study, out)
    return sum(one.share for one in tasks) / sum(bool(one.task.members) for one in tasks)


def _done(out: Path) -> dict[Path, int]:
    """Finished runs of finished tasks, and the time at which each finished."""
    names = [m.folder for one in state.read(plan.load(out), out) if one.state == "done" for m in one.task.members]
    paths = [out / "runs" / name / "done" for name in names]
    return {path: path.stat().st_mtime_ns for path in paths}


@pytest.mark.slow
def test_sigterm_checkpoints_and_the_next_start_resumes(tmp_path):
    study = plan.save(tiny.study(updates=60), tmp_path)
    process = start(tmp_path)
    while _share(tmp_path, study) == 0:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75
    assert "stopped by SIGTERM" in "".join(
        (tmp_path / "tasks" / t / "log").read_text() for t in ("train-01", "train-02")
    )
    assert start(tmp_path).wait() == 0
