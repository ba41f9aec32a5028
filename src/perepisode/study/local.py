"""Studies on this machine: one worker process per GPU, or one on the CPU; the files tell what is left to do."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perepisode.runs import file_lock
from perepisode.study import overview, run_task, state
from perepisode.study.plan import Study
from perepisode.study.task_folder import TaskFolder, last_line

POLL_SECONDS = 0.5
# the study's folder and the task's name follow; -P keeps modules of the current folder from being imported
WORKER = (sys.executable, "-P", "-m", "perepisode.study.run_task")


@dataclass(frozen=True)
class Worker:
    folder: TaskFolder
    process: subprocess.Popen
    log_start: int  # position in the log; earlier attempts wrote what comes before


@dataclass
class Supervisor:
    """Starts a worker for every task that is ready, and records how it ended."""

    studies: Mapping[Path, Study]  # by folder, in order of priority
    slots: list[dict[str, str]]  # environment variables of each worker: the device it sees
    tasks: tuple[str, ...] = ()  # start these only; empty: all
    busy: dict[int, Worker] = field(default_factory=dict)
    tried: set[Path] = field(default_factory=set)  # folders of tasks already started
    stop_reason: str = ""  # why no further task is started

    def start_ready(self, states: Mapping[Path, list[state.TaskState]]) -> None:
        for out, task_state in ((out, task_state) for out, tasks in states.items() for task_state in tasks):
            slot = next((i for i in range(len(self.slots)) if i not in self.busy), None)
            if slot is None or self.stop_reason:
                return
            if not self.selects(task_state.task.name):
                continue
            folder = TaskFolder.of(out, task_state.task.name)
            if task_state.state in ("ready", "failed") and folder.path not in self.tried:
                self.tried.add(folder.path)
                self.busy[slot] = self._start(out, folder, self.slots[slot])

    def selects(self, task: str) -> bool:
        return not self.tasks or task in self.tasks

    def _start(self, out: Path, folder: TaskFolder, device: dict[str, str]) -> Worker:
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.clear_failure()
        environment = {**os.environ, **device, "PEREPISODE_SUPERVISOR": str(os.getpid())}
        command = [*WORKER, str(out), folder.path.name]
        with open(folder.log, "a") as log:
            log_start = log.tell()
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        return Worker(folder, process, log_start)

    def reap(self) -> None:
        for slot, worker in list(self.busy.items()):
            folder, code = worker.folder, worker.process.poll()
            if code is None:
                continue
            del self.busy[slot]
            message = last_line(folder.log, worker.log_start)
            if code == run_task.DISK:
                self.stop_reason = f"{folder.failed or message or 'a write failed'}; log: {folder.log}"
            elif code not in (run_task.DONE, run_task.RESUME) and not folder.failed:
                folder.fail(f"{_describe(code)}: {message}" if message else _describe(code))
            elif code == run_task.RESUME and not self.stop_reason:
                self.tried.discard(folder.path)  # that worker alone was stopped, so its task resumes

    def stop(self, why: str) -> None:
        """Ask every worker to checkpoint and exit."""
        self.stop_reason = self.stop_reason or why
        for worker in self.busy.values():
            worker.process.send_signal(signal.SIGTERM)


def _describe(code: int) -> str:
    if code >= 0:
        return f"its process exited with code {code}"
    name = signal.Signals(-code).name
    return f"its process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def run(
    study: Study,
    out: Path,
    slots: list[dict[str, str]],
    view: overview.StudyView | None = None,
    tasks: tuple[str, ...] = (),
) -> int:
    """Run a study, or only these of its tasks: another machine may run the others in a copy of the folder."""
    for name in tasks:
        study.task(name)  # raises ConfigError for an unknown one
    return run_all({Path(out): study}, slots, view, tasks)


def run_all(
    studies: Mapping[Path, Study],
    slots: list[dict[str, str]],
    view: overview.StudyView | None = None,
    tasks: tuple[str, ...] = (),
) -> int:
    """Run tasks until none is left that can run; returns 0 if all are done, 1 if one failed, 75 if stopped.

    Unless all are done, the last line printed is the reason.
    """
    with contextlib.ExitStack() as locks:
        for out in studies:
            locks.enter_context(file_lock(out / "lock", f"the study in {out}"))
        view = view or overview.view_for(len(slots))
        supervisor = Supervisor(studies, slots, tasks)
        before = _forward_signals(supervisor)
        try:
            states = _loop(supervisor, view)
        finally:
            view.close()
            for number, handler in before.items():
                signal.signal(number, handler)
    if supervisor.stop_reason:
        print(f"stopped: {supervisor.stop_reason}; run the same command again to resume")
        return run_task.RESUME if supervisor.stop_reason.startswith("by SIG") else run_task.DISK
    wanted = {out: [one for one in found if supervisor.selects(one.task.name)] for out, found in states.items()}
    if all(task.state == "done" for task in _with_study_names(wanted)):
        return run_task.DONE
    print(f"perepisode: {_failure(wanted)}", file=sys.stderr)
    return run_task.FAILED


def _failure(states: Mapping[Path, list[state.TaskState]]) -> str:
    """The first task that failed, its last message and its log; later failures may be consequences."""
    unfinished = [(out, task) for out, tasks in states.items() for task in tasks if task.state != "done"]
    failed = [(out, task) for out, task in unfinished if task.state == "failed"]
    out, first = (failed or unfinished)[0]
    more = f" ({len(unfinished) - 1} more not done)" if len(unfinished) > 1 else ""
    log = TaskFolder.of(out, first.task.name).log
    return f"{first.task.name} {first.state}{more}: {first.detail}; log: {log}"


def _loop(supervisor: Supervisor, view: overview.StudyView) -> Mapping[Path, list[state.TaskState]]:
    while True:
        supervisor.reap()
        states = {out: state.read(study, out) for out, study in supervisor.studies.items()}
        supervisor.start_ready(states)
        shown = _with_study_names(states)
        view.show(shown)
        # a task that runs without a worker of ours belongs to a worker of an earlier start that is still exiting
        others = any(task.state == "running" for task in shown)
        if not supervisor.busy and (supervisor.stop_reason or not others):
            return states
        time.sleep(POLL_SECONDS)


def _with_study_names(states: Mapping[Path, list[state.TaskState]]) -> list[state.TaskState]:
    """All tasks; if there are several studies, each task's name starts with its study's."""
    if len(states) == 1:
        return next(iter(states.values()))
    return [
        replace(state, task=replace(state.task, name=f"{out.name}/{state.task.name}"))
        for out, tasks in states.items()
        for state in tasks
    ]


def _forward_signals(supervisor: Supervisor) -> dict[int, Any]:
    """Ctrl-C, SIGTERM and SIGUSR1 stop the study after a checkpoint."""

    def handle(number, frame):
        supervisor.stop(f"by {signal.Signals(number).name}")

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    return {number: signal.signal(number, handle) for number in numbers}


def slots_for(kind: str, count: int) -> list[dict[str, str]]:
    """The environment variables of each worker, which see one GPU each, or the CPU."""
    if kind == "cpu":
        return [{} for _ in range(count)]
    given = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    names = given or [str(i) for i in range(count)]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names[:count]]
