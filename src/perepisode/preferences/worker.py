"""A background thread for what a rater will need next: choosing a pair, replaying an episode."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import LifoQueue
from threading import Thread
from typing import Any


class Worker:
    """Does the newest task first: what a rater waits for comes before what was requested ahead of time.

    Its thread is a daemon, so that Ctrl-C does not wait for a program to be compiled.
    """

    def __init__(self) -> None:
        self._tasks: LifoQueue[tuple[Future, Callable[[], Any]]] = LifoQueue()
        Thread(target=self._work, daemon=True).start()

    def submit(self, task: Callable[[], Any], future: Future | None = None) -> Future:
        """Do the task soon; with the `future` of a task that is waiting, before all others."""
        future = future or Future()
        self._tasks.put((future, task))
        return future

    def _work(self) -> None:
        while True:
            future, task = self._tasks.get()
            if future.done():  # it was moved to the front
                continue
            try:
                future.set_result(task())
            except Exception as error:  # raised where the result is awaited
                future.set_exception(error)
