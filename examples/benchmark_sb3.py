"""Stable-Baselines3's PPO on the benchmark: trained with a penalty on temptation, recorded under temptation-v1.

    python benchmark_sb3.py     # in this folder, with perepisode[sb3]; some minutes on two cores
    perepisode benchmark temptation out/benchmark/*.parquet --out results

Every seed of the agent becomes one table, and every table one result.
"""

from pathlib import Path

import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from perepisode import benchmark
from perepisode.interop import sb3

PRICE = 3.26  # per violation
SEEDS, STEPS = (1, 2, 3, 4, 5), 480_000
OUT = Path("out/benchmark")


def train(seed: int) -> PPO:
    envs = VecMonitor(sb3.make("temptation", 64, reward="penalised", price=PRICE))
    settings = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}
    agent = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    return agent.learn(STEPS)


def play(agent: PPO, seed: int) -> None:
    protocol = benchmark.find("temptation-v1")
    envs = benchmark.record(
        protocol.id,
        OUT / f"sb3-{seed}.parquet",
        method="SB3's PPO",
        arm=f"price={PRICE:g}",
        seed=seed,
        gamma=agent.gamma,
        total_timesteps=agent.num_timesteps,
        trained_on=protocol.id,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    vec_env = sb3.VecEnv(envs)
    vec_env.seed(protocol.seed)  # of the environments; an agent may choose only its actions
    observation = vec_env.reset()
    while not envs.complete:
        actions, _ = agent.predict(observation)
        observation, *_ = vec_env.step(actions)
    envs.close()


if __name__ == "__main__":
    torch.set_num_threads(1)  # a network this small is slower on two threads
    for seed in SEEDS:
        play(train(seed), seed)
        print(f"seed {seed} recorded")
