"""Recomputing a result.  Reading and checking need no JAX; replaying the episodes does."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from perepisode import lazy, legacy, zoo
from perepisode.benchmark import results
from perepisode.benchmark.results import BenchmarkResult
from perepisode.benchmark.submissions import agent_of, check_episodes, check_training, refuse_other_training, rows_of
from perepisode.config import canonical
from perepisode.evaluation import episodes
from perepisode.interop.recording import provenance

ROUNDED = 0.51e-9  # statistics have nine decimals
FLOAT32 = 1e-4  # returns of float32 rewards on another device


class Check(NamedTuple):
    """One line of a verification; what is wrong raises ConfigError instead."""

    what: str
    verified: bool
    text: str

    def __str__(self) -> str:
        return f"{self.what:<11} {'verified' if self.verified else 'not verified'}: {self.text}"


def verify(
    path: str | Path,
    table: str | Path | None = None,
    agent: str | Path | None = None,
    replay: bool = True,
    log: Callable[[str], None] = print,
) -> list[Check]:
    """Recompute a result; ConfigError if anything is wrong.

    `table` is the recorder's table that it was made of, and `agent` the trained agent, which then plays again.
    """
    found = []
    for check in checks(results.read(path), table, agent, replay, log):
        log(str(check))
        found.append(check)
    return found


def checks(
    result: BenchmarkResult,
    table: str | Path | None = None,
    agent: str | Path | None = None,
    replay: bool = True,
    log: Callable[[str], None] = print,
) -> Iterator[Check]:
    """Every check in order, the cheap ones first."""
    yield from without_playing(result)
    if table is not None:
        yield _table(result, Path(table))
    yield _counts(result, log) if replay else Check("counts", False, "not replayed, as asked")
    if agent is not None:
        yield _agent(result, agent, log)
    elif result.agent["run"]:
        yield Check("agent", False, "give --agent, and it plays again")
    else:
        yield Check("agent", False, "an agent of another library cannot play here: trust its author that each episode "
                    "was played once, by this agent")  # fmt: skip


def without_playing(result: BenchmarkResult) -> Iterator[Check]:
    """The checks that need no JAX."""
    if results.seal(result.content) != result.content["digest"]:
        raise result.refused("its content does not have its digest: it was damaged or changed")
    yield Check("digest", True, f"SHA-256 {result.content['digest'][:12]}… of the content")
    protocol = result.protocol
    yield Check("protocol", True, f"{protocol.id}, as this version of perepisode defines it")
    yield _training(result)
    check_episodes(result.episodes, protocol, str(result.path))
    yield Check("episodes", True, f"the first {protocol.episodes_per_env} of {protocol.num_envs} environments, none "
                "chosen or left out")  # fmt: skip
    _check_statistics(result)
    yield Check("statistics", True, f"recomputed from {protocol.episodes} episodes")


def _training(result: BenchmarkResult) -> Check:
    agent, protocol = result.agent, result.protocol
    steps = f"{agent['total_timesteps']:,} steps" if agent["total_timesteps"] else "an unknown number of steps"
    if (run := agent["run"]) is None:
        if agent["trained_on"] != protocol.id:
            refuse_other_training(f"{agent['trained_on']}, as its author states", protocol, str(result.path))
        return Check("training", False, f"on {protocol.id} for {steps}, as its author states")
    try:
        plain = {name: value for name, value in run.items() if name not in ("id", "arm")}
        run_id = hashlib.sha256(canonical(legacy.identity(plain)).encode()).hexdigest()[:12]
        trained = plain["env"], plain["dilemma"], plain["env_settings"], plain.get("version", 1)
        stated = [run[name] for name in ("method", "seed", "gamma", "total_timesteps")]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise result.refused("its training run is not described as a run folder describes it") from None
    if run_id != run.get("id"):
        raise result.refused(f"its training run has id {run.get('id')!r}, but its configuration gives {run_id!r}")
    if stated != [agent[name] for name in ("method", "seed", "gamma", "total_timesteps")]:
        raise result.refused("its agent's method, seed or training steps are not those of its training run")
    refuse_other_training(protocol.other_training(*trained), protocol, f"{result.path} is refused: its agent")
    return Check("training", True, f"run {run_id}: {run['env']}, {run['dilemma']}, {steps}; that the policy came from "
                 "this run is its author's statement")  # fmt: skip


def _check_statistics(result: BenchmarkResult) -> None:
    own = (result.episodes[name].to_numpy() for name in ("return", "violations", "length"))
    for name, value in (recomputed := result.protocol.statistics(*own)).items():
        stated = result.content["statistics"].get(name)
        if not isinstance(stated, int | float) or not abs(stated - value) <= ROUNDED:
            raise result.refused(f"its statistic {name} is {stated}, its episodes give {value}")
    if unknown := sorted(set(result.content["statistics"]) - set(recomputed)):
        raise result.refused(f"its statistic {unknown[0]!r} is unknown")


def _table(result: BenchmarkResult, path: Path) -> Check:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rows = rows_of(episodes.read_raw(path), result.protocol, path)
    if digest != result.agent["sha256"]:
        raise result.refused(f"it was not made of {path}, whose SHA-256 is {digest[:12]}…")
    _compare(result, rows, f"{path} has")
    actions = [content.tobytes() for content in result.actions or ()]
    if actions != (list(rows["actions"]) if "actions" in rows else []):
        raise result.refused(f"its actions are not those of {path}")
    return Check("table", True, f"the {len(rows)} episodes of {path}")


def _counts(result: BenchmarkResult, log: Callable[[str], None]) -> Check:
    """Replay every episode from the protocol's keys and the recorded actions."""
    if result.actions is None:
        return Check("counts", False, "no actions were recorded, so that no episode can be replayed")
    if absent := lazy.missing():
        return Check("counts", False, lazy.missing_message("replaying the episodes", absent))
    from perepisode.benchmark.play import replay

    close = _compare(result, replay(result.protocol, result.actions, log), "its actions give")
    steps = sum(result.content["episodes"]["length"])
    note = ", returns to four decimals (other versions or another device)" if close else ""
    return Check("counts", True, f"{len(result.episodes)} episodes replayed, {steps:,} steps: the same{note}")


