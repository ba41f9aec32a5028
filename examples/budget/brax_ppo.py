"""Brax's PPO with a per-episode budget, on the miniature behind Brax's interface: an action above 0 takes the offer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from brax.envs.base import Env, State
from brax.envs.wrappers import training
from brax.training.agents.ppo import networks
from brax.training.agents.ppo import train as ppo

from perepisode.environments.temptation import Temptation
from perepisode.wrappers.brax import wrap_env_fn

STEPS = 480_000


def replicated(tree, devices):
    """jax.device_put_replicated, which Brax 0.14.2 calls and JAX 0.10 no longer has."""
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * len(devices)), tree)


jax.device_put_replicated = replicated


class Miniature(Env):
    """The key is in `info`, which survives a reset: Brax's AutoResetWrapper begins every episode in the same state."""

    game = Temptation()
    observation_size, action_size, backend = 3, 1, "none"

    def reset(self, rng):
        key, begin = jax.random.split(rng)
        state, zero = self.game.reset(begin), jnp.zeros(())
        return State(state, self.game.observe(state), zero, zero, {}, {"key": key, "cost": zero})

    def step(self, state, action):
        key, now = jax.random.split(state.info["key"])
        after, outcome = self.game.step(now, state.pipeline_state, (action[0] > 0).astype(jnp.int32))
        info = {**state.info, "key": key, "cost": outcome.violations[0].astype(jnp.float32)}
        return state.replace(pipeline_state=after, obs=self.game.observe(after), reward=outcome.task_reward, info=info)


def train(budget: float, seed: int, steps: int = STEPS):
    sizes = {"policy_hidden_layer_sizes": (64, 64), "value_hidden_layer_sizes": (64, 64)}
    make_policy, params, _ = ppo.train(
        environment=Miniature(),
        wrap_env_fn=wrap_env_fn(training.wrap, budget=budget),
        network_factory=functools.partial(networks.make_ppo_networks, **sizes),
        num_timesteps=steps, episode_length=Temptation().horizon, num_envs=64, unroll_length=40, batch_size=16,
        num_minibatches=4, num_updates_per_batch=4, learning_rate=3e-3, entropy_cost=1e-3, discounting=0.99,
        gae_lambda=0.95, reward_scaling=0.1, normalize_observations=True, num_evals=0, run_evals=False, seed=seed,
    )  # fmt: skip
    policy = jax.jit(make_policy(params))
    keys = iter(jax.random.split(jax.random.PRNGKey(seed + 1000), 10_000))

    def act(observation: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return (np.asarray(policy(observation, next(keys))[0])[:, 0] > 0).astype(int)

    return act
