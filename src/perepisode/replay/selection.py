"""Which episodes to replay, and what is known of the runs they come from."""

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
from perepisode.zoo import AgentFile, AgentSource

TABLE = "episodes.parquet"
CANDIDATES = 8  # of the episodes with one violation that are looked at for restraint


@dataclass(frozen=True)
class SelectedEpisode:
    """One row of the table; `run` and `trained` are None where no readable run was found, and `note` says so."""

    number: int  # of the row, in the table as read
    row: dict[str, Any]
    run: Run | None
    trained: AgentSource | None
    note: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The world's options that the episode was played with, as far as they are known."""
        return dict(self.run.env_settings) if self.run else {}

    @property
    def env(self) -> tuple[str, str]:
        """What two episodes share that begin alike and meet the same chances: key and options."""
        whole = settings.complete(ENVIRONMENTS[self.row["environment"]], self.options)
        return str(self.row["policy_key"]), canonical(whole)


@dataclass(frozen=True)
class Selection:
    """The chosen rows, and out of how many of which table."""

    path: Path
    total: int
    chosen: list[SelectedEpisode]
    once: list[SelectedEpisode]  # long episodes with one violation: where restraint may be seen


def select(
    source: Path,
    worst: int,
    rows: tuple[int, ...] = (),
    method: str | None = None,
    arm: str | None = None,
    runs: Path | None = None,
    log: Callable[[str], None] = print,
) -> Selection:
    """The `worst` episodes, each in another world, or the given rows: of a table, a run folder's table or an agent."""
    if worst < 0:
        raise ConfigError(f"worst={worst} is not a number of episodes; use 0 or more")
    path, own = _locate(source, log)
    table = _read(path)
    wanted = {"run": own.read().id if own else None, "method": method, "arm": arm}
    kept = _keep(table, path, {column: value for column, value in wanted.items() if value is not None})
    trained = {own.read().id: own} if own else _trained(_bases(path, runs))
    played_by = cache(lambda run: _played_by(trained.get(run)))

    def choose(numbers: Iterable[int]) -> Iterator[SelectedEpisode]:
        return (
            SelectedEpisode(number, row := table.loc[number].to_dict(), *played_by(row["run"])) for number in numbers
        )

    if rows:
        chosen = list(choose(_given(rows, table, kept)))
    else:
        chosen = list(islice(_worlds_once(choose(worst_first(kept)), []), worst))
        if len(chosen) < min(worst, len(kept)):
            log(f"{len(kept)} episodes were played in {len(chosen)} worlds; of each the worst is shown")
    once = islice(_worlds_once(choose(long_with_one(kept)), chosen), CANDIDATES)
    return Selection(path, len(kept), chosen, list(once))


def _worlds_once(episodes: Iterable[SelectedEpisode], shown: Iterable[SelectedEpisode]) -> Iterator[SelectedEpisode]:
    """Of these, the first in each world that is not among those `shown`.

    Agents of one seed are judged in the same worlds, and the worlds with most occasions are the worst of them all.
    """
    seen = {one.env for one in shown}
    for one in episodes:
        if one.env not in seen:
            seen.add(one.env)
            yield one


def long_with_one(table: pd.DataFrame) -> list[int]:
    """Row numbers of episodes with one violation, the longest first: of agents with a budget an episode, if any."""
    single = table.loc[table["violations"] == 1]
    budgeted = single.loc[single["method"].isin(per_episode())]
    order = (single if budgeted.empty else budgeted).sort_values("length", ascending=False, kind="stable")
    return [int(number) for number in order.index]


def worst_first(table: pd.DataFrame) -> list[int]:
    """Row numbers by most violations of the run's own dilemma, then lowest return, then order in the table."""
    order = table.sort_values(["violations", "return"], ascending=[False, True], kind="stable")
    return [int(number) for number in order.index]


def _locate(source: Path, log: Callable[[str], None]) -> tuple[Path, AgentSource | None]:
    """The table, and the agent if it was one that was named."""
    if source.suffix in (".parquet", ".csv"):
        return source, None
    if not source.is_dir():
        agent = agents.find_one(source)
        assert isinstance(agent, AgentFile), "only a folder can be a run folder"
        return judged(agent, source, log), agent
    if not (source / "run.json").exists():
        if (source / TABLE).exists():
            return source / TABLE, None
        if any(source.glob("*.parquet")):
            return source, None
        raise ConfigError(f"{source} is no run folder (it has no run.json) and holds no {TABLE}")
    return table_of(source), RunFolder(source)


