"""Selecting the episodes to replay, and finding the runs that played them."""

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from perepisode import safe_io, settings
from perepisode import zoo as agents
from perepisode.compilation import cache_folder
from perepisode.config import ConfigError, EvalConfig, canonical
from perepisode.environments import ENVIRONMENTS
from perepisode.evaluation import episodes
from perepisode.plugins import PLUGIN_HINT, SourceChanged
from perepisode.report.style import per_episode
from perepisode.runs import Run, RunFolder, versions
from perepisode.zoo import AgentFile, AgentSource, HubFolder

TABLE = "episodes.parquet"
CANDIDATES = 8  # episodes with one violation to replay when looking for abstentions


@dataclass(frozen=True)
class SelectedEpisode:
    """One row of the table; `run` and `source` are None if no readable run was found, and `note` gives the reason."""

    row_number: int  # in the table as read
    row: dict[str, Any]
    run: Run | None
    source: AgentSource | None
    note: str = ""

    @property
    def env_settings(self) -> dict[str, Any]:
        """The environment's settings, as far as they are known."""
        return dict(self.run.env_settings) if self.run else {}

    @property
    def seed_and_settings(self) -> tuple[str, str]:
        """Key and environment settings: episodes that share both have the same start and the same randomness."""
        complete = settings.complete(ENVIRONMENTS[self.row["environment"]], self.env_settings)
        return str(self.row["episode_key"]), canonical(complete)


@dataclass(frozen=True)
class Selection:
    """The selected rows of a table."""

    path: Path
    total: int  # rows that match the filters
    episodes: list[SelectedEpisode]
    single_violation: list[SelectedEpisode]  # long episodes in which the agent may have abstained


def select(
    source: Path,
    worst: int,
    rows: tuple[int, ...] = (),
    method: str | None = None,
    arm: str | None = None,
    runs: Path | None = None,
    log: Callable[[str], None] = print,
) -> Selection:
    """The `worst` episodes, no two with the same key, or the given rows of a table, a run folder or an agent."""
    if worst < 0:
        raise ConfigError(f"worst={worst} is not a number of episodes; use 0 or more")
    path, agent = _locate(source, log)
    table = _read(path)
    filters = {"run": agent.read().id if agent else None, "method": method, "arm": arm}
    matching = _filter(table, path, {column: value for column, value in filters.items() if value is not None})
    sources = {agent.read().id: agent} if agent else _sources(_bases(path, runs))
    read_source = cache(lambda run: _read_source(sources.get(run)))

    def load(numbers: Iterable[int]) -> Iterator[SelectedEpisode]:
        return (
            SelectedEpisode(number, row := table.loc[number].to_dict(), *read_source(row["run"])) for number in numbers
        )

    if rows:
        selected = list(load(_check_rows(rows, table, matching)))
    else:
        selected = list(islice(_distinct(load(worst_first(matching)), []), worst))
        if len(selected) < min(worst, len(matching)):
            log(f"{len(matching)} episodes share {len(selected)} keys; the worst episode of each key is shown")
    single = islice(_distinct(load(long_with_one(matching)), selected), CANDIDATES)
    return Selection(path, len(matching), selected, list(single))


def _distinct(episodes: Iterable[SelectedEpisode], shown: Iterable[SelectedEpisode]) -> Iterator[SelectedEpisode]:
    """The first episode of each key and settings that is not among those `shown`.

    Agents with the same training seed are evaluated with the same keys, so the keys with the most opportunities for
    violations would otherwise fill the page.
    """
    seen = {episode.seed_and_settings for episode in shown}
    for episode in episodes:
        if episode.seed_and_settings not in seen:
            seen.add(episode.seed_and_settings)
            yield episode


def long_with_one(table: pd.DataFrame) -> list[int]:
    """Row numbers of episodes with one violation, longest first; only of methods with a per-episode budget, if any."""
    single = table.loc[table["violations"] == 1]
    budgeted = single.loc[single["method"].isin(per_episode())]
    order = (single if budgeted.empty else budgeted).sort_values("length", ascending=False, kind="stable")
    return [int(number) for number in order.index]


def worst_first(table: pd.DataFrame) -> list[int]:
    """Row numbers sorted by most violations of the run's own dilemma, then lowest return, then table order."""
    order = table.sort_values(["violations", "return"], ascending=[False, True], kind="stable")
    return [int(number) for number in order.index]


