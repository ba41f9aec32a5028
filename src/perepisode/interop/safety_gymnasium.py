"""Our Gymnasium environments in the shape of Safety-Gymnasium's, whose step returns six values.

    env = with_cost(gymnasium.make("perepisode.interop.gymnasium:perepisode/Temptation-v0"))
    observation, reward, cost, terminated, truncated, info = env.step(action)

Safety-Gymnasium itself is not needed: code that is written for it asks for this shape and for nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.interop import library

gymnasium = library("gymnasium", "safety", "train,gymnasium")


def with_cost(env: Any) -> Any:
    """The same environment, single or vector, whose step returns the cost after the reward.

    It has to be the last of all wrappers: Gymnasium's own know of five values only.
    """
    if not hasattr(env.unwrapped, "autoreset"):
        raise ConfigError(f"{env} is none of perepisode's own, whose info has a cost of every step")
    return (_Vector if isinstance(env, gymnasium.vector.VectorEnv) else _Single)(env)


class _Single(gymnasium.Wrapper):
    def step(self, action: Any):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, info["cost"], terminated, truncated, info


class _Vector(gymnasium.vector.VectorWrapper):
    def step(self, actions: Any):
        observation, reward, terminated, truncated, info = self.env.step(actions)
        return observation, reward, np.array(info["cost"]), terminated, truncated, info
