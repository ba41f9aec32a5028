"""The labels file: JSON Lines, append-only, one answer of a rater about two episodes per line.

    {"kind": "label", "version": 1, "id": …, "rater": …, "time": …, "left": {episode}, "right": {episode},
     "answer": "left", "repeat_of": null}
    {"kind": "undo", "version": 1, "undoes": the label's id, "rater": …, "time": …}

`left` is the episode that the rater saw on the left.  An episode is named by its run, its keys and its digest, so that
it can be checked and replayed, and comes with its numbers, so that a utility can be fitted without the episodes table.
Nothing is ever rewritten: an undo is a line of its own, and a line that a kill cut short stays.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from heapq import merge
from pathlib import Path
from typing import Any

import pandas as pd

from perepisode import safe_io, settings
from perepisode.config import ConfigError, canonical
from perepisode.environments import ENVIRONMENTS
from perepisode.evaluation import episodes

VERSION = 1
ANSWERS = ("left", "right", "equal", "both_unacceptable", "skip")
MAX_LABELS = 20_000  # lines of a file; a person labels some hundreds
MAX_LINE = 20_000  # bytes
MAX_RATER = 60  # characters
REMEDY = "give a file that `perepisode label` wrote"
_BEGIN = b'{"kind": '  # of every line
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_ID = re.compile(r"[0-9a-zA-Z_-]{1,64}")
_KEY = re.compile(r"([0-9a-f]{16})?")  # empty: an episode of another program, which cannot be replayed
_PLACE = ("run", "seed", "env_index", "episode_index", "return", "violations", "length")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Episode:
    """An episode, named for ever, with its numbers; `violations` are those of `dilemma`, exact."""

    run: str
    environment: str
    dilemma: str
    env_settings: Mapping[str, Any] = field(hash=False)
    seed: int
    reset_key: str
    episode_key: str
    digest: str
    return_: float  # `return` in the file
    violations: float
    length: int  # 0: not recorded
    end_cause: str

    def to_json(self) -> dict[str, Any]:
        return {name.rstrip("_"): value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, plain: Any) -> Episode:
        """The inverse of `to_json`; ValueError says what is wrong."""
        _require(isinstance(plain, dict), "an episode is not an object")
        values = {f.name: _get(plain, f.name.rstrip("_")) for f in fields(cls)}
        for name in ("run", "environment", "dilemma"):
            _require_text(name, values[name], 200)
        for name, pattern in (("reset_key", _KEY), ("episode_key", _KEY), ("digest", _DIGEST)):
            _require_match(name, values[name], pattern)
        known = values["env_settings"]
        plain_values = isinstance(known, dict) and all(isinstance(x, str | int | float | bool) for x in known.values())
        _require(plain_values and len(known) <= 100, "env_settings is not an object of plain values")
        for name, low in (("return_", -math.inf), ("violations", 0), ("length", 0), ("seed", 0)):
            _require_number(name.rstrip("_"), values[name], low)
        _require(values["end_cause"] in episodes.END_CAUSES, "end_cause is none of " + ", ".join(episodes.END_CAUSES))
        return cls(**values)


@dataclass(frozen=True)
class Label:
    """A rater's answer about two episodes."""

    rater: str
    left: Episode
    right: Episode
    answer: str
    repeat_of: str | None = None  # the earlier label of the same pair that this one repeats
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    time: str = field(default_factory=lambda: now())

    def to_json(self) -> dict[str, Any]:
        plain = {"kind": "label", "version": VERSION, "id": self.id, "rater": self.rater, "time": self.time}
        plain |= {"left": self.left.to_json(), "right": self.right.to_json()}
        return plain | {"answer": self.answer, "repeat_of": self.repeat_of}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Label:
        """The inverse of `to_json`; ValueError says what is wrong."""
        rater, time, label_id, repeat_of = (_get(plain, name) for name in ("rater", "time", "id", "repeat_of"))
        _require_text("rater", rater, MAX_RATER)
        _require_match("time", time, _TIME)
        _require_match("id", label_id, _ID)
        _require(repeat_of is None or isinstance(repeat_of, str), "repeat_of is neither null nor an id")
        _require(_get(plain, "answer") in ANSWERS, "the answer is none of " + ", ".join(ANSWERS))
        left, right = (Episode.from_json(_get(plain, side)) for side in ("left", "right"))
        _require(left.digest != right.digest, "left and right are one episode")
        same = (left.environment, left.dilemma) == (right.environment, right.dilemma)
        _require(same, "left and right differ in environment or dilemma")
        return cls(rater, left, right, plain["answer"], repeat_of, label_id, time)

    @property
    def pair(self) -> tuple[str, str]:
        """The digests of its two episodes in sorted order: equal for every label of the same pair."""
        first, second = sorted((self.left.digest, self.right.digest))
        return first, second


