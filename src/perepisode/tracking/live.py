"""Sends metrics to trackers while runs train, in threads of their own: no tracker delays training or ends it."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from perepisode import safe_io, tracking
from perepisode.runs import Run, RunFolder
from perepisode.training.progress import Progress, Rows

FINISH_SECONDS = 60.0  # that training waits, at its end, for a tracker that has not kept up


class Tracked(Progress):
    """A display of progress and the trackers that are fed beside it."""

    def __init__(self, display: Progress, names: Sequence[str], out: Path, log: Callable[[str], None]):
        self.display, self.names, self.out, self.log = display, tuple(dict.fromkeys(names)), out, log
        self.senders: list[Sender] = []

    def start(self, runs: Sequence[Run], done: int) -> None:
        folders = [RunFolder.of(self.out, run) for run in runs]
        self.senders = [Sender(name, folders, self.out, self.log) for name in self.names]
        self.display.start(runs, done)

    def compiled(self) -> None:
        self.display.compiled()

    def update(self, done: int, rows: Rows) -> None:
        self.display.update(done, rows)
        for sender in self.senders:
            sender.logged.set()

    def stop(self) -> None:
        self.display.stop()
        for sender in self.senders:
            sender.finish()


class Sender:
    """A thread that sends the metrics of a population to one tracker."""

    def __init__(self, name: str, folders: Sequence[RunFolder], out: Path, log: Callable[[str], None]):
        self.name, self.folders, self.out, self.log = name, folders, out, log
        self.logged, self.last = threading.Event(), False
        self.thread = threading.Thread(target=self._run, name=f"perepisode-{name}", daemon=True)
        self.thread.start()

    def finish(self) -> None:
        """Send the last rows and close the tracker."""
        self.last = True
        self.logged.set()
        self.thread.join(FINISH_SECONDS)
        if self.thread.is_alive():
            self._stopped(f"it did not finish within {FINISH_SECONDS:.0f} s")

    def _run(self) -> None:
        try:
            with ExitStack() as context:
                feeds = [context.enter_context(tracking.feed(self.name, folder)) for folder in self.folders]
                while True:
                    last = self.last  # read first: what is logged afterwards sets the event again
                    for feed in feeds:
                        feed.send_new()
                    if last:
                        break
                    self.logged.wait()
                    self.logged.clear()
        except Exception as error:  # whatever a library or its server raises
            self._stopped(f"{type(error).__name__}: {safe_io.first_line(error)}")

    def _stopped(self, reason: str) -> None:
        later = f"perepisode track {self.out} --to {self.name}"
        self.log(safe_io.one_line(f"{self.name} receives no more metrics ({reason}); send the rest later: {later}"))
