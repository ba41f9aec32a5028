"""Learning from the latest rollout alone: advantages, minibatches, optimizer.  All functions are of one run."""

from __future__ import annotations

from functools import partial
from typing import Any

from perepisode.algorithms.base import Batch, LearningAgent, network
from perepisode.lazy import jax, jnp, optax
from perepisode.methods import Mixture
from perepisode.pytree import pytree


@pytree
class Targets:
    advantage: jax.Array
    value: jax.Array


class OnPolicyAgent(LearningAgent):
    """An agent that learns from each rollout in epochs of minibatches; its config has the fields of `learn`."""

    def loss(
        self, params, hidden_state, batch: Batch, targets: Targets, blank=()
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of one minibatch [time, env] and its diagnostics; `blank` is from `network.scratch_buffers`.

        An agent for several streams has a further argument, `coefficients`, those of the streams' policy loss.
        """
        raise NotImplementedError

    def init_optimizer(self, params):
        return optimizer(self.config).init(params)

    def learn(
        self, params, opt_state, hidden_state, batch: Batch, last_value, gamma, key, progress, mixture: Any = None
    ):
        """All epochs of one run's update → parameters, optimizer state, diagnostics averaged over minibatches."""
        config, rate = self.config, learning_rate(self.config, progress)
        loss: Any = self.loss
        if mixture is None:
            advantage = gae(batch.reward, batch.value, batch.done, last_value, gamma, config.gae_lambda)
            targets = Targets(advantage, advantage + batch.value)
        else:
            targets = targets_of_streams(batch, last_value, mixture)
            loss = partial(loss, coefficients=mixture.coefficients)
        width = config.num_envs // config.num_minibatches
        blank = network.scratch_buffers(self.env, batch.observation, config.num_steps * width, config.precision)

        def minibatch(state, envs):
            params, opt_state, blank = state
            # the barrier gathers once: otherwise every element of the network's input would repeat the lookup
            part = jax.lax.optimization_barrier(jax.tree.map(lambda x: jnp.take(x, envs, axis=1), (batch, targets)))
            first = jax.tree.map(lambda x: x[envs], hidden_state)
            gradients = jax.grad(loss, argnums=(0, 4), has_aux=True)
            (gradient, blank), diagnostics = gradients(params, first, *part, blank)
            with jax.named_scope("optimizer"):
                step, opt_state = optimizer(config).update(gradient, opt_state)
                params = jax.tree.map(lambda p, s: p - rate * s, params, step)
                diagnostics["grad_norm"] = optax.tree.norm(gradient)
            return (params, opt_state, blank), diagnostics

        keys = jax.random.split(key, config.update_epochs)
        orders = jax.vmap(lambda k: jax.random.permutation(k, config.num_envs))(keys).reshape(-1, width)
        (params, opt_state, _), diagnostics = jax.lax.scan(minibatch, (params, opt_state, blank), orders)
        means = jax.tree.map(jnp.mean, diagnostics)
        finite = jnp.isfinite(means["loss"]) & jnp.isfinite(means["grad_norm"]) & jnp.isfinite(optax.tree.norm(params))
        return params, opt_state, {**means, "finite": finite}


def optimizer(config: Any) -> optax.GradientTransformation:
    """Global-norm clipping, then Adam without a learning rate, which `learn` applies."""
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=1e-5))


def learning_rate(config: Any, progress: jax.Array) -> jax.Array | float:
    """The learning rate after this share of training."""
    return config.learning_rate * (1.0 - progress) if config.anneal_lr else config.learning_rate


def gae(rewards, values, done, last_value, gamma, lam):
    """Generalised advantage estimation (GAE), all [time, env]: A_t = δ_t + γ λ (1 - done_t) A_{t+1}.

    δ_t = r_t + γ (1 - done_t) V_{t+1} - V_t.  `done` is True at every end of an episode: death, a won game, a
    timeout, or an end enforced by the objective.  The value after the end is zero in all cases, so a truncated episode
    is valued as if it had terminated, as in the paper's public code.  With `bootstrap_on_truncation`, r_t at a timeout
    already includes γ V(s_T), so that δ_t is as if the episode continued; `done` stays True, because the next row
    belongs to another episode.
    """
    following = jnp.concatenate([values[1:], last_value[None]])
    keep = 1.0 - done.astype(jnp.float32)
    errors = rewards + gamma * keep * following - values

    def body(advantage, inputs):
        error, keep = inputs
        advantage = error + gamma * lam * keep * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(body, jnp.zeros_like(last_value), (errors, keep), reverse=True)
    return advantages


def targets_of_streams(batch: Batch, last_value: jax.Array, mixture: Mixture) -> Targets:
    """Advantages and value targets [time, env, stream], each stream with its own γ and λ.

    Advantages are normalised here, over the whole rollout and before a method combines them: in
    (A_r - λ A_c) / (1 + λ), normalised afterwards, the divisor would cancel.  As in OmniSafe, the first stream is
    standardised and the others are centred, so that a rare cost keeps its scale.
    """
    advantage = jax.vmap(gae, in_axes=(-1, -1, None, -1, 0, 0), out_axes=-1)(
        batch.reward, batch.value, batch.done, last_value, mixture.gamma, mixture.gae_lambda
    )
    centred = advantage - advantage.mean((0, 1))
    scale = jnp.ones_like(mixture.gamma).at[0].set(advantage[..., 0].std() + 1e-8)
    return Targets(centred / scale, advantage + batch.value)
