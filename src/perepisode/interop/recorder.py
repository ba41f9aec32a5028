"""Records the episodes of any Gymnasium environment with a cost in its info, as a table that `report` reads.

    env = record(env, "episodes.parquet", method="PPO-Lagrangian", seed=3, arm="d=25")
    ...                                       # use it as before, single or vectorised
    env.close()                               # writes the table; env.table() returns it earlier

Use one file per agent and seed; `perepisode report *.parquet` joins them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.interop import SixValues, import_optional

gymnasium = import_optional("gymnasium", "recorder", "gymnasium")
from perepisode.wrappers.gymnasium import layers  # noqa: E402  after the check that names the extra

NEXT_STEP, SAME_STEP = gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP


def record(
    env: Any, path: str | Path, *, method: str, seed: int, episodes_per_env: int | None = None, **columns: Any
) -> _Recorder | _VectorRecorder:
    """Wrap an environment so that every finished episode becomes a row; `columns` are constant columns.

    The return sums `info["task_reward"]` if it exists, as in perepisode's environments, otherwise the reward.

    In a fixed number of steps, short episodes are over-represented.  Reports therefore use the first episodes of every
    environment: as many as each of them finished (`in_first`).  `episodes_per_env` fixes their number in advance, as in
    `evaluate`, and records no others.  `env.complete` tells when all of these are recorded, at least one of each
    environment; closing the environment earlier raises ConfigError.

    An existing table of the same agent is replaced, one of another agent is not.
    """
    if "first" in columns:
        raise ConfigError("first is now called episodes_per_env; rename it")
    if any(isinstance(layer, SixValues) for layer in layers(env)):
        raise ConfigError("record() needs a step of five values; apply with_cost outside: with_cost(record(env, ...))")
    columns = {"method": method, "seed": seed, **_known_columns(env), **columns}
    vector = isinstance(env, gymnasium.vector.VectorEnv)
    recording = _Recording(env.num_envs if vector else 1, Path(path), columns, episodes_per_env)
    return (_VectorRecorder if vector else _Recorder)(env, recording)


class _Recording:
    """The sums of the running episode of each environment, and a row for each finished one."""

    def __init__(self, envs: int, path: Path, columns: dict[str, Any], episodes_per_env: int | None):
        if path.suffix != ".parquet":
            raise ConfigError(f"{path}: an episodes table is a parquet file; use the suffix .parquet")
        if episodes_per_env is not None and episodes_per_env < 1:
            raise ConfigError(f"episodes_per_env={episodes_per_env}; use at least 1")
        if path.exists():
            _check_same_agent(path, columns)
        self.path, self.columns, self.episodes_per_env = path, columns, episodes_per_env
        self.sums: list[dict[str, float]] = [{} for _ in range(envs)]
        self.finished = [0] * envs  # episodes
        self.ended = [False] * envs  # until the next episode begins
        self.rows: list[dict[str, Any]] = []

    def begin(self, env_index: int) -> None:
        self.sums[env_index], self.ended[env_index] = {}, False

    def add(self, env_index: int, reward: Any, info: dict[str, Any], ended: bool) -> None:
        if "cost" not in info:
            found = ", ".join(map(str, info)) or "nothing"
            raise ConfigError(f"info has no 'cost', only {found}; the recorder needs the cost of every step")
        if self.ended[env_index]:
            raise ConfigError("step() after the end of an episode; call reset() first")
        step = {"return": _number("reward", info.get("task_reward", reward)), "violations": _cost(info), "length": 1}
        step |= {name: _number(name, info[name]) for name in info if str(name).startswith("violations_")}
        sums = self.sums[env_index]
        for name, value in step.items():
            sums[name] = sums.get(name, 0) + value
        if ended:
            episode = {"env_index": env_index, "episode_index": self.finished[env_index]}
            if self.episodes_per_env is None or self.finished[env_index] < self.episodes_per_env:
                self.rows.append({**self.columns, **episode, **sums})
            self.finished[env_index] += 1
            self.sums[env_index], self.ended[env_index] = {}, True

    @property
    def complete(self) -> bool:
        """Whether every environment has finished `episodes_per_env` episodes, by default one."""
        return min(self.finished) >= (self.episodes_per_env or 1)

    def table(self) -> pd.DataFrame:
        """The finished episodes; `in_first` marks those whose mean short episodes do not bias."""
        table = pd.DataFrame(self.rows)
        return table.assign(in_first=table["episode_index"] < min(self.finished)) if self.rows else table

    def write(self) -> None:
        if not self.rows and self.episodes_per_env is None:
            warnings.warn(f"{self.path} is not written: no episode has finished", stacklevel=3)
        elif not self.complete:
            finished = f"{min(self.finished)} of {self.episodes_per_env or 1} episodes"
            raise ConfigError(
                f"{self.path} is not written: an environment has {finished}, so short episodes would be "
                "over-represented; continue until `complete`"
            )
        else:
            episodes.write(self.table(), self.path)


class _Recorder(gymnasium.Wrapper):
    def __init__(self, env: Any, recording: _Recording):
        super().__init__(env)
        self._recording = recording

    def reset(self, **given: Any):
        self._recording.begin(0)
        return self.env.reset(**given)

    def step(self, action: Any):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._recording.add(0, reward, info, bool(terminated or truncated))
        return observation, reward, terminated, truncated, info

    @property
    def complete(self) -> bool:
        return self._recording.complete

    def table(self) -> pd.DataFrame:
        return self._recording.table()

    def close(self):
        super().close()
        self._recording.write()


class _VectorRecorder(gymnasium.vector.VectorWrapper):
    def __init__(self, env: Any, recording: _Recording):
        super().__init__(env)
        self._recording = recording
        self._mode = env.metadata.get("autoreset_mode", NEXT_STEP)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for i in np.flatnonzero(mask):
            self._recording.begin(int(i))
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any):
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.logical_or(terminated, truncated)
        for i in range(self.num_envs):
            if self._mode is NEXT_STEP and self._recording.ended[i]:
                self._recording.begin(i)
                continue  # this step only began the next episode
            self._recording.add(i, reward[i], info_of(info, i), bool(ended[i]))
            if ended[i] and self._mode is SAME_STEP:
                self._recording.begin(i)
        return observation, reward, terminated, truncated, info

    @property
    def complete(self) -> bool:
        return self._recording.complete

    def table(self) -> pd.DataFrame:
        return self._recording.table()

    def close(self, **given: Any):
        super().close(**given)
        self._recording.write()


def _check_same_agent(path: Path, columns: dict[str, Any]) -> None:
    """Refuse another agent's file at the start: seeds recorded into one file would replace each other."""
    existing = episodes.read_raw(path, without=episodes.REPLAY_COLUMNS)
    new = episodes.complete(pd.DataFrame([columns])).iloc[0]
    for name in dict.fromkeys([*columns, "method", "arm", "dilemma", "environment", "detector", "gamma"]):
        own = str(new.get(name, ""))
        values = existing[name].unique() if name in existing.columns else [""]
        if others := sorted(set(map(str, values)) - {own}):
            raise ConfigError(
                f"{path} has episodes with {name}={others[0]!r}, not {own!r}; give every agent its own file"
            )


