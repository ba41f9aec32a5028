"""ERM: the task reward minus a fixed penalty per violation, with three levels of enforcement."""

from __future__ import annotations

import math

from perepisode.config import ETHICAL_PENALTY
from perepisode.lazy import jax
from perepisode.methods.objective import ConstraintType, Objective, constant_trace, cost, register_method, task_reward
from perepisode.settings import setting

TOLERATED = {"absolute": 0.0, "calculated": 3.0, "heuristic": math.inf}  # calculated: until R_eth < -30


@register_method
class Erm(Objective):
    """ERM: r = r_ext + r_eth; the episode ends once it has more violations than `enforcement` tolerates."""

    enforcement: jax.Array | float = setting(
        "heuristic",
        "when a training episode ends: at its first violation (absolute), its fourth (calculated), or never for "
        "violations (heuristic)",
        choices=TOLERATED,
    )

    name, label, colour, marker = "erm", "ERM", "#c472b1", "P"
    swept, constraint = "enforcement", ConstraintType.PRICE
    explanation = (
        "the task reward minus a fixed penalty per violation; the setting says after how many violations a "
        "training episode ends."
    )

    def reward(self, dual, before, after):
        return task_reward(before, after) - ETHICAL_PENALTY * cost(before, after)

    def ends_episode(self, accrued):
        return accrued.violations > self.enforcement

    def penalty_trace(self, accrued, multiplier):
        return constant_trace("Price of a violation, ρ", ETHICAL_PENALTY, accrued)
