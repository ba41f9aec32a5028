"""purejaxrl's ppo.py with a per-episode budget, on the miniature.

purejaxrl is not on PyPI.  This is the algorithm of its `purejaxrl/ppo.py` (luchris429/purejaxrl, commit 146b485), its
clipped value loss included, with LR 3e-3, ANNEAL_LR False, NUM_ENVS 64, NUM_STEPS 160 and ENT_COEF 0.1.  In your copy,
the only lines to change are those that make the environment.  Rewards are scaled outside the budget: the value may move
by 0.2 per update, and unscaled it is about 30.
"""

from functools import partial
from typing import NamedTuple

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.linen.initializers import orthogonal
from flax.training.train_state import TrainState

from perepisode.interop import gymnax
from perepisode.wrappers.gymnax import EpisodeBudget

STEPS = 480_000
NUM_ENVS, NUM_STEPS, NUM_MINIBATCHES, UPDATE_EPOCHS = 64, 160, 4, 4
LR, GAMMA, GAE_LAMBDA, CLIP_EPS, ENT_COEF, VF_COEF, MAX_GRAD_NORM = 3e-3, 0.99, 0.95, 0.2, 0.1, 0.5, 0.5


class ScaledReward:
    """Rewards times 0.1.  It goes outside EpisodeBudget, as purejaxrl's NormalizeVecReward does."""

    def __init__(self, env):
        self.reset, self._step = env.reset, env.step

    def step(self, key, state, action, params):
        obs, state, reward, done, info = self._step(key, state, action, params)
        return obs, state, 0.1 * reward, done, info


class ActorCritic(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, x):
        def mlp(outputs, scale):
            hidden = [nn.Dense(64, kernel_init=orthogonal(np.sqrt(2))) for _ in range(2)]
            return nn.Sequential(
                [hidden[0], nn.tanh, hidden[1], nn.tanh, nn.Dense(outputs, kernel_init=orthogonal(scale))]
            )

        return distrax.Categorical(logits=mlp(self.actions, 0.01)(x)), mlp(1, 1.0)(x)[..., 0]


class Transition(NamedTuple):
    done: jax.Array
    action: jax.Array
    value: jax.Array
    reward: jax.Array
    log_prob: jax.Array
    obs: jax.Array


class Runner(NamedTuple):
    train: TrainState
    env_state: object
    obs: jax.Array
    key: jax.Array


def env_step(env, params, runner: Runner, _) -> tuple[Runner, Transition]:
    key, key_action, key_step = jax.random.split(runner.key, 3)
    policy, value = runner.train.apply_fn(runner.train.params, runner.obs)
    action, log_prob = policy.sample_and_log_prob(seed=key_action)
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
    obs, env_state, reward, done, _ = step(jax.random.split(key_step, NUM_ENVS), runner.env_state, action, params)
    return Runner(runner.train, env_state, obs, key), Transition(done, action, value, reward, log_prob, runner.obs)


def gae(batch: Transition, last_value):
    def backwards(carry, step):
        advantage, next_value = carry
        delta = step.reward + GAMMA * next_value * (1 - step.done) - step.value
        advantage = delta + GAMMA * GAE_LAMBDA * (1 - step.done) * advantage
        return (advantage, step.value), advantage

    _, advantages = jax.lax.scan(backwards, (jnp.zeros_like(last_value), last_value), batch, reverse=True)
    return advantages, advantages + batch.value


def loss(params, apply, batch: Transition, advantages, targets):
    policy, value = apply(params, batch.obs)
    clipped = batch.value + jnp.clip(value - batch.value, -CLIP_EPS, CLIP_EPS)
    value_loss = 0.5 * jnp.maximum((value - targets) ** 2, (clipped - targets) ** 2).mean()
    ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    actor_loss = -jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - CLIP_EPS, 1 + CLIP_EPS) * advantages).mean()
    return actor_loss + VF_COEF * value_loss - ENT_COEF * policy.entropy().mean()


def update_minibatch(train: TrainState, minibatch):
    return train.apply_gradients(grads=jax.grad(loss)(train.params, train.apply_fn, *minibatch)), None


def update_epoch(batch, train: TrainState, key):
    order = jax.random.permutation(key, NUM_ENVS * NUM_STEPS)
    minibatches = jax.tree.map(lambda x: x[order].reshape(NUM_MINIBATCHES, -1, *x.shape[1:]), batch)
    return jax.lax.scan(update_minibatch, train, minibatches)


def update_step(env, params, runner: Runner, _):
    runner, rollout = jax.lax.scan(partial(env_step, env, params), runner, None, NUM_STEPS)
    _, last_value = runner.train.apply_fn(runner.train.params, runner.obs)
    batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (rollout, *gae(rollout, last_value)))
    key, *keys = jax.random.split(runner.key, 1 + UPDATE_EPOCHS)
    train, _ = jax.lax.scan(partial(update_epoch, batch), runner.train, jnp.stack(keys))
    return runner._replace(train=train, key=key), None


def train(budget: float, seed: int, steps: int = STEPS):
    env, params = gymnax.make("temptation", step_api="5-tuple")
    env = EpisodeBudget(env, budget=budget)
    updates = steps // (NUM_ENVS * NUM_STEPS)
    key_init, key_reset, key = jax.random.split(jax.random.key(seed), 3)
    network = ActorCritic(env.action_space(params).n)
    optimizer = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.adam(LR, eps=1e-5))
    weights = network.init(key_init, jnp.zeros(env.observation_space(params).shape))
    state = TrainState.create(apply_fn=network.apply, params=weights, tx=optimizer)
    obs, env_state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key_reset, NUM_ENVS), params)
    body = partial(update_step, ScaledReward(env), params)
    update = jax.jit(lambda runner: jax.lax.scan(body, runner, None, updates)[0])
    weights = update(Runner(state, env_state, obs, key)).train.params
    policy = jax.jit(lambda obs, key: network.apply(weights, obs)[0].sample(seed=key))
    keys = iter(jax.random.split(jax.random.key(seed + 1000), 10_000))

    def act(observation: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return np.asarray(policy(observation, next(keys)))

    return act
