"""Agents of another library next to ours: Stable-Baselines3's PPO with a penalty, SER with the same penalty, and ESR.

    python sb3_beside_ours.py     # in this folder, with perepisode[sb3]; some minutes on two cores

Both libraries train on `temptation` for the same number of steps.  All agents are evaluated on the first twelve
episodes of 64 environments, ours by `evaluate` and theirs by the recorder, and appear in one report.
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

WEIGHTS, BUDGETS = (0.196, 0.326), (4, 2)  # a linear agent with the penalty 10 w has the return of the best ESR agent
SEEDS, STEPS, NUM_ENVS, EPISODES_PER_ENV = (1, 2, 3), 480_000, 64, 12
OUT = Path("out/sb3")


def ours() -> Path:
    methods = ["ser:weight=" + ",".join(map(str, WEIGHTS)), "esr:budget=" + ",".join(map(str, BUDGETS))]
    runs = perepisode.train("temptation", methods, seeds=SEEDS, total_timesteps=STEPS, out=OUT / "runs", quiet=True)
    return perepisode.evaluate(
        runs, OUT / "ours.parquet", num_envs=NUM_ENVS, num_steps=480, episodes_per_env=EPISODES_PER_ENV, quiet=True
    )


def theirs(price: float, seed: int) -> Path:
    """Their PPO, trained on the task reward minus the penalty; entropy bonus, γ and λ are those of our agents."""
    envs = VecMonitor(sb3.make("temptation", 64, reward="penalised", price=price))
    settings = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}
    agent = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    agent.learn(STEPS)
    path = OUT / f"sb3-{price:g}-{seed}.parquet"
    envs = VectorEnv("temptation", NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    columns = {"arm": f"price={price:g}", "gamma": agent.gamma, "total_timesteps": STEPS}
    envs = record(envs, path, method="SB3's PPO", seed=seed, episodes_per_env=EPISODES_PER_ENV, **columns)
    vec_env = sb3.VecEnv(envs)
    vec_env.seed(1000 * seed)
    observation = vec_env.reset()
    while not envs.complete:
        actions, _ = agent.predict(observation)
        observation, *_ = vec_env.step(actions)
    envs.close()
    return path


def main() -> None:
    torch.set_num_threads(1)  # a network this small is slower on two threads
    begin = perf_counter()
    tables = [ours()]
    print(f"ours trained and evaluated after {perf_counter() - begin:.0f} s")
    tables += [theirs(10 * weight, seed) for weight in WEIGHTS for seed in SEEDS]
    print(f"theirs trained and evaluated after {perf_counter() - begin:.0f} s")
    for weight in WEIGHTS:
        best = exact.linear_price(Temptation(), 10 * weight)
        optimum = f"return {best.mean_return:.2f}, violations {best.mean_count:.2f}, P(>1) {best.p_over(1):.1%}"
        print(f"exact optimum with the penalty {10 * weight:g}: {optimum}, CVaR 10 % {best.cvar():.2f}")
    print(perepisode.report(tables, out=OUT / "report", quiet=True).path)


if __name__ == "__main__":
    main()