def table_of(run: Path) -> Path:
    """The episodes table of a run folder: beside the run, or where a study keeps its tables."""
    home = run.resolve().parent
    for table in (home / TABLE, home.parent / "episodes"):
        if table.exists():
            return table
    raise ConfigError(f"no {TABLE} lies beside {run}; make it with `perepisode evaluate {run}`")


def judged(agent: AgentFile, name: Path, log: Callable[[str], None]) -> Path:
    """The agent's episodes on this machine: judged at the first time, kept in the user's cache for the next."""
    import jax

    from perepisode.evaluation.rollout import evaluate

    protocol, device = EvalConfig(), jax.devices()[0].device_kind
    made_by = canonical([agent.metadata["policy"]["sha256"], vars(protocol), versions(), device])
    cache = cache_folder("episodes")
    folder = cache or Path(tempfile.mkdtemp(prefix="perepisode-"))
    path = folder / f"{agent.id}-{hashlib.sha256(made_by.encode()).hexdigest()[:12]}.parquet"
    if not path.exists():
        log(f"{name} has not been judged on this machine: it plays now, which takes minutes on a CPU")
        evaluate([agent.path], path, **vars(protocol), log=log)
        log(f"its episodes are kept in {path}" if cache else f"the cache cannot be written; its episodes are in {path}")
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
            f"{path} has no column {missing[0]!r}: a table from elsewhere can be reported, but not replayed"
        )
    environment = table["environment"].iloc[0]
    if environment not in ENVIRONMENTS:
        raise ConfigError(
            f"{path} is of environment {environment!r}; only {', '.join(ENVIRONMENTS)} can be replayed{PLUGIN_HINT}"
        )
    return table


def _keep(table: pd.DataFrame, path: Path, wanted: dict[str, str]) -> pd.DataFrame:
    kept = table
    for column, value in wanted.items():
        same = kept[column] == value
        if column == "arm" and not same.to_numpy().any():  # "k=1" where a table tells two of them apart: both
            same = kept[column].str.startswith(f"{value}, ")
        kept = kept.loc[same]
        if kept.empty:
            found = ("; " if column == "arm" else ", ").join(sorted(table[column].unique())[:12])
            others = " and ".join(f"{name} {one!r}" for name, one in wanted.items() if name != column)
            raise ConfigError(
                f"{path} has no episode of {column} {value!r}{f' with {others}' if others else ''}; it has {found}"
            )
    return kept


def _given(rows: tuple[int, ...], table: pd.DataFrame, kept: pd.DataFrame) -> list[int]:
    for row in rows:
        if not 0 <= row < len(table):
            raise ConfigError(f"row {row} is out of range; the table has rows 0 to {len(table) - 1}")
        if row not in kept.index:
            one = table.loc[row]
            raise ConfigError(
                f"row {row} is of run {one['run']}, method {one['method']}, arm {one['arm'] or 'none'}: "
                "not among the episodes that were asked for"
            )
    return list(rows)


def _bases(table: Path, runs: Path | None) -> list[Path]:
    if runs is not None:
        if not runs.is_dir():
            raise ConfigError(f"{runs} does not exist; give the folder of run folders")
        return [runs]
    home = table.resolve().parent
    return [home, home / "runs", home.parent / "runs"]


def _trained(bases: Iterable[Path]) -> dict[str, AgentSource]:
    """Runs by the id they state, those that ship included; what is wrong with one is said when it is replayed."""
    found: dict[str, AgentSource] = {}
    for base in bases:
        for path in sorted([*base.glob("run.json"), *base.glob("*/run.json")]):
            with contextlib.suppress(ConfigError):
                found.setdefault(str(safe_io.read_json(path, "").get("id")), RunFolder(path.parent))
    return {**agents.bundled(), **found}


def _played_by(trained: AgentSource | None) -> tuple[Run | None, AgentSource | None, str]:
    """What `SelectedEpisode` says of a row's run."""
    if trained is None:
        return None, None, "The run's folder was not found; the world has its default options."
    try:
        return trained.read(), trained, ""
    except SourceChanged:
        raise
    except ConfigError as error:
        return None, None, f"{error}. The world has its default options."
