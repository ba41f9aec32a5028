"""A study on SLURM: the scripts as text, and a whole study on a real controller where there is one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import tiny

from perepisode.config import ConfigError
from perepisode.study import local, matrix, overview, plan, run_task, slurm, state
from perepisode.study.task_folder import TaskFolder

CLUSTER = slurm.SlurmResources(
    partition="gpu", account="ethics", time="12:00:00", throttle=4, setup=("module load cuda",)
)


def test_scripts_request_the_given_resources(tmp_path):
    study = plan.save(plan.compose(matrix.paper(), 8), tmp_path)
    scripts = {path.name: path.read_text() for path in slurm.write_scripts(study, tmp_path, CLUSTER)}
    assert list(scripts) == ["train.sbatch", "distill.sbatch", "distilled.sbatch", "report.sbatch", "submit.sh"]
    lines = scripts["train.sbatch"].splitlines()
    for wanted in ("--array=0-21%4", "--requeue", "--open-mode=append", "--signal=B:USR1@300", "--gres=gpu:1"):
        assert f"#SBATCH {wanted}" in lines
    for wanted in ("--partition=gpu", "--account=ethics", "--time=12:00:00"):
        assert f"#SBATCH {wanted}" in lines
    assert "module load cuda" in lines
    assert lines[-1].startswith("exec ")
    for name, text in scripts.items():
        assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0, name


def test_stages_wait_for_the_tasks_that_they_need(tmp_path):
    study = plan.save(tiny.study(late_updates=5), tmp_path)
    text = slurm.write_scripts(study, tmp_path, CLUSTER)[-1].read_text()
    assert "--dependency=afterok:${train%%;*}_0:${train%%;*}_1 --kill-on-invalid-dep=yes distill.sbatch" in text
    assert "--dependency=afterok:${distill%%;*}_0 --kill-on-invalid-dep=yes distilled.sbatch" in text
    assert "--dependency=afterany:${train%%;*}:${distill%%;*}:${distilled%%;*}" in text


def test_finished_tasks_are_not_submitted_again(tmp_path):
    study = plan.save(tiny.study(), tmp_path)
    TaskFolder.of(tmp_path, "train-01").finish(after=())
    written = slurm.write_scripts(study, tmp_path, CLUSTER)
    assert "tasks=(train-02)" in written[0].read_text()
    assert "afterok" not in written[-1].read_text()
    for task in study.tasks:
        TaskFolder.of(tmp_path, task.name).finish(after=task.after)
    with pytest.raises(ConfigError, match="nothing is left"):
        slurm.write_scripts(study, tmp_path, CLUSTER)


def test_a_machine_without_slurm_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no SLURM on this machine"):
        slurm.submit(tiny.study(), tmp_path, CLUSTER)


def test_a_task_without_progress_gives_up(tmp_path, monkeypatch):
    """Otherwise a time limit shorter than the start-up would requeue forever."""
    task = plan.save(tiny.study(), tmp_path).tasks[0]
    calls = []
    answer = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(slurm.subprocess, "run", lambda command, **_: calls.append(command) or answer)
    for name, value in {"JOB_ID": "9", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert slurm.requeue_this_job(task, tmp_path) is None
    assert slurm.requeue_this_job(task, tmp_path) is None
    assert "more time" in slurm.requeue_this_job(task, tmp_path)
    assert calls == [["scontrol", "requeue", "7_0"]] * 2


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, 1), (signal.SIGTERM, 0)])
def test_a_task_requeues_its_job_after_slurms_warning_alone(tmp_path, monkeypatch, number, requeued):
    """SLURM sends SIGUSR1 before a time limit; SIGTERM comes from a supervisor, which starts the task again itself."""
    task = plan.save(tiny.study(), tmp_path).tasks[0]
    calls = []

    def interrupted(study, task, out):
        signal.raise_signal(number)

    monkeypatch.setitem(run_task.KINDS, task.kind, interrupted)
    answer = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(slurm.subprocess, "run", lambda command, **_: calls.append(command) or answer)
    for name, value in {"JOB_ID": "9", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert run_task.main(tmp_path, task.name, log=lambda line: None) == run_task.RESUME
    assert calls == [["scontrol", "requeue", "7_0"]] * requeued


# ---- a real SLURM -------------------------------------------------------------------------------------------


@pytest.mark.slurm
def test_a_study_survives_cancelling_a_time_limit_and_preemption(cluster, tmp_path):
    """After a cancellation, a time limit and a preemption, the result equals that of a local run bit for bit."""
    here, there = tmp_path / "local", tmp_path / "cluster"
    study = plan.save(tiny.study(updates=200, late_updates=10), here)
    plan.save(study, there)
    machine = slurm.SlurmResources(partition="low", gpus=0, cpus=1, time="00:20:00", throttle=1, warning=30)

    jobs = _submit(study, there, machine)
    with pytest.raises(ConfigError, match="already submitted"):
        slurm.submit(study, there, machine)
    _wait("first updates", lambda: _share(there, "train-01") > 0)
    subprocess.run(["scancel", *jobs.values()], check=True)
    _wait("cancelled", lambda: not slurm.queued(there))
    stopped = _state(there, "train-01")
    assert (stopped.state, stopped.detail) == ("ready", "stopped; can resume")
    assert 0 < stopped.share < 1
    _say(f"cancelled at {stopped.share:.0%}, not queued again")

    job = _submit(study, there, machine)["train"]
    _hold_until_signalled(there, "train-01", signal.SIGUSR1, cause=lambda: _limit_to_the_next_minute(f"{job}_0"))
    _wait("requeued by the time limit", lambda: _restarts(f"{job}_0") >= 1)
    _wait("more time granted", lambda: _limit(f"{job}_0", minutes=20))
    _hold_until_signalled(there, "train-02", signal.SIGTERM, cause=_claim_the_node)
    _wait("requeued by preemption", lambda: _restarts(f"{job}_1") >= 1)
    _wait("report", lambda: _state(there, "report").state == "done")

    log = (there / "tasks" / "train-01" / "log").read_text()
    assert "stopped by SIGTERM" in log
    assert "stopped by SIGUSR1" in log
    assert "stopped by SIGTERM" in (there / "tasks" / "train-02" / "log").read_text()
    assert (there / "report" / "index.html").exists()
    assert local.run(study, here, [{}, {}], view=overview.StudyView()) == 0
    pd.testing.assert_frame_equal(tiny.all_episodes(here), tiny.all_episodes(there))
    assert tiny.metrics_without_clock(here) == tiny.metrics_without_clock(there)
    _say("episodes and metrics equal a local run's")


def _submit(study: plan.Study, out: Path, machine: slurm.SlurmResources) -> dict[str, str]:
    jobs = slurm.submit(study, out, machine)
    assert {"train", "distill", "distilled", "report"} <= set(jobs)
    _say(f"submitted {jobs}")
    return jobs


def _state(out: Path, name: str) -> state.TaskState:
    return next(one for one in state.read(plan.load(out), out) if one.task.name == name)


def _share(out: Path, name: str) -> float:
    return _state(out, name).share


def _limit(element: str, minutes: int) -> bool:
    """Set a job's time limit; SLURM refuses while a requeue is under way."""
    return subprocess.run(["scontrol", "update", f"JobId={element}", f"TimeLimit={minutes}"]).returncode == 0


