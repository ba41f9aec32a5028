"""Scalarised expected returns: a price for each violation."""

from __future__ import annotations

from perepisode.config import ETHICAL_PENALTY
from perepisode.later import jax
from perepisode.methods.objective import Family, Objective, gain, harm, method, price
from perepisode.settings import setting


@method
class Ser(Objective):
    """SER: r = r_ext + w r_eth."""

    weight: jax.Array | float = setting(help="w, the price of a violation in units of ρ = 10", low=0)

    name, label, colour, marker = "ser", "SER", "#1271b1", "s"
    swept, symbol, family = "weight", "w", Family.PRICE
    asks = ("made to pay a price", "for every one")

    def reward(self, dual, before, after):
        return gain(before, after) - self.weight * ETHICAL_PENALTY * harm(before, after)

    def pressure(self, accrued, multiplier):
        return price("Price of a violation, w ρ", float(self.weight) * ETHICAL_PENALTY, accrued)
