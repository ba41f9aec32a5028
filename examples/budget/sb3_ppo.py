"""Stable-Baselines3's PPO with a per-episode budget, on the miniature."""

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO

from perepisode.interop import sb3
from perepisode.interop.gymnasium import VectorEnv
from perepisode.wrappers import VectorEpisodeBudget

STEPS = 480_000


def train(budget: float, seed: int, steps: int = STEPS):
    torch.set_num_threads(1)
    envs = VectorEnv("temptation", 64, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = sb3.VecEnv(VectorEpisodeBudget(envs, budget=budget))
    settings = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}
    agent = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    agent.learn(steps)

    def act(observation: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return agent.predict(observation)[0]

    return act
