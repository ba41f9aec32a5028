"""Progress of a study: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence

from perepisode import console
from perepisode.study import state
from perepisode.study.state import TaskState
from perepisode.training.progress import duration


def columns(progress: TaskState) -> list[str]:
    task, running = progress.task, progress.state == "running"
    share = f"{100 * progress.share:.0f} %" if task.members else ""
    speed = f"{progress.speed:,.0f}/s" if progress.speed and running else ""
    left = duration(progress.seconds_left) if running and progress.seconds_left is not None else ""
    runs = str(len(task.members)) if task.members else ""
    return [task.name, progress.state, runs, share, speed, left, progress.detail]


HEADINGS = ("task", "state", "runs", "done", "speed", "left", "")


def summary(states: Sequence[TaskState], workers: int = 0) -> str:
    runs = sum(len(one.task.members) for one in states)
    finished = sum(len(one.task.members) - one.diverged for one in states if one.state == "done")
    agents = sum(len(one.task.agents) for one in states)
    parts = [f"{finished} of {runs} runs"] if runs or not agents else []
    parts += [f"{agents} trained agents"] if agents else []
    parts += [", ".join(f"{n} {name}" for name, n in state.count(list(states)).items())]
    left = state.seconds_left(list(states), workers)
    if left:
        parts.append(f"about {duration(left)} left")
    return " · ".join(parts)


def plain(states: Sequence[TaskState], workers: int = 0) -> str:
    return console.plain(HEADINGS, [columns(one) for one in states]) + "\n" + summary(states, workers)


class StudyView:
    """Shows nothing; the base of the other views."""

    def show(self, states: Sequence[TaskState]) -> None: ...
    def close(self) -> None: ...


class StudyLines(StudyView):
    """A line whenever a task changes its state, and a summary every minute."""

    def __init__(self, workers: int, every: float = 60.0):
        self.workers, self.every = workers, every
        self.known: dict[str, str] = {}
        self.last = time.monotonic()

    def show(self, states: Sequence[TaskState]) -> None:
        for one in states:
            if self.known.get(one.task.name, "waiting") != one.state and one.state not in ("waiting", "ready"):
                detail = f": {one.detail}" if one.detail and one.state != "running" else ""
                print(f"{time.strftime('%H:%M:%S')} {one.task.name} {one.state}{detail}", flush=True)
            self.known[one.task.name] = one.state
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')} {summary(states, self.workers)}", flush=True)

    def close(self) -> None: ...


class StudyTable(StudyView):
    """A table of all tasks, redrawn in place."""

    def __init__(self, workers: int):
        from rich.live import Live

        self.workers = workers
        self.live = Live(refresh_per_second=4)
        self.live.start()

    def show(self, states: Sequence[TaskState]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(pad_edge=False, caption=summary(states, self.workers))
        for heading in HEADINGS:
            table.add_column(heading, no_wrap=heading != "")
        colours = {"done": "green", "running": "cyan", "failed": "red", "blocked": "yellow"}
        for one in states:
            table.add_row(*(Text(cell) for cell in columns(one)), style=colours.get(one.state, "dim"))
        self.live.update(table)

    def close(self) -> None:
        self.live.stop()


def view_for(workers: int) -> StudyView:
    return StudyTable(workers) if console.redraws() else StudyLines(workers)
