"""Records the episodes of any Gymnasium environment with a cost in its info, as a table that `report` reads.

    env = record(env, "episodes.parquet", method="PPO-Lagrangian", seed=3, arm="d=25")
    ...                                       # use it as before, single or vectorised
    env.close()                               # writes the table; env.table() returns it earlier

Use one file per agent and seed; `perepisode report *.parquet` joins them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perepisode.config import ConfigError
from perepisode.environments import action_space
from perepisode.environments.episode_keys import hexadecimal
from perepisode.interop import SixValues, import_optional
from perepisode.interop.recording import Recording, check_cost, known_actions, known_columns, missing_cost

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
    autoreset = getattr(env.unwrapped, "autoreset", None)
    columns = {"method": method, "seed": seed, **known_columns(autoreset), **columns}
    vector = isinstance(env, gymnasium.vector.VectorEnv)
    num_envs = env.num_envs if vector else 1
    recording = _Recording(num_envs, Path(path), columns, episodes_per_env, known_actions(autoreset))
    return (_VectorRecorder if vector else _Recorder)(env, recording)


class _Recording(Recording):
    """The sums of the running episode of each environment, and a row for each finished one."""

    def __init__(self, num_envs: int, path: Path, columns: dict[str, Any], episodes_per_env: int | None, actions: Any):
        super().__init__(num_envs, path, columns, episodes_per_env)
        self.sums: list[dict[str, float]] = [{} for _ in range(num_envs)]
        self.ended = [False] * num_envs  # until the next episode begins
        self.known_actions = actions  # None if the episodes of this environment cannot be replayed
        self.keys: list[str] = [""] * num_envs
        self.actions: list[list[Any]] = [[] for _ in range(num_envs)]

    def begin(self, env_indices: list[int], env: Any) -> None:
        """The next episode of these environments has begun."""
        keys = hexadecimal(env.unwrapped.episode_keys) if self.known_actions and env_indices else self.keys
        for i in env_indices:
            self.sums[i], self.ended[i], self.actions[i], self.keys[i] = {}, False, [], keys[i]

    def add(self, env_index: int, action: Any, reward: Any, info: dict[str, Any], ended: bool) -> None:
        if "cost" not in info:
            raise missing_cost(info)
        if self.ended[env_index]:
            raise ConfigError("step() after the end of an episode; call reset() first")
        cost = check_cost(_number("cost", info["cost"]))
        step = {"return": _number("reward", info.get("task_reward", reward)), "violations": cost, "length": 1}
        step |= {name: _number(name, info[name]) for name in info if str(name).startswith("violations_")}
        sums = self.sums[env_index]
        for name, value in step.items():
            sums[name] = sums.get(name, 0) + value
        if self.known_actions:
            self.actions[env_index].append(action)
        if ended:
            self.finish(env_index, {**sums, **self._for_replay(env_index)})
            self.sums[env_index], self.ended[env_index] = {}, True

    def _for_replay(self, env_index: int) -> dict[str, Any]:
        """Columns from which the episode can be replayed."""
        if not self.known_actions:
            return {}
        return {
            "episode_key": self.keys[env_index],
            "actions": action_space.to_stored(self.known_actions, self.actions[env_index]).tobytes(),
        }


class _Recorder(gymnasium.Wrapper):
    def __init__(self, env: Any, recording: _Recording):
        super().__init__(env)
        self._recording = recording

    def reset(self, **given: Any):
        begun = self.env.reset(**given)
        self._recording.begin([0], self.env)
        return begun

    def step(self, action: Any):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._recording.add(0, action, reward, info, bool(terminated or truncated))
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
        begun = self.env.reset(seed=seed, options=options)
        self._recording.begin(np.flatnonzero(mask).tolist(), self.env)
        return begun

    def step(self, actions: Any):
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.logical_or(terminated, truncated)
        begun = np.array(self._recording.ended) & (self._mode is NEXT_STEP)  # this step only began the next episode
        for i in np.flatnonzero(~begun).tolist():
            self._recording.add(i, actions[i], reward[i], info_of(info, i), bool(ended[i]))
        begun = ended if self._mode is SAME_STEP else begun
        self._recording.begin(np.flatnonzero(begun).tolist(), self.env)
        return observation, reward, terminated, truncated, info

    @property
    def complete(self) -> bool:
        return self._recording.complete

    def table(self) -> pd.DataFrame:
        return self._recording.table()

    def close(self, **given: Any):
        super().close(**given)
        self._recording.write()


def info_of(infos: dict[str, Any], env_index: int) -> dict[str, Any]:
    """One environment's info; `final_info` has that of an episode's last step if the next began in the same step."""
    if "final_info" in infos and infos["_final_info"][env_index]:
        infos = infos["final_info"]
    names = [name for name in infos if not name.startswith("_") and np.ndim(infos[name]) > 0]
    return {name: infos[name][env_index] for name in names if f"_{name}" not in infos or infos[f"_{name}"][env_index]}


def _number(name: str, value: Any) -> float:
    """A Python number, whose sums do not overflow; of a reward vector the first component, the task reward."""
    first = np.ravel(value)[:1]
    if first.dtype.kind not in "biuf" or not first.size:
        raise ConfigError(f"{name} is {value!r}, which is not a number")
    number = first.item()
    return int(number) if isinstance(number, bool) else number
