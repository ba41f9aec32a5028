"""Episodes to be watched: chosen, lived again, compared with their rows, and put on a page."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perepisode import environments
from perepisode.config import ConfigError
from perepisode.environments import check_env
from perepisode.environments.base import Environment
from perepisode.replay import page
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
    restraint: int = 0,
    log: Callable[[str], None] = print,
) -> Path:
    """Replay the `worst` episodes (or these rows) of a table, run or agent and write `out`/index.html; its path.

    With `restraint`, also as many episodes with one violation whose agent had most further chances and let them be.
    No world is shown twice, unless two rows of it are given.
    """
    selection = select(Path(source), worst, tuple(row), method, arm, None if runs is None else Path(runs), log)
    again = [(chosen, _again(chosen)) for chosen in selection.chosen]
    if restraint:
        once = [(chosen, _again(chosen)) for chosen in selection.once]
        chances = {chosen.number: len(replayed.abstained(chosen.row["dilemma"])) for chosen, replayed in once}
        again += sorted(once, key=lambda one: -chances[one[0].number])[:restraint]
    if not again:
        also = f", and no episode of {selection.total} has just one violation" if restraint else ""
        raise ConfigError(f"worst={worst} leaves nothing to watch{also}; use at least 1")
    shown = []
    for place, (chosen, replayed) in enumerate(again):
        wrong = differences(chosen.row, replayed)
        verdict = "reproduced exactly" if not wrong else "NOT reproduced: " + "; ".join(map(str, wrong))
        log(f"episode {place + 1} of {len(again)}, row {chosen.number}: {verdict}")
        shown.append(page.episode(place, chosen, replayed, wrong))
    return page.write(Path(out), selection, shown)


def _again(chosen: SelectedEpisode) -> Replay:
    return replay(chosen.row, _world(chosen.row, chosen.options))


def _world(row: Mapping[str, Any], options: dict[str, Any]) -> Environment:
    env = check_env.check(environments.make(row["environment"], **options))
    if row["dilemma"] not in env.dilemmas:
        raise ConfigError(f"dilemma {row['dilemma']!r} is unknown; {env.name} has {', '.join(env.dilemmas)}")
    return env
