"""Three ways to limit violations with Stable-Baselines3's PPO, on one page: a price, a Lagrangian and EpisodeBudget.

    python budget_beside_a_price.py     # in this folder, with perepisode[sb3]; some minutes on two cores

All train the same PPO on `temptation` for as many steps.  The price and the Lagrangian's limit are those at which the
exact optimum earns what EpisodeBudget's agents earn, so that the report compares tails at equal return.
"""

from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO

import perepisode
from perepisode.environments.temptation import Temptation, exact
from perepisode.interop import sb3
from perepisode.interop.gymnasium import VectorEnv
from perepisode.interop.recorder import record
from perepisode.wrappers import VectorEpisodeBudget

BUDGET, RETURN = 2, 35.2  # what its agents earn, from results/wrappers/optima.csv
PRICE = exact.price_for_mean_return(Temptation(), RETURN)
LIMIT = exact.linear_price(Temptation(), PRICE).mean_count
SEEDS, STEPS, ENVS, FIRST = (1, 2, 3), 480_000, 64, 12
OUT = Path("out/budget")


class Penalised(gymnasium.vector.VectorWrapper):
    """reward - λ cost; a Lagrangian moves λ after every rollout, until mean violations per episode meet the limit."""

    def __init__(self, envs, price: float, limit: float | None = None, rollout: int = 160):
        super().__init__(envs)
        self.price, self.limit, self.rollout = price, limit, rollout
        self.costs, self.episodes, self.steps = 0.0, 0, 0

    def step(self, actions):
        observation, reward, terminated, truncated, info = self.env.step(actions)
        reward = reward - self.price * info["cost"]
        self.costs, self.episodes = self.costs + info["cost"].sum(), self.episodes + (terminated | truncated).sum()
        self.steps += 1
        if self.limit is not None and self.steps % self.rollout == 0:
            self.price = max(0.0, self.price + 0.5 * (self.costs / self.episodes - self.limit))
            self.costs, self.episodes = 0.0, 0
        return observation, reward, terminated, truncated, info


WAYS = {  # around an environment while it trains, and around one that is evaluated
    f"price={PRICE:.2f}": (lambda envs: Penalised(envs, PRICE), lambda envs: envs),
    f"Lagrangian d={LIMIT:.2f}": (lambda envs: Penalised(envs, 0.0, LIMIT), lambda envs: envs),
    f"EpisodeBudget k={BUDGET}": (
        lambda envs: VectorEpisodeBudget(envs, budget=BUDGET),
        lambda envs: VectorEpisodeBudget(envs, budget=BUDGET, training=False),
    ),
}


def make(count: int) -> VectorEnv:
    return VectorEnv("temptation", count, autoreset_mode=AutoresetMode.SAME_STEP)


def table(way: str, seed: int) -> Path:
    """An agent trained in one way, and the first episodes that it plays."""
    training, evaluation = WAYS[way]
    settings = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}
    agent = PPO("MlpPolicy", sb3.VecEnv(training(make(64))), seed=seed, device="cpu", **settings)
    agent.learn(STEPS)
    path = OUT / f"{way.split()[0].split('=')[0].lower()}-{seed}.parquet"
    columns = {"method": f"PPO, {way}", "seed": seed, "total_timesteps": STEPS}
    recorded = record(evaluation(make(ENVS)), path, episodes_per_env=FIRST, **columns)
    played = sb3.VecEnv(recorded)
    played.seed(1000 * seed)
    observation = played.reset()
    while not recorded.complete:
        actions, _ = agent.predict(observation)
        observation, *_ = played.step(actions)
    recorded.close()
    return path


def main() -> None:
    torch.set_num_threads(1)
    np.random.seed(0)
    OUT.mkdir(parents=True, exist_ok=True)
    report = perepisode.report([table(way, seed) for way in WAYS for seed in SEEDS], out=OUT / "report", quiet=True)
    print(report.path)


if __name__ == "__main__":
    main()
