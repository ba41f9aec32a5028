"""Sauté RL: the safety budget as a part of what the agent sees and is paid for."""

from __future__ import annotations

import numpy as np

from perepisode.lazy import jax, jnp, namespace
from perepisode.methods import accrued_obs
from perepisode.methods.objective import Accrued, ConstraintType, Objective, PenaltyTrace, register_method, task_reward
from perepisode.settings import setting


@register_method
class Saute(Objective):
    """Task reward while the safety budget z = 1 - v / (k + 0.5) is positive, nothing afterwards.

    What was earned before the breach is kept; ESR claws it back.  Unless told otherwise, the agent sees z alone.
    """

    budget: jax.Array | float = setting(1, "k, violations that an episode may have", low=0)
    accrued_obs: str = accrued_obs.setting("remaining")

    name, label, colour, marker = "saute", "Sauté", "#dd5012", "v"
    swept, symbol, constraint = "budget", "k", ConstraintType.EPISODE

    def remaining(self, accrued: Accrued) -> jax.Array:
        return 1.0 - accrued.violations / (self.budget + 0.5)

    def reward(self, dual, before, after):
        remaining, reward = self.remaining(after), task_reward(before, after)
        return namespace(remaining, reward).where(remaining > 0, reward, 0.0)

    def gate(self, v):
        return 1.0 * (1.0 - v / (self.budget + 0.5) > 0)

    def features(self, accrued, shown):
        if self.accrued_obs != "remaining":
            return super().features(accrued, shown)
        return jnp.clip(self.remaining(accrued), -5.0, 5.0)[..., None]

    def penalty_trace(self, accrued, multiplier):
        return PenaltyTrace("Safety budget left, 1 − v / (k + 0.5)", np.asarray(self.remaining(accrued)))
