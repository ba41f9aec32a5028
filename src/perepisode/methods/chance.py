"""A bound on the probability that an episode exceeds its budget."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods import accrued_obs
from perepisode.methods.objective import ConstraintType, Objective, register_method, task_reward
from perepisode.settings import setting


@register_method
class ChanceConstraint(Objective):
    """P(C > k) <= δ: a Lagrangian whose cost is 1 at the step on which v first exceeds k."""

    budget: jax.Array | float = setting(1, "k, violations allowed per episode", low=0)
    delta: jax.Array | float = setting(0.01, "δ, allowed share of episodes above the budget", low=0, high=1)
    lambda_lr: jax.Array | float = setting(0.02, "learning rate of the multiplier λ", low=0)
    lambda_max: jax.Array | float = setting(1000.0, "upper bound of λ", low=0)
    accrued_obs: str = accrued_obs.setting("paper")

    name, label, colour, marker = "chance", "Chance-constrained", "#3b30a0", "h"
    swept, symbol, constraint = "budget", "k", ConstraintType.EPISODE
    explanation = "limits the probability that an episode has more than k violations."

    def reward(self, dual, before, after):
        breach = (after.violations > self.budget).astype(jnp.float32)
        breach -= (before.violations > self.budget).astype(jnp.float32)
        return task_reward(before, after) - dual * breach

    def next_dual(self, dual, finished):
        over = (finished.violations > self.budget).astype(jnp.float32)
        share = finished.mean(over, otherwise=self.delta)
        return jnp.clip(dual + self.lambda_lr * (share - self.delta), 0.0, self.lambda_max)

    def multiplier(self, dual):
        return dual
