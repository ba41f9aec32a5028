"""The control: what ESR is told, and SER's linear objective."""

from __future__ import annotations

from perepisode.config import ETHICAL_PENALTY
from perepisode.later import jax
from perepisode.methods import told
from perepisode.methods.esr import PerEpisode
from perepisode.methods.objective import Family, method, price
from perepisode.settings import setting


@method
class SerRacc(PerEpisode):
    """u = R_ext + w R_eth: its increments are SER's reward, and the agent sees ν(R_acc) as ESR's does."""

    weight: jax.Array | float = setting(help="w, the price of a violation in units of ρ = 10", low=0)
    told: str = told.setting("paper")

    name, label, colour, marker = "ser_racc", "SER+R_acc", "#4ca6df", "p"
    swept, symbol, family = "weight", "w", Family.PRICE

    def u(self, r_ext, r_eth):
        return r_ext + self.weight * r_eth

    def pressure(self, accrued, multiplier):
        return price("Price of a violation, w ρ", float(self.weight) * ETHICAL_PENALTY, accrued)
