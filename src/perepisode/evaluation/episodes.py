"""The episodes table: one row per episode, the only interface between training and results.

| column | meaning |
|---|---|
| run | id of the training run |
| environment, dilemma | environment, and the dilemma the run was trained for |
| method, arm, value | training method; its setting as a label ("k=1") and as a number (NaN if it has none) |
| seed, gamma, total_timesteps | of the training run |
| detector | the detector of training: exact or paper |
| settings | the other training settings: those of the method, of the environment and of PPO (JSON) |
| env_index, episode_index | index of the parallel environment, and of the episode in it |
| in_window, in_first | ended within the paper's window; among the first K of its environment (no length bias) |
| return, length, end_cause, utility | of the episode; end_cause: death, timeout, won, enforced, running |
| violations | of the run's own dilemma, exact |
| violations_<dilemma>[_paper] | of every dilemma, in evaluation: exact, and by the paper's state difference |
| info_* | sums of the environment's info counters |
| reset_key, episode_key | for replays; keys of environment steps and actions derive from episode_key |
| actions | for replays, the bytes of one uint8 or uint16 per step, or of the float32 vector of a `Box`, little-endian |

A table of another program needs only `REQUIRED`, under these names or the aliases that other libraries write
(`COLUMN_ALIASES`); `read` fills in the rest.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from perepisode import legacy, safe_io, settings
from perepisode.runs import open_atomically

REQUIRED = ("method", "seed", "return", "violations")
# Names in other libraries, case-insensitive; if a table has several, the first one listed is used.  OmniSafe and
# Safety-Gymnasium write EpRet, EpCost and EpLen with a prefix and a slash, the recorders of Gymnasium and
# Stable-Baselines3 write r and l.
COLUMN_ALIASES = {
    "method": ("algo", "algorithm", "agent"),
    "return": (
        "metrics/testepret", "metrics/epret", "testepret", "epret", "ep_ret", "ep_return", "ep_reward",
        "episode_return", "episode_reward", "episodic_return", "cumulative_reward", "total_reward", "returns",
        "reward", "rewards", "r",
    ),
    "violations": (
        "metrics/testepcost", "metrics/epcost", "testepcost", "epcost", "ep_cost", "episode_cost", "episodic_cost",
        "cumulative_cost", "total_cost", "cost", "costs",
    ),
    "length": (
        "metrics/testeplen", "metrics/eplen", "testeplen", "eplen", "ep_len", "ep_length", "episode_length",
        "episodic_length", "l",
    ),
}  # fmt: skip
EPOCH_COLUMN = "train/epoch"  # in OmniSafe's training log, whose rows are epochs
END_CAUSES = ("death", "timeout", "won", "enforced", "running")
LABELS = ("run", "environment", "dilemma", "method", "arm", "detector", "end_cause")
REPLAY_COLUMNS = ("actions", "reset_key", "episode_key")
MISSING = [  # texts that mean a missing number in a CSV: pandas' defaults
    "", " ", "nan", "-nan", "NaN", "-NaN", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "null", "NULL",
    "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
]  # fmt: skip
MAX_ROWS = 20_000_000  # of one table; even a small file can claim many more
MAX_VALUE = 1e30  # the variance of a variance needs its fourth power to be finite
_METADATA_KEY = b"perepisode"
_DEFAULTS = {
    "method": "unnamed",
    "environment": "external",
    "dilemma": "violations",
    "arm": "",
    "gamma": np.nan,
    "detector": "exact",
    "env_index": 0,
    "in_window": True,
    "in_first": True,
    "length": np.nan,
    "end_cause": "timeout",
    "utility": np.nan,
    "total_timesteps": np.nan,
}


Tables = str | Path | pd.DataFrame | Iterable[str | Path | pd.DataFrame]  # paths, folders of tables, or data frames


def read(paths: Tables, without: Iterable[str] = ()) -> pd.DataFrame:
    """`read_raw`, with arms extended where agents of one arm were trained with different settings.

    Two arms "k=1" become "k=1, ent_coef=0.01" and "k=1, ent_coef=0.02"; a unique arm keeps its label.
    """
    table = read_raw(paths, without)
    if table["settings"].cat.categories.size:
        keys = ["dilemma", "method", "arm", "settings"]
        groups = table.groupby(keys, sort=False, dropna=False, observed=True).ngroup().to_numpy()
        *labels, texts = table[keys].iloc[np.unique(groups, return_index=True)[1]].T.to_numpy()
        suffixes = settings.distinguish_arms(list(zip(*labels)), list(map(parse_settings, texts)))
        arms = [", ".join(filter(None, pair)) for pair in zip(labels[-1], suffixes)]
        table["arm"] = np.array(arms, object)[groups].astype(str)
    return table


def one_agent(tables: Tables, name: str) -> pd.DataFrame:
    """The episodes of one agent under this name, which its tables need not have; ValueError if they have several."""
    table = read_raw(tables, agent=name)
    agents = table[["method", "arm"]].drop_duplicates()
    if len(agents) > 1:
        listed = ", ".join(" ".join(filter(None, agent)) for agent in agents.itertuples(index=False))
        raise ValueError(f"{name} has the episodes of {len(agents)} agents ({listed}); give those of one")
    counted = {"violations": table.attrs["word"]}  # costs stay costs
    return table.drop(columns=["run"]).rename(columns=counted).assign(method=name, arm="", value=np.nan)


def read_raw(paths: Tables, without: Iterable[str] = (), agent: str | None = None) -> pd.DataFrame:
    """Read, complete and validate one or more tables (parquet or CSV, or folders of them), with arms as written.

    `agent` is the method of tables that have no column for it; without it they are refused.
    `table.attrs["provenance"]` lists, for every file, its path, its digest, its renamed columns and the provenance
    given to `write`; `table.attrs["word"]` is what the tables call it: violations or cost; `table.attrs["copies"]` says
    which tables are copies of others.
    """
    given = _as_list(paths)
    files = [file for one in given for file in ([one] if isinstance(one, pd.DataFrame) else _expand(Path(one)))]
    if not files:
        raise ValueError("no episodes table given; name at least one parquet or CSV file")
    tables, provenance, word = [], [], "violations"
    for number, file in enumerate(files, start=1):
        if isinstance(file, pd.DataFrame):
            table, metadata, digest = file.drop(columns=list(without), errors="ignore"), {}, _digest(file)
            file = f"data frame {number}" if len(files) > 1 else "data frame"
        else:
            (table, metadata), digest = _read_file(file, tuple(without)), _digest(file)
        table, renamed = rename_foreign_columns(table)
        if agent is not None and "method" not in table:
            table = table.assign(method=agent)
        _refuse_missing_columns(table, str(file))
        try:
            tables.append(complete(_upgrade(table)))
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise ValueError(f"{file} has values that no episodes table allows ({safe_io.first_line(error)})") from None
        known_as = {old: "cost" if "cost" in old.lower() else new for old, new in renamed.items()}
        roles = [f"{old} is {new}" for old, new in known_as.items() if old != new]
        columns = {"columns": ", ".join(roles)} if roles else {}
        if isinstance(metadata.get("protocol"), dict):
            metadata = {**metadata, "protocol": legacy.upgrade_evaluation(metadata["protocol"])}
        provenance.append({"path": str(file), "sha256": digest, "episodes": len(table), **columns, **metadata})
        word = "cost" if any("cost" in name.lower() for name in renamed) else word
    table = tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)
    table["settings"] = pd.Categorical(table["settings"])  # concatenation may undo this
    validate(table)
    if word == "cost":  # an unnamed dilemma takes the name of its column
        table["dilemma"] = table["dilemma"].where(table["dilemma"] != _DEFAULTS["dilemma"], word)
    table.attrs = {"provenance": provenance, "word": word, "copies": _copies([o["path"] for o in provenance], tables)}
    return table


def _copies(names: list[str], tables: list[pd.DataFrame]) -> list[str]:
    """Which tables have the same episodes as an earlier one, in words."""
    first: dict[int, str] = {}
    found = []
    for name, table in zip(names, tables):
        labels = (tuple(table[column].unique()) for column in ("run", "dilemma"))
        numbers = (_floats(table, column).tobytes() for column in ("return", "violations", "length"))
        content = hash((*labels, *numbers))
        found += [f"{name} has the same episodes as {first[content]}"] if content in first else []
        first.setdefault(content, name)
    return found


def _upgrade(table: pd.DataFrame) -> pd.DataFrame:
    """The table in current names, if version 0.1 wrote it."""
    table = table.rename(columns=legacy.renamed_columns(map(str, table.columns)))
    if "arm" in table:
        arms = {arm: legacy.upgrade_arm(arm) for arm in table["arm"].unique() if isinstance(arm, str)}
        table["arm"] = table["arm"].replace({old: new for old, new in arms.items() if old != new})
    if {"settings", "method", "environment"} <= set(table.columns):
        keys = ["settings", "method", "environment"]
        groups = table.groupby(keys, sort=False, dropna=False, observed=True).ngroup().to_numpy()
        rows = table[keys].iloc[np.unique(groups, return_index=True)[1]].itertuples(index=False)
        table["settings"] = np.array([legacy.upgrade_settings(*row) for row in rows], object)[groups]
    return table


def rename_foreign_columns(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table with another library's columns under our names, and the renamed columns, theirs → ours."""
    columns = {str(name).strip().lower(): name for name in reversed(table.columns)}
    if EPOCH_COLUMN in columns:
        raise ValueError(
            f"column {columns[EPOCH_COLUMN]!r} means that a row is a training epoch, a mean over episodes without a "
            "tail; write one row per episode (docs/tutorials/judge-your-agents.md)"
        )
    renamed = {}
    for ours, aliases in COLUMN_ALIASES.items():
        matching = [columns[name] for name in (ours, *aliases) if name in columns]
        if ours not in table and matching:
            renamed[matching[0]] = ours
    return table.rename(columns=renamed), {str(name): ours for name, ours in renamed.items()}


