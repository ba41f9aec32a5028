"""PPO-Lag: the Lagrangian with a cost critic (Ray, Achiam and Amodei, 2019)."""

from __future__ import annotations

from perepisode.lazy import jax
from perepisode.methods.cost_critic import CostCritic
from perepisode.methods.lagrangian import Lagrangian
from perepisode.methods.objective import register_method
from perepisode.settings import setting


@register_method
class PPOLag(CostCritic, Lagrangian):
    """A = (A_r - λ A_c) / (1 + λ); λ ← clip(λ + η (Ĉ - d), 0, λ_max) before the update that uses it.

    A_r is standardised and A_c centred beforehand, over the whole rollout.
    """

    lambda_lr: jax.Array | float = setting(0.035, "η, learning rate of the multiplier λ", low=0)
    lambda_init: jax.Array | float = setting(0.001, "λ_0, initial value of λ", low=0)

    name, label, colour, marker = "ppo_lag", "PPO-Lag", "", ""
    explanation = "a Lagrangian with a cost critic: learns the price at which the mean is d violations per episode."
