"""A labelling session: which pair each rater sees, and what becomes of the answers.

The labels file is the only state.  It is read again whenever it has changed, so a session can be killed and resumed,
and several sessions can share a file.
"""

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import pandas as pd

from perepisode.config import ConfigError
from perepisode.preferences import labels
from perepisode.preferences.films import Films
from perepisode.preferences.labels import Episode, Label, Undo
from perepisode.preferences.pairs import EpisodePair, PairChooser
from perepisode.preferences.worker import BackgroundWorker
from perepisode.report.formatting import number
from perepisode.report.style import dilemma_name


class UnknownPair(Exception):
    """The answer is about a pair that this rater does not see, for example one that was undone in another tab."""


@dataclass(frozen=True)
class ShownPair:
    """A pair on a rater's page; its id becomes the id of its label."""

    pair: EpisodePair
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def rows(self) -> tuple[int, int]:
        return self.pair.left_row_index, self.pair.right_row_index


@dataclass
class Queue:
    """A rater's pairs: first those that were undone, then the one on the page, then the next, still being chosen."""

    waiting: list[ShownPair] = field(default_factory=list)
    upcoming: Future | None = None


class Session:
    """The raters' queues over one table and one labels file.  Every method may be called from any thread."""

    def __init__(self, table: pd.DataFrame, chooser: PairChooser, path: Path, pairs: int):
        self.table, self.chooser, self.path, self.pairs = table, chooser, path, pairs
        self.films = Films(table, chooser.dilemma)
        self._choosing = BackgroundWorker()
        self._queues: dict[str, Queue] = {}
        self._lock = RLock()
        self._known: tuple[tuple[int, int], list[Label]] = (-1, -1), []
        self._read(print)  # refuses a file that cannot be read before the first answer

    def labels(self) -> list[Label]:
        """The current labels of the file."""
        with self._lock:
            return self._read()[1]

    def state(self, rater: str) -> dict[str, Any]:
        """What this rater's page shows."""
        with self._lock:
            own = self._of(rater)
            answered = sum(label.answer != "skip" for label in own)
            state: dict[str, Any] = {
                "rater": rater,
                "answered": answered,
                "skipped": len(own) - answered,
                "pairs": self.pairs,
                "last": {"id": own[-1].id, "answer": own[-1].answer} if own else None,
                "pair": None,
                "note": "",
            }
            if answered < self.pairs:
                try:
                    shown = self._current(rater)
                    left, right = map(self._episode, shown.rows)
                    state["pair"] = {"id": shown.id, "left": left, "right": right}
                except ConfigError as error:  # the table has no other pair
                    state["note"] = str(error)
            return state

    def answer(self, rater: str, pair: str, answer: str) -> dict[str, Any]:
        """Store the answer, unless it is stored already, and return the next state."""
        with self._lock:
            while True:  # until nobody else writes to the file between reading and appending
                size, found = self._read()
                if stored := next((label for label in found if label.id == pair), None):
                    if (stored.rater, stored.answer) != (rater, answer):
                        raise UnknownPair
                    return self.state(rater)
                if (shown := self._current(rater)).id != pair:
                    raise UnknownPair
                if labels.append(self.path, self._label(rater, shown, answer), size):
                    return self.state(rater)

    def undo(self, rater: str, label: str) -> dict[str, Any]:
        """Take back the rater's last label, if it still is this one; its pair is shown again."""
        with self._lock:
            own = self._of(rater)
            if own and own[-1].id == label:
                labels.append(self.path, Undo(label, rater))
                left, right = (self.chooser.rows.get(side.digest) for side in (own[-1].left, own[-1].right))
                if left is not None and right is not None:  # else the label was made from another table
                    again = ShownPair(EpisodePair(left, right, own[-1].repeat_of))
                    self._queue(rater).waiting.insert(0, again)
            return self.state(rater)

    def close(self) -> None:
        """End the background threads."""
        self._choosing.close()
        self.films.worker.close()

    def _read(self, log: Callable[[str], None] = lambda _: None) -> tuple[int, list[Label]]:
        """The size of the file and its current labels."""
        if not self.path.exists():
            return 0, []
        status = self.path.stat()
        version = (status.st_size, status.st_mtime_ns)
        if self._known[0] != version:
            self._known = version, self._checked(labels.read(self.path, log))
        return status.st_size, self._known[1]

    def _checked(self, found: list[Label]) -> list[Label]:
        environment = self.table["environment"].iloc[0]
        for label in found:
            if (label.left.environment, label.left.dilemma) != (environment, self.chooser.dilemma):
                raise ConfigError(
                    f"{self.path} has labels of {label.left.environment} and {label.left.dilemma}, but the episodes "
                    f"are of {environment} and {self.chooser.dilemma}; give another file with --out"
                )
        return found

    def _of(self, rater: str) -> list[Label]:
        return [label for label in self.labels() if label.rater == rater]

    def _queue(self, rater: str) -> Queue:
        return self._queues.setdefault(rater, Queue())

    def _current(self, rater: str) -> ShownPair:
        """The pair on the rater's page; meanwhile the one after it is chosen and its films are made."""
        queue, own = self._queue(rater), self._of(rater)
        queue.waiting = [shown for shown in queue.waiting if not self._is_answered(shown, own)]
        while not queue.waiting:
            upcoming, queue.upcoming = queue.upcoming or self._choose(rater, queue), None
            if not self._is_answered(shown := ShownPair(upcoming.result()), own):
                queue.waiting = [shown]
        queue.upcoming = queue.upcoming or self._choose(rater, queue)
        return queue.waiting[0]

    def _choose(self, rater: str, queue: Queue) -> Future:
        """Choose a pair in the background, as if those that wait for an answer were skipped."""
        known = [*self.labels(), *(self._label(rater, shown, "skip") for shown in queue.waiting)]

        def choose() -> EpisodePair:
            pair = self.chooser.next(known, rater)
            for row in ShownPair(pair).rows:
                self.films.request(row)
            return pair

        return self._choosing.submit(choose)

    def _is_answered(self, shown: ShownPair, own: list[Label]) -> bool:
        """Whether the rater has answered this pair, perhaps in another browser."""
        if (original := shown.pair.repeat_of) is not None:
            return any(label.repeat_of == original for label in own)
        digests = sorted(self.chooser.digests[row] for row in shown.rows)
        return any(list(label.pair) == digests for label in own)

    def _label(self, rater: str, shown: ShownPair, answer: str) -> Label:
        left, right = map(self._reference, shown.rows)
        return Label(rater, left, right, answer, shown.pair.repeat_of, shown.id)

    def _reference(self, row: int) -> Episode:
        return labels.reference(self.table.iloc[row].to_dict(), self.chooser.dilemma)

    def _episode(self, row: int) -> dict[str, Any]:
        """The numbers that the rater sees; not the agent, whose name could influence the answer."""
        episode = self._reference(row)
        facts = [
            ("Return", number(episode.return_)),
            (f"{dilemma_name(self.chooser.dilemma)} violations", f"{episode.violations:g}"),
            ("Steps", str(episode.length or "–")),
            ("End", episode.end_cause),
        ]
        return {"row": row, "facts": facts}
