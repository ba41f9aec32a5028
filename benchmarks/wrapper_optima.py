"""Do other libraries' trainers reach the exact optimum of ESR behind the wrapper?  Writes results/wrappers/optima.csv.

    python benchmarks/wrapper_optima.py sb3_ppo cleanrl_ppo --budgets 1 2 --seeds 1 2 3

Each recipe of examples/budget trains on `temptation`; its agent then plays 12 episodes in each of 256 environments, on
the task's own reward, sampling its actions.  Rows of the same recipe, budget and seed are replaced.
"""

import argparse
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from gymnasium.vector import AutoresetMode

from perepisode.environments.temptation import Temptation, exact
from perepisode.interop.gymnasium import VectorEnv
from perepisode.wrappers import VectorEpisodeBudget
from perepisode.wrappers.accounting import build

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "results" / "wrappers" / "optima.csv"
KEY = ["recipe", "budget", "seed"]
ENVS, EPISODES = 256, 12
LIBRARIES = {  # of each recipe; a script has no version but a commit, stated in the recipe
    "sb3_ppo": "stable-baselines3",
    "sb3_recurrent": "sb3-contrib",
    "cleanrl_ppo": "torch",
    "rejax_ppo": "rejax",
    "purejaxrl_ppo": "jax",
    "brax_ppo": "brax",
}
sys.path.insert(0, str(ROOT / "examples" / "budget"))


def wrapped(budget: float, env: dict | None = None, **given):
    envs = VectorEnv("temptation", ENVS, autoreset_mode=AutoresetMode.SAME_STEP, **(env or {}))
    return VectorEpisodeBudget(envs, budget=budget, **given)


def utility_of(budget: float, **given):
    """u(R, v) of the wrapper's own objective."""
    given.pop("env", None)
    objective = build("esr", budget, 1.0, 50.0, given).objective
    return lambda returns, violations: objective.u(np.asarray(returns), -10.0 * np.asarray(violations))


def optimum(budget: float, **given) -> exact.Exact:
    return exact.esr_optimum(Temptation(), utility_of(budget, **given))


def evaluate(act, budget: float, seed: int, **given) -> dict:
    envs = wrapped(budget, training=False, **given)
    observation, _ = envs.reset(seed=1000 + seed)
    sums, starts, rows = np.zeros((2, ENVS)), np.ones(ENVS, bool), []
    for _ in range(EPISODES * Temptation().horizon):
        observation, reward, terminated, truncated, info = envs.step(act(observation, starts))
        sums += reward, info["cost"]
        starts = terminated | truncated
        rows += [sums[:, starts].T]
        sums[:, starts] = 0
    returns, violations = np.concatenate(rows).T
    assert len(returns) == ENVS * EPISODES
    return {
        "utility": utility_of(budget, **given)(returns, violations).mean(),
        "return": returns.mean(),
        "violations": violations.mean(),
        "over_budget": (violations > budget).mean(),
        "episodes": len(returns),
    }


def measure(recipe: str, budget: float, seed: int) -> dict:
    module, begin = import_module(recipe), perf_counter()
    act = module.train(budget, seed)
    seconds = perf_counter() - begin
    found, best = evaluate(act, budget, seed), optimum(budget)
    library = f"{LIBRARIES[recipe]} {version(LIBRARIES[recipe])}"
    about = {"recipe": recipe, "budget": budget, "seed": seed, "steps": module.STEPS, "library": library}
    exactly = {
        "exact_utility": best.utility,
        "exact_return": best.mean_return,
        "exact_over_budget": best.p_over(budget),
    }
    return {**about, **found, **exactly, "seconds": round(seconds)}


def keep(row: dict) -> None:
    rows = pd.concat([pd.read_csv(TABLE), pd.DataFrame([row])]) if TABLE.exists() else pd.DataFrame([row])
    TABLE.parent.mkdir(exist_ok=True)
    rows.drop_duplicates(KEY, keep="last").sort_values(KEY).to_csv(TABLE, index=False, float_format="%.6g")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+", choices=list(LIBRARIES))
    parser.add_argument("--budgets", nargs="+", type=int, default=[1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    given = parser.parse_args()
    for recipe in given.recipes:
        for budget in given.budgets:
            for seed in given.seeds:
                row = measure(recipe, budget, seed)
                keep(row)
                shown = f"{row['utility']:.2f} of {row['exact_utility']:.2f}, return {row['return']:.2f}"
                over = f"violations {row['violations']:.2f}, P(>k) {row['over_budget']:.2%}, {row['seconds']} s"
                print(f"{recipe} k={budget} seed {seed}: utility {shown}, {over}", flush=True)
