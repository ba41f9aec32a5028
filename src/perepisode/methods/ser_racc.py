"""The control for ESR (expected scalarised returns): its accrued observation with SER's linear objective."""

from __future__ import annotations

from perepisode.lazy import jax
from perepisode.methods import accrued_obs
from perepisode.methods.esr import PerEpisode
from perepisode.methods.objective import register_method
from perepisode.methods.ser import WEIGHT, LinearPrice
from perepisode.settings import setting


@register_method
class SerRacc(LinearPrice, PerEpisode):
    """u = R_ext + w R_eth, so the reward is that of SER (scalarised expected returns); observed with ν(R_acc)."""

    weight: jax.Array | float = setting(help=WEIGHT, low=0)
    accrued_obs: str = accrued_obs.setting("paper")

    name, label, colour, marker = "ser_racc", "SER+R_acc", "#4ca6df", "p"
    explanation = (
        "the control for ESR (expected scalarised returns): it observes what the episode has accrued, as ESR "
        "does, but pays a fixed price of weight w."
    )

    def u(self, r_ext, r_eth):
        return r_ext + self.weight * r_eth
