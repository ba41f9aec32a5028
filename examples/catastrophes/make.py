"""An episodes table with rare catastrophes: four agents of one mean cost, five seeds, 300 episodes.

    python examples/catastrophes/make.py            # writes episodes.csv beside this file, the same every time
    perepisode report examples/catastrophes/episodes.csv --cost-limit 25

PPO-Lag, CPO and P3O cost 20 on average, by one law.  FOCOPS costs 20 on average as well: most of its episodes cost
7, and two in a hundred are catastrophes of some 640, with a heavy tail of their own.  All four have the same mean
return.  The numbers are made up, the seed of the generator is 0 and was not chosen among several.
"""

from pathlib import Path

import numpy as np
import pandas as pd

SEEDS, EPISODES, ROOT = (0, 1, 2, 3, 4), 300, 0
MEAN, SPREAD = 20.0, 0.83
CATASTROPHES, CATASTROPHE, THEIR_SPREAD = 0.02, 640.0, 1.25
AGENTS = ("PPO-Lag", "CPO", "P3O", "FOCOPS")


def lognormal(generator: np.random.Generator, mean: float, spread: float, size: int | tuple[int, ...]) -> np.ndarray:
    """Costs with this mean."""
    return generator.lognormal(np.log(mean) - spread**2 / 2, spread, size)


def even(generator: np.random.Generator, size: int | tuple[int, ...] = EPISODES) -> np.ndarray:
    return lognormal(generator, MEAN, SPREAD, size)


def catastrophic(generator: np.random.Generator, size: int | tuple[int, ...] = EPISODES) -> np.ndarray:
    struck = generator.random(size) < CATASTROPHES
    ordinary = (MEAN - CATASTROPHES * CATASTROPHE) / (1 - CATASTROPHES)
    catastrophes = lognormal(generator, CATASTROPHE, THEIR_SPREAD, size)
    return np.where(struck, catastrophes, lognormal(generator, ordinary, 0.6, size))


def table() -> pd.DataFrame:
    parts = []
    for number, name in enumerate(AGENTS):
        for seed in SEEDS:
            generator = np.random.default_rng([ROOT, number, seed])
            drift, scale = generator.normal(0.0, 0.4), generator.lognormal(0.0, 0.02)  # no two seeds learn the same
            costs = scale * (catastrophic if name == "FOCOPS" else even)(generator)
            returns = generator.normal(20.0 + drift, 3.0, EPISODES)
            parts.append(pd.DataFrame({"algo": name, "seed": seed, "EpRet": returns, "EpCost": costs}))
    return pd.concat(parts, ignore_index=True).round(2)


if __name__ == "__main__":
    path = Path(__file__).with_name("episodes.csv")
    table().to_csv(path, index=False)
    print(f"wrote {path}")