def write(table: pd.DataFrame, path: str | Path, provenance: dict | None = None) -> Path:
    """Validate and write atomically as parquet; `provenance` becomes the file's metadata (JSON)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if path.suffix != ".parquet":
        raise ValueError(f"{path} does not end in .parquet; an episodes table is written as parquet")
    validate(table)
    if "settings" in table:  # few distinct long texts: as categories they read as fast as numbers
        table = table.assign(settings=pd.Categorical(table["settings"]))
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    metadata = {_METADATA_KEY: json.dumps(provenance or {}, sort_keys=True).encode()}
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), **metadata})
    with open_atomically(path) as file:
        pq.write_table(arrow, file, compression="zstd")
    return path


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that a table of another program may lack, with neutral defaults; make all labels printable."""
    table = table.copy(deep=False)
    table.columns = [safe_io.printable(str(name)) for name in table.columns]
    for column, default in _DEFAULTS.items():
        if column not in table:
            table[column] = default
    for column in LABELS:
        if column in table:
            values, default = table[column], _DEFAULTS.get(column, "")
            labels = values.astype("str").where(values.notna(), default)
            escaped = {name: safe_io.printable(name) for name in labels.unique() if not name.isprintable()}
            table[column] = labels.replace(escaped) if escaped else labels
    table["settings"] = pd.Categorical(table["settings"] if "settings" in table else [None] * len(table))
    for column in ("in_window", "in_first"):
        table[column] = _booleans(pd.Series(table[column]))
    if "value" not in table:
        values = {arm: value_of(arm) for arm in table["arm"].unique()}
        table["value"] = table["arm"].map(values.__getitem__).astype(float)
    if "run" not in table:
        table["run"] = table["method"] + " " + table["arm"] + " seed " + table["seed"].astype("str")
    if "episode_index" not in table:
        table["episode_index"] = table.groupby("run", sort=False).cumcount()
    return table


