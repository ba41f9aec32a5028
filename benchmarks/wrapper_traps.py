"""What goes wrong around the wrapper, measured: Stable-Baselines3's PPO on `temptation`, k = 1.

    python benchmarks/wrapper_traps.py            # all cases, or some by name; writes results/wrappers/traps.csv

Each case changes one thing of examples/budget/sb3_ppo.py.  Agents are evaluated as in wrapper_optima.py, which has the
exact optimum; `many*` play a miniature with an offer in every second step, where an untrained agent
breaks the budget in nearly every episode.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import gymnasium
import numpy as np
import pandas as pd
import torch
import wrapper_optima as optima
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from perepisode.environments.temptation import Temptation, exact
from perepisode.interop import sb3
from perepisode.interop.gymnasium import Env, VectorEnv
from perepisode.wrappers import EpisodeBudget, VectorEpisodeBudget
from perepisode.wrappers import gymnasium as budget_wrappers

TABLE = optima.ROOT / "results" / "wrappers" / "traps.csv"
KEY = ["case", "seed"]
STEPS = 480_000
SETTINGS = {"n_steps": 160, "batch_size": 2560, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.1}


class Rewards(gymnasium.vector.VectorWrapper):
    """Changes rewards, and hides that it does."""

    def __init__(self, envs, change):
        super().__init__(envs)
        self.change = change

    def step(self, actions):
        observation, reward, *ends, info = self.env.step(actions)
        return observation, self.change(reward), *ends, silent(info)


def silent(info: dict) -> dict:
    stated = {name: value for name, value in info.items() if name.lstrip("_") != "task_reward"}
    return {name: silent(value) if isinstance(value, dict) else value for name, value in stated.items()}


class Blind(gymnasium.vector.VectorWrapper):
    """What has accrued is not observed."""

    def reset(self, **given):
        observation, info = self.env.reset(**given)
        return hidden(observation), info

    def step(self, actions):
        observation, *rest = self.env.step(actions)
        return hidden(observation), *rest


def hidden(observation):
    return np.concatenate([observation[:, :-3], np.zeros_like(observation[:, -3:])], axis=1)


def clip(reward):
    return np.clip(reward, -1, 1)


class Running:
    """Divides rewards by their running standard deviation, as Gymnasium's NormalizeReward does, without discounting."""

    def __init__(self):
        self.count, self.square = 1e-4, 1e-4

    def __call__(self, reward):
        self.count, self.square = self.count + len(reward), self.square + (reward**2).sum()
        return reward / np.sqrt(self.square / self.count)


class WarmUp(gymnasium.vector.VectorWrapper):
    """The task's reward at first; by and by the wrapper's."""

    def __init__(self, envs, begin: int, end: int):
        super().__init__(envs)
        self.begin, self.end, self.steps = begin, end, 0

    def step(self, actions):
        observation, reward, *ends, info = self.env.step(actions)
        self.steps += self.num_envs
        share = np.clip((self.steps - self.begin) / (self.end - self.begin), 0.0, 1.0)
        return observation, share * reward + (1.0 - share) * info["task_reward"], *ends, info


@dataclass(frozen=True)
class Case:
    note: str
    inside: Callable = lambda envs: envs  # of the wrapper
    outside: Callable = lambda envs: envs
    around: Callable = lambda envs: envs  # Stable-Baselines3's vector
    wrapper: dict | None = None
    env: dict | None = None
    leak: bool = False
    blind: bool = False


