"""sb3-contrib's RecurrentPPO with a per-episode budget, on the miniature."""

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from sb3_contrib import RecurrentPPO

from perepisode.interop import sb3
from perepisode.interop.gymnasium import VectorEnv
from perepisode.wrappers import VectorEpisodeBudget

STEPS = 480_000


def train(budget: float, seed: int, steps: int = STEPS):
    torch.set_num_threads(1)
    envs = VectorEnv("temptation", 64, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = sb3.VecEnv(VectorEpisodeBudget(envs, budget=budget))
    settings = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}
    policy = {"lstm_hidden_size": 16, "enable_critic_lstm": False, "shared_lstm": True}
    agent = RecurrentPPO("MlpLstmPolicy", envs, seed=seed, device="cpu", policy_kwargs=policy, **settings)
    agent.learn(steps)
    memory = None

    def act(observation: np.ndarray, starts: np.ndarray) -> np.ndarray:
        nonlocal memory
        actions, memory = agent.predict(observation, state=memory, episode_start=starts)
        return actions

    return act