def parse_settings(text: object) -> dict:
    """Settings as `evaluate` writes them; another library's `settings` column may hold any text."""
    try:
        plain = json.loads(text) if isinstance(text, str) and text else {}
    except ValueError:
        plain = text
    return plain if isinstance(plain, dict) else {"settings": text}


def value_of(arm: str) -> float:
    """The number in an arm's label: 0.5 in "d=0.5"; NaN if there is none."""
    try:
        return float(arm.rpartition("=")[2])
    except ValueError:
        return float("nan")


def validate(table: pd.DataFrame) -> None:
    """Raise ValueError with the value and the remedy if the table is unfit for statistics."""
    _refuse_missing_columns(table, "the episodes table")
    if len(table) == 0:
        raise ValueError("the episodes table is empty; evaluate at least one run first")
    _refuse_bad_numbers(table)
    if "environment" in table and len(names := sorted(table["environment"].unique())) > 1:
        raise ValueError(f"mixed environments {names}, whose returns are not comparable; report each on its own")
    if "end_cause" in table:
        unknown = sorted(set(table["end_cause"].unique()) - set(END_CAUSES))
        if unknown:
            raise ValueError(f"end_cause={unknown[0]!r} is unknown; use one of {', '.join(END_CAUSES)}")


def dilemmas(table: pd.DataFrame) -> tuple[str, ...]:
    """The dilemmas whose violations the table counts, in column order, and those that agents were trained for."""
    prefix = "violations_"
    counted = [name.removeprefix(prefix) for name in table.columns if name.startswith(prefix)]
    exact = [name for name in counted if name.removesuffix("_paper") not in set(counted) - {name}]
    trained = [name for name in table["dilemma"].unique() if name not in ("", "none")]
    return tuple(dict.fromkeys([*exact, *trained]))


