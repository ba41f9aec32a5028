"""Methods with a cost critic, as in the libraries of constrained reinforcement learning: the violations of a step are
a stream of their own, with a value head, a discount factor and a λ of generalised advantage estimation (GAE).

A method derives from `CostCritic` and has a multiplier, or other coefficients, or a policy loss of its own.
"""

from __future__ import annotations

from typing import Any

from perepisode.lazy import jax, jnp
from perepisode.methods.objective import Accrued, ConstraintType, Mixture, Objective, Streams, cost, task_reward
from perepisode.pytree import pytree
from perepisode.settings import setting


def clipped_surrogate(ratio: jax.Array, advantage: jax.Array, clip_eps: float) -> jax.Array:
    """PPO's policy loss: -mean(min(ratio · A, clip(ratio, 1 ± ε) · A))."""
    clipped = jnp.clip(ratio, 1.0 - clip_eps, 1.0 + clip_eps)
    return -jnp.minimum(ratio * advantage, clipped * advantage).mean()


def weighted_surrogate(coefficients, ratio, kl, advantages, clip_eps) -> jax.Array:
    """PPO's policy loss for the advantage Σ w_s A_s, which is not normalised again."""
    return clipped_surrogate(ratio, (coefficients * advantages).sum(-1), clip_eps)


@pytree
class CostCritic(Objective):
    """Rewards and costs are separate streams; the mean of the costs is constrained."""

    budget: jax.Array | float = setting(help="d, mean violations allowed per episode", low=0)
    cost_gamma: jax.Array | float = setting(0.99, "discount factor of the cost critic", above=0, high=1)
    cost_gae_lambda: jax.Array | float = setting(0.95, "λ of GAE for the cost critic", low=0, high=1)

    swept, symbol, constraint = "budget", "d", ConstraintType.MEAN
    streams = Streams(("reward", "cost"), weighted_surrogate)

    def coefficients(self, dual: Any) -> jax.Array:
        """What the streams' policy loss needs: by default the weights of (A_r - λ A_c) / (1 + λ)."""
        multiplier = self.multiplier(dual)
        return jnp.stack([jnp.ones_like(multiplier), -multiplier]) / (1.0 + multiplier)

    def rewards(self, dual: Any, before: Accrued, after: Accrued) -> jax.Array:
        return jnp.stack([task_reward(before, after), cost(before, after)], axis=-1)

    def mixture(self, dual, gamma, gae_lambda):
        gammas, lambdas = jnp.stack([gamma, self.cost_gamma]), jnp.stack([gae_lambda, self.cost_gae_lambda])
        return Mixture(gammas, lambdas, self.coefficients(dual))


class ExcessDual(CostCritic):
    """Without a multiplier: the dual variable is Ĉ - d, the excess of the mean, held while no episode ends."""

    def next_dual(self, dual, finished):
        return finished.mean(finished.violations - self.budget, otherwise=dual)
