"""Agents and recorders' tables as results of a protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perepisode import lazy, safe_io
from perepisode.agents.card import name_of
from perepisode.benchmark import protocol as protocols
from perepisode.benchmark import results
from perepisode.benchmark.protocol import PROTOCOLS, BenchmarkProtocol
from perepisode.config import ConfigError, canonical
from perepisode.evaluation import episodes
from perepisode.interop.recording import provenance
from perepisode.report.formatting import slug
from perepisode.runs import Run, folder_name
from perepisode.zoo import AgentFile, AgentSource

TABLES = (".parquet", ".csv")
OF_A_TABLE = ("environment", "env_settings", "dilemma", "env_index", "episode_index", "episode_key", "length")
HOW = "record it with `perepisode.benchmark.record` or JaxRecorder (docs/how-to/benchmark.md)"


def evaluate(
    protocol: str,
    agents: Sequence[str | Path],
    out: str | Path = "benchmark",
    log: Callable[[str], None] = print,
) -> list[Path]:
    """Write one result per agent: bundled agents, agent files, run folders, folders of them, or recorders' tables."""
    fixed = protocols.find(protocol)
    names, out = list(map(str, agents)), Path(out)
    tables = [Path(name) for name in names if name.endswith(TABLES)]
    sources = _trained([name for name in names if not name.endswith(TABLES)], fixed, log)
    if not tables and not sources:
        raise ConfigError("no agent given; name bundled agents, agent files, run folders or recorders' tables")
    if out.suffix == ".json" and len(tables) + len(sources) > 1:
        raise ConfigError(f"--out {out} is one file; give the name of a folder for the results of several agents")
    paths = []
    for name, content in chain((_from_table(path, fixed) for path in tables), _played(sources, fixed, log)):
        path = out if out.suffix == ".json" else out / f"{name}.json"
        results.write(path, content)
        paths.append(path)
        log(f"wrote {path}")
    return paths


def _trained(names: Sequence[str], protocol: BenchmarkProtocol, log: Callable[[str], None]) -> list[AgentSource]:
    """The agents of these names, all of them trained on this protocol."""
    if not names:
        return []
    lazy.require("benchmark")
    from perepisode.evaluation.rollout import find_finished

    sources = find_finished(names, log)
    for source in sources:
        check_training(source.read(), protocol, str(source.path))
    return sources


