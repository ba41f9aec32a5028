"""TensorBoard: event files next to metrics.jsonl, so that `tensorboard --logdir out` shows every run by its name.

Each start writes a file of its own, as TensorBoard expects.  What was sent is read from these files.  Where they differ
from metrics.jsonl, for example because a resumed run trains some updates again, the new file begins by discarding their
steps from there on (`SessionLog.START`, the `purge_step` of other writers).
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.summary.writer.record_writer import RecordWriter

from perepisode.runs import RunFolder
from perepisode.tracking.feed import Description, Row, Tracker

Event, SessionLog, Summary = event_pb2.Event, event_pb2.SessionLog, summary_pb2.Summary  # pyright: ignore

PREFIX = "events.out.tfevents."
VERSION = "brain.Event:2"  # of the file format


class TensorBoard(Tracker):
    """A run's scalars by environment step, and its hyperparameters in the HParams tab."""

    @staticmethod
    def view(out: Path) -> str:
        return f"tensorboard --logdir {shlex.quote(str(out))}"

    def __init__(self, folder: RunFolder, about: Description):
        self.folder, self.about = folder.path, about
        self.file, self.compared = None, False

    def missing(self, rows: Sequence[Row]) -> Sequence[Row]:
        if self.compared:
            return rows
        self.compared = True
        record = _read_record(self.folder)
        pairs = zip(rows, sorted(record.items()))
        same = sum(1 for _ in takewhile(lambda pair: _as_recorded(pair[0]) == pair[1], pairs))
        later = [row.step for row in rows[same:]]
        if beyond := sorted(record)[same:]:
            start = min([beyond[0], *later[:1]])
            self._write(Event(session_log=SessionLog(status=SessionLog.START), step=start))
        return rows[same:]

    def send(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = [Summary.Value(tag=name, simple_value=value) for name, value in row.values.items()]
            self._write(Event(summary=Summary(value=values), step=row.step))
        if self.file:
            self.file.flush()

    def close(self, outcome: str) -> None:
        if self.file:
            self.file.close()

    def _write(self, event: Any) -> None:
        if self.file is None:
            self.file = self._open()
        event.wall_time = time.time()
        RecordWriter(self.file).write(event.SerializeToString())

    def _open(self):
        """A new file, whose name sorts after those of earlier starts: TensorBoard reads them in this order."""
        before = [path.name.removeprefix(PREFIX).partition(".")[0] for path in _event_files(self.folder)]
        latest = max((int(text) for text in before if text.isdecimal()), default=0)
        name = f"{PREFIX}{max(int(time.time()), latest + 1):010d}.perepisode"
        self.file = open(self.folder / name, "xb")  # noqa: SIM115
        self._write(Event(file_version=VERSION))
        if not before:
            values = dict(self.about.hyperparameters)
            self._write(
                Event(summary=Summary.FromString(hparams.hparams_pb(values, self.about.id).SerializeToString()))
            )
        return self.file


def _event_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*"))


def _read_record(folder: Path) -> dict[int, dict[str, np.float32]]:
    """The values that TensorBoard shows, by step and name."""
    record: dict[int, dict[str, np.float32]] = {}
    for path in _event_files(folder):
        for event in LegacyEventFileLoader(str(path)).Load():
            if event.session_log.status == SessionLog.START:
                record = {step: values for step, values in record.items() if step < event.step}
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    record.setdefault(event.step, {})[value.tag] = np.float32(value.simple_value)
    return record


def _as_recorded(row: Row) -> tuple[int, Mapping[str, np.float32]]:
    return row.step, {name: np.float32(value) for name, value in row.values.items()}
