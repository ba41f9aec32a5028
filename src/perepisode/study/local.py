"""Studies on this machine: one worker process a GPU, or one on the CPU; the files say what is left to do."""

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
# followed by the study's folder and the task's name; -P: no module is taken from the folder one happens to be in
WORKER = (sys.executable, "-P", "-m", "perepisode.study.run_task")


@dataclass(frozen=True)
class Worker:
    folder: TaskFolder
    process: subprocess.Popen
    log_begins: int  # earlier attempts wrote what comes before


@dataclass
class Supervisor:
    """Starts a worker for every task that may start, and notes how it ended."""

    studies: Mapping[Path, Study]  # by folder; the first have precedence
    slots: list[dict[str, str]]  # the environment of each worker: which device it sees
    busy: dict[int, Worker] = field(default_factory=dict)
    tried: set[Path] = field(default_factory=set)  # folders of tasks
    ended: str = ""  # why no further task is started

    def start_what_may(self, states: Mapping[Path, list[state.TaskState]]) -> None:
        for out, one in ((out, one) for out, some in states.items() for one in some):
            slot = next((i for i in range(len(self.slots)) if i not in self.busy), None)
            if slot is None or self.ended:
                return
            folder = TaskFolder.of(out, one.task.name)
            if one.state in ("ready", "failed") and folder.path not in self.tried:
                self.tried.add(folder.path)
                self.busy[slot] = self._start(out, folder, self.slots[slot])

    def _start(self, out: Path, folder: TaskFolder, device: dict[str, str]) -> Worker:
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.forget_failure()  # another attempt; if it fails too, it says so again
        environment = {**os.environ, **device, "PEREPISODE_SUPERVISOR": str(os.getpid())}
        command = [*WORKER, str(out), folder.path.name]
        with open(folder.log, "a") as log:
            begins = log.tell()
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        return Worker(folder, process, begins)

    def reap(self) -> None:
        for slot, worker in list(self.busy.items()):
            folder, code = worker.folder, worker.process.poll()
            if code is None:
                continue
            del self.busy[slot]
            said = last_line(folder.log, worker.log_begins)
            if code == run_task.DISK:
                self.ended = f"{folder.failed or said or 'a write failed'}; log: {folder.log}"
            elif code not in (run_task.DONE, run_task.RESUME) and not folder.failed:
                folder.fail(f"{_how(code)}: {said}" if said else _how(code))
            elif code == run_task.RESUME and not self.ended:
                self.tried.discard(folder.path)  # somebody stopped that one worker: it goes on

    def stop(self, why: str) -> None:
        """Ask every worker to checkpoint and end."""
        self.ended = self.ended or why
        for worker in self.busy.values():
            worker.process.send_signal(signal.SIGTERM)


def _how(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    name = signal.Signals(-code).name
    return f"its process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def run(study: Study, out: Path, slots: list[dict[str, str]], view: overview.View | None = None) -> int:
    return run_all({Path(out): study}, slots, view)


def run_all(studies: Mapping[Path, Study], slots: list[dict[str, str]], view: overview.View | None = None) -> int:
    """Work until nothing is left that can be done; 0 if all is done, 1 if something failed, 75 if stopped.

    Unless all is done, the last line says why not: callers have nothing to add, and nothing to go on with.
    """
    with contextlib.ExitStack() as locks:
        for out in studies:
            locks.enter_context(file_lock(out / "lock", f"the study in {out}"))
        view = view or overview.for_this_terminal(len(slots))
        supervisor = Supervisor(studies, slots)
        before = _forward_signals(supervisor)
        try:
            states = _loop(supervisor, view)
        finally:
            view.close()
            for number, handler in before.items():
                signal.signal(number, handler)
    if supervisor.ended:
        print(f"stopped: {supervisor.ended}; start the same command again to go on")
        return run_task.RESUME if supervisor.ended.startswith("by SIG") else run_task.DISK
    if all(one.state == "done" for one in _named(states)):
        return run_task.DONE
    print(f"perepisode: {_failure(states)}", file=sys.stderr)
    return run_task.FAILED


def _failure(states: Mapping[Path, list[state.TaskState]]) -> str:
    """The first task that failed, its last words and where to read the rest; what failed later may only follow."""
    unfinished = [(out, one) for out, some in states.items() for one in some if one.state != "done"]
    failed = [(out, one) for out, one in unfinished if one.state == "failed"]
    out, first = (failed or unfinished)[0]
    more = f" ({len(unfinished) - 1} more not done)" if len(unfinished) > 1 else ""
    log = TaskFolder.of(out, first.task.name).log
    return f"{first.task.name} {first.state}{more}: {first.detail}; log: {log}"


def _loop(supervisor: Supervisor, view: overview.View) -> Mapping[Path, list[state.TaskState]]:
    while True:
        supervisor.reap()
        states = {out: state.read(study, out) for out, study in supervisor.studies.items()}
        supervisor.start_what_may(states)
        shown = _named(states)
        view.show(shown)
        # a task that is running though no worker of ours has it belongs to a dying worker of an earlier start
        others = any(one.state == "running" for one in shown)
        if not supervisor.busy and (supervisor.ended or not others):
            return states
        time.sleep(POLL_SECONDS)


def _named(states: Mapping[Path, list[state.TaskState]]) -> list[state.TaskState]:
    """All tasks; where there are several studies, with the name of theirs."""
    if len(states) == 1:
        return next(iter(states.values()))
    return [
        replace(one, task=replace(one.task, name=f"{out.name}/{one.task.name}"))
        for out, some in states.items()
        for one in some
    ]


def _forward_signals(supervisor: Supervisor) -> dict[int, Any]:
    """Ctrl-C, SIGTERM and SIGUSR1 stop the study in an orderly way."""

    def note(number, frame):
        supervisor.stop(f"by {signal.Signals(number).name}")

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    return {number: signal.signal(number, note) for number in numbers}


def slots_for(kind: str, count: int) -> list[dict[str, str]]:
    """What each worker sees: its own GPU, or the CPU."""
    if kind == "cpu":
        return [{} for _ in range(count)]
    given = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    names = given or [str(i) for i in range(count)]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names[:count]]
