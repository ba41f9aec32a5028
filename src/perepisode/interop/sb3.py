"""Our worlds as a vector environment of Stable-Baselines3, which does not take Gymnasium's.

    envs = make("temptation", 64, reward="penalised", price=2.0)
    PPO("MlpPolicy", envs).learn(200_000)

`VecEnv(envs)` does the same for any Gymnasium vector in the mode SAME_STEP, for example one with a recorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.environments.base import Environment
from perepisode.interop import library

_base = library("stable_baselines3.common.vec_env.base_vec_env", "sb3")
from perepisode.interop.gymnasium import AutoresetMode, VectorEnv  # noqa: E402  (after the line that names the extra)
from perepisode.interop.recorder import of_place  # noqa: E402


def make(
    env: str | Environment,
    num_envs: int,
    dilemma: str | None = None,
    *,
    reward: str = "task",
    price: float | None = None,
    **options: Any,
) -> VecEnv:
    """A world by its name, played in `num_envs` places; `options` are the world's own."""
    how = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    return VecEnv(VectorEnv(env, num_envs, dilemma, reward, price, **how))


class VecEnv(_base.VecEnv):
    """A Gymnasium vector whose episodes begin anew within the step in which they end."""

    def __init__(self, envs: Any):
        if envs.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
            raise ConfigError("Stable-Baselines3 begins episodes within a step: give it autoreset_mode=SAME_STEP")
        if (space := getattr(envs.unwrapped, "reward_space", None)) is not None and space.shape:
            raise ConfigError("Stable-Baselines3 takes one number as a reward; choose reward='task' or 'penalised'")
        self.envs, self._actions = envs, None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> np.ndarray:
        """With the seeds that `seed` was given, once; then places go on with their own numbers."""
        observation, _ = self.envs.reset(seed=self._seeds if any(one is not None for one in self._seeds) else None)
        self._reset_seeds()
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observation, reward, terminated, truncated, info = self.envs.step(self._actions)
        ended = terminated | truncated
        infos = [of_place(info, place) for place in range(self.num_envs)]
        for place in np.flatnonzero(ended):
            infos[place]["terminal_observation"] = info["final_obs"][place]
            infos[place]["TimeLimit.truncated"] = bool(truncated[place] and not terminated[place])
        return observation, np.asarray(reward, np.float32), ended, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(self._places(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise ConfigError(
            f"{attr_name}: all places are one program, and none can be changed alone; make another vector"
        )

    def env_method(self, method_name: str, *given: Any, indices: Any = None, **named: Any) -> list[Any]:
        raise ConfigError(f"{method_name}: all places are one program, and none can be called alone")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * len(self._places(indices))

    def _places(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))
