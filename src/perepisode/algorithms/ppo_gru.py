"""PPO-GRU, the paper's agent: recurrent proximal policy optimisation (PPO) with a gated recurrent unit (GRU)."""

from __future__ import annotations

from perepisode.algorithms.base import Batch, PolicyOutput, network, register_agent
from perepisode.algorithms.distributions import distribution
from perepisode.algorithms.on_policy import OnPolicyAgent, Targets
from perepisode.config import PPOConfig
from perepisode.lazy import jnp


@register_agent
class PPOGru(OnPolicyAgent):
    """Samples its actions, in evaluation too."""

    name, config_type = "ppo_gru", PPOConfig
    diagnostics = ("entropy", "kl", "clip_fraction", "grad_norm", "value_loss")
    training_only = ("critic",)
    box_actions = True

    @property
    def distribution(self):
        return distribution(self.env.actions)

    def init(self, seed, extra):
        sizes = network.input_sizes(self.env, extra)
        return network.init(seed, sizes, self.config.hidden_size, self.distribution)

    def init_hidden_state(self, envs):
        return jnp.zeros((envs, self.config.hidden_size))

    def policy(self, params, progress=None):
        return network.cast(params, self.config.precision)

    def act(self, policy, hidden_state, is_first, observation, features, keys):
        outputs, value, hidden_state = network.step(
            policy, self.env, hidden_state, is_first, observation, features, self.config.precision
        )
        action, stored = self.distribution.sample(keys, outputs, policy.log_std)
        return PolicyOutput(action, hidden_state, value, stored)

    def loss(self, params, hidden_state, batch: Batch, targets: Targets, blank=()):
        """Clipped surrogate + vf_coef · clipped squared error - ent_coef · entropy."""
        config, log_std = self.config, params.log_std
        outputs, value = network.sequence(
            params, self.env, hidden_state, batch.is_first, batch.observation, batch.features, config.precision, blank
        )
        sample, log_prob = self.distribution.before(batch.action, batch.stored)
        log_ratio = self.distribution.log_prob(outputs, log_std, sample) - log_prob
        ratio = jnp.exp(log_ratio)
        advantage = (targets.advantage - targets.advantage.mean()) / (targets.advantage.std() + 1e-8)
        clipped = jnp.clip(ratio, 1.0 - config.clip_eps, 1.0 + config.clip_eps)
        policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        near = batch.value + jnp.clip(value - batch.value, -config.clip_eps, config.clip_eps)
        value_loss = 0.5 * jnp.maximum((value - targets.value) ** 2, (near - targets.value) ** 2).mean()
        entropy = self.distribution.entropy(outputs, log_std).mean()
        total = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
        return total, {
            "loss": total,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": (ratio - 1.0 - log_ratio).mean(),
            "clip_fraction": (jnp.abs(ratio - 1.0) > config.clip_eps).mean(),
        }