MANY = {"offer_prob": 0.5}
CASES = {
    "plain": Case("as documented"),
    "bootstrapped": Case("`time_limit_ends=False`", wrapper={"time_limit_ends": False}),
    "not_observed": Case("the three inputs are always 0", outside=Blind, blind=True),
    "leak": Case("nothing is reset between episodes", leak=True),
    "normalised_inside": Case("rewards normalised inside", inside=lambda envs: Rewards(envs, Running())),
    "clipped_inside": Case("rewards clipped to ±1 inside", inside=partial(Rewards, change=clip)),
    "normalised_outside": Case("`VecNormalize(norm_reward=True)`", around=partial(VecNormalize, norm_obs=False)),
    "clipped_outside": Case("rewards clipped to ±1 outside", outside=partial(Rewards, change=clip)),
    "observations_normalised": Case("`VecNormalize(norm_obs=True)`", around=partial(VecNormalize, norm_reward=False)),
    "rho_u_1": Case("`rho_u=1`", wrapper={"rho_u": 1.0}),
    "rho_u_4": Case("`rho_u=4`", wrapper={"rho_u": 4.0}),
    "many": Case("an offer in every second step", env=MANY),
    "many_warmup_long": Case("the same, warm-up from 20 to 40 % of training", env=MANY,
                             outside=lambda envs: WarmUp(envs, int(0.2 * STEPS), int(0.4 * STEPS))),
    "many_warmup_short": Case("the same, warm-up over the first 20 %", env=MANY,
                              outside=lambda envs: WarmUp(envs, 0, int(0.2 * STEPS))),
}  # fmt: skip


def train(case: Case, seed: int):
    torch.set_num_threads(1)
    envs = VectorEnv("temptation", 64, autoreset_mode=AutoresetMode.SAME_STEP, **(case.env or {}))
    envs = VectorEpisodeBudget(case.inside(envs), budget=1, **(case.wrapper or {}))
    envs = case.around(sb3.VecEnv(case.outside(envs)))
    agent = PPO("MlpPolicy", envs, seed=seed, device="cpu", **SETTINGS)
    agent.learn(STEPS)
    see = hidden if case.blind else envs.normalize_obs if isinstance(envs, VecNormalize) else lambda x: x
    return lambda observation, starts: agent.predict(see(observation))[0]


def measure(name: str, seed: int) -> dict:
    case, begin = CASES[name], perf_counter()
    first = budget_wrappers._Episodes.begin
    if case.leak:
        budget_wrappers._Episodes.begin = lambda self, where: None if hasattr(self, "accrued") else first(self, where)
    try:
        act = train(case, seed)
    finally:
        budget_wrappers._Episodes.begin = first
    rho_u = (case.wrapper or {}).get("rho_u", 0.1)
    found = optima.evaluate(act, 1, seed, env=case.env, rho_u=rho_u)
    best = exact.esr_optimum(replace(Temptation(), **(case.env or {})), optima.utility_of(1, rho_u=rho_u))
    about = {"case": name, "note": case.note, "seed": seed}
    return {**about, **found, "exact_utility": best.utility, "exact_return": best.mean_return,
            "exact_violations": best.mean_count, "seconds": round(perf_counter() - begin)}  # fmt: skip


class Repeat(gymnasium.Wrapper):
    """Four frames per step, as MaxAndSkip plays them: rewards are summed, `info` is that of the last frame."""

    def step(self, action):
        total = 0.0
        for _ in range(4):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total, self.cost = total + reward, self.cost + info["cost"]
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, silent(info)


def frames(episodes: int = 200) -> tuple[float, float]:
    """Violations per episode of a random agent, and those that a wrapper around repeated actions sees."""
    repeat = Repeat(Env("temptation", **MANY))
    env, generator, seen, repeat.cost = EpisodeBudget(repeat), np.random.default_rng(0), 0.0, 0.0
    for seed in range(episodes):
        env.reset(seed=seed)
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(int(generator.integers(2)))
            over, seen = terminated or truncated, seen + info["cost"]
    return repeat.cost / episodes, seen / episodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--frames", action="store_true", help="only count what repeated actions hide")
    given = parser.parse_args()
    if given.frames:
        print("violations per episode: {:.1f}, seen: {:.1f}".format(*frames()))
        return
    for name in given.cases:
        for seed in given.seeds:
            row = measure(name, seed)
            rows = pd.concat([pd.read_csv(TABLE), pd.DataFrame([row])]) if TABLE.exists() else pd.DataFrame([row])
            order = rows["case"].map({case: number for number, case in enumerate(CASES)})
            rows = rows.assign(order=order).drop_duplicates(KEY, keep="last").sort_values(["order", "seed"])
            Path(TABLE.parent).mkdir(exist_ok=True)
            rows.drop(columns="order").to_csv(TABLE, index=False, float_format="%.6g")
            print(
                {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True
            )


if __name__ == "__main__":
    sys.exit(main())
