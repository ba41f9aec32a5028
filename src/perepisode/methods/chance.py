"""A bound on how often an episode exceeds its budget."""

from __future__ import annotations

from perepisode.later import jax, jnp
from perepisode.methods import told
from perepisode.methods.objective import Family, Objective, gain, method
from perepisode.settings import setting


@method
class ChanceConstraint(Objective):
    """P(C > k) <= δ: a Lagrangian whose cost is 1 at the step on which v first exceeds k."""

    budget: jax.Array | float = setting(1, "k, violations that an episode may have", low=0)
    level: jax.Array | float = setting(0.01, "δ, the share of episodes that may have more", low=0, high=1)
    rate: jax.Array | float = setting(0.02, "the multiplier's step size", low=0)
    ceiling: jax.Array | float = setting(1000.0, "the largest multiplier", low=0)
    told: str = told.setting("paper")

    name, label, colour, marker = "chance", "Chance-constrained", "#3b30a0", "h"
    swept, symbol, family = "budget", "k", Family.EPISODE

    def reward(self, dual, before, after):
        breach = (after.violations > self.budget).astype(jnp.float32)
        breach -= (before.violations > self.budget).astype(jnp.float32)
        return gain(before, after) - dual * breach

    def next_dual(self, dual, finished):
        over = (finished.violations > self.budget).astype(jnp.float32)
        share = finished.mean(over, otherwise=self.level)
        return jnp.clip(dual + self.rate * (share - self.level), 0.0, self.ceiling)

    def multiplier(self, dual):
        return dual