@dataclass(frozen=True)
class Undo:
    """Takes back a label of the same rater."""

    undoes: str
    rater: str
    time: str = field(default_factory=lambda: now())

    def to_json(self) -> dict[str, Any]:
        return {"kind": "undo", "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Undo:
        values = {name: _get(plain, name) for name in ("undoes", "rater", "time")}
        _require_match("undoes", values["undoes"], _ID)
        _require_text("rater", values["rater"], MAX_RATER)
        _require_match("time", values["time"], _TIME)
        return cls(**values)


_KINDS = {"label": Label, "undo": Undo}


def now() -> str:
    """This moment in UTC, as labels record it; text in this form sorts by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def check_rater(name: str) -> str:
    """The name, if a label can record it."""
    try:
        _require_text("the rater's name", name, MAX_RATER)
    except ValueError as error:
        raise ConfigError(f"{error}; choose another") from None
    return name


def can_be_replayed(row: Mapping[str, Any]) -> bool:
    """Whether the row records the episode's keys and actions, as the tables that `evaluate` writes."""
    actions, *keys = (row.get(name) for name in ("actions", "reset_key", "episode_key"))
    recorded = isinstance(actions, bytes) and all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys)
    return recorded and all((actions, *keys))


def digest(row: Mapping[str, Any]) -> str:
    """SHA-256 of the row's environment with its settings, keys and actions, which determine the episode.

    A row of another program has neither keys nor actions.  Its place in the evaluation and its numbers name it instead.
    """
    if can_be_replayed(row):
        named = [row["environment"], env_settings(row), row["reset_key"], row["episode_key"]]
        content = canonical(named).encode() + row["actions"]
    else:
        content = canonical([str(row.get(name)) for name in _PLACE]).encode()
    return "sha256:" + hashlib.sha256(content).hexdigest()


def reference(row: Mapping[str, Any], dilemma: str) -> Episode:
    """The episode in a row of an episodes table, with its exact violations of `dilemma`."""
    replayable = can_be_replayed(row)
    return Episode(
        run=str(row["run"]),
        environment=str(row["environment"]),
        dilemma=dilemma,
        env_settings=env_settings(row),
        seed=int(row["seed"]),
        reset_key=row["reset_key"] if replayable else "",
        episode_key=row["episode_key"] if replayable else "",
        digest=digest(row),
        return_=float(row["return"]),
        violations=_plain_number(row[violations_column(row, dilemma)]),
        length=int(row["length"]) if row["length"] == row["length"] else 0,
        end_cause=str(row["end_cause"]),
    )


def violations_column(row: Mapping[str, Any] | pd.DataFrame, dilemma: str) -> str:
    """The column with the exact violations of this dilemma; a table of another program has just one."""
    counted = f"violations_{dilemma}"
    if counted in row:
        return counted
    if not any(str(name).startswith("violations_") for name in row):
        return "violations"
    raise ConfigError(f"the episodes table has no column {counted}; name one of its dilemmas")


def env_settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """The environment's settings among the row's `settings`, as a replay needs them."""
    given = episodes.parse_settings(row.get("settings"))
    env = ENVIRONMENTS.get(row["environment"])
    known = settings.of(env) if env else {}
    return {name: given.get(f"env.{name}", given.get(name)) for name in known if {name, f"env.{name}"} & set(given)}


