"""Do bulk draws play the same game?  Whole episodes of our engine and of upstream's own step, as distributions.

    python benchmarks/distributions.py [--worlds 8192] [--episodes-per-env 13] [--policy RUN] [--out FILE.json]

Played at random or, with --policy, by a trained agent.  Each world's first episodes count, whatever their length.
One p-value a quantity (chi-square) and an achievement (Fisher); exit status 1 if the smallest times their number is
below 0.01.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tally
from players import trained

from perepisode.environments.craftax.env import Craftax
from perepisode.runs import write_atomically

LEAST = 0.01


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=8192)
    parser.add_argument("--episodes-per-env", type=int, default=13)
    parser.add_argument("--policy", type=Path, help="folder of a trained run without features of its own")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    name = "trained" if given.policy else "random"
    act, params, width = trained(given.policy) if given.policy else (tally.at_random, None, 1)

    tallies = []
    for seed, engine in enumerate(("fast", "upstream")):
        began, memory = time.monotonic(), jnp.zeros((given.worlds, width))
        key = jax.random.key(100 + seed)
        tallies.append(tally.collect(Craftax(engine=engine), act, params, memory, key, given.worlds, given.first))
        print(f"{name}, {engine}: {tallies[-1].episodes} episodes, {time.monotonic() - began:.0f} s", flush=True)
    p = tally.differences(*tallies)
    for quantity, value in sorted(p.items(), key=lambda item: item[1]):
        print(f"  p = {value:.4f}  {quantity}")
    least = min(p.values()) * len(p)
    print(f"{name}: smallest p times {len(p)} tests: {least:.3f}")
    if given.out:
        found = {
            "episodes": [int(t.episodes) for t in tallies],
            "p": p,
            "histograms": {q: np.stack([t.histograms[i] for t in tallies]).tolist() for i, q in enumerate(tally.EDGES)},
            "edges": {q: edges.tolist() for q, edges in tally.EDGES.items()},
            "unlocked": [t.unlocked.tolist() for t in tallies],
        }
        write_atomically(given.out, json.dumps({name: found}))
    return int(least < LEAST)


if __name__ == "__main__":
    sys.exit(main())
