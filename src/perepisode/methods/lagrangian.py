"""A constrained Markov decision process, solved by a multiplier that is learned beside the policy."""

from __future__ import annotations

from perepisode.later import jax, jnp
from perepisode.methods.objective import Family, Objective, gain, harm, method
from perepisode.settings import setting


@method
class Lagrangian(Objective):
    """CMDP, Eq. 3: r = r_ext - λ c, and λ ← clip(λ + η (Ĉ - d), 0, λ_max) once per policy update (Eq. 4)."""

    budget: jax.Array | float = setting(help="d, violations an episode on average", low=0)
    rate: jax.Array | float = setting(0.02, "η, the multiplier's step size", low=0)
    ceiling: jax.Array | float = setting(100.0, "λ_max, the largest multiplier", low=0)
    initial: jax.Array | float = setting(0.0, "λ_0, the multiplier at the start", low=0)

    name, label, colour, marker = "lagrangian", "Lagrangian", "#e28b05", "^"
    swept, symbol, family = "budget", "d", Family.MEAN
    asks = ("held to a mean:", "{value:g} an episode on average")

    def initial_dual(self):
        return jnp.asarray(self.initial, jnp.float32)

    def reward(self, dual, before, after):
        return gain(before, after) - dual * harm(before, after)

    def next_dual(self, dual, finished):
        mean_cost = finished.mean(finished.violations, otherwise=self.budget)
        return jnp.clip(dual + self.rate * (mean_cost - self.budget), 0.0, self.ceiling)

    def multiplier(self, dual):
        return dual
