"""Progress of a study, read from its files alone: asks no process, starts no device, imports no JAX."""

from dataclasses import dataclass
from pathlib import Path

from perepisode import safe_io
from perepisode.runs import RunFolder
from perepisode.study.plan import Study, Task
from perepisode.study.task_folder import TaskFolder

STATES = ("done", "running", "ready", "waiting", "failed", "blocked")


@dataclass(frozen=True)
class TaskState:
    """A task and its progress.

    ready: can start or resume now; waiting: for other tasks; blocked: a task that it needs has failed.
    """

    task: Task
    state: str
    share: float = 0.0  # of its updates that are done
    speed: float = 0.0  # steps per second, over all its runs
    seconds_left: float | None = None
    detail: str = ""
    diverged: int = 0

    @property
    def steps_left(self) -> float:
        return 0.0 if self.state == "done" else (1.0 - self.share) * self.task.steps


def read(study: Study, out: Path) -> list[TaskState]:
    """Every task's state, in the study's order."""
    found: dict[str, TaskState] = {}
    for task in study.tasks:
        found[task.name] = _read_task(task, Path(out), found)
    return list(found.values())


def _read_task(task: Task, out: Path, known: dict[str, TaskState]) -> TaskState:
    folder = TaskFolder.of(out, task.name)
    share, speed, left = progress(task, out)
    diverged = sum(1 for member in task.members if RunFolder(out / "runs" / member.folder).failed)
    detail = f"{diverged} diverged" if diverged else ""
    after = [known[name] for name in task.after]
    if (done := folder.done) and set(done_of(after)) <= _names(done):
        return TaskState(task, "done", 1.0, speed, 0.0, detail, diverged)
    beat = folder.beat
    if beat:
        where = f"job {beat['job']} on {beat.get('host')}" if beat.get("job") else f"process {beat['pid']}"
        phase = "evaluating, " if share == 1.0 else ""
        return TaskState(task, "running", share, speed, left, phase + where, diverged)
    if folder.failed:
        return TaskState(task, "failed", share, detail=folder.failed, diverged=diverged)
    return _not_started(task, share, after)


def done_of(states: list[TaskState]) -> list[str]:
    """Names of the finished tasks.  A task records them when it ends; a report that lists fewer is out of date."""
    return [one.task.name for one in states if one.state == "done"]


def _names(done: dict) -> set[str]:
    after = done.get("after")
    return set(map(str, after)) if isinstance(after, list) else set()


def before(study: Study, out: Path, task: Task) -> list[TaskState]:
    """The states of the tasks that this one waits for."""
    return [one for one in read(study, out) if one.task.name in task.after]


def _not_started(task: Task, share: float, after: list[TaskState]) -> TaskState:
    """A report uses whatever there is; every other task needs all that it waits for."""
    lost = [one.task.name for one in after if one.state in ("failed", "blocked")]
    open_ = [one.task.name for one in after if one.state in ("running", "ready", "waiting")]
    if lost and task.kind != "report":
        return TaskState(task, "blocked", share, detail=f"needs {', '.join(lost)}")
    if open_:
        return TaskState(task, "waiting", share, detail=f"for {_some(open_)}")
    return TaskState(task, "ready", share, detail="stopped; can resume" if share else "")


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} tasks"


def progress(task: Task, out: Path) -> tuple[float, float, float | None]:
    """Share of the updates done, speed, and seconds left; the runs of a pack advance together."""
    for member in task.members:
        row = safe_io.last_row(out / "runs" / member.folder / "metrics.jsonl")
        if row and (update := safe_io.as_float(row.get("update"))) >= 0:
            clock = row.get("clock")
            clock = clock if isinstance(clock, dict) else {}
            speed, left = (safe_io.as_float(clock.get(name)) for name in ("steps_per_second", "eta_seconds"))
            speed = speed * len(task.members) if speed > 0 else 0.0
            return min(1.0, update / max(1, member.updates)), speed, left if left >= 0 else None
    return 0.0, 0.0, None


def seconds_left(states: list[TaskState], workers: int = 0) -> float | None:
    """Estimated time left: remaining steps over the measured speed in each environment; None before a measurement."""
    total, workers = 0.0, workers or max(1, sum(one.state == "running" for one in states))
    for env in {member.plain["env"] for one in states for member in one.task.members[:1]}:
        own = [one for one in states if one.task.members and one.task.members[0].plain["env"] == env]
        speeds = [one.speed for one in own if one.speed]
        left = sum(one.steps_left for one in own if one.state not in ("failed", "blocked"))
        if left and not speeds:
            return None
        total += left / (sum(speeds) / len(speeds) * workers) if left else 0.0
    return total


def count(states: list[TaskState]) -> dict[str, int]:
    return {name: number for name in STATES if (number := sum(one.state == name for one in states))}
