"""Sauté RL: the remaining safety budget enters the observation and the reward."""

from __future__ import annotations

import numpy as np

from perepisode.lazy import jax, jnp, namespace
from perepisode.methods import accrued_obs
from perepisode.methods.objective import Accrued, ConstraintType, Objective, PenaltyTrace, register_method, task_reward
from perepisode.settings import setting


@register_method
class Saute(Objective):
    """Task reward while the safety budget z = 1 - v / (k + 0.5) is positive, nothing afterwards.

    The return earned before the budget is exceeded is kept, whereas ESR (expected scalarised returns) takes it back.
    By default the accrued observation is z alone.
    """

    budget: jax.Array | float = setting(1, "k, violations allowed per episode", low=0)
    accrued_obs: str = accrued_obs.setting("remaining")

    name, label, colour, marker = "saute", "Sauté", "#dd5012", "v"
    swept, symbol, constraint = "budget", "k", ConstraintType.EPISODE
    explanation = "no reward for the rest of an episode once it has more than k violations."

    def remaining(self, accrued: Accrued) -> jax.Array:
        return 1.0 - accrued.violations / (self.budget + 0.5)

    def reward(self, dual, before, after):
        remaining, reward = self.remaining(after), task_reward(before, after)
        return namespace(remaining, reward).where(remaining > 0, reward, 0.0)

    def gate(self, v):
        return 1.0 * (1.0 - v / (self.budget + 0.5) > 0)

    def features(self, accrued, env_inputs):
        if self.accrued_obs != "remaining":
            return super().features(accrued, env_inputs)
        return jnp.clip(self.remaining(accrued), -5.0, 5.0)[..., None]

    def penalty_trace(self, accrued, multiplier):
        return PenaltyTrace("Remaining safety budget, 1 − v / (k + 0.5)", np.asarray(self.remaining(accrued)))