def _agent(result: BenchmarkResult, name: str | Path, log: Callable[[str], None]) -> Check:
    """Let the agent play again; another device or version may round differently, which changes sampled actions."""
    stated = (result.agent["run"] or {}).get("id")
    own = [source for source in zoo.find(name) if source.read().id == stated]  # `benchmark` takes a folder of runs, too
    source = own[0] if len(own) == 1 else zoo.find_one(name)
    run = source.read()
    check_training(run, result.protocol, str(name))
    identity = agent_of(source, run)
    if run.id != stated:
        raise result.refused(f"it is not of {name}, which is run {run.id}")
    if identity["sha256"] != result.agent["sha256"]:
        raise result.refused(f"it was played by another policy than that of {name}")
    lazy.require("benchmark verify --agent")
    from perepisode.benchmark.play import play_agent

    rows = play_agent(source, result.protocol, log)
    recorded = [taken.tobytes() for taken in result.actions or ()]
    same = sum(one == other for one, other in zip(rows["actions"], recorded))
    if same == len(rows):
        return Check("agent", True, f"{name} plays the same actions in all {same} episodes")
    if _played_here(result):
        raise result.refused(f"{name} plays other actions in {len(rows) - same} of {len(rows)} episodes")
    return Check("agent", False, f"{name} plays the same actions in {same} of {len(rows)} episodes; other versions or "
                 "another device may round differently")  # fmt: skip


def _compare(result: BenchmarkResult, rows: pd.DataFrame, who: str) -> bool:
    """ConfigError where the episodes differ; True if returns only differ by rounding, as on another device."""
    keys = result.episodes["episode_key"].tolist()
    for column in ("length", "violations", "return"):
        recorded = result.episodes[column].tolist()
        again = [*map(dict(zip(rows["episode_key"], map(results.COLUMNS[column], rows[column]))).get, keys)]
        differing = [i for i, (one, other) in enumerate(zip(recorded, again)) if one != other]
        if not differing:
            continue
        apart = (abs(again[i] - recorded[i]) if column == "return" else math.inf for i in differing)
        if max(apart) <= FLOAT32 and not _played_here(result):
            return True
        env_index, episode = divmod(differing[0], result.protocol.episodes_per_env)
        replayed = "no such episode" if again[differing[0]] is None else again[differing[0]]
        raise result.refused(
            f"{column} of episode {episode} of environment {env_index} is {recorded[differing[0]]}, but {who} "
            f"{replayed} ({len(differing)} episodes differ)"
        )
    return False


def _played_here(result: BenchmarkResult) -> bool:
    """Whether it was played with these versions on such a device, where all arithmetic is the same to the last bit."""
    return {name: result.content[name] for name in ("versions", "device")} == provenance()
