"""Is it the same game with bulk random numbers?  Distributions over episodes of our engine and of upstream's step.

    python benchmarks/distributions.py [--num-envs 8192] [--episodes-per-env 13] [--policy RUN] [--out FILE.json]

Actions are random or, with --policy, those of a trained agent.  The first episodes of every environment count, whatever
their length.  Each quantity (chi-square) and each achievement (Fisher) has a p-value; the exit status is 1 if the
smallest, times their number, is below 0.01.
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
from policies import trained

from perepisode.environments.craftax.env import Craftax
from perepisode.runs import write_atomically

LEVEL = 0.01


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=8192)
    parser.add_argument("--episodes-per-env", type=int, default=13)
    parser.add_argument("--policy", type=Path, help="folder of a trained run without an accrued observation")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    name = "trained" if arguments.policy else "random"
    act, params, width = trained(arguments.policy) if arguments.policy else (tally.at_random, None, 1)

    tallies = []
    for seed, engine in enumerate(("fast", "upstream")):
        start, hidden_state = time.monotonic(), jnp.zeros((arguments.num_envs, width))
        key = jax.random.key(100 + seed)
        env, envs, episodes = Craftax(engine=engine), arguments.num_envs, arguments.episodes_per_env
        tallies.append(tally.collect(env, act, params, hidden_state, key, envs, episodes))
        print(f"{name}, {engine}: {tallies[-1].episodes} episodes, {time.monotonic() - start:.0f} s", flush=True)
    p = tally.differences(*tallies)
    for quantity, value in sorted(p.items(), key=lambda item: item[1]):
        print(f"  p = {value:.4f}  {quantity}")
    least = min(p.values()) * len(p)
    print(f"{name}: smallest p times {len(p)} tests: {least:.3f}")
    if arguments.out:
        results = {
            "episodes": [int(t.episodes) for t in tallies],
            "p": p,
            "histograms": {q: np.stack([t.histograms[i] for t in tallies]).tolist() for i, q in enumerate(tally.EDGES)},
            "edges": {q: edges.tolist() for q, edges in tally.EDGES.items()},
            "unlocked": [t.unlocked.tolist() for t in tallies],
        }
        write_atomically(arguments.out, json.dumps({name: results}))
    return int(least < LEVEL)


if __name__ == "__main__":
    sys.exit(main())