def _limit_to_the_next_minute(element: str) -> None:
    """SLURM checks limits every 30 seconds and warns up to that much early.

    With a short limit from the start, it would warn before the task can receive the signal."""
    hours, minutes, seconds = map(int, _field(element, "RunTime").split(":"))
    assert _limit(element, hours * 60 + minutes + (1 if seconds < 15 else 2))


def _claim_the_node() -> None:
    everything = ["--partition=high", f"--cpus-per-task={os.cpu_count()}", "--output=/dev/null"]
    subprocess.run(["sbatch", *everything, "--wrap=sleep 3"], check=True, capture_output=True)


def _hold_until_signalled(
    out: Path, name: str, number: signal.Signals, cause: Callable[[], None] = lambda: None
) -> None:
    """Suspend a running task until SLURM's signal arrives, however fast this machine is."""
    before = _share(out, name)
    _wait(f"{name} at work", lambda: _state(out, name).state == "running" and _share(out, name) > before)
    pid = TaskFolder.of(out, name).beat["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        cause()
        _wait(f"{number.name} from SLURM", lambda: _arrived(pid, number))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _arrived(pid: int, number: signal.Signals) -> bool:
    """Whether the signal is pending, or has ended the process already (SLURM may wake the process)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    pending = sum(int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd")))
    return bool(pending & (1 << (number - 1)))


def _restarts(element: str) -> int:
    return int(_field(element, "Restarts"))


def _field(element: str, name: str) -> str:
    answer = subprocess.run(["scontrol", "show", "job", element], capture_output=True, text=True).stdout
    return answer.partition(f"{name}=")[2].split()[0]


def _wait(what: str, ready: Callable[[], object], seconds: float = 240.0) -> None:
    began = time.monotonic()
    while not ready():
        assert time.monotonic() - began < seconds, f"waited {seconds:.0f} s for: {what}"
        time.sleep(0.1)
    _say(f"{what} after {time.monotonic() - began:.1f} s")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
