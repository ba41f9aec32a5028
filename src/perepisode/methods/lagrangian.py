"""Lagrangian relaxation of a constrained Markov decision process (CMDP); λ is learned along with the policy."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods.objective import ConstraintType, Objective, cost, register_method, task_reward
from perepisode.settings import setting


@register_method
class Lagrangian(Objective):
    """CMDP, Eq. 3: r = r_ext - λ c, and λ ← clip(λ + η (Ĉ - d), 0, λ_max) once per policy update (Eq. 4)."""

    budget: jax.Array | float = setting(help="d, mean violations allowed per episode", low=0)
    lambda_lr: jax.Array | float = setting(0.02, "η, learning rate of the multiplier λ", low=0)
    lambda_max: jax.Array | float = setting(100.0, "λ_max, upper bound of λ", low=0)
    lambda_init: jax.Array | float = setting(0.0, "λ_0, initial value of λ", low=0)

    name, label, colour, marker = "lagrangian", "Lagrangian", "#e28b05", "^"
    swept, symbol, constraint = "budget", "d", ConstraintType.MEAN
    tagline = ("constrained on average:", "{value:g} per episode")
    explanation = "learns the price at which the mean is d violations per episode."

    def init_dual(self):
        return jnp.asarray(self.lambda_init, jnp.float32)

    def reward(self, dual, before, after):
        return task_reward(before, after) - dual * cost(before, after)

    def next_dual(self, dual, finished):
        mean_cost = finished.mean(finished.violations, otherwise=self.budget)
        return jnp.clip(dual + self.lambda_lr * (mean_cost - self.budget), 0.0, self.lambda_max)

    def multiplier(self, dual):
        return dual
