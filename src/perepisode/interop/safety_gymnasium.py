"""Environments for Safety-Gymnasium, whose step returns six values.

    env = with_cost(gymnasium.make("perepisode.interop.gymnasium:perepisode/Temptation-v0"))
    observation, reward, cost, terminated, truncated, info = env.step(action)

Safety-Gymnasium itself is not needed: code written for it relies on this signature only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perepisode.config import ConfigError
from perepisode.interop import SixValues, import_optional

gymnasium = import_optional("gymnasium", "safety_gymnasium", "train,gymnasium")
from perepisode.wrappers.gymnasium import layers  # noqa: E402  after the check that names the extra


def with_cost(env: Any) -> Any:
    """Wrap an environment, single or vectorised, so that its step returns the cost after the reward.

    Apply it as the outermost wrapper: Gymnasium's own wrappers expect five values.
    """
    if not hasattr(env.unwrapped, "autoreset"):
        raise ConfigError(f"{env} is not an environment of perepisode, whose info has the cost of every step")
    if any(isinstance(layer, SixValues) for layer in layers(env)):
        raise ConfigError("with_cost() was already applied; apply it once, as the outermost wrapper")
    return (_Vector if isinstance(env, gymnasium.vector.VectorEnv) else _Single)(env)


class _Single(gymnasium.Wrapper, SixValues):
    def step(self, action: Any):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, info["cost"], terminated, truncated, info


class _Vector(gymnasium.vector.VectorWrapper, SixValues):
    def step(self, actions: Any):
        observation, reward, terminated, truncated, info = self.env.step(actions)
        return observation, reward, np.array(info["cost"]), terminated, truncated, info
