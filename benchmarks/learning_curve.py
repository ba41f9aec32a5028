"""Is learning unharmed?  Our return beside the public recurrent PPO's at the same number of steps.

    perepisode train --env craftax --method unconstrained --seeds 42 123 7 --steps 45875200 --out out/curve
    python benchmarks/learning_curve.py out/curve          # or results/learning_curve, the committed metrics

Both are means over the episodes that finished in each 50 updates of 1024 x 64 steps, learning rate annealed to zero
over 700 updates.  Exit status 1 if ours leaves 10 % of theirs at any row from 16 M steps on.
"""

import json
import sys
from pathlib import Path

import numpy as np

REFERENCE = Path(__file__).with_name("upstream_curve.json")
FROM_STEPS, WITHIN = 16_000_000, 0.10


def mean_return(metrics: Path, first: int, last: int) -> float:
    """Mean over the episodes finished between two numbers of steps."""
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows = [row for row in rows if first < row["steps"] <= last and row["episodes"]]
    return float(np.average([row["return"] for row in rows], weights=[row["episodes"] for row in rows]))


def main(folder: Path) -> int:
    runs = sorted(folder.glob("*/metrics.jsonl"))
    before, worst = 0, 0.0
    print(f"{'steps':>12} {'upstream':>9} {'ours':>7} {'off':>7}  runs")
    for row in json.loads(REFERENCE.read_text())["rows"]:
        own = [mean_return(run, before, row["env_steps"]) for run in runs]
        off = np.mean(own) / row["mean_return"] - 1.0
        if row["env_steps"] >= FROM_STEPS:
            worst = max(worst, abs(off))
        each = " ".join(f"{value:.2f}" for value in own)
        print(f"{row['env_steps']:12,} {row['mean_return']:9.2f} {np.mean(own):7.2f} {100 * off:+6.1f}%  {each}")
        before = row["env_steps"]
    print(f"largest difference from {FROM_STEPS:,} steps on: {100 * worst:.1f} %")
    return int(worst > WITHIN)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/learning_curve")))
