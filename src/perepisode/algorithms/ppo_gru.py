"""PPO-GRU, the paper's agent: recurrent proximal policy optimisation (PPO) with a gated recurrent unit (GRU)."""

from __future__ import annotations

from typing import Any, ClassVar

from perepisode.algorithms.base import Batch, PolicyOutput, network, register_agent
from perepisode.algorithms.distributions import distribution
from perepisode.algorithms.on_policy import OnPolicyAgent, Targets
from perepisode.config import PPOConfig
from perepisode.lazy import jax, jnp
from perepisode.methods.cost_critic import clipped_surrogate
from perepisode.pytree import pytree


@pytree
class Behaviour:
    """The policy that acted, for losses of several streams."""

    stored: Any  # as for one stream
    outputs: jax.Array
    log_std: Any


@register_agent
class PPOGru(OnPolicyAgent):
    """Samples its actions, in evaluation too."""

    name, config_type = "ppo_gru", PPOConfig
    diagnostics = ("entropy", "kl", "clip_fraction", "grad_norm", "value_loss")
    training_only = ("critic", "more_critics")
    box_actions = several_streams = True
    recurrent: ClassVar[bool] = True

    @property
    def distribution(self):
        return distribution(self.env.actions)

    def init(self, seed, extra):
        sizes = network.input_sizes(self.env, extra)
        critics = len(self.streams.names)
        return network.init(seed, sizes, self.config.hidden_size, self.distribution, self.recurrent, critics)

    def init_hidden_state(self, envs):
        return jnp.zeros((envs, self.config.hidden_size))

    def policy(self, params, progress=None):
        return network.cast(params, self.config.precision)

    def act(self, policy, hidden_state, is_first, observation, features, keys):
        outputs, value, hidden_state = network.step(
            policy, self.env, hidden_state, is_first, observation, features, self.config.precision
        )
        action, stored = self.distribution.sample(keys, outputs, policy.log_std)
        if self.streams.several:
            log_std = jax.tree.map(lambda x: jnp.broadcast_to(x, outputs.shape), policy.log_std)
            stored = Behaviour(stored, outputs, log_std)
        return PolicyOutput(action, hidden_state, value, stored)

    def loss(self, params, hidden_state, batch: Batch, targets: Targets, blank=(), coefficients=()):
        """Policy loss + vf_coef · clipped squared errors - ent_coef · entropy."""
        config, log_std = self.config, params.log_std
        outputs, value = network.sequence(
            params, self.env, hidden_state, batch.is_first, batch.observation, batch.features, config.precision, blank
        )
        several, old = self.streams.several, batch.stored
        sample, log_prob = self.distribution.before(batch.action, old.stored if several else old)
        log_ratio = self.distribution.log_prob(outputs, log_std, sample) - log_prob
        ratio = jnp.exp(log_ratio)
        if several:
            kl = self.distribution.kl(outputs, log_std, old.outputs, old.log_std)
            policy_loss = self.streams.policy_loss(coefficients, ratio, kl, targets.advantage, config.clip_eps)
        else:
            advantage = (targets.advantage - targets.advantage.mean()) / (targets.advantage.std() + 1e-8)
            policy_loss = clipped_surrogate(ratio, advantage, config.clip_eps)
        near = batch.value + jnp.clip(value - batch.value, -config.clip_eps, config.clip_eps)
        squared = jnp.maximum((value - targets.value) ** 2, (near - targets.value) ** 2)
        value_loss = 0.5 * (squared.mean((0, 1)).sum() if several else squared.mean())
        entropy = self.distribution.entropy(outputs, log_std).mean()
        total = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
        return total, {
            "loss": total,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": (ratio - 1.0 - log_ratio).mean(),
            "clip_fraction": (jnp.abs(ratio - 1.0) > config.clip_eps).mean(),
        }
