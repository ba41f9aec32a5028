"""Replay selected episodes, compare them with their rows and write a page to watch them."""

from collections.abc import Callable
from pathlib import Path

from perepisode import environments
from perepisode.config import ConfigError
from perepisode.environments import check_env
from perepisode.replay import page
from perepisode.replay.captions import captions, summary
from perepisode.replay.episode import Replay, differences, replay
from perepisode.replay.selection import SelectedEpisode, select


def watch(
    source: Path,
    out: Path,
    worst: int = 5,
    row: tuple[int, ...] = (),
    method: str | None = None,
    arm: str | None = None,
    runs: Path | None = None,
    abstaining: int = 0,
    log: Callable[[str], None] = print,
) -> Path:
    """Replay the `worst` episodes (or these rows) of a table, run or agent and write `out`/index.html; its path.

    `abstaining` adds that many episodes with a single violation, those in which the agent abstained most often
    afterwards.  No two episodes share a key, unless both rows are given.
    """
    selection = select(Path(source), worst, tuple(row), method, arm, None if runs is None else Path(runs), log)
    replays = [(episode, _replay(episode)) for episode in selection.episodes]
    if abstaining:
        candidates = [(episode, _replay(episode)) for episode in selection.single_violation]
        candidates.sort(key=lambda pair: -len(pair[1].abstained(pair[0].row["dilemma"])))
        replays += candidates[:abstaining]
    if not replays:
        reason = f", and no episode of {selection.total} has just one violation" if abstaining else ""
        raise ConfigError(f"worst={worst} leaves nothing to watch{reason}; use at least 1")
    views = []
    for index, (episode, replayed) in enumerate(replays):
        found = differences(episode.row, replayed)
        verdict = "reproduced exactly" if not found else "NOT reproduced: " + "; ".join(map(str, found))
        described = replayed.described()
        told = summary(captions(described, episode.row["dilemma"]))
        log(f"episode {index + 1} of {len(replays)}, row {episode.row_number}: {'; '.join([verdict, *told])}")
        views.append(page.view(index, episode, replayed, found, described))
    return page.write(Path(out), selection, views)


def _replay(episode: SelectedEpisode) -> Replay:
    row = episode.row
    env = check_env.check(environments.make(row["environment"], **episode.env_settings))
    if row["dilemma"] not in env.dilemmas:
        raise ConfigError(f"dilemma {row['dilemma']!r} is unknown; {env.name} has {', '.join(env.dilemmas)}")
    return replay(row, env)
