"""The accrued observations that `nu.py` searches over, as numbers that a population sweeps in one program.

The package is patched in memory: `esr_candidate` is a separate method, `PPOGru.learn` is wrapped so that each run
has its own value clip, and `condition_heads` gives ν also to the heads, after the recurrence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partialmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.algorithms import network
from perepisode.algorithms.ppo_gru import PPOGru
from perepisode.methods import ConstraintType, Objective
from perepisode.methods.esr import Esr, PerEpisode
from perepisode.methods.objective import register_method
from perepisode.pytree import pytree
from perepisode.settings import setting
from perepisode.training.population import Population

STEPS = 5  # of the thermometer
BUDGET = 1
BASIS = ("return", "share", *(f"step{i}" for i in range(1, STEPS + 1)), "remaining", "within")


CANDIDATES: dict[str, np.ndarray] = {}  # set by `nu.py`: gains, gains of the heads, value clip, concatenated


@register_method
class EsrCandidate(PerEpisode):
    """ESR (k = 1) that observes gains times BASIS; a gain of zero omits an entry."""

    candidate: Any = setting(help="a candidate of nu.py", choices=CANDIDATES)

    name, label, swept, constraint = "esr_candidate", "ESR candidate", "candidate", ConstraintType.EPISODE
    accrued_obs = "candidate"

    @property
    def gains(self):
        """Gains of the embedding's inputs, one per entry of BASIS."""
        return self.candidate[..., : len(BASIS)]

    @property
    def head_gains(self):
        """Gains of the heads' inputs."""
        return self.candidate[..., len(BASIS) : 2 * len(BASIS)]

    @property
    def value_clip(self):
        return self.candidate[..., -1]

    def u(self, r_ext, r_eth):
        return Esr(BUDGET).u(r_ext, r_eth)

    def features(self, accrued, env_inputs=0):
        basis = self.basis(accrued)
        features = self.gains * basis
        return jnp.concatenate([features, self.head_gains * basis], axis=-1) if _heads else features

    def basis(self, accrued):
        """[R/50, v/5, 1(v >= 1), ..., 1(v >= 5), (k - v)/(k + 0.5), 1(v <= k)], clipped to ±5 like the paper's ν."""
        v, tolerance = accrued.violations, BUDGET + 0.5
        thermometer = [(v >= i).astype(jnp.float32) for i in range(1, STEPS + 1)]
        remaining, within = (BUDGET - v) / tolerance, (v < tolerance).astype(jnp.float32)
        parts = [accrued.task_return / 50.0, v / 5.0, *thermometer, remaining, within]
        return jnp.clip(jnp.stack(parts, axis=-1), -5.0, 5.0)


# ---- a value clip for each run ------------------------------------------------------------------------------


@pytree
class OfRun:
    """Takes the place of γ in a population: `update.update` passes it on to `learn`, run by run."""

    gamma: jax.Array
    value_clip: jax.Array

    @property
    def shape(self):
        return self.gamma.shape


def with_value_clip(members: Population) -> Population:
    (objective,) = members.objectives
    return replace(members, gamma=OfRun(members.gamma, objective.value_clip))


def loss(self, params, hidden_state, batch, targets, blank=(), value_clip=0.2):
    """`PPOGru.loss` with a separate clip for the value."""
    config = self.config
    logits, value = network.sequence(
        params, self.env, hidden_state, batch.is_first, batch.observation, batch.features, config.precision, blank
    )
    log_ratio = self.distribution.log_prob(logits, (), batch.action) - batch.stored
    ratio = jnp.exp(log_ratio)
    advantage = (targets.advantage - targets.advantage.mean()) / (targets.advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - config.clip_eps, 1.0 + config.clip_eps)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    near = batch.value + jnp.clip(value - batch.value, -value_clip, value_clip)
    value_loss = 0.5 * jnp.maximum((value - targets.value) ** 2, (near - targets.value) ** 2).mean()
    log_probs = jax.nn.log_softmax(logits)
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    total = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
    return total, {
        "loss": total,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": (ratio - 1.0 - log_ratio).mean(),
        "clip_fraction": (jnp.abs(ratio - 1.0) > config.clip_eps).mean(),
    }


_learn, _loss = PPOGru.learn, PPOGru.loss


def learn(self, params, opt_state, hidden_state, batch, last_value, of_run, key, progress):
    """`PPOGru.learn`; it looks `loss` up while it is traced, so for that time the loss has this run's value clip."""
    if not isinstance(of_run, OfRun):
        return _learn(self, params, opt_state, hidden_state, batch, last_value, of_run, key, progress)
    PPOGru.loss = partialmethod(loss, value_clip=of_run.value_clip)
    try:
        return _learn(self, params, opt_state, hidden_state, batch, last_value, of_run.gamma, key, progress)
    finally:
        PPOGru.loss = _loss


PPOGru.learn = learn


# ---- ν as an input of the heads -----------------------------------------------------------------------------

ROWS = 64  # rows added to the heads' first kernels, a multiple of the memory line; those beyond BASIS get zeros
_heads = False
_init, _widen = network.init, network.widen


def condition_heads() -> None:
    """From now on, give `EsrCandidate` features for the heads too, next to the hidden state."""
    global _heads
    _heads = True
    network.init, network.sequence, network.step = init, sequence, step
    # half of the features are the heads'
    network.widen = lambda embedding, env, extra: _widen(embedding, env, extra // 2)


def init(seed, sizes, hidden, actions):
    """`network.init` with more rows in the heads' first kernels, on the same scale (2 / √hidden)."""
    params = _init(seed, (*sizes[:-1], len(BASIS)), hidden, actions)
    generator = np.random.default_rng([seed, 1])

    def wider(head):
        (kernel, bias), *rest = head
        rows = generator.normal(size=(ROWS, hidden)) * 2.0 / hidden**0.5
        return ((np.concatenate([kernel, rows.astype(np.float32)]), bias), *rest)

    return replace(params, actor=wider(params.actor), critic=wider(params.critic))


def sequence(params, env, hidden_state, is_first, observation, features, precision, blank=()):
    features, head_features = jnp.split(features, 2, axis=-1)
    embedded = jax.nn.relu(network.embed(params, env, observation, features, precision, blank, apart=True))
    hidden = network.recur(params, embedded, hidden_state, is_first, precision)
    return network._heads(params, _concatenated(hidden, head_features), precision)


def step(params, env, hidden_state, is_first, observation, features, precision):
    features, head_features = jnp.split(features, 2, axis=-1)
    embedded = jax.nn.relu(network.embed(params, env, observation, features, precision))
    hidden_state = network.recur_once(params, embedded, hidden_state, is_first, precision)
    return *network._heads(params, _concatenated(hidden_state, head_features), precision), hidden_state


def _concatenated(hidden, head_features):
    padding = jnp.zeros((*head_features.shape[:-1], ROWS - len(BASIS)), hidden.dtype)
    return jnp.concatenate([hidden, head_features.astype(hidden.dtype), padding], axis=-1)


# ---- the package's ESR in the same shapes, for comparison ---------------------------------------------------


def pad_features() -> None:
    """From now on, pad the observation of the package's ESR with zeros to the size of BASIS.

    The embedding is one orthogonal draw over all inputs, so another number of inputs changes all of its weights:
    without the zeros, the two agents could not be compared weight by weight.
    """
    plain = Objective.features

    def padded(self, accrued, env_inputs):
        features = plain(self, accrued, env_inputs)
        return jnp.pad(features, [(0, 0)] * (features.ndim - 1) + [(0, len(BASIS) - features.shape[-1])])

    PerEpisode.features = padded
