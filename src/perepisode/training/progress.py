"""What a person sees while runs train: a live table on a terminal, one plain line a minute elsewhere."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from perepisode.runs import Run

Rows = list[list[dict[str, Any]]]


class Progress:
    """Says nothing; others say more."""

    def start(self, runs: Sequence[Run], done: int) -> None: ...
    def update(self, done: int, rows: Rows) -> None: ...
    def stop(self) -> None: ...


def for_this_terminal() -> Progress:
    return LiveTable() if sys.stdout.isatty() else PlainLines()


def speed_of(rows: Rows) -> tuple[float, float]:
    """Steps a second of all runs together, and seconds left."""
    clock = rows[0][-1]["clock"]
    return clock["steps_per_second"] * len(rows), clock["eta_seconds"]


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def label(run: Run) -> str:
    gamma = " γ=1" if run.gamma == 1 else ""
    return f"{run.method} {run.arm}{gamma}".strip()


class PlainLines(Progress):
    """One line a minute, and one at the end."""

    def __init__(self, every: float = 60.0):
        self.every, self.last = every, 0.0
        self.rows: Rows = []

    def start(self, runs, done):
        self.runs = runs
        self.last = time.monotonic()
        print(f"training {len(runs)} runs of {runs[0].steps:,} steps; {done} of {runs[0].updates} updates done")

    def update(self, done, rows):
        self.rows, self.done = rows, done
        if time.monotonic() - self.last >= self.every or done == self.runs[0].updates:
            self._print()

    def _print(self):
        self.last = time.monotonic()
        speed, left = speed_of(self.rows)
        members = "; ".join(
            f"{label(run)} s{run.seed}: {_number(own[-1]['return'])} / {_number(own[-1]['violations'], 2)}"
            for run, own in zip(self.runs, self.rows)
        )
        print(
            f"{self.done}/{self.runs[0].updates} updates, {speed:,.0f} steps/s, {duration(left)} left; "
            f"return / violations: {members}",
            flush=True,
        )


class LiveTable(Progress):
    """Per run: return, violations, worst decile, λ; below it speed and time left."""

    def start(self, runs, done):
        from rich.live import Live

        self.runs = runs
        self.live = Live(self._table(done, None), refresh_per_second=4, transient=False)
        self.live.start()

    def update(self, done, rows):
        self.live.update(self._table(done, rows))

    def stop(self):
        self.live.stop()

    def _table(self, done: int, rows: Rows | None):
        from rich.table import Table

        table = Table(expand=False, pad_edge=False)
        table.add_column("run", no_wrap=True)
        for title in ("seed", "return", "violations", "worst 10 %", "λ"):
            table.add_column(title, justify="right")
        for i, run in enumerate(self.runs):
            last = rows[i][-1] if rows else {}
            table.add_row(
                label(run),
                str(run.seed),
                _number(last.get("return")),
                _number(last.get("violations"), 2),
                _number(last.get("worst_decile"), 2),
                _number(last.get("lambda"), 2),
            )
        updates = self.runs[0].updates
        if rows:
            speed, left = speed_of(rows)
            table.caption = f"{done}/{updates} updates · {speed:,.0f} steps/s · {duration(left)} left"
        else:
            table.caption = f"{done}/{updates} updates · compiling"
        return table


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
