"""The control: what ESR is told, and SER's linear objective."""

from __future__ import annotations

from perepisode.config import ETHICAL_PENALTY
from perepisode.lazy import jax
from perepisode.methods import accrued_obs
from perepisode.methods.esr import PerEpisode
from perepisode.methods.objective import ConstraintType, price, register_method
from perepisode.settings import setting


@register_method
class SerRacc(PerEpisode):
    """u = R_ext + w R_eth: its increments are SER's reward, and the agent sees ν(R_acc) as ESR's does."""

    weight: jax.Array | float = setting(help="w, the price of a violation in units of ρ = 10", low=0)
    accrued_obs: str = accrued_obs.setting("paper")

    name, label, colour, marker = "ser_racc", "SER+R_acc", "#4ca6df", "p"
    swept, symbol, constraint = "weight", "w", ConstraintType.PRICE

    def u(self, r_ext, r_eth):
        return r_ext + self.weight * r_eth

    def penalty_trace(self, accrued, multiplier):
        return price("Price of a violation, w ρ", float(self.weight) * ETHICAL_PENALTY, accrued)
