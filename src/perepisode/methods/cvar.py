"""A constraint on the conditional value at risk (CVaR): a budget for the worst episodes."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods import accrued_obs
from perepisode.methods.objective import ConstraintType, Objective, register_method, task_reward
from perepisode.pytree import pytree
from perepisode.settings import setting


@pytree
class CvarDual:
    multiplier: jax.Array
    quantile: jax.Array  # q: the value at risk, real-valued


@register_method
class CvarConstraint(Objective):
    """CVaR_α(C) <= d: an episode's cost is max(0, C - q), telescoped; q follows the (1 - α) quantile of C."""

    budget: jax.Array | float = setting(help="d, mean violations allowed in the worst episodes", low=0)
    alpha: jax.Array | float = setting(0.1, "α, the share of worst episodes that the CVaR averages", above=0, high=1)
    lambda_lr: jax.Array | float = setting(0.05, "learning rate of λ and of the quantile", low=0)
    accrued_obs: str = accrued_obs.setting("paper")

    name, label, colour, marker = "cvar", "CVaR-constrained", "#771e59", "X"
    swept, symbol, constraint = "budget", "d", ConstraintType.EPISODE
    explanation = "limits the mean violations of the worst episodes, the conditional value at risk (CVaR), to d."

    def init_dual(self):
        return CvarDual(jnp.zeros(()), jnp.zeros(()))

    def reward(self, dual, before, after):
        excess = jnp.maximum(0.0, after.violations - dual.quantile)
        excess -= jnp.maximum(0.0, before.violations - dual.quantile)
        return task_reward(before, after) - dual.multiplier * excess / self.alpha

    def next_dual(self, dual, finished):
        excess = finished.mean(jnp.maximum(0.0, finished.violations - dual.quantile), otherwise=0.0)
        tail = finished.mean((finished.violations >= dual.quantile).astype(jnp.float32), otherwise=self.alpha)
        constraint = dual.quantile + excess / self.alpha
        updated = CvarDual(
            jnp.clip(dual.multiplier + self.lambda_lr * (constraint - self.budget), 0.0, 1000.0),
            dual.quantile - self.lambda_lr * (self.alpha - tail),
        )
        return finished.select(updated, dual)

    def multiplier(self, dual):
        return dual.multiplier
