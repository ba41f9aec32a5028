"""Utilities u(R_ext, R_eth) over an episode's accrued returns.  Each has u(0, 0) = 0, which Eq. 7 needs."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from perepisode.config import ETHICAL_PENALTY
from perepisode.pytree import pytree


def violations_of(r_eth: jax.Array) -> jax.Array:
    """v = max(0, -R_eth) / ρ."""
    return jnp.maximum(0.0, -r_eth) / ETHICAL_PENALTY


@pytree
class Tlo:
    """Smoothed thresholded-lexicographic utility, Eq. 5: σ(s (τ - v)) R_ext - ρ_u v."""

    tolerance: jax.Array | float  # τ_tol = k + 0.5 tolerates k violations
    charge: jax.Array | float  # ρ_u, paid for every violation
    sharpness: jax.Array | float = 12.0  # s

    def __call__(self, r_ext, r_eth):
        v = violations_of(r_eth)
        return self.gate(v) * r_ext - self.charge * v

    def gate(self, v):
        """Share of the return that still counts after v violations."""
        return jax.nn.sigmoid(self.sharpness * (self.tolerance - v))


@pytree
class Linear:
    """w_ext R_ext + w R_eth with w_ext = 1: the SER utility; its increments are the per-step SER reward."""

    weight: jax.Array | float

    def __call__(self, r_ext, r_eth):
        return r_ext + self.weight * r_eth


@pytree
class Distilled:
    """u_θ of Eq. 6: an MLP on standardised returns, shifted to u(0, 0) = 0 and scaled to game-return units."""

    mean: jax.Array  # float32[2]
    std: jax.Array  # float32[2]
    kernels: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    offset: jax.Array | float = 0.0
    scale: jax.Array | float = 1.0

    def __call__(self, r_ext, r_eth):
        return (self.raw(r_ext, r_eth) - self.offset) * self.scale

    def raw(self, r_ext, r_eth):
        """The network's own output, before shift and scale."""
        hidden = (jnp.stack(jnp.broadcast_arrays(r_ext, r_eth), axis=-1) - self.mean) / self.std
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1]):
            hidden = jnp.tanh(hidden @ kernel + bias)
        return (hidden @ self.kernels[-1] + self.biases[-1])[..., 0]
