"""Weights & Biases: one run of the project `perepisode` per run folder, with its id, so that it can be resumed.

WANDB_MODE, WANDB_PROJECT, WANDB_ENTITY, WANDB_DIR and `wandb login` mean what they mean elsewhere.  Online, the server
tells what was sent.  Offline, the files of wandb do, together with `.wandb.json`, which says what was complete when
wandb last ended: `wandb clean` may have deleted the files since.
"""

import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import wandb  # pyright: ignore[reportMissingImports]
from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportMissingImports]

from perepisode import safe_io
from perepisode.runs import RunFolder, write_atomically
from perepisode.tracking.feed import Description, Row, Tracker

PROJECT = "perepisode"
BLOCK, HEADER, FILE_HEADER = 2**15, 7, 7  # bytes, of the log format of LevelDB, which wandb uses
FULL, LAST = 1, 4  # kinds of a fragment that end a record


class WeightsAndBiases(Tracker):
    """A run's history by environment step; its configuration, group and tags."""

    @staticmethod
    def problem() -> str:
        if _mode() != "online" or wandb.login(prompt=False, verify=False):
            return ""
        return "wandb is online and no account is logged in; run `wandb login`, or set WANDB_MODE=offline"

    @staticmethod
    def view(out: Path) -> str:
        return f"wandb sync {_home(out)}/wandb/offline-run-*" if _mode() == "offline" else "open the project in wandb"

    def __init__(self, folder: RunFolder, about: Description):
        self.about, self.home, self.closed = about, _home(folder.path.parent), folder.path / ".wandb.json"
        self.run = self.last_step = None  # opened when it is needed: a run without news leaves no files

    def missing(self, rows: Sequence[Row]) -> Sequence[Row]:
        if self.last_step is None:
            if _mode() == "online":
                self.run = self._open()
                self.last_step = self.run.step - 1  # a resumed run continues after the server's last step
            else:
                self.last_step = self._last_offline_step()
        return [row for row in rows if row.step > self.last_step]

    def send(self, rows: Sequence[Row]) -> None:
        self.run = self.run or self._open()
        for row in rows:
            self.run.log(row.values, step=row.step, commit=True)
        self.last_step = rows[-1].step

    def close(self, outcome: str) -> None:
        if self.run:
            self.run.finish(exit_code=0 if outcome == "finished" else 1)
            if _mode() != "disabled":
                write_atomically(self.closed, json.dumps({"last_step": self.last_step}))

    def _open(self):
        about = self.about
        return wandb.init(
            id=about.id,
            resume="allow",
            reinit="create_new",  # the runs of a population are open side by side
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            group=about.group,
            name=about.name,
            config={**about.hyperparameters, **about.tags},
            tags=[str(about.hyperparameters[name]) for name in ("env", "dilemma", "method")],
            dir=self.home,
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )

    def _last_offline_step(self) -> int:
        closed = safe_io.read_json(self.closed, "delete it").get("last_step") if self.closed.exists() else 0
        files = self.home.glob(f"wandb/offline-run-*-{self.about.id}/run-{self.about.id}.wandb")
        steps = [record.history.step.num for path in files for record in _records(path.read_bytes())]
        return max([closed if isinstance(closed, int) else 0, *steps])


def _mode() -> str:
    """Of the user's choice: online, offline or disabled."""
    return wandb.setup().settings.mode


def _home(out: Path) -> Path:
    """The folder in which wandb makes its folder `wandb`."""
    return Path(os.environ.get("WANDB_DIR") or out)


def _records(content: bytes) -> Iterator[Record]:
    """The complete records of a .wandb file, which wandb itself offers no function to read."""
    position, parts = FILE_HEADER, b""
    while position + HEADER <= len(content):
        if (left := BLOCK - position % BLOCK) < HEADER:
            position += left
            continue
        length, kind = struct.unpack_from("<HB", content, position + 4)
        position += HEADER + length
        if position > len(content):
            return
        parts += content[position - length : position]
        if kind in (FULL, LAST):
            yield Record.FromString(parts)
            parts = b""