def _refuse_missing_columns(table: pd.DataFrame, name: str) -> None:
    missing = [column for column in REQUIRED if column not in table]
    if missing:
        aliases = ", ".join(COLUMN_ALIASES.get(missing[0], ())[-3:])
        known = f" (nor an alias such as {aliases})" if aliases else ""
        needed = ", ".join(REQUIRED)
        raise ValueError(f"{name} has no column {missing[0]!r}{known}; an episodes table needs at least {needed}")


def _refuse_bad_numbers(table: pd.DataFrame) -> None:
    for column in ("seed", "return", "violations"):
        if not pd.api.types.is_numeric_dtype(table[column]):
            text = np.isnan(np.asarray(pd.to_numeric(table[column], errors="coerce"), float))
            _refuse_rows(table, column, text, f"write {column} as numbers")
    for column in ("seed", "return"):
        _refuse_rows(table, column, ~np.isfinite(_floats(table, column)), "omit such episodes")
    for column in ("seed", "return", "violations", "length", "gamma", "total_timesteps", "utility", "value"):
        if column in table:
            _refuse_rows(table, column, np.abs(_floats(table, column)) > MAX_VALUE, f"use numbers up to {MAX_VALUE:g}")
    counts = [name for name in table.columns if name == "violations" or name.startswith("violations_")]
    for column in counts:
        values = _floats(table, column)
        _refuse_rows(table, column, values < 0, "violations and costs are zero or more")
        if column == "violations":
            _refuse_rows(table, column, ~np.isfinite(values), "write 0 for an episode without violations")
    if "length" in table:
        _refuse_rows(table, "length", _floats(table, "length") < 1, "lengths count steps, one or more")