def _played(
    sources: Sequence[AgentSource], protocol: BenchmarkProtocol, log: Callable[[str], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for source in sources:
        from perepisode.benchmark.play import play_agent

        run = source.read()
        log(f"{protocol.id}: {run.method} {run.arm}, seed {run.seed}")
        table = play_agent(source, protocol, log)
        yield f"{protocol.id}.{folder_name(run)}", _content(protocol, agent_of(source, run), table, provenance())


def check_training(run: Run, protocol: BenchmarkProtocol, name: str) -> None:
    """Raise ConfigError unless the run was trained in the protocol's environment, for its dilemma."""
    plain = run.to_json()
    refuse_other_training(
        protocol.other_training(run.env, run.dilemma, plain["env_settings"], plain.get("version", 1)), protocol, name
    )


def refuse_other_training(other: str, protocol: BenchmarkProtocol, name: str) -> None:
    if other:
        raise ConfigError(
            f"{name} was trained on another protocol: on {other}; {protocol.id} is for agents trained on "
            f"{protocol.env} with the dilemma {protocol.dilemma} and the protocol's settings"
        )


def agent_of(source: AgentSource, run: Run) -> dict[str, Any]:
    """The identity of a trained agent: its run, and the digest of its policy."""
    is_file = isinstance(source, AgentFile)
    policy = source.path if is_file else source.path / "policy.safetensors"
    return {
        "method": run.method,
        "arm": run.arm,
        "seed": run.seed,
        "gamma": run.gamma,
        "total_timesteps": run.total_timesteps,
        "run": {"id": run.id, **run.to_json()},
        "trained_on": None,
        "source": name_of(source) if is_file else source.path.name,
        "sha256": hashlib.sha256(safe_io.read_bytes(policy, "train the run again", 2**33)).hexdigest(),
    }


def _content(
    protocol: BenchmarkProtocol, agent: dict[str, Any], rows: pd.DataFrame, made_with: Mapping[str, Any]
) -> dict[str, Any]:
    columns = {name: list(map(kind, rows[name])) for name, kind in results.COLUMNS.items()}
    own = [np.asarray(columns[name]) for name in ("return", "violations", "length")]
    return {
        "protocol": protocol.to_json(),
        "agent": agent,
        "episodes": columns,
        "actions": results.pack_actions(list(rows["actions"])) if "actions" in rows else None,
        "statistics": protocol.statistics(*own),
        "versions": made_with.get("versions"),
        "device": made_with.get("device"),
    }


def _from_table(path: Path, protocol: BenchmarkProtocol) -> tuple[str, dict[str, Any]]:
    table = episodes.read_raw(path)
    rows = rows_of(table, protocol, path)
    agent = _stated_agent(rows, protocol, path)
    name = f"{protocol.id}.{slug(agent['method'])}"
    name += f".{slug(agent['arm'])}" * bool(agent["arm"]) + f".s{agent['seed']}.{agent['sha256'][:12]}"
    return name, _content(protocol, agent, rows, table.attrs["provenance"][0])


def rows_of(table: pd.DataFrame, protocol: BenchmarkProtocol, path: Path) -> pd.DataFrame:
    """The protocol's episodes in a recorder's table; ConfigError if the table is not admissible."""
    if "reset_key" in table:
        raise ConfigError(f"{path} was written by `evaluate`, in other episodes; give the agent instead of the table")
    if missing := [column for column in OF_A_TABLE if column not in table]:
        raise ConfigError(f"{path} has no column {missing[0]!r}, which a benchmark needs; {HOW}")
    for column in ("method", "arm", "seed", "gamma", "total_timesteps", "environment", "env_settings", "dilemma"):
        if len(values := table[column].unique()) > 1:
            listed = ", ".join(map(str, values[:3]))
            raise ConfigError(f"{path} has several values of {column} ({listed}); a result is of one agent and seed")
    first = table.iloc[0]
    stated = safe_io.parse_row(str(first["env_settings"])) or {}
    if (first["environment"], first["dilemma"]) != (protocol.env, protocol.dilemma) or canonical(stated) != canonical(
        dict(protocol.env_settings)
    ):
        raise ConfigError(
            f"{path} was played on another protocol: on {first['environment']} with the dilemma {first['dilemma']} and "
            f"{first['env_settings']}; {protocol.id} needs {canonical(dict(protocol.env_settings))}"
        )
    rows = table.loc[table["episode_index"] < protocol.episodes_per_env]
    rows = rows.sort_values(["env_index", "episode_index"], ignore_index=True)
    check_episodes(rows, protocol, str(path))
    if (rows[["violations", "length"]].to_numpy() % 1).any():
        raise ConfigError(f"{path} has violations or lengths that are not whole numbers; {HOW}")
    return rows


def check_episodes(rows: pd.DataFrame, protocol: BenchmarkProtocol, name: str) -> None:
    """Raise ConfigError unless these are the protocol's episodes, all of them and no others."""
    found = list(zip(*(rows[column].tolist() for column in ("env_index", "episode_index", "episode_key"))))
    places = [(i, j) for i in range(protocol.num_envs) for j in range(protocol.episodes_per_env)]
    expected = [(*place, key) for place, key in zip(places, protocol.episode_keys)]
    if found == expected:
        return
    missing = sorted(set(expected) - set(found)) or sorted(set(found) - set(expected)) or expected
    env, episode, key = missing[0]
    raise ConfigError(
        f"{name} does not have the episodes of {protocol.id}, the first {protocol.episodes_per_env} of "
        f"{protocol.num_envs} environments reset once with seed={protocol.seed}: {len(missing)} differ, first episode "
        f"{episode} of environment {env} ({key}); no episode may be chosen or left out"
    )


def _stated_agent(rows: pd.DataFrame, protocol: BenchmarkProtocol, path: Path) -> dict[str, Any]:
    """What the table's author states of the agent."""
    first = rows.iloc[0]
    steps, gamma = float(first["total_timesteps"]), float(first["gamma"])
    if not steps > 0:
        raise ConfigError(f"{path} does not state how long the agent was trained; give the recorder total_timesteps=")
    trained_on = str(first.get("trained_on", ""))
    if trained_on not in PROTOCOLS:
        raise ConfigError(
            f"{path} does not state what the agent was trained on; give the recorder trained_on={protocol.id!r} if it "
            "was trained in this protocol's environment, with its settings and dilemma"
        )
    if trained_on != protocol.id:
        refuse_other_training(f"{trained_on}, as the table states", protocol, str(path))
    return {
        "method": str(first["method"]),
        "arm": str(first["arm"]),
        "seed": int(first["seed"]),
        "gamma": gamma if gamma == gamma else None,
        "total_timesteps": int(steps),
        "run": None,
        "trained_on": trained_on,
        "source": path.name,
        "sha256": hashlib.sha256(safe_io.read_bytes(path, HOW)).hexdigest(),
    }
