"""A budget for the worst episodes."""

from __future__ import annotations

from perepisode.later import jax, jnp
from perepisode.methods import told
from perepisode.methods.objective import Family, Objective, gain, method
from perepisode.pytree import pytree
from perepisode.settings import setting


@pytree
class CvarDual:
    multiplier: jax.Array
    quantile: jax.Array  # q: the value at risk, real-valued


@method
class CvarConstraint(Objective):
    """CVaR_α(C) <= d: an episode's cost is max(0, C - q), telescoped; q follows the (1 - α) quantile of C."""

    budget: jax.Array | float = setting(help="d, mean violations of the worst episodes", low=0)
    fraction: jax.Array | float = setting(0.1, "α, the share of episodes that are the worst", above=0, high=1)
    rate: jax.Array | float = setting(0.05, "step size of the multiplier and of the quantile", low=0)
    told: str = told.setting("paper")

    name, label, colour, marker = "cvar", "CVaR-constrained", "#771e59", "X"
    swept, symbol, family = "budget", "d", Family.EPISODE

    def initial_dual(self):
        return CvarDual(jnp.zeros(()), jnp.zeros(()))

    def reward(self, dual, before, after):
        excess = jnp.maximum(0.0, after.violations - dual.quantile)
        excess -= jnp.maximum(0.0, before.violations - dual.quantile)
        return gain(before, after) - dual.multiplier * excess / self.fraction

    def next_dual(self, dual, finished):
        excess = finished.mean(jnp.maximum(0.0, finished.violations - dual.quantile), otherwise=0.0)
        tail = finished.mean((finished.violations >= dual.quantile).astype(jnp.float32), otherwise=self.fraction)
        constraint = dual.quantile + excess / self.fraction
        moved = CvarDual(
            jnp.clip(dual.multiplier + self.rate * (constraint - self.budget), 0.0, 1000.0),
            dual.quantile - self.rate * (self.fraction - tail),
        )
        return finished.moved(moved, dual)

    def multiplier(self, dual):
        return dual.multiplier