def _locate(source: Path, log: Callable[[str], None]) -> tuple[Path, AgentSource | None]:
    """The table, and the agent if `source` names one."""
    if source.suffix in (".parquet", ".csv"):
        return source, None
    if not source.is_dir() or HubFolder.is_at(source):
        agent = agents.find_one(source)
        assert isinstance(agent, AgentFile), "it is no run folder"
        return evaluate_once(agent, source, log), agent
    if not (source / "run.json").exists():
        if (source / TABLE).exists():
            return source / TABLE, None
        if any(source.glob("*.parquet")):
            return source, None
        raise ConfigError(f"{source} is not a run folder (it has no run.json) and has no {TABLE}")
    return table_of(source), RunFolder(source)


def table_of(run: Path) -> Path:
    """The episodes table of a run folder: next to the folder, or where a study keeps its tables."""
    home = run.resolve().parent
    for table in (home / TABLE, home.parent / "episodes"):
        if table.exists():
            return table
    raise ConfigError(f"there is no {TABLE} next to {run}; create it with `perepisode evaluate {run}`")


def evaluate_once(agent: AgentFile, name: Path, log: Callable[[str], None]) -> Path:
    """The agent's episodes on this machine, evaluated the first time and then cached."""
    import jax

    from perepisode.evaluation.rollout import evaluate

    config, device = EvalConfig(), jax.devices()[0].device_kind
    key = canonical([agent.metadata["policy"]["sha256"], vars(config), versions(), device])
    cache = cache_folder("episodes")
    folder = cache or Path(tempfile.mkdtemp(prefix="perepisode-"))
    path = folder / f"{agent.id}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.parquet"
    if not path.exists():
        log(f"{name} has not been evaluated on this machine; evaluating it now, which takes minutes on a CPU")
        evaluate([agent.path], path, **vars(config), log=log)
        log(f"its episodes are cached in {path}" if cache else f"the cache is not writable; its episodes are in {path}")
    return path


def _read(path: Path) -> pd.DataFrame:
    try:
        table = episodes.read(path)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    missing = [column for column in episodes.REPLAY_COLUMNS if column not in table]
    if missing:
        raise ConfigError(
            f"{path} has no column {missing[0]!r}: a table of another program can be reported, but not replayed"
        )
    environment = table["environment"].iloc[0]
    if environment not in ENVIRONMENTS:
        raise ConfigError(
            f"{path} is of environment {environment!r}; only {', '.join(ENVIRONMENTS)} can be replayed{PLUGIN_HINT}"
        )
    return table


def _filter(table: pd.DataFrame, path: Path, filters: dict[str, str]) -> pd.DataFrame:
    matching = table
    for column, value in filters.items():
        equal = matching[column] == value
        if column == "arm" and not equal.to_numpy().any():  # "k=1" also means "k=1, ent_coef=0.01"
            equal = matching[column].str.startswith(f"{value}, ")
        matching = matching.loc[equal]
        if matching.empty:
            available = ("; " if column == "arm" else ", ").join(sorted(table[column].unique())[:12])
            others = " and ".join(f"{name} {other!r}" for name, other in filters.items() if name != column)
            raise ConfigError(
                f"{path} has no episode of {column} {value!r}{f' with {others}' if others else ''}; it has {available}"
            )
    return matching


def _check_rows(rows: tuple[int, ...], table: pd.DataFrame, matching: pd.DataFrame) -> list[int]:
    for row in rows:
        if not 0 <= row < len(table):
            raise ConfigError(f"row {row} is out of range; the table has rows 0 to {len(table) - 1}")
        if row not in matching.index:
            found = table.loc[row]
            raise ConfigError(
                f"row {row} is of run {found['run']}, method {found['method']}, arm {found['arm'] or 'none'}, "
                "which the other options exclude"
            )
    return list(rows)


def _bases(table: Path, runs: Path | None) -> list[Path]:
    if runs is not None:
        if not runs.is_dir():
            raise ConfigError(f"{runs} does not exist; give the folder of run folders")
        return [runs]
    home = table.resolve().parent
    return [home, home / "runs", home.parent / "runs"]


def _sources(bases: Iterable[Path]) -> dict[str, AgentSource]:
    """Run folders and bundled agents by run id; a damaged folder raises only when an episode of it is replayed."""
    found: dict[str, AgentSource] = {}
    for base in bases:
        for path in sorted([*base.glob("run.json"), *base.glob("*/run.json")]):
            with contextlib.suppress(ConfigError):
                found.setdefault(str(safe_io.read_json(path, "").get("id")), RunFolder(path.parent))
    return {**agents.bundled(), **found}


def _read_source(source: AgentSource | None) -> tuple[Run | None, AgentSource | None, str]:
    """The run, source and note of a `SelectedEpisode`."""
    if source is None:
        return None, None, "The run's folder was not found; the environment has its default settings."
    try:
        return source.read(), source, ""
    except SourceChanged:
        raise
    except ConfigError as error:
        return None, None, f"{error}. The environment has its default settings."
