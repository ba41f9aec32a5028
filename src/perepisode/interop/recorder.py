"""Any Gymnasium environment whose info has a cost, with every episode entered into a table that `report` reads.

    env = record(env, "episodes.parquet", method="PPO-Lagrangian", seed=3, arm="d=25")
    ...                                       # play as always, one environment or a vector of them
    env.close()                               # writes the table; env.table() has it before

One file an agent and seed; `perepisode report *.parquet` joins them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.interop import library

gymnasium = library("gymnasium", "recorder", "gymnasium")
NEXT_STEP, SAME_STEP = gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP


def record(
    env: Any, path: str | Path, *, method: str, seed: int, first: int | None = None, **columns: Any
) -> _Recorder | _VectorRecorder:
    """The same environment, which keeps a row of every episode that ends; `columns` are the same in every row.

    The return is the sum of `info["task_reward"]` where there is one, as in our own worlds, else of the reward.
    With `first`, as in `evaluate`, later episodes of a place have no row; `env.complete` says when every place has its
    own, and a table that is written before then is refused: its episodes would be the short ones.  A table of the same
    agent that stands there is replaced, one of another agent is not.
    """
    columns = {"method": method, "seed": seed, **_known(env), **columns}
    vector = isinstance(env, gymnasium.vector.VectorEnv)
    ledger = _Ledger(env.num_envs if vector else 1, Path(path), columns, first)
    return (_VectorRecorder if vector else _Recorder)(env, ledger)


class _Ledger:
    """Sums of the episodes that go on in each place, and a row of each that ended."""

    def __init__(self, places: int, path: Path, columns: dict[str, Any], first: int | None):
        if path.suffix != ".parquet":
            raise ConfigError(f"{path}: an episodes table is written as parquet; give it the ending .parquet")
        if first is not None and first < 1:
            raise ConfigError(f"first={first}: of every place at least one episode is kept")
        if path.exists():
            _check_same_agent(path, columns)
        self.path, self.columns, self.first = path, columns, first
        self.sums: list[dict[str, float]] = [{} for _ in range(places)]
        self.ended = [0] * places
        self.over = [False] * places  # until the next episode begins
        self.rows: list[dict[str, Any]] = []

    def begin(self, place: int) -> None:
        self.sums[place], self.over[place] = {}, False

    def add(self, place: int, reward: Any, info: dict[str, Any], ended: bool) -> None:
        if "cost" not in info:
            found = ", ".join(map(str, info)) or "nothing"
            raise ConfigError(f"info has no 'cost', only {found}; a recorder adds costs up")
        if self.over[place]:
            raise ConfigError("step() after an episode's end: begin the next one with reset()")
        paid = {"return": _number("reward", info.get("task_reward", reward)), "violations": _cost(info), "length": 1}
        counts = {name: _number(name, info[name]) for name in info if str(name).startswith("violations_")}
        step = {**paid, **counts}
        sums = self.sums[place]
        for name, value in step.items():
            sums[name] = sums.get(name, 0) + value
        if ended:
            where = {"env_index": place, "episode_index": self.ended[place]}
            if self.first is None or self.ended[place] < self.first:
                self.rows.append({**self.columns, **where, **sums})
            self.ended[place] += 1
            self.sums[place], self.over[place] = {}, True

    @property
    def complete(self) -> bool:
        """Whether every place has the episodes that are asked of it."""
        return min(self.ended) >= (self.first or 0)

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)

    def write(self) -> None:
        if not self.complete:
            few = f"{min(self.ended)} of {self.first} episodes"
            raise ConfigError(f"{self.path} is not written: a place has {few}; play on until `complete`")
        if self.rows:
            episodes.write(self.table(), self.path)
        else:
            warnings.warn(f"{self.path} is not written: no episode has ended", stacklevel=3)


class _Recorder(gymnasium.Wrapper):
    def __init__(self, env: Any, ledger: _Ledger):
        super().__init__(env)
        self._ledger = ledger

    def reset(self, **given: Any):
        self._ledger.begin(0)
        return self.env.reset(**given)

    def step(self, action: Any):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._ledger.add(0, reward, info, bool(terminated or truncated))
        return observation, reward, terminated, truncated, info

    @property
    def complete(self) -> bool:
        return self._ledger.complete

    def table(self) -> pd.DataFrame:
        return self._ledger.table()

    def close(self):
        super().close()
        self._ledger.write()


class _VectorRecorder(gymnasium.vector.VectorWrapper):
    def __init__(self, env: Any, ledger: _Ledger):
        super().__init__(env)
        self._ledger = ledger
        self._mode = env.metadata.get("autoreset_mode", NEXT_STEP)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None):
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for place in range(self.num_envs):
            if chosen[place]:
                self._ledger.begin(place)
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any):
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.logical_or(terminated, truncated)
        for place in range(self.num_envs):
            if self._mode is NEXT_STEP and self._ledger.over[place]:
                self._ledger.begin(place)
                continue  # this step only began the next episode
            self._ledger.add(place, reward[place], of_place(info, place), bool(ended[place]))
            if ended[place] and self._mode is SAME_STEP:
                self._ledger.begin(place)
        return observation, reward, terminated, truncated, info

    @property
    def complete(self) -> bool:
        return self._ledger.complete

    def table(self) -> pd.DataFrame:
        return self._ledger.table()

    def close(self, **given: Any):
        super().close(**given)
        self._ledger.write()


def _check_same_agent(path: Path, columns: dict[str, Any]) -> None:
    """Before hours are played: seeds recorded one after the other under one name would replace each other."""
    held = episodes.read_raw(path, without=episodes.REPLAY_COLUMNS)
    mine = episodes.complete(pd.DataFrame([columns])).iloc[0]
    for name in dict.fromkeys([*columns, "method", "arm", "dilemma", "environment", "detector", "gamma"]):
        own = str(mine.get(name, ""))
        there = held[name].unique() if name in held.columns else [""]
        others = sorted(set(map(str, there)) - {own})
        if others:
            said = f"{name} {others[0] or 'of no name'}, not {own or 'none'}"
            raise ConfigError(f"{path} holds episodes with {said}; give every agent its own file")


def of_place(info: dict[str, Any], place: int) -> dict[str, Any]:
    """What a vector's info says of one place; of an episode's last step it stands apart if the next began within it."""
    if "final_info" in info and info["_final_info"][place]:
        info = info["final_info"]
    told = [name for name in info if not name.startswith("_") and np.ndim(info[name]) > 0]
    return {name: info[name][place] for name in told if f"_{name}" not in info or info[f"_{name}"][place]}


def _known(env: Any) -> dict[str, str]:
    """What our own environments say of themselves."""
    autoreset = getattr(env.unwrapped, "autoreset", None)
    return {"environment": autoreset.env.name, "dilemma": autoreset.dilemma} if autoreset else {}


def _cost(info: dict[str, Any]) -> float:
    cost = _number("cost", info["cost"])
    if not 0 <= cost < float("inf"):
        raise ConfigError(f"info['cost'] is {cost}; a cost is a number from zero on")
    return cost


def _number(name: str, value: Any) -> float:
    """As Python has it, which no sum is too large for; of a vector its first component, which is the task's own."""
    first = np.ravel(value)[:1]
    if first.dtype.kind not in "biuf" or not first.size:
        raise ConfigError(f"{name} is {value!r}, which is not a number")
    number = first.item()
    return int(number) if isinstance(number, bool) else number
