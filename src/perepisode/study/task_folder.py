"""The files in a task's folder that tell whether it runs, is done or failed, to any machine that sees them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.runs import file_lock, write_atomically

BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0  # without a heartbeat for this long, a worker on another machine counts as dead


@dataclass(frozen=True)
class TaskFolder:
    path: Path

    @classmethod
    def of(cls, out: Path, name: str) -> TaskFolder:
        return cls(Path(out) / "tasks" / name)

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def done(self) -> dict[str, Any] | None:
        return _read(self.path / "done")

    @property
    def failed(self) -> str | None:
        """Why the last attempt failed, or None."""
        found = _read(self.path / "failed")
        return str(found.get("reason")) if found else None

    @property
    def beat(self) -> dict[str, Any] | None:
        """The last heartbeat of a live worker, or None."""
        found = _read(self.path / "beat") or {}
        pid, when = found.get("pid"), safe_io.as_float(found.get("time"))
        if not isinstance(pid, int) or not 0 < pid < 2**31:
            return None
        if found.get("host") == socket.gethostname():
            return found if _alive(pid) else None
        return found if time.time() - when < STALE_SECONDS else None

    def finish(self, **about: Any) -> None:
        self.path.joinpath("failed").unlink(missing_ok=True)
        write_atomically(self.path / "done", json.dumps(about))

    def fail(self, reason: str) -> None:
        write_atomically(self.path / "failed", json.dumps({"reason": reason}))

    def clear_failure(self) -> None:
        self.path.joinpath("failed").unlink(missing_ok=True)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Lock the task against a second worker, and write heartbeats until it ends."""
        with file_lock(self.path / "lock", "this task"):
            stop = threading.Event()
            thread = threading.Thread(target=self._beat, args=(stop,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
                self.path.joinpath("beat").unlink(missing_ok=True)

    def _beat(self, stop: threading.Event) -> None:
        about = {"host": socket.gethostname(), "pid": os.getpid(), "job": os.environ.get("SLURM_JOB_ID")}
        while True:
            with contextlib.suppress(OSError):  # the task itself reports a full disk
                write_atomically(self.path / "beat", json.dumps({**about, "time": time.time()}))
            if stop.wait(BEAT_SECONDS):
                return


def last_line(path: Path, begin: int = 0) -> str:
    """The last line that is not blank in a log from position `begin` on; "" if there is none."""
    lines = (safe_io.printable(line.strip()) for line in reversed(safe_io.last_lines(path, begin)))
    return next((line for line in lines if line), "")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return safe_io.read_json(path, "")
    except ConfigError:
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # a killed process keeps its number until its parent waits for it
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
