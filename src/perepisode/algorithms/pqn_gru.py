"""PQN-GRU: a parallelised Q-network [Gallici et al., 2024] with a gated recurrent unit (GRU).

Q-learning on the latest rollout alone, without replay buffer and target network: layer normalisation stabilises it.
Targets are λ-returns, G_t = r_t + γ ((1 - λ) max_a Q(s_{t+1}, a) + λ G_{t+1}), which stop at an episode's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perepisode import settings
from perepisode.algorithms.base import Batch, PolicyOutput, network, register_agent
from perepisode.algorithms.on_policy import OnPolicyAgent, Targets
from perepisode.config import check_minibatches
from perepisode.environments import action_space
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree
from perepisode.settings import setting


@dataclass(frozen=True)
class PQNConfig:
    """Hyperparameters of PQN; the defaults are those of its authors on Craftax, with the rollouts of PPO."""

    section: ClassVar[str] = "pqn"

    num_envs: int = setting(1024, "number of parallel environments", low=1, high=2**20)
    num_steps: int = setting(64, "number of steps per environment in each rollout", low=1, high=2**20)
    update_epochs: int = setting(4, "number of epochs per policy update", low=1, high=10_000)
    num_minibatches: int = setting(8, "number of minibatches per epoch, split by environment", low=1)
    learning_rate: float = setting(3e-4, "initial learning rate of the Adam optimizer", above=0)
    anneal_lr: bool = setting(True, "anneal the learning rate linearly to zero")
    q_lambda: float = setting(0.5, "λ of the λ-returns that Q-values learn", low=0, high=1)
    start_e: float = setting(1.0, "ε of the ε-greedy exploration at the start of training", low=0, high=1)
    end_e: float = setting(0.005, "ε after --exploration-fraction of training; evaluation is greedy", low=0, high=1)
    exploration_fraction: float = setting(0.1, "share of training in which ε falls", above=0, high=1)
    max_grad_norm: float = setting(0.5, "maximum norm for gradient clipping", above=0)
    hidden_size: int = setting(512, "width of the embedding, the GRU and the heads", low=1, high=2**16)
    bootstrap_on_truncation: bool = setting(False, "bootstrap the value where a timeout truncates an episode")
    precision: str = setting("bf16", "precision of matrix products; all else is fp32", choices=("bf16", "fp32"))

    def __post_init__(self):
        settings.check(PQNConfig, vars(self), "PQN")
        check_minibatches(self)

    @property
    def steps_per_update(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def gae_lambda(self) -> float:
        """Advantages of the values max_a Q(s, a) plus these values are the λ-returns."""
        return self.q_lambda


@pytree
class QParams:
    """All weights, float32; each `norm` has the scale and the bias of a layer normalisation."""

    embedding: tuple[network.Weights, ...]
    embedding_bias: network.Weights
    embedding_norm: network.Dense
    gru_input: network.Dense
    gru_hidden: network.Dense
    hidden_norm: network.Dense
    head: network.Dense
    head_norm: network.Dense
    output: network.Dense


@register_agent
class PQNGru(OnPolicyAgent):
    """Explores ε-greedily in training and acts greedily in evaluation."""

    name, config_type = "pqn_gru", PQNConfig
    diagnostics = ("value_loss", "q_value", "grad_norm")

    def init(self, seed, extra):
        random, width = np.random.default_rng(seed), self.config.hidden_size
        actions = action_space.outputs(self.env.actions)
        norms = {f"{name}_norm": (np.ones(width), np.zeros(width)) for name in ("embedding", "hidden", "head")}
        params = QParams(
            embedding=network.init_embedding(random, network.input_sizes(self.env, extra), width),
            embedding_bias=np.zeros(width),
            **network.init_gru(random, width),
            **norms,
            head=(network.orthogonal(random, (width, width), 2.0**0.5), np.zeros(width)),
            output=(network.orthogonal(random, (width, actions), 0.01), np.zeros(actions)),
        )
        return jax.tree.map(lambda x: np.asarray(x, np.float32), params)

    def init_hidden_state(self, envs):
        return jnp.zeros((envs, self.config.hidden_size))

    def policy(self, params, progress=None):
        """The weights, and ε."""
        falling = 0.0 if progress is None else 1.0 - jnp.minimum(progress / self.config.exploration_fraction, 1.0)
        end = 0.0 if progress is None else self.config.end_e
        epsilon = jnp.float32(end + (self.config.start_e - end) * falling)
        return network.cast(params, self.config.precision), epsilon

    def act(self, policy, hidden_state, is_first, observation, features, keys):
        params, epsilon = policy
        x = self._embedded(params, observation, features)
        hidden_state = network.recur_once(params, x, hidden_state, is_first, self.config.precision)
        q = self._q(params, hidden_state)
        action = jax.vmap(explore, in_axes=(0, 0, None))(keys, q, epsilon)
        return PolicyOutput(action, hidden_state, q.max(-1))

    def loss(self, params, hidden_state, batch: Batch, targets: Targets, blank=()):
        """½ (G - Q(s, a))², averaged."""
        x = self._embedded(params, batch.observation, batch.features, blank, apart=True)
        q = self._q(params, network.recur(params, x, hidden_state, batch.is_first, self.config.precision))
        chosen = jnp.take_along_axis(q, batch.action[..., None].astype(jnp.int32), axis=-1)[..., 0]
        total = 0.5 * ((chosen - targets.value) ** 2).mean()
        return total, {"loss": total, "value_loss": total, "q_value": chosen.mean()}

    def _embedded(self, params, observation, features, *blank, **how):
        x = network.embed(params, self.env, observation, features, self.config.precision, *blank, **how)
        return jax.nn.relu(layer_norm(x, params.embedding_norm))

    def _q(self, params, hidden):
        """Q-values [..., action] from the GRU's output."""
        x = layer_norm(hidden, params.hidden_norm)
        x = jax.nn.relu(layer_norm(self._dense(x, params.head), params.head_norm))
        return self._dense(x, params.output)

    def _dense(self, x, layer):
        kernel, bias = layer
        return network.dot(x, kernel, self.config.precision).astype(jnp.float32) + bias


def explore(key: jax.Array, q: jax.Array, epsilon: jax.Array) -> jax.Array:
    """The best action, or with probability ε a uniform one."""
    key_whether, key_which = jax.random.split(key)
    uniform = jax.random.randint(key_which, (), 0, q.shape[-1], jnp.int32)
    return jnp.where(jax.random.uniform(key_whether) < epsilon, uniform, jnp.argmax(q, axis=-1).astype(jnp.int32))


def layer_norm(x: jax.Array, norm: network.Dense) -> jax.Array:
    """(x - mean) / std · scale + bias over the last axis, in float32."""
    scale, bias = norm
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + bias
