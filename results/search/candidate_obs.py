"""What `nu.py` searches over, as numbers that a population can sweep: one program serves all candidates.

Nothing in the package is changed on disk.  `esr_told` is a method of its own; `ppo.learn` is wrapped so that each
run has its own value clip; `heads_too` lets the heads see ν beside the recurrence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.methods import ConstraintType, Objective
from perepisode.methods.esr import Esr, PerEpisode
from perepisode.methods.objective import register_method
from perepisode.pytree import pytree
from perepisode.settings import setting
from perepisode.training import network, ppo
from perepisode.training.population import Population

STEPS = 5  # of the thermometer
BUDGET = 1
BASIS = ("return", "share", *(f"step{i}" for i in range(1, STEPS + 1)), "remaining", "within")


CANDIDATES: dict[str, np.ndarray] = {}  # what `nu.py` fills in: gains, gains beside, value clip, one after the other


@register_method
class Told(PerEpisode):
    """ESR (k = 1) told gains times what BASIS says of the episode so far; a gain of zero says nothing."""

    candidate: Any = setting(help="one of those of nu.py", choices=CANDIDATES)

    name, label, swept, family = "esr_told", "ESR told", "candidate", ConstraintType.EPISODE
    told = "candidate"

    @property
    def gains(self):
        """Into the embedding, one for each entry of BASIS."""
        return self.candidate[..., : len(BASIS)]

    @property
    def beside(self):
        """Into the heads."""
        return self.candidate[..., len(BASIS) : 2 * len(BASIS)]

    @property
    def value_clip(self):
        return self.candidate[..., -1]

    def u(self, r_ext, r_eth):
        return Esr(BUDGET).u(r_ext, r_eth)

    def features(self, accrued, shown=0):
        basis = self.basis(accrued)
        told = self.gains * basis
        return jnp.concatenate([told, self.beside * basis], axis=-1) if _heads else told

    def basis(self, accrued):
        """[R/50, v/5, 1(v >= 1), ..., 1(v >= 5), (k - v)/(k + 0.5), 1(v <= k)], clipped to ±5 as the paper's is."""
        v, tolerance = accrued.violations, BUDGET + 0.5
        thermometer = [(v >= i).astype(jnp.float32) for i in range(1, STEPS + 1)]
        remaining, within = (BUDGET - v) / tolerance, (v < tolerance).astype(jnp.float32)
        parts = [accrued.task_return / 50.0, v / 5.0, *thermometer, remaining, within]
        return jnp.clip(jnp.stack(parts, axis=-1), -5.0, 5.0)


# ---- a value clip for each run ------------------------------------------------------------------------------


@pytree
class OfRun:
    """Stands where a population has γ alone: `ppo.update` hands it on to `learn`, run by run."""

    gamma: jax.Array
    value_clip: jax.Array

    @property
    def shape(self):
        return self.gamma.shape


def with_value_clip(members: Population) -> Population:
    (told,) = members.objectives
    return replace(members, gamma=OfRun(members.gamma, told.value_clip))


def loss(params, env, config, memory, batch, targets, value_clip):
    """`ppo.loss`, but for the clip of the value, which is a number of its own."""
    logits, value = network.sequence(
        params, env, memory, batch.is_first, batch.observation, batch.features, config.precision
    )
    log_ratio = ppo.log_prob(logits, batch.action) - batch.log_prob
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


_learn, _loss = ppo.learn, ppo.loss


def learn(program, rate, params, adam, memory, batch, last_value, of_run, key):
    """`ppo.learn`, which looks its loss up while it is traced: for that long the loss has this run's value clip."""
    if not isinstance(of_run, OfRun):
        return _learn(program, rate, params, adam, memory, batch, last_value, of_run, key)
    ppo.loss = partial(loss, value_clip=of_run.value_clip)
    try:
        return _learn(program, rate, params, adam, memory, batch, last_value, of_run.gamma, key)
    finally:
        ppo.loss = _loss


ppo.learn = learn


# ---- ν beside the recurrence --------------------------------------------------------------------------------

ROWS = 64  # by which the heads' first kernels grow: whole memory lines; those beyond BASIS meet zeros
_heads = False
_init = network.init


def heads_too() -> None:
    """From here on `Told` has features for the heads also, which read them together with the memory."""
    global _heads
    _heads = True
    network.init, network.sequence, network.step = init, sequence, step


def init(seed, sizes, hidden, actions):
    """As without, and the heads' further rows, as large as the others (entries of 2 / √hidden)."""
    params = _init(seed, (*sizes[:-1], len(BASIS)), hidden, actions)
    random = np.random.default_rng([seed, 1])

    def wider(head):
        (kernel, bias), *rest = head
        rows = random.normal(size=(ROWS, hidden)) * 2.0 / hidden**0.5
        return ((np.concatenate([kernel, rows.astype(np.float32)]), bias), *rest)

    return replace(params, actor=wider(params.actor), critic=wider(params.critic))


def sequence(params, env, memory, starts, observation, features, precision):
    told, beside = jnp.split(features, 2, axis=-1)
    gates = network._input_gates(params, env, observation, told, precision)
    dtype = network._dtype(precision)
    hidden = network.gru(gates, memory, starts, params.gru_input[1], *params.gru_hidden, dtype)
    return network._heads(params, _side_by_side(hidden, beside), precision)


def step(params, env, memory, starts, observation, features, precision):
    told, beside = jnp.split(features, 2, axis=-1)
    gates = network._input_gates(params, env, observation, told, precision)
    memory = jnp.where(starts[:, None], 0.0, memory)
    kernel, bias = params.gru_hidden
    memory, _ = network.cell(memory, gates, params.gru_input[1], network._cast(kernel, precision), bias)
    return *network._heads(params, _side_by_side(memory, beside), precision), memory


def _side_by_side(hidden, beside):
    filling = jnp.zeros((*beside.shape[:-1], ROWS - len(BASIS)), hidden.dtype)
    return jnp.concatenate([hidden, beside.astype(hidden.dtype), filling], axis=-1)


# ---- the project's own ESR in the same shapes, to compare with ----------------------------------------------


def pad_features() -> None:
    """From here on the project's ESR sees the paper's ν and then zeros, as many inputs as BASIS in all.

    The embedding is one orthogonal draw over all inputs, so with two inputs fewer or more every weight of it differs:
    without the zeros the two agents could not be compared weight by weight.
    """
    plain = Objective.features

    def padded(self, accrued, shown):
        features = plain(self, accrued, shown)
        return jnp.pad(features, [(0, 0)] * (features.ndim - 1) + [(0, len(BASIS) - features.shape[-1])])

    PerEpisode.features = padded
