"""Environments for Stable-Baselines3, which has its own interface of vectorised environments.

    envs = make("temptation", 64, reward="penalised", price=2.0)
    PPO("MlpPolicy", envs).learn(200_000)

`VecEnv(envs)` wraps any Gymnasium vector in the mode SAME_STEP, for example one with a recorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.environments.base import Environment
from perepisode.interop import import_optional

_base = import_optional("stable_baselines3.common.vec_env.base_vec_env", "sb3")
from perepisode.interop.gymnasium import AutoresetMode, VectorEnv  # noqa: E402  after the check that names the extra
from perepisode.interop.recorder import info_of  # noqa: E402


def make(
    env: str | Environment,
    num_envs: int,
    dilemma: str | None = None,
    *,
    reward: str = "task",
    price: float | None = None,
    **options: Any,
) -> VecEnv:
    """`num_envs` copies of an environment; `options` are its settings."""
    options = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    return VecEnv(VectorEnv(env, num_envs, dilemma, reward, price, **options))


class VecEnv(_base.VecEnv):
    """A Gymnasium vector whose environments reset in the step that ends an episode."""

    def __init__(self, envs: Any):
        if envs.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
            raise ConfigError("Stable-Baselines3 resets within a step; use autoreset_mode=SAME_STEP")
        if (space := getattr(envs.unwrapped, "reward_space", None)) is not None and space.shape:
            raise ConfigError("Stable-Baselines3 needs one number as reward; choose reward='task' or 'penalised'")
        self.envs, self._actions = envs, None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> np.ndarray:
        """The first reset after `seed` uses its seeds; later ones continue the generators."""
        seeded = any(seed is not None for seed in self._seeds)
        observation, _ = self.envs.reset(seed=self._seeds if seeded else None)
        self._reset_seeds()
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observation, reward, terminated, truncated, info = self.envs.step(self._actions)
        ended = terminated | truncated
        infos = [info_of(info, i) for i in range(self.num_envs)]
        for i in np.flatnonzero(ended):
            infos[i]["terminal_observation"] = info["final_obs"][i]
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        return observation, np.asarray(reward, np.float32), ended, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise ConfigError(f"{attr_name} cannot be set: all environments are one program; make another vector")

    def env_method(self, method_name: str, *given: Any, indices: Any = None, **named: Any) -> list[Any]:
        raise ConfigError(f"{method_name} cannot be called: all environments are one program")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * len(self._indices(indices))

    def _indices(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))
