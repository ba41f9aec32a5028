"""Is learning the same?  Our return and that of the public recurrent PPO at the same number of steps.

    perepisode train --env craftax --method unconstrained --seeds 42 123 7 --steps 45875200 --out out/curve
    python benchmarks/learning_curve.py out/curve          # or results/learning_curve/bf16, the committed metrics
    python benchmarks/learning_curve.py results/learning_curve/bf16 --beside results/learning_curve/fp32

Both are means over the episodes that finished within each 50 updates of 1024 x 64 steps; the learning rate anneals to
zero over 700 updates.  The exit status is 1 if ours differs from theirs by more than 10 % in any row from 16 M steps
on, or significantly from the runs of `--beside` (Welch's t; the smallest p times the number of rows is below 0.05).
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
    """Mean over the episodes that finished between two numbers of steps."""
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows = [row for row in rows if first < row["steps"] <= last and row["episodes"]]
    return float(np.average([row["return"] for row in rows], weights=[row["episodes"] for row in rows]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results/learning_curve/bf16"))
    parser.add_argument("--beside", type=Path, help="other runs of the same length, e.g. in another precision")
    arguments = parser.parse_args()
    runs, others = (sorted(f.glob("*/metrics.jsonl")) if f else [] for f in (arguments.folder, arguments.beside))
    previous_steps, worst, p_values = 0, 0.0, []
    print(f"{'steps':>12} {'upstream':>9} {'ours':>7} {'diff.':>7}  runs" + ("; --beside, p" if others else ""))
    for row in json.loads(REFERENCE.read_text())["rows"]:
        own, theirs = ([mean_return(run, previous_steps, row["env_steps"]) for run in some] for some in (runs, others))
        difference = np.mean(own) / row["mean_return"] - 1.0
        shown = " ".join(f"{value:.2f}" for value in own)
        p = 1.0
        if others:
            p = stats.ttest_ind(own, theirs, equal_var=False).pvalue
            shown += "; " + " ".join(f"{value:.2f}" for value in theirs) + f", {p:.2f}"
        if row["env_steps"] >= FROM_STEPS:
            worst = max(worst, abs(difference))
            p_values.append(p)
        print(
            f"{row['env_steps']:12,} {row['mean_return']:9.2f} {np.mean(own):7.2f} {100 * difference:+6.1f}%  {shown}"
        )
        previous_steps = row["env_steps"]
    print(f"largest difference from {FROM_STEPS:,} steps on: {100 * worst:.1f} %")
    corrected = min(1.0, min(p_values) * len(p_values))
    if others:
        print(
            f"the runs of --beside, from there on: smallest p {min(p_values):.3f}, "
            f"times {len(p_values)} rows {corrected:.2f}"
        )
    return int(worst > WITHIN or corrected < 0.05)


if __name__ == "__main__":
    sys.exit(main())
