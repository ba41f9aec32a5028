"""FOCOPS: first-order constrained optimisation in policy space (Zhang, Vuong and Ross, 2020)."""

from __future__ import annotations

from perepisode.lazy import jax, jnp
from perepisode.methods.objective import Streams, register_method
from perepisode.methods.ppo_lag import PPOLag
from perepisode.settings import setting


def trust_region_loss(coefficients, ratio, kl, advantages, clip_eps) -> jax.Array:
    """mean((KL - ratio · A / β) · 1[KL ≤ δ]): a state outside the trust region is left out."""
    weights, (temperature, radius) = coefficients[:-2], coefficients[-2:]
    advantage = (weights * advantages).sum(-1)
    inside = jax.lax.stop_gradient(kl) <= radius
    return jnp.where(inside, kl - ratio * advantage / temperature, 0.0).mean()


@register_method
class Focops(PPOLag):
    """PPO-Lag's multiplier and advantage with a loss that stays near the old policy instead of clipping."""

    temperature: jax.Array | float = setting(1.5, "β, temperature: the weight of KL against the advantage", above=0)
    trust_region: jax.Array | float = setting(0.02, "δ, largest KL of a state that is learned from", above=0)

    name, label = "focops", "FOCOPS"
    streams = Streams(PPOLag.streams.names, trust_region_loss)
    explanation = (
        "first-order constrained optimisation in policy space: PPO-Lag's price, for a mean of d violations per "
        "episode, with a penalty on the distance from the old policy."
    )

    def coefficients(self, dual):
        return jnp.append(super().coefficients(dual), jnp.stack([self.temperature, self.trust_region]))
