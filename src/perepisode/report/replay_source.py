"""Which episodes to replay, and what is known of the runs they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from perepisode.config import Refused, Run
from perepisode.environments import WORLDS
from perepisode.evaluation import episodes
from perepisode.runs import RunFolder

TABLE = "episodes.parquet"
TITLES = "titles.json"  # beside a page of replays, for reports that link to it


@dataclass(frozen=True)
class Chosen:
    """One row of the table; `run` and `folder` are None where no readable run folder was found, and `note` says so."""

    number: int  # of the row, in the table as read
    row: dict[str, Any]
    run: Run | None
    folder: RunFolder | None
    note: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The world's options that the episode was played with, as far as they are known."""
        return dict(self.run.world) if self.run else {}


@dataclass(frozen=True)
class Selection:
    """The chosen rows, and out of how many of which table."""

    path: Path
    total: int
    chosen: list[Chosen]


def select(
    source: Path, worst: int, rows: tuple[int, ...], method: str | None, arm: str | None, runs: Path | None
) -> Selection:
    """The `worst` episodes, or the given rows, of a table or of the table beside a run folder."""
    if worst < 1:
        raise Refused(f"worst={worst} leaves nothing to watch; use at least 1")
    path, own = _locate(source)
    table = _read(path)
    wanted = {"run": own.read().id if own else None, "method": method, "arm": arm}
    kept = _keep(table, path, {column: value for column, value in wanted.items() if value is not None})
    numbers = _given(rows, table, kept) if rows else worst_first(kept)[:worst]
    folders = {own.read().id: own} if own else _folders(_bases(path, runs))
    chosen = [_chosen(number, table.loc[number].to_dict(), folders) for number in numbers]
    return Selection(path, len(kept), chosen)


def worst_first(table: pd.DataFrame) -> list[int]:
    """Row numbers by most violations of the run's own dilemma, then lowest return, then order in the table."""
    order = table.sort_values(["violations", "return"], ascending=[False, True], kind="stable")
    return [int(number) for number in order.index]


def _locate(source: Path) -> tuple[Path, RunFolder | None]:
    """The table, and the run folder if it was one that was named."""
    if not source.exists():
        raise Refused(f"{source} does not exist; give an episodes table or a run folder")
    if not source.is_dir():
        return source, None
    if not (source / "run.json").exists():
        if (source / TABLE).exists():
            return source / TABLE, None
        raise Refused(f"{source} is no run folder (it has no run.json) and holds no {TABLE}")
    home = source.resolve().parent
    for table in (home / TABLE, home.parent / "episodes"):  # beside the run, or where a study keeps its tables
        if table.exists():
            return table, RunFolder(source)
    raise Refused(f"no {TABLE} lies beside {source}; make it with `perepisode evaluate {source}`")


def _read(path: Path) -> pd.DataFrame:
    try:
        table = episodes.read(path)
    except Refused:
        raise
    except ValueError as error:
        raise Refused(str(error)) from None
    missing = [column for column in episodes.REPLAY_COLUMNS if column not in table]
    if missing:
        raise Refused(f"{path} has no column {missing[0]!r}: a table from elsewhere can be reported, but not replayed")
    environment = table["environment"].iloc[0]
    if environment not in WORLDS:
        raise Refused(f"{path} is of environment {environment!r}; only {', '.join(WORLDS)} can be replayed")
    return table


def _keep(table: pd.DataFrame, path: Path, wanted: dict[str, str]) -> pd.DataFrame:
    kept = table
    for column, value in wanted.items():
        kept = kept.loc[kept[column] == value]
        if kept.empty:
            found = ", ".join(sorted(table[column].unique())[:12])
            others = " and ".join(f"{name} {one!r}" for name, one in wanted.items() if name != column)
            raise Refused(
                f"{path} has no episode of {column} {value!r}{f' with {others}' if others else ''}; it has {found}"
            )
    return kept


def _given(rows: tuple[int, ...], table: pd.DataFrame, kept: pd.DataFrame) -> list[int]:
    for row in rows:
        if not 0 <= row < len(table):
            raise Refused(f"row {row} is out of range; the table has rows 0 to {len(table) - 1}")
        if row not in kept.index:
            one = table.loc[row]
            raise Refused(
                f"row {row} is of run {one['run']}, method {one['method']}, arm {one['arm'] or 'none'}: "
                "not among the episodes that were asked for"
            )
    return list(rows)


def _bases(table: Path, runs: Path | None) -> list[Path]:
    if runs is not None:
        if not runs.is_dir():
            raise Refused(f"{runs} does not exist; give the folder of run folders")
        return [runs]
    home = table.resolve().parent
    return [home, home / "runs", home.parent / "runs"]


def _folders(bases: Iterable[Path]) -> dict[str, RunFolder]:
    """Run folders by the id they state; what is wrong with one is said when its episode is replayed."""
    found: dict[str, RunFolder] = {}
    for base in bases:
        for path in sorted([*base.glob("run.json"), *base.glob("*/run.json")]):
            try:
                stated = json.loads(path.read_text())["id"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            found.setdefault(str(stated), RunFolder(path.parent))
    return found


def _chosen(number: int, row: dict[str, Any], folders: dict[str, RunFolder]) -> Chosen:
    folder = folders.get(row["run"])
    if folder is None:
        return Chosen(number, row, None, None, "The run's folder was not found; the world has its default options.")
    try:
        return Chosen(number, row, folder.read(), folder)
    except Refused as error:
        return Chosen(number, row, None, None, f"{error}. The world has its default options.")


def titles(page: Path) -> list[str]:
    """What is to be seen on a page of replays."""
    path = page / TITLES
    try:
        return [str(title) for title in json.loads(path.read_text())]
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{page} holds no episodes to watch ({error}); make them with `perepisode watch`") from None
