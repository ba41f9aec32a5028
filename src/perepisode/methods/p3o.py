"""P3O: penalised proximal policy optimisation (Zhang et al., 2022)."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods.cost_critic import ExcessDual, clipped_surrogate
from perepisode.methods.objective import Streams, register_method
from perepisode.settings import setting


def penalised_surrogate(coefficients, ratio, kl, advantages, clip_eps) -> jax.Array:
    """PPO's loss for the rewards + κ max(0, mean(ratio · A_c) + Ĉ - d)."""
    kappa, excess = coefficients
    penalty = jnp.maximum(0.0, (ratio * advantages[..., 1]).mean() + excess)
    return clipped_surrogate(ratio, advantages[..., 0], clip_eps) + kappa * penalty


@register_method
class P3O(ExcessDual):
    """An exact penalty: without a multiplier, violations weigh κ while the mean is above d, and nothing below it."""

    kappa: jax.Array | float = setting(5.0, "κ, weight of the penalty", low=0)

    name, label = "p3o", "P3O"
    streams = Streams(ExcessDual.streams.names, penalised_surrogate)
    explanation = (
        "penalised proximal policy optimisation: a fixed penalty on costs while the mean is above d violations per "
        "episode."
    )

    def coefficients(self, dual):
        return jnp.stack([self.kappa, dual])
