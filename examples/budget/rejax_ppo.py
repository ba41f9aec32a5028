"""rejax's PPO with a per-episode budget, on the miniature."""

import jax
import numpy as np
from rejax import PPO

from perepisode.interop import gymnax
from perepisode.wrappers.gymnax import EpisodeBudget

STEPS = 480_000


def train(budget: float, seed: int, steps: int = STEPS):
    env, params = gymnax.make("temptation", step_api="5-tuple")
    settings = {"num_envs": 64, "num_steps": 160, "num_minibatches": 4, "num_epochs": 4, "learning_rate": 3e-3,
                "ent_coef": 0.1, "max_grad_norm": 0.5, "eval_freq": steps, "skip_initial_evaluation": True,
                "agent_kwargs": {"hidden_layer_sizes": (64, 64), "activation": "tanh"}}  # fmt: skip
    agent = PPO.create(env=EpisodeBudget(env, budget=budget), env_params=params, total_timesteps=steps, **settings)
    state, _ = jax.jit(agent.train)(jax.random.key(seed))
    policy = jax.jit(jax.vmap(agent.make_act(state)))
    keys = iter(jax.random.split(jax.random.key(seed + 1000), 10_000))

    def act(observation: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return np.asarray(policy(observation, jax.random.split(next(keys), len(observation))))

    return act
