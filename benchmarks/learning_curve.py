"""Is learning unharmed?  Our return beside the public recurrent PPO's at the same number of steps.

    perepisode train --env craftax --method unconstrained --seeds 42 123 7 --steps 45875200 --out out/curve
    python benchmarks/learning_curve.py out/curve          # or results/learning_curve/bf16, the committed metrics
    python benchmarks/learning_curve.py results/learning_curve/bf16 --beside results/learning_curve/fp32

Both are means over the episodes that finished in each 50 updates of 1024 x 64 steps, learning rate annealed to zero
over 700 updates.  Exit status 1 if ours leaves 10 % of theirs at any row from 16 M steps on, or differs from the
runs `--beside` by more than the seeds' spread allows (Welch's t; the smallest p times the rows tested below 0.05).
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from scipy import stats

REFERENCE = Path(__file__).with_name("upstream_curve.json")
FROM_STEPS, WITHIN = 16_000_000, 0.10


def mean_return(metrics: Path, first: int, last: int) -> float:
    """Mean over the episodes finished between two numbers of steps."""
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows = [row for row in rows if first < row["steps"] <= last and row["episodes"]]
    return float(np.average([row["return"] for row in rows], weights=[row["episodes"] for row in rows]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results/learning_curve/bf16"))
    parser.add_argument("--beside", type=Path, help="other runs of the same length, such as those in another precision")
    given = parser.parse_args()
    runs, others = (sorted(f.glob("*/metrics.jsonl")) if f else [] for f in (given.folder, given.beside))
    before, worst, chances = 0, 0.0, []
    print(f"{'steps':>12} {'upstream':>9} {'ours':>7} {'off':>7}  runs" + ("; those beside, p" if others else ""))
    for row in json.loads(REFERENCE.read_text())["rows"]:
        own, theirs = ([mean_return(run, before, row["env_steps"]) for run in some] for some in (runs, others))
        off = np.mean(own) / row["mean_return"] - 1.0
        shown = " ".join(f"{value:.2f}" for value in own)
        p = 1.0
        if others:
            p = stats.ttest_ind(own, theirs, equal_var=False).pvalue
            shown += "; " + " ".join(f"{value:.2f}" for value in theirs) + f", {p:.2f}"
        if row["env_steps"] >= FROM_STEPS:
            worst = max(worst, abs(off))
            chances.append(p)
        print(f"{row['env_steps']:12,} {row['mean_return']:9.2f} {np.mean(own):7.2f} {100 * off:+6.1f}%  {shown}")
        before = row["env_steps"]
    print(f"largest difference from {FROM_STEPS:,} steps on: {100 * worst:.1f} %")
    corrected = min(1.0, min(chances) * len(chances))
    if others:
        print(
            f"the runs beside, from there on: smallest p {min(chances):.3f}, times {len(chances)} rows {corrected:.2f}"
        )
    return int(worst > WITHIN or corrected < 0.05)


if __name__ == "__main__":
    sys.exit(main())
