"""Progress of training: a bar and a live table on a terminal, a few plain lines per minute elsewhere."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from perepisode import console, settings
from perepisode.runs import Run, flat_settings

Row = dict[str, Any]
Rows = list[list[Row]]
# displayed metrics: name in the metrics row, column heading, digits
NUMBERS = (("return", "return", 1), ("violations", "viol.", 2), ("cvar", "CVaR 10 %", 2), ("lambda", "λ", 2))
MAX_WIDTH = 80  # columns of the bar
OVERHEAD_LINES = 6  # lines of the display besides the rows of the table


class Progress:
    """No output; the base class of the displays."""

    def start(self, runs: Sequence[Run], done: int) -> None: ...
    def compiled(self) -> None: ...
    def update(self, done: int, rows: Rows) -> None: ...
    def stop(self) -> None: ...


def for_this_terminal(among: Sequence[Run] = ()) -> Progress:
    """The display for this terminal; labels distinguish the runs from all others in `among`."""
    return LiveTable(among) if console.redraws() else PlainLines(among)


class Pace:
    """Current speed: over the last 30 seconds, or between the last two notes if they are further apart.

    Starts after compilation and includes everything an update waits for.
    """

    def __init__(self, runs: Sequence[Run], done: int, clock: Callable[[], float], window: float = 30.0):
        self.updates, self.steps = runs[0].updates, len(runs) * runs[0].config.steps_per_update
        self.clock, self.window = clock, window
        self.started = clock()
        self.notes = deque([(self.started, done)])

    def note(self, done: int) -> None:
        self.notes.append((self.clock(), done))
        while len(self.notes) > 2 and self.notes[-1][0] - self.notes[1][0] >= self.window:
            self.notes.popleft()

    @property
    def done(self) -> int:
        return self.notes[-1][1]

    @property
    def elapsed(self) -> float:
        return self.clock() - self.started

    @property
    def seconds_per_update(self) -> float | None:
        """None until the first update."""
        (then, before), (now, done) = self.notes[0], self.notes[-1]
        return None if done == before or now == then else (now - then) / (done - before)

    @property
    def left(self) -> float | None:
        """Remaining seconds, counted down between notes."""
        if self.seconds_per_update is None or self.done == self.updates:
            return None
        since_note = self.clock() - self.notes[-1][0]
        return max(0.0, (self.updates - self.done) * self.seconds_per_update - since_note)

    @property
    def speed(self) -> str:
        text, seconds = f"{self.done}/{self.updates} updates", self.seconds_per_update
        return text if seconds is None else f"{text} · {self.steps / seconds:,.0f} steps/s"

    def __str__(self) -> str:
        return self.speed if self.left is None else f"{self.speed} · {duration(self.left)} left"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def labels(runs: Sequence[Run], among: Sequence[Run] = ()) -> list[str]:
    """Method and arm of each run, and how it differs from others of that name; seeds share a label."""
    known, runs = len(runs), [*runs, *among]
    named = [f"{run.method} {run.arm}{' γ=1' if run.gamma == 1 else ''}".strip() for run in runs]
    columns = [{"dilemma": run.dilemma, "gamma": run.gamma, "detector": run.detector} for run in runs]
    apart = settings.distinguish_arms(named, [own | flat_settings(run.to_json()) for own, run in zip(columns, runs)])
    return [", ".join(filter(None, pair)) for pair in zip(named, apart)][:known]


def by_arm(names: Sequence[str], rows: Sequence[Row]) -> dict[str, Row]:
    """Means over the seeds of each name."""
    arms: dict[str, list[Row]] = {}
    for name, row in zip(names, rows):
        arms.setdefault(name, []).append(row)
    return {name: {key: _mean(own, key) for key, *_ in NUMBERS} for name, own in arms.items()}


class PlainLines(Progress):
    """Pace and one line per arm: after the first updates, then once a minute, and at the end."""

    def __init__(self, among: Sequence[Run] = (), every: float = 60.0, clock: Callable[[], float] = time.monotonic):
        self.among, self.every, self.clock, self.last = among, every, clock, float("-inf")

    def start(self, runs, done):
        self.runs, self.done, self.names = runs, done, labels(runs, self.among)
        self.started = self.clock()
        self._print(f"training {len(runs)} run{'s' * (len(runs) > 1)} of {runs[0].total_timesteps:,} steps each")
        self._print(f"{done}/{runs[0].updates} updates · compiling")

    def compiled(self):
        self._print(f"compiled in {self.clock() - self.started:.0f} s")
        self.pace = Pace(self.runs, self.done, self.clock)

    def update(self, done, rows):
        self.pace.note(done)
        if self.clock() - self.last < self.every and done < self.runs[0].updates:
            return
        self.last = self.clock()
        arms = by_arm(self.names, [own[-1] for own in rows])
        width = max(map(len, arms))
        self._print(self.pace)
        for arm, row in arms.items():
            numbers = f"return {_number(row['return'])}  violations {_number(row['violations'], 2)}"
            self._print(f"  {arm:<{width}}  {numbers}")

    def _print(self, line):
        print(line, flush=True)


class LiveTable(Progress):
    """A bar with the elapsed time since compilation and the remaining time, and the latest metrics of every run."""

    def __init__(self, among: Sequence[Run] = (), clock: Callable[[], float] = time.monotonic):
        self.among, self.clock, self.rows, self.pace = among, clock, None, None

    def start(self, runs, done):
        self.prepare(runs, done)
        from rich.live import Live

        self.live = Live(get_renderable=self.render, refresh_per_second=4, transient=False)
        self.live.start()

    def prepare(self, runs: Sequence[Run], done: int) -> None:
        self.runs, self.done, self.started = runs, done, self.clock()
        self.names = labels(runs, self.among)

    def compiled(self):
        self.live.console.print(f"compiled in {self.clock() - self.started:.0f} s")
        self.pace = Pace(self.runs, self.done, self.clock)

    def update(self, done, rows):
        self.rows = rows
        if self.pace:
            self.pace.note(done)
        self.live.refresh()

    def stop(self):
        self.live.stop()

    def render(self):
        """The bar comes first, because a terminal cuts off the end of what is too long."""
        from rich.console import Group

        screen = console.console()
        speed = self.pace.speed if self.pace else f"{self.done}/{self.runs[0].updates} updates"
        return Group(self.bar(screen.width), speed, "", self._table(screen.height))

    def bar(self, width: int) -> str:
        updates, done = self.runs[0].updates, self.pace.done if self.pace else self.done
        text = f"compiling {self.clock() - self.started:.0f} s"
        if self.pace:
            left = self.pace.left
            text = f"{duration(self.pace.elapsed)} elapsed" + (f" · {duration(left)} left" if left is not None else "")
        text = f" {100 * done // updates} % · {text}"
        length = max(0, min(width, MAX_WIDTH) - len(text))
        full = length * done // updates
        return full * "█" + (length - full) * "░" + text

    def _table(self, height: int):
        from rich.table import Table

        rows = [own[-1] for own in self.rows] if self.rows else [{} for _ in self.runs]
        each = [((name, str(run.seed)), row) for name, run, row in zip(self.names, self.runs, rows)]
        titles = ("run", "seed")
        if len(each) + OVERHEAD_LINES > height:
            each = [((name,), row) for name, row in by_arm(self.names, rows).items()]
            titles = ("mean over seeds",)
        table = Table(box=None, pad_edge=False, padding=(0, console.GAP, 0, 0))
        table.add_column(titles[0], overflow="fold")
        for title in (*titles[1:], *(title for _, title, _ in NUMBERS)):
            table.add_column(title, justify="right", no_wrap=True)
        for names, row in each:
            table.add_row(*names, *(_number(row.get(key), digits) for key, _, digits in NUMBERS))
        return table


def _mean(rows: list[Row], name: str) -> float | None:
    """Mean over the seeds in which an episode ended."""
    known = [row[name] for row in rows if row.get(name) is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
