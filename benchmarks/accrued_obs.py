"""Does a louder ν learn the miniature's budget at least as fast?  Both against the exact optimum, five seeds each.

    python benchmarks/accrued_obs.py [--out out/told]        # two minutes on two cores

Utility is that of ESR (k = 1), Eq. 5 of the whole episode, averaged over the last ten updates of training, so the
strong entropy bonus of the miniature's learner is in it: steps are counted to 98 % of what `temptation.exact` says the
best policy reaches.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from perepisode.compilation import use_cache
from perepisode.environments.temptation import Temptation
from perepisode.environments.temptation.exact import esr_optimum
from perepisode.evaluation import compare
from perepisode.runs import Run
from perepisode.study.exact import stated_utility
from perepisode.training.train import TrainingOptions, train

SEEDS = (1, 2, 3, 4, 5)
SMOOTH = 10  # updates
SHARE = 0.98


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/told"))
    parser.add_argument("--budget", type=int, default=1)
    given = parser.parse_args()
    use_cache()
    best = esr_optimum(Temptation(), stated_utility(given.budget), most=given.budget + 2).utility
    print(f"exact utility of ESR (k={given.budget}): {best:.3f}, {SHARE:.0%} of it {SHARE * best:.3f}")
    settings, shape = {"budget": given.budget}, Temptation.sweep
    run = Run("temptation", "temptation", "esr", settings, total_timesteps=shape.total_timesteps, ppo=Temptation.ppo)
    for told in ("paper", "loud"):
        runs = [
            replace(run, seed=seed, method_settings={**settings, "accrued_obs": told}, gamma=shape.gamma)
            for seed in SEEDS
        ]
        folders = train(runs, TrainingOptions(given.out, chunk=20))
        curves = [[json.loads(line) for line in folder.metrics.read_text().splitlines()] for folder in folders]
        smoothed = [np.convolve([row["utility"] for row in rows], np.ones(SMOOTH) / SMOOTH, "valid") for rows in curves]
        reached = [first_above(one, SHARE * best, rows) for one, rows in zip(smoothed, curves)]
        last = compare.t_interval([one[-1] / best for one in smoothed])
        steps = ", ".join("not reached" if one is None else f"{one:,}" for one in reached)
        print(f"{told}: steps to {SHARE:.0%}: {steps}; at the end {last.mean:.2%} ± {last.half:.2%} of the exact one")


def first_above(smoothed: np.ndarray, level: float, rows: list[dict]) -> int | None:
    """Steps after which the smoothed utility is first at `level`."""
    above = np.flatnonzero(smoothed >= level)
    return rows[int(above[0]) + SMOOTH - 1]["steps"] if len(above) else None


if __name__ == "__main__":
    main()
