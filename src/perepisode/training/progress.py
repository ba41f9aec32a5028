"""What a person sees while runs train: a live table on a terminal, a few plain lines a minute elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from perepisode.runs import Run

Rows = list[list[dict[str, Any]]]


class Progress:
    """Says nothing; others say more."""

    def start(self, runs: Sequence[Run], done: int) -> None: ...
    def compiled(self) -> None: ...
    def update(self, done: int, rows: Rows) -> None: ...
    def stop(self) -> None: ...


def for_this_terminal() -> Progress:
    return LiveTable() if sys.stdout.isatty() else PlainLines()


class Pace:
    """How fast updates go now: over the last half minute, or the last two looks where they lie further apart.

    It begins when the program is compiled, so that compiling slows nothing, and it counts all that an update waits for.
    """

    def __init__(self, runs: Sequence[Run], done: int, clock: Callable[[], float], window: float = 30.0):
        self.updates, self.steps = runs[0].updates, len(runs) * runs[0].learner.steps_per_update
        self.clock, self.window = clock, window
        self.seen = deque([(clock(), done)])

    def note(self, done: int) -> None:
        self.seen.append((self.clock(), done))
        while len(self.seen) > 2 and self.seen[-1][0] - self.seen[1][0] >= self.window:
            self.seen.popleft()

    def __str__(self) -> str:
        (then, before), (now, done) = self.seen[0], self.seen[-1]
        said = f"{done}/{self.updates} updates"
        if done == before or now == then:
            return said
        each = (now - then) / (done - before)
        left = f" · {duration((self.updates - done) * each)} left" if done < self.updates else ""
        return f"{said} · {self.steps / each:,.0f} steps/s{left}"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def label(run: Run) -> str:
    gamma = " γ=1" if run.gamma == 1 else ""
    return f"{run.method} {run.arm}{gamma}".strip()


class PlainLines(Progress):
    """After the first updates, then once a minute and at the end: the pace, and a line for the seeds of each arm."""

    def __init__(self, every: float = 60.0, clock: Callable[[], float] = time.monotonic):
        self.every, self.clock, self.last = every, clock, float("-inf")

    def start(self, runs, done):
        self.runs, self.done = runs, done
        self.began = self.clock()
        self._say(f"training {len(runs)} run{'s' * (len(runs) > 1)} of {runs[0].steps:,} steps each")
        self._say(f"{done}/{runs[0].updates} updates · compiling")

    def compiled(self):
        self._say(f"compiled in {self.clock() - self.began:.0f} s")
        self.pace = Pace(self.runs, self.done, self.clock)

    def update(self, done, rows):
        self.pace.note(done)
        if self.clock() - self.last < self.every and done < self.runs[0].updates:
            return
        self.last = self.clock()
        arms: dict[str, list[dict[str, Any]]] = {}
        for run, own in zip(self.runs, rows):
            arms.setdefault(label(run), []).append(own[-1])
        width = max(map(len, arms))
        self._say(self.pace)
        for arm, lasts in arms.items():
            returns, violations = (_mean(lasts, name) for name in ("return", "violations"))
            self._say(f"  {arm:<{width}}  return {_number(returns)}  violations {_number(violations, 2)}")

    def _say(self, line):
        print(line, flush=True)


class LiveTable(Progress):
    """Per run: return, violations, worst decile, λ; below it the pace, or for how long the program is compiled."""

    def start(self, runs, done):
        from rich.live import Live

        self.runs, self.done, self.rows = runs, done, None
        self.pace, self.began = None, time.monotonic()
        self.live = Live(get_renderable=self._table, refresh_per_second=4, transient=False)
        self.live.start()

    def compiled(self):
        self.live.console.print(f"compiled in {time.monotonic() - self.began:.0f} s")
        self.pace = Pace(self.runs, self.done, time.monotonic)

    def update(self, done, rows):
        self.rows = rows
        if self.pace:
            self.pace.note(done)
        self.live.refresh()

    def stop(self):
        self.live.stop()

    def _table(self):
        from rich.table import Table

        table = Table(expand=False, pad_edge=False)
        table.add_column("run", overflow="fold")
        for title in ("seed", "return", "viol.", "worst ⅒", "λ"):
            table.add_column(title, justify="right", no_wrap=True)
        for i, run in enumerate(self.runs):
            last = self.rows[i][-1] if self.rows else {}
            table.add_row(
                label(run),
                str(run.seed),
                _number(last.get("return")),
                _number(last.get("violations"), 2),
                _number(last.get("worst_decile"), 2),
                _number(last.get("lambda"), 2),
            )
        compiling = f"{self.done}/{self.runs[0].updates} updates · compiling {time.monotonic() - self.began:.0f} s"
        table.caption = str(self.pace or compiling)
        return table


def _mean(rows: list[dict[str, Any]], name: str) -> float | None:
    """Over the seeds in which an episode ended."""
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
