"""An episodes table like those of safe-RL libraries: four agents, three seeds, 300 episodes each, real-valued costs.

    python examples/costs/make.py            # writes episodes.csv next to this file, always the same
    perepisode report examples/costs/episodes.csv --cost-limit 25

PPO-Lag and FOCOPS have the same mean cost, but most of FOCOPS's episodes cost little and 3 % are catastrophes: its
CVaR 10 % is twice as large.  CPO has a larger mean cost than either, and a smaller CVaR 10 % than FOCOPS.  PPO has no
cost limit.  The numbers are made up.
"""

from pathlib import Path

import numpy as np
import pandas as pd

SEEDS, EPISODES, ROOT = (0, 1, 2), 300, 173


def lognormal(generator: np.random.Generator, mean: float, spread: float) -> np.ndarray:
    """Heavy-tailed costs with the given mean."""
    return generator.lognormal(np.log(mean) - spread**2 / 2, spread, EPISODES)


def mixture(generator: np.random.Generator, share: float, ordinary: np.ndarray, severe: np.ndarray) -> np.ndarray:
    """Ordinary costs, exactly the given share of which are replaced by severe ones."""
    replaced = generator.permutation(EPISODES)[: round(share * EPISODES)]
    ordinary[replaced] = severe[replaced]
    return ordinary


def ppo(generator: np.random.Generator) -> np.ndarray:
    return lognormal(generator, 58.0, 0.75)


def ppo_lag(generator: np.random.Generator) -> np.ndarray:
    return lognormal(generator, 24.5, 0.91)


def focops(generator: np.random.Generator) -> np.ndarray:
    return mixture(generator, 0.03, lognormal(generator, 10.1, 0.6), lognormal(generator, 484.0, 0.2))


def cpo(generator: np.random.Generator) -> np.ndarray:
    return lognormal(generator, 34.0, 0.7)


AGENTS = {"PPO": (ppo, 27.0), "PPO-Lag": (ppo_lag, 20.0), "CPO": (cpo, 23.5), "FOCOPS": (focops, 20.5)}  # return


def table() -> pd.DataFrame:
    parts = []
    for number, (name, (costs, level)) in enumerate(AGENTS.items()):
        for seed in SEEDS:
            generator = np.random.default_rng([ROOT, number, seed])
            drift = generator.normal(0.0, 0.4)  # seeds differ
            scale = generator.lognormal(0.0, 0.02)
            rows = {"algo": name, "seed": seed, "EpRet": generator.normal(level + drift, 3.0, EPISODES)}
            parts.append(pd.DataFrame({**rows, "EpCost": scale * costs(generator)}))
    return pd.concat(parts, ignore_index=True).round(2)


if __name__ == "__main__":
    path = Path(__file__).with_name("episodes.csv")
    table().to_csv(path, index=False)
    print(f"wrote {path}")
