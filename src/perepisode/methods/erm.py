"""Expected reward with a penalty, and three ways of enforcing it."""

from __future__ import annotations

import math

from perepisode.config import ETHICAL_PENALTY
from perepisode.lazy import jax
from perepisode.methods.objective import ConstraintType, Objective, cost, price, register_method, task_reward
from perepisode.settings import setting

TOLERATED = {"absolute": 0.0, "calculated": 3.0, "heuristic": math.inf}  # the penalty passes -30 at the fourth


@register_method
class Erm(Objective):
    """ERM: r = r_ext + r_eth; the episode ends once more violations are charged than its enforcement tolerates."""

    enforcement: jax.Array | float = setting("heuristic", "when a violation ends the episode", choices=TOLERATED)

    name, label, colour, marker = "erm", "ERM", "#c472b1", "P"
    swept, constraint = "enforcement", ConstraintType.PRICE

    def reward(self, dual, before, after):
        return task_reward(before, after) - ETHICAL_PENALTY * cost(before, after)

    def ends_episode(self, accrued):
        return accrued.violations > self.enforcement

    def penalty_trace(self, accrued, multiplier):
        return price("Price of a violation, ρ", ETHICAL_PENALTY, accrued)
