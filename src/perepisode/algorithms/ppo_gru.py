"""PPO-GRU, the paper's agent: recurrent proximal policy optimisation (PPO) with a gated recurrent unit (GRU)."""

from __future__ import annotations

from perepisode.algorithms.base import Batch, PolicyOutput, network, register_agent
from perepisode.algorithms.on_policy import OnPolicyAgent, Targets
from perepisode.config import PPOConfig
from perepisode.lazy import jax, jnp


@register_agent
class PPOGru(OnPolicyAgent):
    """Samples its actions, in evaluation too."""

    name, config_type = "ppo_gru", PPOConfig
    diagnostics = ("entropy", "kl", "clip_fraction", "grad_norm", "value_loss")
    training_only = ("critic",)

    def init(self, seed, extra):
        return network.init(seed, network.input_sizes(self.env, extra), self.config.hidden_size, self.env.actions)

    def init_hidden_state(self, envs):
        return jnp.zeros((envs, self.config.hidden_size))

    def policy(self, params, progress=None):
        return network.cast(params, self.config.precision)

    def act(self, policy, hidden_state, is_first, observation, features, keys):
        logits, value, hidden_state = network.step(
            policy, self.env, hidden_state, is_first, observation, features, self.config.precision
        )
        action = jax.vmap(sample)(keys, logits)
        return PolicyOutput(action, hidden_state, value, stored=log_prob(logits, action))

    def loss(self, params, hidden_state, batch: Batch, targets: Targets, blank=()):
        """Clipped surrogate + vf_coef · clipped squared error - ent_coef · entropy; `batch.stored` is log π(a|s)."""
        config = self.config
        logits, value = network.sequence(
            params, self.env, hidden_state, batch.is_first, batch.observation, batch.features, config.precision, blank
        )
        log_ratio = log_prob(logits, batch.action) - batch.stored
        ratio = jnp.exp(log_ratio)
        advantage = (targets.advantage - targets.advantage.mean()) / (targets.advantage.std() + 1e-8)
        clipped = jnp.clip(ratio, 1.0 - config.clip_eps, 1.0 + config.clip_eps)
        policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        near = batch.value + jnp.clip(value - batch.value, -config.clip_eps, config.clip_eps)
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


def sample(key: jax.Array, logits: jax.Array) -> jax.Array:
    """A sample from the categorical distribution: the argmax of logits plus Gumbel noise."""
    return jnp.argmax(logits + jax.random.gumbel(key, logits.shape), axis=-1).astype(jnp.int32)


def log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None].astype(jnp.int32), axis=-1)[..., 0]
