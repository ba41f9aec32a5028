"""An agent of another library beside ours: Stable-Baselines3's PPO at a price, SER at the same price, and ESR.

    python sb3_beside_ours.py     # in this folder, with perepisode[sb3]; some minutes on two cores

Both libraries train on `temptation`, each in its own way, for as many steps.  Their agents are judged on the first
twelve episodes of 64 places, ours by `evaluate` and theirs by a recorder, and reported on one page.
"""

from pathlib import Path
from time import perf_counter

import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import perepisode
from perepisode.environments.temptation import Temptation, exact
from perepisode.interop import sb3
from perepisode.interop.gymnasium import VectorEnv
from perepisode.interop.recorder import record

WEIGHTS, BUDGETS = (0.196, 0.326), (4, 2)  # at the price 10 w a linear agent earns what the best ESR agent earns
SEEDS, STEPS, PLACES, FIRST = (1, 2, 3), 480_000, 64, 12
OUT = Path("out/sb3")


def ours() -> Path:
    methods = ["ser:weight=" + ",".join(map(str, WEIGHTS)), "esr:budget=" + ",".join(map(str, BUDGETS))]
    runs = perepisode.train("temptation", methods, seeds=SEEDS, total_timesteps=STEPS, out=OUT / "runs", quiet=True)
    return perepisode.evaluate(
        runs, OUT / "ours.parquet", num_envs=PLACES, num_steps=480, episodes_per_env=FIRST, quiet=True
    )


def theirs(price: float, seed: int) -> Path:
    """Their PPO, trained on the task's reward less the price; entropy, γ and λ are those of our agents."""
    envs = VecMonitor(sb3.make("temptation", 64, reward="penalised", price=price))
    how = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}
    agent = PPO("MlpPolicy", envs, seed=seed, device="cpu", **how)
    agent.learn(STEPS)
    path = OUT / f"sb3-{price:g}-{seed}.parquet"
    judged = VectorEnv("temptation", PLACES, autoreset_mode=AutoresetMode.SAME_STEP)
    about = {"arm": f"price={price:g}", "gamma": agent.gamma, "steps": STEPS}
    judged = record(judged, path, method="SB3's PPO", seed=seed, first=FIRST, **about)
    played = sb3.VecEnv(judged)
    played.seed(1000 * seed)
    observation = played.reset()
    while not judged.complete:
        actions, _ = agent.predict(observation)
        observation, *_ = played.step(actions)
    judged.close()
    return path


def main() -> None:
    torch.set_num_threads(1)  # so small a network is slower on two
    begin = perf_counter()
    tables = [ours()]
    print(f"ours trained and judged after {perf_counter() - begin:.0f} s")
    tables += [theirs(10 * weight, seed) for weight in WEIGHTS for seed in SEEDS]
    print(f"theirs trained and judged after {perf_counter() - begin:.0f} s")
    for weight in WEIGHTS:
        best = exact.linear_price(Temptation(), 10 * weight)
        told = f"return {best.mean_return:.2f}, violations {best.mean_count:.2f}, P(>1) {best.p_over(1):.1%}"
        print(f"exact optimum at the price {10 * weight:g}: {told}, CVaR 10 % {best.cvar():.2f}")
    print(perepisode.report(tables, out=OUT / "report"))


if __name__ == "__main__":
    main()
