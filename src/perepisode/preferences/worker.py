"""A background thread for what a rater will need next: choosing a pair, replaying an episode."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import LifoQueue
from threading import Thread
from typing import Any


class BackgroundWorker:
    """Does the newest task first: what a rater waits for comes before what was requested ahead of time."""

    def __init__(self) -> None:
        self._tasks: LifoQueue[tuple[Future, Callable[[], Any]] | None] = LifoQueue()
        self.busy = False
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], Any], future: Future | None = None) -> Future:
        """Do the task soon; with the `future` of a task that is waiting, before all others."""
        future = future or Future()
        self._tasks.put((future, task))
        return future

    def close(self) -> None:
        """Wait for the task that is being done, not for others: a process that ends inside of JAX crashes."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (newest := self._tasks.get()) is not None:
            future, task = newest
            if future.done() or not future.set_running_or_notify_cancel():  # moved to the front, or cancelled
                continue
            self.busy = True
            try:
                future.set_result(task())
            except Exception as error:  # raised where the result is awaited
                future.set_exception(error)
            self.busy = False
