"""Scalarised expected returns: a price for each violation."""

from __future__ import annotations

from perepisode.config import ETHICAL_PENALTY
from perepisode.lazy import jax
from perepisode.methods.objective import ConstraintType, Objective, cost, price, register_method, task_reward
from perepisode.settings import setting


@register_method
class Ser(Objective):
    """SER: r = r_ext + w r_eth."""

    weight: jax.Array | float = setting(help="w, the price of a violation in units of ρ = 10", low=0)

    name, label, colour, marker = "ser", "SER", "#1271b1", "s"
    swept, symbol, constraint = "weight", "w", ConstraintType.PRICE
    tagline = ("made to pay a price", "for every one")

    def reward(self, dual, before, after):
        return task_reward(before, after) - self.weight * ETHICAL_PENALTY * cost(before, after)

    def penalty_trace(self, accrued, multiplier):
        return price("Price of a violation, w ρ", float(self.weight) * ETHICAL_PENALTY, accrued)
