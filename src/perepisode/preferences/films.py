"""Films of episodes: what the page needs to play one, replayed from its keys and actions when it is first needed."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict
from threading import Lock
from typing import Any

import pandas as pd

from perepisode import environments
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.base import Environment
from perepisode.plugins import PLUGIN_HINT
from perepisode.preferences import labels
from perepisode.preferences.worker import BackgroundWorker

KEPT = 24  # films in memory, about 1 MB each on Craftax


class Films:
    """The films of a table's episodes, by position in the table; the latest are kept in memory."""

    def __init__(self, table: pd.DataFrame, dilemma: str):
        self._table, self._dilemma = table, dilemma
        self.worker = BackgroundWorker()
        self._films: dict[int, Future] = {}
        self._lock = Lock()

    def request(self, position: int) -> Future:
        """The film as a JSON value, soon; the film that was requested last is made first."""
        with self._lock:
            future = self._films.pop(position, None)  # the dict is in the order of the latest request
            if future is None or not future.done():
                future = self.worker.submit(lambda: self._make(position), future)
            self._films[position] = future
            if len(self._films) > KEPT:
                self._films.pop(next(iter(self._films))).cancel()
            return future

    def _make(self, position: int) -> dict[str, Any]:
        return film(self._table.iloc[position].to_dict(), self._dilemma)


def film(row: Mapping[str, Any], dilemma: str) -> dict[str, Any]:
    """The row's episode for the page's player, or a note that says why it cannot be played."""
    try:
        return _film(row, dilemma)
    except ConfigError as error:
        return {"player": None, "note": f"There is no film: {error}."}


def _film(row: Mapping[str, Any], dilemma: str) -> dict[str, Any]:
    env = _environment(row)
    from perepisode.replay import frames, page, timeline
    from perepisode.replay.captions import captions
    from perepisode.replay.episode import differences, replay

    if dilemma not in env.dilemmas:
        raise ConfigError(f"{env.name} has no dilemma {dilemma!r}")
    replayed = replay(row, env)
    if found := differences(row, replayed):
        raise ConfigError(f"the replay differs from the table ({'; '.join(map(str, found))})")
    counts = replayed.violations[:, env.dilemmas.index(dilemma)]
    described = replayed.described()
    told = captions(described, dilemma)
    pictures = frames.draw(replayed, described) if env.draw is not None else None
    return {
        "player": page.player(replayed, counts, pictures, page.events({dilemma: told}, dilemma, pictures)),
        "tracks": [asdict(track) for track in timeline.tracks(replayed, counts)],
        "jumps": [asdict(jump) for jump in page.jumps(told)],
        "note": "" if pictures else f"{env.name} draws no pictures; the timeline is complete.",
    }


def _environment(row: Mapping[str, Any]) -> Environment:
    """The environment of the row's episode, if the row can be replayed at all."""
    if not labels.can_be_replayed(row):
        raise ConfigError("the table of another program has no keys and actions to replay")
    if row["environment"] not in ENVIRONMENTS:
        raise ConfigError(f"environment {row['environment']!r} is unknown{PLUGIN_HINT}")
    from perepisode.environments import check_env

    return check_env.check(environments.make(row["environment"], **labels.env_settings(row)))
