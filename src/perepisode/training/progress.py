"""What a person sees while runs train: a bar and a live table on a terminal, a few plain lines a minute elsewhere."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from perepisode import console, settings
from perepisode.runs import Run, flat_settings

Row = dict[str, Any]
Rows = list[list[Row]]
# what is shown of a run: its name among the metrics, its heading, its digits
NUMBERS = (("return", "return", 1), ("violations", "viol.", 2), ("cvar", "worst ⅒", 2), ("lambda", "λ", 2))
WIDEST = 80  # columns of the bar
AROUND = 6  # lines beside the rows of the live table


class Progress:
    """Says nothing; others say more."""

    def start(self, runs: Sequence[Run], done: int) -> None: ...
    def compiled(self) -> None: ...
    def update(self, done: int, rows: Rows) -> None: ...
    def stop(self) -> None: ...


def for_this_terminal(among: Sequence[Run] = ()) -> Progress:
    """`among` are all the runs that a person asked for, whose names have to tell them apart."""
    return LiveTable(among) if console.redraws() else PlainLines(among)


class Pace:
    """How fast updates go now: over the last half minute, or the last two looks where they lie further apart.

    It begins when the program is compiled, so that compiling slows nothing, and it counts all that an update waits for.
    """

    def __init__(self, runs: Sequence[Run], done: int, clock: Callable[[], float], window: float = 30.0):
        self.updates, self.steps = runs[0].updates, len(runs) * runs[0].ppo.steps_per_update
        self.clock, self.window = clock, window
        self.began = clock()
        self.seen = deque([(self.began, done)])

    def note(self, done: int) -> None:
        self.seen.append((self.clock(), done))
        while len(self.seen) > 2 and self.seen[-1][0] - self.seen[1][0] >= self.window:
            self.seen.popleft()

    @property
    def done(self) -> int:
        return self.seen[-1][1]

    @property
    def elapsed(self) -> float:
        return self.clock() - self.began

    @property
    def each(self) -> float | None:
        """Seconds of one update; None until there was one."""
        (then, before), (now, done) = self.seen[0], self.seen[-1]
        return None if done == before or now == then else (now - then) / (done - before)

    @property
    def left(self) -> float | None:
        """Seconds; between two looks they pass."""
        if self.each is None or self.done == self.updates:
            return None
        return max(0.0, (self.updates - self.done) * self.each - (self.clock() - self.seen[-1][0]))

    @property
    def speed(self) -> str:
        said = f"{self.done}/{self.updates} updates"
        return said if self.each is None else f"{said} · {self.steps / self.each:,.0f} steps/s"

    def __str__(self) -> str:
        return self.speed if self.left is None else f"{self.speed} · {duration(self.left)} left"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def labels(runs: Sequence[Run], among: Sequence[Run] = ()) -> list[str]:
    """Of each run its method and arm, and in what it differs from others of that name; the seeds of one are alike."""
    known, runs = len(runs), [*runs, *among]
    named = [f"{run.method} {run.arm}{' γ=1' if run.gamma == 1 else ''}".strip() for run in runs]
    columns = [{"dilemma": run.dilemma, "gamma": run.gamma, "detector": run.detector} for run in runs]
    apart = settings.distinguish_arms(named, [own | flat_settings(run.to_json()) for own, run in zip(columns, runs)])
    return [", ".join(filter(None, pair)) for pair in zip(named, apart)][:known]


def by_arm(names: Sequence[str], rows: Sequence[Row]) -> dict[str, Row]:
    """Under each of these names the means over its seeds."""
    arms: dict[str, list[Row]] = {}
    for name, row in zip(names, rows):
        arms.setdefault(name, []).append(row)
    return {name: {key: _mean(own, key) for key, *_ in NUMBERS} for name, own in arms.items()}


class PlainLines(Progress):
    """After the first updates, then once a minute and at the end: the pace, and a line for the seeds of each arm."""

    def __init__(self, among: Sequence[Run] = (), every: float = 60.0, clock: Callable[[], float] = time.monotonic):
        self.among, self.every, self.clock, self.last = among, every, clock, float("-inf")

    def start(self, runs, done):
        self.runs, self.done, self.names = runs, done, labels(runs, self.among)
        self.began = self.clock()
        self._say(f"training {len(runs)} run{'s' * (len(runs) > 1)} of {runs[0].total_timesteps:,} steps each")
        self._say(f"{done}/{runs[0].updates} updates · compiling")

    def compiled(self):
        self._say(f"compiled in {self.clock() - self.began:.0f} s")
        self.pace = Pace(self.runs, self.done, self.clock)

    def update(self, done, rows):
        self.pace.note(done)
        if self.clock() - self.last < self.every and done < self.runs[0].updates:
            return
        self.last = self.clock()
        arms = by_arm(self.names, [own[-1] for own in rows])
        width = max(map(len, arms))
        self._say(self.pace)
        for arm, row in arms.items():
            numbers = f"return {_number(row['return'])}  violations {_number(row['violations'], 2)}"
            self._say(f"  {arm:<{width}}  {numbers}")

    def _say(self, line):
        print(line, flush=True)


class LiveTable(Progress):
    """A bar with the time since the program was compiled and the time left, and the latest numbers of every run."""

    def __init__(self, among: Sequence[Run] = (), clock: Callable[[], float] = time.monotonic):
        self.among, self.clock, self.rows, self.pace = among, clock, None, None

    def start(self, runs, done):
        self.begin(runs, done)
        from rich.live import Live

        self.live = Live(get_renderable=self.drawn, refresh_per_second=4, transient=False)
        self.live.start()

    def begin(self, runs: Sequence[Run], done: int) -> None:
        self.runs, self.done, self.began = runs, done, self.clock()
        self.names = labels(runs, self.among)

    def compiled(self):
        self.live.console.print(f"compiled in {self.clock() - self.began:.0f} s")
        self.pace = Pace(self.runs, self.done, self.clock)

    def update(self, done, rows):
        self.rows = rows
        if self.pace:
            self.pace.note(done)
        self.live.refresh()

    def stop(self):
        self.live.stop()

    def drawn(self):
        """The bar comes first: of what is too long for a terminal the end is cut off."""
        from rich.console import Group

        screen = console.console()
        said = self.pace.speed if self.pace else f"{self.done}/{self.runs[0].updates} updates"
        return Group(self.bar(screen.width), said, "", self._table(screen.height))

    def bar(self, room: int) -> str:
        updates, done = self.runs[0].updates, self.pace.done if self.pace else self.done
        said = f"compiling {self.clock() - self.began:.0f} s"
        if self.pace:
            left = self.pace.left
            said = f"{duration(self.pace.elapsed)} elapsed" + (f" · {duration(left)} left" if left is not None else "")
        said = f" {100 * done // updates} % · {said}"
        length = max(0, min(room, WIDEST) - len(said))
        full = length * done // updates
        return full * "█" + (length - full) * "░" + said

    def _table(self, lines: int):
        from rich.table import Table

        rows = [own[-1] for own in self.rows] if self.rows else [{} for _ in self.runs]
        each = [((name, str(run.seed)), row) for name, run, row in zip(self.names, self.runs, rows)]
        titles = ("run", "seed")
        if len(each) + AROUND > lines:
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
    """Over the seeds in which an episode ended."""
    known = [row[name] for row in rows if row.get(name) is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