def _floats(table: pd.DataFrame, column: str) -> np.ndarray:
    try:
        return table[column].to_numpy(float, na_value=np.nan)
    except (TypeError, ValueError, ArithmeticError):
        raise ValueError(f"column {column!r} of the episodes table is not numeric; write numbers") from None


def _refuse_rows(table: pd.DataFrame, column: str, bad: np.ndarray, remedy: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value = safe_io.printable(str(table[column].iloc[row]))[:40]
        raise ValueError(f"{column}={value} in row {row} ({int(bad.sum())} such rows): {remedy}")


def _as_list(paths: Tables) -> list[str | Path | pd.DataFrame]:
    return [paths] if isinstance(paths, str | Path | pd.DataFrame) else list(paths)


def _expand(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for ending in ("parquet", "csv") for file in path.glob(f"*.{ending}"))
    if not files:
        raise ValueError(f"{path} contains no parquet or CSV file; evaluate its runs first")
    return files


def _digest(table: Path | pd.DataFrame) -> str:
    """SHA-256 of a file, or of a data frame's values."""
    if isinstance(table, pd.DataFrame):
        hashes: pd.Series = pd.util.hash_pandas_object(table, index=False, categorize=False)  # pyright: ignore
        return hashlib.sha256(hashes.to_numpy().tobytes()).hexdigest()
    with open(table, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_file(path: Path, without: tuple[str, ...]) -> tuple[pd.DataFrame, dict]:
    if not path.is_file():
        problem = "is not a regular file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {problem}; give the path of an episodes table")
    if path.suffix == ".parquet":
        return _read_parquet(path, without)
    if path.suffix == ".csv":
        return _read_csv(path, without)
    raise ValueError(f"{path} is neither .parquet nor .csv; episodes tables are one of the two")


def _read_parquet(path: Path, without: tuple[str, ...]) -> tuple[pd.DataFrame, dict]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            rows = file.metadata.num_rows
            renamed = legacy.renamed_columns(file.schema_arrow.names)
            columns = [name for name in file.schema_arrow.names if renamed.get(name, name) not in without]
            text = (file.schema_arrow.metadata or {}).get(_METADATA_KEY, b"{}").decode(errors="replace")
            if rows <= MAX_ROWS:
                table = file.read(columns=columns, use_pandas_metadata=False).to_pandas(ignore_metadata=True)
                return table, safe_io.parse_row(text) or {}
    except (pa.ArrowException, ValueError, OSError) as error:
        reason = safe_io.first_line(error)
        raise ValueError(f"{path} is not a complete parquet file ({reason}); write it again") from error
    raise ValueError(f"{path} has {rows} rows; a table has at most {MAX_ROWS}")


def _read_csv(path: Path, without: tuple[str, ...]) -> tuple[pd.DataFrame, dict]:
    try:
        labels: dict = dict.fromkeys((*LABELS, "settings", *REPLAY_COLUMNS), str)
        with open(path, "rb") as file:
            comments = int(file.read(1) == b"#")  # Stable-Baselines3's monitor writes a comment line first
        header = pd.read_csv(path, nrows=0, skiprows=comments).columns
        names = {*LABELS, *COLUMN_ALIASES["method"]}  # an agent may be called "nan" or "None"
        missing = {column: [""] if column.strip().lower() in names else MISSING for column in header}
        options: dict = {"low_memory": False, "keep_default_na": False, "na_values": missing}
        table = pd.read_csv(path, dtype=labels, skiprows=comments, **options)
    except UnicodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; save it as UTF-8 or as parquet") from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty; write a header line and one line per episode") from error
    except pd.errors.ParserError as error:
        raise ValueError(f"{path} is not readable as CSV ({safe_io.first_line(error)}); write it again") from error
    return table.drop(columns=list(without), errors="ignore"), {}


def _booleans(column: pd.Series) -> pd.Series:
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return column.astype(bool)
    return column.astype("str").str.lower().isin(("true", "1", "yes"))
