"""Records the episodes of a JAX loop from the `info` of its steps, as a table that `report` reads.

    recorder = JaxRecorder(env, "ppo.parquet", method="PPO", seed=0)
    recorder.add(info).write()                # after a scan, which stacked info to [time, env]

    recorder.add(info)                        # or in the body of the scan, and recorder.write() after it

Neither gymnax nor Gymnasium is needed: `info` is a dict with `cost`, as that of our gymnax adapter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perepisode.config import ConfigError
from perepisode.environments import action_space
from perepisode.environments.episode_keys import episode_keys, hexadecimal
from perepisode.interop.autoreset import key_words
from perepisode.interop.recording import Recording, check_cost, known_actions, known_columns, missing_cost
from perepisode.lazy import jax


class JaxRecorder(Recording):
    """The finished episodes of the environments of one program.

    Arguments and attributes are those of the recorder for Gymnasium: `episodes_per_env` records only the first episodes
    of every environment, `complete` tells when these are recorded, and `write` raises ConfigError before.
    """

    def __init__(
        self,
        env: Any,
        path: str | Path | None,
        *,
        method: str,
        seed: int,
        episodes_per_env: int | None = None,
        reset_keys: Any = None,
        **columns: Any,
    ):
        autoreset = getattr(env, "autoreset", None)
        columns = {"method": method, "seed": seed, **known_columns(autoreset), **columns}
        super().__init__(0, None if path is None else Path(path), columns, episodes_per_env)
        self._sums: dict[str, np.ndarray] = {}
        self._reset_keys = None if reset_keys is None else np.asarray(jax.vmap(key_words)(reset_keys))
        self._known_actions = known_actions(autoreset)
        self._actions: list[list[np.ndarray]] | None = None  # of each running episode, in parts

    def add(self, info: Mapping[str, Any], reward: Any = None, done: Any = None, actions: Any = None) -> JaxRecorder:
        """Record steps, in their order: the last axis of every array is the environment, all others are time.

        The return sums `info["task_reward"]`, else `reward`.  Episodes end where `done`, by default where `info` has
        `terminated` or `truncated`.  Works in `jit` and `scan`, outside `vmap`: one recorder has one agent.

        With the `actions` of every step, and the `reset_keys` that the first `reset` was given, the episodes of our
        environments can be replayed.
        """
        from jax.core import Tracer
        from jax.experimental import io_callback

        steps, ended = _steps(info, reward, done)
        if actions is not None:
            each = None if self._known_actions is None else action_space.shape(self._known_actions)
            if each is None or np.shape(actions) != (*np.shape(ended), *each):
                raise ConfigError(
                    f"actions are {np.shape(actions)}; give one for each of {np.shape(ended)} steps, or none"
                )
        if any(isinstance(array, Tracer) for array in (ended, *steps.values())):
            io_callback(self._add, None, steps, ended, actions, ordered=True)
        else:
            self._add(steps, ended, actions)
        return self

    def table(self) -> pd.DataFrame:
        table = super().table()
        if self._reset_keys is not None and len(table):
            keys = episode_keys(self._reset_keys[table["env_index"]], table["episode_index"])
            table["episode_key"] = hexadecimal(keys)
        return table

    def wait(self) -> None:
        jax.effects_barrier()

    def _add(self, steps: dict[str, Any], ended: Any, actions: Any) -> None:
        ended = np.asarray(ended, bool)
        ended = ended.reshape(-1, ended.shape[-1])
        columns = {name: _exact(values).reshape(ended.shape) for name, values in steps.items()}
        columns["length"] = np.ones(ended.shape, np.int64)
        check_cost(columns["violations"].min())
        check_cost(columns["violations"].max())
        envs = ended.shape[1]
        if not self._sums:
            self._sums = {name: np.zeros(envs, values.dtype) for name, values in columns.items()}
            self.finished = [0] * envs
            self._actions = None if actions is None else [[] for _ in range(envs)]
        if (actions is None) != (self._actions is None):
            raise ConfigError("add() got actions in some calls only; give those of every step, or none")
        if self._reset_keys is not None and len(self._reset_keys) != envs:
            raise ConfigError(f"{len(self._reset_keys)} reset_keys for {envs} environments; give one for each")
        if envs != len(self.finished):
            raise ConfigError(f"add() got {envs} environments after {len(self.finished)}; use one recorder for each")
        taken = None if actions is None else self._stored(actions, ended.shape)
        begins = [0] * envs  # of the running episodes' actions in these steps
        for time, ends in enumerate(ended):
            for name, values in columns.items():
                self._sums[name] += values[time]
            for env_index in np.flatnonzero(ends).tolist():
                totals = {name: sums[env_index].item() for name, sums in self._sums.items()}
                if taken is not None:
                    totals["actions"] = self._end_actions(env_index, taken[begins[env_index] : time + 1, env_index])
                    begins[env_index] = time + 1
                self.finish(env_index, totals)
            for sums in self._sums.values():
                sums[ends] = 0
        if taken is not None and self._actions is not None:
            for env_index, parts in enumerate(self._actions):
                parts.append(taken[begins[env_index] :, env_index])

    def _stored(self, actions: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The actions as a table has them, for [time, env] of this shape."""
        assert self._known_actions is not None
        each = action_space.shape(self._known_actions)
        return action_space.to_stored(self._known_actions, np.reshape(actions, (*shape, *each)))

    def _end_actions(self, env_index: int, last: np.ndarray) -> bytes:
        """The actions of an episode whose last ones are these; the next episode has none yet."""
        assert self._actions is not None
        content = np.concatenate([*self._actions[env_index], last]).tobytes()
        self._actions[env_index] = []
        return content


def _steps(info: Mapping[str, Any], reward: Any, done: Any) -> tuple[dict[str, Any], Any]:
    """The columns to sum over an episode, and where it ends."""
    if "cost" not in info:
        raise missing_cost(info)
    reward = info.get("task_reward", reward)
    ends = [info[name] for name in ("terminated", "truncated") if name in info] if done is None else [done]
    if reward is None or not ends:
        missing = "'task_reward'; give add() the reward=" if reward is None else "'terminated'; give add() done="
        raise ConfigError(f"info has no {missing}")
    counts = {name: info[name] for name in info if name.startswith("violations_")}
    steps = {"return": reward, "violations": info["cost"], **counts}
    shapes = {name: np.shape(array) for name, array in (*steps.items(), ("done", ends[0]))}
    if len(set(shapes.values())) > 1 or () in shapes.values():
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ConfigError(
            f"the shapes are {listed}; add() needs equal ones, [env] or [time, env]: call it outside vmap"
        )
    return steps, reduce(lambda one, other: one | other, ends)


def _exact(values: Any) -> np.ndarray:
    """Numbers whose sums neither overflow nor round."""
    values = np.asarray(values)
    return values.astype(np.int64 if values.dtype.kind in "biu" else np.float64)