def info_of(infos: dict[str, Any], env_index: int) -> dict[str, Any]:
    """One environment's info; `final_info` has that of an episode's last step if the next began in the same step."""
    if "final_info" in infos and infos["_final_info"][env_index]:
        infos = infos["final_info"]
    names = [name for name in infos if not name.startswith("_") and np.ndim(infos[name]) > 0]
    return {name: infos[name][env_index] for name in names if f"_{name}" not in infos or infos[f"_{name}"][env_index]}


def _known_columns(env: Any) -> dict[str, str]:
    """Columns that perepisode's own environments determine."""
    autoreset = getattr(env.unwrapped, "autoreset", None)
    return {"environment": autoreset.env.name, "dilemma": autoreset.dilemma} if autoreset else {}


def _cost(info: dict[str, Any]) -> float:
    cost = _number("cost", info["cost"])
    if not 0 <= cost < float("inf"):
        raise ConfigError(f"info['cost'] is {cost}; a cost must be a finite number of at least 0")
    return cost


def _number(name: str, value: Any) -> float:
    """A Python number, whose sums do not overflow; of a reward vector the first component, the task reward."""
    first = np.ravel(value)[:1]
    if first.dtype.kind not in "biuf" or not first.size:
        raise ConfigError(f"{name} is {value!r}, which is not a number")
    number = first.item()
    return int(number) if isinstance(number, bool) else number