def append(path: str | Path, record: Label | Undo, size: int | None = None) -> bool:
    """Write one record; it is on disk when this returns true.

    Several processes may append to one file: each record is written under an exclusive lock, and with `size` only if
    the file still has this size, that is, if nobody wrote since it was read.  If a kill cut the last line short, the
    record begins on a line of its own; a record that the disk does not take as a whole leaves no trace.
    """
    path = Path(path)
    line = json.dumps(record.to_json(), allow_nan=False).encode() + b"\n"
    _parse(line, "the label")  # never write what `read` refuses
    created = not path.exists()
    with open(path, "a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        if size not in (None, end):
            return False
        if end and not _ends_a_line(file):
            line = b"\n" + line
        try:
            while line:  # a write may stop early, for example on a full disk
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise
    if created:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return True


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def read(paths: str | Path | Iterable[str | Path], log: Callable[[str], None] = print) -> list[Label]:
    """The current labels of these files, without the undone ones, each id once.

    They are in the order of their file, whatever its clock says, and several files are merged by time.  A folder stands
    for the *.jsonl files in it.  A line that a kill cut short is skipped, and `log` receives its place.
    """
    records = list(merge(*(_read_file(path, log) for path in _files(paths)), key=lambda record: record.time))
    found: dict[str, Label] = {}
    for label in (record for record in records if isinstance(record, Label)):
        if found.setdefault(label.id, label) != label:
            raise ConfigError(f"two different labels have the id {label.id}; {REMEDY}")
    for undo in (record for record in records if isinstance(record, Undo)):
        if undo.undoes in found and found[undo.undoes].rater == undo.rater:
            del found[undo.undoes]
    return list(found.values())


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The table's rows, each by the names of its columns."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def check(labels: Iterable[Label], table: pd.DataFrame) -> None:
    """Raise unless every labelled episode is in the episodes table, with the numbers that the rater saw."""
    found = {digest(row): row for row in rows(table)}
    for label in labels:
        for one in (label.left, label.right):
            if one.digest not in found:
                raise ConfigError(
                    f"label {label.id} names an episode of run {one.run} that the episodes table does not contain; "
                    "give the table that was labelled"
                )
            other = reference(found[one.digest], one.dilemma)
            if (other.return_, other.violations) != (one.return_, one.violations):
                raise ConfigError(
                    f"label {label.id} has other numbers for its episode of run {one.run} than the episodes table; "
                    "one of the two files was changed"
                )


def _files(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    files = [file for path in given for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    if not files:
        raise ConfigError(f"no labels file in {', '.join(map(str, given)) or 'an empty list'}; {REMEDY}")
    return files


def _read_file(path: Path, log: Callable[[str], None]) -> list[Label | Undo]:
    content = safe_io.read_bytes(path, REMEDY)
    if content.count(b"\n") > MAX_LABELS:
        raise ConfigError(f"{path} has more than {MAX_LABELS:,} lines, more than anyone labels; {REMEDY}")
    records = []
    for row, line in enumerate(content.split(b"\n"), 1):
        where = f"{path}, line {row}"
        if _cut_short(line):
            log(f"warning: {where}: cut short, so its answer was not recorded; skipped")
        elif line.strip():
            records.append(_parse(line, where))
    return records


def _cut_short(line: bytes) -> bool:
    """Whether this is the beginning of a record, which a kill leaves behind."""
    begins = bool(line) and _BEGIN.startswith(line[: len(_BEGIN)]) and len(line) <= MAX_LINE
    return begins and safe_io.parse_row(line.decode(errors="replace")) is None


def _parse(line: bytes, where: str) -> Label | Undo:
    if len(line) > MAX_LINE:
        raise ConfigError(f"{where} is longer than {MAX_LINE:,} bytes; {REMEDY}")
    plain = safe_io.parse_json(line, where, REMEDY)
    try:
        if plain.get("version") != VERSION:
            raise ValueError(f"it is not of version {VERSION}")
        kind = plain.get("kind")
        _require(isinstance(kind, str) and kind in _KINDS, "its kind is neither label nor undo")
        return _KINDS[plain["kind"]].from_json(plain)
    except ValueError as error:
        raise ConfigError(f"{where} is not a label: {error}; {REMEDY}") from None


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _get(plain: dict[str, Any], name: str) -> Any:
    _require(name in plain, f"it has no {name}")
    return plain[name]


def _require_text(name: str, value: Any, longest: int) -> None:
    good = isinstance(value, str) and 0 < len(value) <= longest and value.isprintable() and value.strip()
    _require(bool(good), f"{name} is not a text of 1 to {longest} printable characters")


def _require_match(name: str, value: Any, pattern: re.Pattern) -> None:
    _require(isinstance(value, str) and pattern.fullmatch(value) is not None, f"{name} is malformed")


def _require_number(name: str, value: Any, low: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    _require(number and low <= value and abs(value) <= episodes.MAX_VALUE, f"{name} is not a number in range")


def _plain_number(value: Any) -> int | float:
    """As an int where it is whole: 3 rather than 3.0."""
    return int(value) if float(value).is_integer() else float(value)
