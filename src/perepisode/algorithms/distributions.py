"""Distributions over actions: what a policy samples, its log-probability and its entropy.

Discrete actions have a categorical distribution.  Vectors in a `Box` have a diagonal Gaussian whose mean is the
network's output and whose standard deviation is a parameter of its own, the same in every state.  A sample x becomes
the action clip(centre + half · x, low, high), where centre ± half are the bounds of the box; a number without two
finite bounds has centre 0 and half 1.  Log-probability and entropy are those of x, before scaling and clipping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perepisode.environments.action_space import Actions, Box
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Categorical:
    """Over whole numbers from 0; `outputs` are logits, and there is no `log_std`."""

    actions: int

    @property
    def outputs(self) -> int:
        return self.actions

    def init_log_std(self) -> tuple[()]:
        return ()

    def sample(self, keys: jax.Array, logits: jax.Array, log_std: Any) -> tuple[jax.Array, jax.Array]:
        """An action for every key, and what learning needs of it: log π(a|s)."""
        action = jax.vmap(self.draw)(keys, logits)
        return action, self.log_prob(logits, log_std, action)

    def before(self, action: jax.Array, stored: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The sample and its log-probability when it was drawn."""
        return action, stored

    def draw(self, key: jax.Array, logits: jax.Array) -> jax.Array:
        """The argmax of logits plus Gumbel noise."""
        return jnp.argmax(logits + jax.random.gumbel(key, logits.shape), axis=-1).astype(jnp.int32)

    def log_prob(self, logits: jax.Array, log_std: Any, action: jax.Array) -> jax.Array:
        return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None].astype(jnp.int32), axis=-1)[..., 0]

    def entropy(self, logits: jax.Array, log_std: Any) -> jax.Array:
        log_probs = jax.nn.log_softmax(logits)
        return -(jnp.exp(log_probs) * log_probs).sum(-1)

    def kl(self, logits: jax.Array, log_std: Any, old_logits: jax.Array, old_log_std: Any) -> jax.Array:
        """KL(π || π_old) in each state."""
        log_probs, old_log_probs = jax.nn.log_softmax(logits), jax.nn.log_softmax(old_logits)
        return (jnp.exp(log_probs) * (log_probs - old_log_probs)).sum(-1)


@pytree
class Sampled:
    """What learning needs of a Gaussian's sample: clipping loses it."""

    sample: jax.Array
    log_prob: jax.Array


@dataclass(frozen=True)
class DiagonalGaussian:
    """Over the vectors of a box; `outputs` are means."""

    box: Box

    @property
    def outputs(self) -> int:
        return self.box.size

    def init_log_std(self) -> np.ndarray:
        """A standard deviation of one: half the width of the box."""
        return np.zeros(self.box.size)

    def sample(self, keys: jax.Array, mean: jax.Array, log_std: jax.Array) -> tuple[jax.Array, Sampled]:
        sample = mean + jnp.exp(log_std) * jax.vmap(lambda key: jax.random.normal(key, mean.shape[1:]))(keys)
        return self.to_box(sample), Sampled(sample, self.log_prob(mean, log_std, sample))

    def before(self, action: jax.Array, stored: Sampled) -> tuple[jax.Array, jax.Array]:
        return stored.sample, stored.log_prob

    def to_box(self, sample: jax.Array) -> jax.Array:
        low, high = self.box.bounds
        bounded = np.isfinite(low) & np.isfinite(high)
        low_or_zero, high_or_zero = np.where(bounded, low, 0.0), np.where(bounded, high, 0.0)
        centre = low_or_zero / 2 + high_or_zero / 2  # halved first, so that no sum overflows
        half = np.where(bounded, high_or_zero / 2 - low_or_zero / 2, 1.0)
        return jnp.clip(np.float32(centre) + np.float32(half) * sample, low, high)

    def log_prob(self, mean: jax.Array, log_std: jax.Array, sample: jax.Array) -> jax.Array:
        standardised = (sample - mean) * jnp.exp(-log_std)
        return (-0.5 * standardised**2 - log_std - 0.5 * LOG_2PI).sum(-1)

    def entropy(self, mean: jax.Array, log_std: jax.Array) -> jax.Array:
        return jnp.broadcast_to((log_std + 0.5 * (1.0 + LOG_2PI)).sum(-1), mean.shape[:-1])

    def kl(self, mean: jax.Array, log_std: jax.Array, old_mean: jax.Array, old_log_std: jax.Array) -> jax.Array:
        """KL(π || π_old) in each state."""
        variances, old_variances = jnp.exp(2.0 * log_std), jnp.exp(2.0 * old_log_std)
        distance = (variances + (mean - old_mean) ** 2) / (2.0 * old_variances)
        return (old_log_std - log_std + distance - 0.5).sum(-1)


def distribution(actions: Actions) -> Categorical | DiagonalGaussian:
    """The distribution over the actions of an environment."""
    return DiagonalGaussian(actions) if isinstance(actions, Box) else Categorical(actions)
