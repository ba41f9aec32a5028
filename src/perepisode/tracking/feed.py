"""Follows the metrics.jsonl of one run and sends its rows to one tracker, each once."""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perepisode import legacy, safe_io
from perepisode.config import canonical
from perepisode.runs import RunFolder, file_lock, flat_settings

COLUMNS = ("env", "dilemma", "method", "arm", "seed", "gamma", "detector")  # of run.json, besides the settings


@dataclass(frozen=True)
class Row:
    """One row of metrics.jsonl: environment steps, and the values that are known, by name."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Description:
    """What a tracker shows of a run."""

    id: str
    name: str  # that of its folder
    group: str  # shared by the seeds of one configuration
    hyperparameters: Mapping[str, bool | int | float | str]
    tags: Mapping[str, str]

    @classmethod
    def of(cls, folder: RunFolder) -> Description:
        plain = folder.plain()
        flat = {name: plain[name] for name in COLUMNS if name in plain} | flat_settings(plain)
        values = {name: _scalar(value) for name, value in flat.items() if value is not None}
        unseeded = canonical({name: value for name, value in values.items() if name != "seed"})
        words = [str(plain.get(name) or "") for name in ("dilemma", "method", "arm")]
        words += ["gamma1"] if plain.get("gamma") == 1 else []
        group = ".".join([*filter(None, words), hashlib.sha256(unseeded.encode()).hexdigest()[:6]])
        tags = {"run": str(plain.get("id")), "group": group, "device": str(plain.get("device"))}
        tags |= {name: str(version) for name, version in (plain.get("versions") or {}).items()}
        return cls(str(plain.get("id")), folder.path.name, group, values, tags)


class Tracker(ABC):
    """One run in a tracker, which is created there or found again."""

    @staticmethod
    def problem() -> str:
        """Why the tracker cannot be used here, with the remedy; "" if it can."""
        return ""

    @staticmethod
    @abstractmethod
    def view(out: Path) -> str:
        """The command that shows the runs of this folder, or sends them on."""

    @abstractmethod
    def __init__(self, folder: RunFolder, about: Description): ...

    @abstractmethod
    def missing(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of these rows that the tracker does not have.  The first call gives all rows logged so far."""

    @abstractmethod
    def send(self, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def close(self, outcome: str) -> None:
        """`outcome` is finished, diverged, or unfinished for a run that may be resumed."""


class Feed:
    """A run's metrics.jsonl and its tracker; a context, within which no other process sends to the same tracker."""

    def __init__(self, name: str, kind: type[Tracker], folder: RunFolder):
        self.name, self.kind, self.folder = name, kind, folder
        self.tracker: Tracker | None = None
        self.position = 0  # in metrics.jsonl: what comes before was read
        self.step = 0  # of the last row read
        self._context = contextlib.ExitStack()

    def __enter__(self) -> Feed:
        what = f"the {self.name} record of {self.folder.path}"
        self._context.enter_context(file_lock(self.folder.path / f".{self.name}.lock", what, "wait for it"))
        return self

    def __exit__(self, *_: object) -> None:
        with self._context:
            if self.tracker:
                self.tracker.close(self._outcome())

    def send_new(self) -> int:
        """Send the rows that were logged since the last call; returns how many."""
        rows = self._read()
        if self.tracker is None:
            self.about = Description.of(self.folder)
            self.tracker = self.kind(self.folder, self.about)
        if rows := self.tracker.missing(rows):
            self.tracker.send(rows)
        return len(rows)

    def _read(self) -> Sequence[Row]:
        """The complete rows after `position`.  Steps that do not increase are damage and are skipped."""
        if not self.folder.metrics.exists():
            return []
        with open(self.folder.metrics, "rb") as file:
            file.seek(self.position)
            content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        self.position += len(content)
        rows = []
        for line in content.decode(errors="replace").splitlines():
            row = parse(line)
            if row is not None and row.step > self.step:
                self.step = row.step
                rows.append(row)
        return rows

    def _outcome(self) -> str:
        if self.folder.failed:
            return "diverged"
        sizes = [self.about.hyperparameters.get(name) for name in ("num_envs", "num_steps", "total_timesteps")]
        envs, steps, total = (size if isinstance(size, int) and size > 0 else 1 for size in sizes)
        last = total // (envs * steps) * envs * steps  # `done` is written after the trackers are closed
        return "finished" if self.folder.done or self.step == last else "unfinished"


def parse(line: str) -> Row | None:
    """A line of metrics.jsonl; None if it is damaged."""
    plain = safe_io.parse_row(line)
    if plain is None:
        return None
    plain = legacy.upgrade_metrics(plain)
    step, clock = plain.pop("steps", None), plain.pop("clock", None)
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    named = {f"train/{name}": value for name, value in plain.items()}
    named |= {f"clock/{name}": value for name, value in clock.items()} if isinstance(clock, dict) else {}
    values = {name: safe_io.as_float(value) for name, value in named.items()}
    return Row(step, {name: value for name, value in values.items() if value == value})


def _scalar(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value, sort_keys=True)
