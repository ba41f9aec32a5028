"""The finished episodes of a recorded agent, as a table that `report` reads.  The recorders fill it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from perepisode import settings
from perepisode.config import ConfigError, canonical
from perepisode.environments import action_space
from perepisode.environments.base import Environment
from perepisode.evaluation import episodes
from perepisode.runs import versions


class Recording:
    """One row for each finished episode of an agent, and the file for them."""

    def __init__(self, num_envs: int, path: Path | None, columns: dict[str, Any], episodes_per_env: int | None):
        if path is not None and path.suffix != ".parquet":
            raise ConfigError(f"{path}: an episodes table is a parquet file; use the suffix .parquet")
        if episodes_per_env is not None and episodes_per_env < 1:
            raise ConfigError(f"episodes_per_env={episodes_per_env}; use at least 1")
        if path is not None and path.exists():
            _check_same_agent(path, columns)
        self.path, self.columns, self.episodes_per_env = path, columns, episodes_per_env
        self.finished = [0] * num_envs  # episodes
        self.rows: list[dict[str, Any]] = []

    def finish(self, env_index: int, totals: dict[str, Any]) -> None:
        """Add an episode of this environment, unless it has enough already."""
        episode = {"env_index": env_index, "episode_index": self.finished[env_index]}
        if self.episodes_per_env is None or self.finished[env_index] < self.episodes_per_env:
            self.rows.append({**self.columns, **episode, **totals})
        self.finished[env_index] += 1

    def wait(self) -> None:
        """Wait for steps that are still being computed."""

    @property
    def complete(self) -> bool:
        """Whether every environment has finished `episodes_per_env` episodes, by default one."""
        self.wait()
        return min(self.finished, default=0) >= (self.episodes_per_env or 1)

    def table(self) -> pd.DataFrame:
        """The finished episodes; `in_first` marks those whose mean short episodes do not bias."""
        self.wait()
        table = pd.DataFrame(self.rows)
        return table.assign(in_first=table["episode_index"] < min(self.finished)) if self.rows else table

    def write(self) -> None:
        """Write the table if it is complete, else raise ConfigError."""
        self.wait()
        if not self.rows and self.episodes_per_env is None:
            warnings.warn(f"{self.path} is not written: no episode has finished", stacklevel=3)
        elif not self.complete:
            finished = f"{min(self.finished, default=0)} of {self.episodes_per_env or 1} episodes"
            raise ConfigError(
                f"{self.path} is not written: an environment has {finished}, so short episodes would be "
                "over-represented; continue until `complete`"
            )
        else:
            assert self.path is not None, "a recorder without a path has only table()"
            episodes.write(self.table(), self.path, provenance())


def provenance() -> dict[str, Any]:
    """What a table states of the machine that played it."""
    device = {"device": sys.modules["jax"].devices()[0].device_kind} if "jax" in sys.modules else {}
    return {"versions": versions(), **device}


def known_columns(autoreset: Any) -> dict[str, str]:
    """Columns that perepisode's own environments determine; none without an AutoResetEnv."""
    if autoreset is None:
        return {}
    env = autoreset.env
    own = {"environment": env.name, "dilemma": autoreset.dilemma}
    return {**own, "env_settings": canonical(described(env))}


def described(env: Environment) -> dict[str, Any]:
    """The settings of an environment, and its version from 2 on."""
    given = {name: getattr(env, name) for name in settings.of(type(env))}
    return settings.complete(type(env), given) | ({"version": env.version} if env.version != 1 else {})


def known_actions(autoreset: Any) -> action_space.Actions | None:
    """The actions of perepisode's own environments, which are stored so that episodes can be replayed."""
    return autoreset.env.actions if autoreset else None


def check_cost(cost: float) -> float:
    if not 0 <= cost < float("inf"):
        raise ConfigError(f"info['cost'] is {cost}; a cost must be a finite number of at least 0")
    return cost


def missing_cost(info: Any) -> ConfigError:
    found = ", ".join(map(str, info)) or "nothing"
    return ConfigError(f"info has no 'cost', only {found}; the recorder needs the cost of every step")


def _check_same_agent(path: Path, columns: dict[str, Any]) -> None:
    """Refuse another agent's file at the start: seeds recorded into one file would replace each other."""
    existing = episodes.read_raw(path, without=episodes.REPLAY_COLUMNS)
    new = episodes.complete(pd.DataFrame([columns])).iloc[0]
    for name in dict.fromkeys([*columns, "method", "arm", "dilemma", "environment", "detector", "gamma"]):
        if name == "env_settings" and name not in existing.columns:
            continue  # a table that an earlier version recorded
        own = str(new.get(name, ""))
        values = existing[name].unique() if name in existing.columns else [""]
        if others := sorted(set(map(str, values)) - {own}):
            raise ConfigError(
                f"{path} has episodes with {name}={others[0]!r}, not {own!r}; give every agent its own file"
            )
