"""EUPG (expected utility policy gradient) of morl-baselines, against the exact optimum and our ESR.

    python eupg.py     # in this folder, with perepisode[morl]; a quarter of an hour on two cores

EUPG trains on `temptation` with a vector reward: the task reward, and minus the violations.  Its utility is that of
ESR (k = 1), whose exact optimum is computed by dynamic programming.
"""

from pathlib import Path
from time import perf_counter

import gymnasium
import numpy as np
import pandas as pd
import torch
from gymnasium.vector import AutoresetMode
from morl_baselines.common.accrued_reward_buffer import AccruedRewardReplayBuffer
from morl_baselines.single_policy.esr.eupg import EUPG
from scipy.special import expit

import perepisode
from perepisode.environments.temptation import Temptation, exact
from perepisode.interop.gymnasium import VectorEnv
from perepisode.interop.recorder import record
from perepisode.methods.esr import Esr

ESR_K1 = Esr(budget=1)
SEEDS, STEPS, NUM_ENVS, EPISODES_PER_ENV = (1, 2, 3), 120_000, 64, 12
OUT = Path("out/eupg")


class WholeEpisode(EUPG):
    """Weights every step by the utility of its whole episode, as in Roijers et al. (2018), here for γ = 1.

    morl-baselines 1.3.0 uses the utility of the future rewards only and omits what has been accrued.
    """

    def _forward_cumulative_rewards(self, rewards: torch.Tensor) -> torch.Tensor:
        return rewards.sum(dim=0).expand_as(rewards)


METHODS = {"EUPG as in morl-baselines": EUPG, "EUPG with whole episodes": WholeEpisode}


def utility(task, violations):
    """Eq. 5, as in `methods/esr.py`."""
    return expit(ESR_K1.sharpness * (ESR_K1.budget + 0.5 - violations)) * task - ESR_K1.rho_u * violations


def scalarization(total, weights=None) -> torch.Tensor:
    """The same utility of EUPG's reward vectors."""
    task, ethical = np.moveaxis(np.asarray(total), -1, 0)
    return torch.as_tensor(utility(task, -ethical))


def train(cls: type[EUPG], seed: int) -> EUPG:
    env = gymnasium.make("perepisode/Temptation-v0", reward="vector", disable_env_checker=True)
    env.reset(seed=seed)
    torch.manual_seed(seed)
    agent = cls(env, scalarization, gamma=1.0, log=False, seed=seed, device="cpu")
    # the agent's own buffer would truncate observations to integers
    dtypes = {"obs_dtype": np.float32, "action_dtype": np.int32}
    agent.buffer = AccruedRewardReplayBuffer(agent.observation_shape, agent.action_shape, agent.reward_dim, **dtypes)
    agent.train(STEPS)
    return agent


def evaluate_agents(agent: EUPG, method: str, seed: int) -> Path:
    path = OUT / f"{method.replace(' ', '-')}-{seed}.parquet"
    envs = VectorEnv("temptation", NUM_ENVS, reward="vector", autoreset_mode=AutoresetMode.SAME_STEP)
    envs = record(envs, path, method=method, seed=seed, episodes_per_env=EPISODES_PER_ENV, total_timesteps=STEPS)
    observation, _ = envs.reset(seed=1000 * seed)
    accrued = np.zeros((NUM_ENVS, 2), np.float32)
    while not envs.complete:
        with torch.no_grad():
            policy = agent.net.distribution(torch.as_tensor(observation), torch.as_tensor(accrued))
        observation, reward, terminated, truncated, _ = envs.step(policy.sample().numpy())
        accrued = (accrued + reward) * ~(terminated | truncated)[:, None]
    envs.close()
    return path


def ours(steps: int) -> Path:
    runs = perepisode.train(
        "temptation", "esr", budget=1, seeds=SEEDS, total_timesteps=steps, out=OUT / "runs", quiet=True
    )
    return perepisode.evaluate(
        runs,
        OUT / f"ours-{steps}.parquet",
        num_envs=NUM_ENVS,
        num_steps=480,
        episodes_per_env=EPISODES_PER_ENV,
        quiet=True,
    )


def row(name: str, tables: list[Path], seconds: float) -> str:
    table = pd.concat([pd.read_parquet(path) for path in tables])
    table = table.assign(utility=utility(table["return"], table["violations"]), many=table["violations"] > 1)
    utilities = ", ".join(f"{mean:.2f}" for mean in table.groupby("seed")["utility"].mean())
    means = f"{table['return'].mean():.2f} | {table['violations'].mean():.2f} | {table['many'].mean():.1%}"
    return f"| {name} | {utilities} | {means} | {seconds:.0f} |"


def main() -> None:
    torch.set_num_threads(1)
    best = exact.esr_optimum(Temptation(), utility)
    means = f"{best.mean_return:.2f} | {best.mean_count:.2f} | {best.p_over(1):.1%}"
    print("| agent | utility, by seed | return | violations | P(>1) | seconds |\n|---|---|---:|---:|---:|---:|")
    print(f"| exact optimum | {best.utility:.2f} | {means} | |")
    for steps in (STEPS, 4 * STEPS):
        begin = perf_counter()
        tables = [ours(steps)]
        print(row(f"ESR (k=1), {steps:,} steps", tables, perf_counter() - begin), flush=True)
    for name, cls in METHODS.items():
        begin = perf_counter()
        tables = [evaluate_agents(train(cls, seed), name, seed) for seed in SEEDS]
        print(row(name, tables, perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main()
