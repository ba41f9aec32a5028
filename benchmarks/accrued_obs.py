"""Does the scaled accrued observation learn the miniature's budget at least as fast as the paper's?

    python benchmarks/accrued_obs.py [--out out/accrued_obs]        # two minutes on two cores

Both observations are trained with five seeds and compared with the exact optimum.  The utility is that of ESR (expected
scalarised returns, k = 1), Eq. 5 of the whole episode, averaged over ten updates of training.  It includes the effect
of the strong entropy bonus in training.  The script counts steps to 98 % of the utility of the optimal policy.
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
    parser.add_argument("--out", type=Path, default=Path("out/accrued_obs"))
    parser.add_argument("--budget", type=int, default=1)
    arguments = parser.parse_args()
    use_cache()
    best = esr_optimum(Temptation(), stated_utility(arguments.budget), most=arguments.budget + 2).utility
    print(f"exact utility of ESR (k={arguments.budget}): {best:.3f}, {SHARE:.0%} of it: {SHARE * best:.3f}")
    settings, sweep = {"budget": arguments.budget}, Temptation.sweep
    run = Run("temptation", "temptation", "esr", settings, total_timesteps=sweep.total_timesteps, config=Temptation.ppo)
    for accrued_obs in ("paper", "scaled"):
        runs = [
            replace(run, seed=seed, method_settings={**settings, "accrued_obs": accrued_obs}, gamma=sweep.gamma)
            for seed in SEEDS
        ]
        folders = train(runs, TrainingOptions(arguments.out, chunk=20))
        curves = [[json.loads(line) for line in folder.metrics.read_text().splitlines()] for folder in folders]
        smoothed = [np.convolve([row["utility"] for row in rows], np.ones(SMOOTH) / SMOOTH, "valid") for rows in curves]
        reached = [first_above(curve, SHARE * best, rows) for curve, rows in zip(smoothed, curves)]
        last = compare.t_interval([curve[-1] / best for curve in smoothed])
        steps = ", ".join("not reached" if count is None else f"{count:,}" for count in reached)
        print(
            f"{accrued_obs}: steps to {SHARE:.0%}: {steps}; at the end {last.mean:.2%} ± {last.half:.2%} of the optimum"
        )


def first_above(smoothed: np.ndarray, level: float, rows: list[dict]) -> int | None:
    """Steps until the smoothed utility first reaches `level`."""
    above = np.flatnonzero(smoothed >= level)
    return rows[int(above[0]) + SMOOTH - 1]["steps"] if len(above) else None


if __name__ == "__main__":
    main()
