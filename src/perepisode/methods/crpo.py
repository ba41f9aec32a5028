"""CRPO: constraint-rectified policy optimisation (Xu, Liang and Lan, 2021)."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods.cost_critic import ExcessDual
from perepisode.methods.objective import register_method
from perepisode.settings import setting


@register_method
class Crpo(ExcessDual):
    """Each update maximises the rewards if Ĉ ≤ d + tolerance, and otherwise minimises the costs."""

    tolerance: jax.Array | float = setting(0.0, "excess of the mean up to which rewards are maximised", low=0)

    name, label = "crpo", "CRPO"
    explanation = (
        "constraint-rectified policy optimisation: an update maximises rewards if the mean is at most d violations "
        "per episode, and minimises costs otherwise."
    )

    def coefficients(self, dual):
        return jnp.where(dual <= self.tolerance, jnp.array([1.0, 0.0]), jnp.array([0.0, -1.0]))
