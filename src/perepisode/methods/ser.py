"""SER (scalarised expected returns): a linear price per violation."""

from __future__ import annotations

from perepisode.config import ETHICAL_PENALTY
from perepisode.lazy import jax
from perepisode.methods.objective import ConstraintType, Objective, constant_trace, cost, register_method, task_reward
from perepisode.settings import setting

WEIGHT = "w, price of a violation in units of ρ = 10"


class LinearPrice(Objective):
    """Shared by the methods that charge w ρ per violation."""

    weight: jax.Array | float
    swept, symbol, constraint = "weight", "w", ConstraintType.PRICE

    def penalty_trace(self, accrued, multiplier):
        return constant_trace("Price of a violation, w ρ", float(self.weight) * ETHICAL_PENALTY, accrued)


@register_method
class Ser(LinearPrice):
    """SER: r = r_ext + w r_eth."""

    weight: jax.Array | float = setting(help=WEIGHT, low=0)

    name, label, colour, marker = "ser", "SER", "#1271b1", "s"
    tagline = ("charged a price", "per violation")
    explanation = "scalarised expected returns: every violation costs a fixed price, of weight w."

    def reward(self, dual, before, after):
        return task_reward(before, after) - self.weight * ETHICAL_PENALTY * cost(before, after)
