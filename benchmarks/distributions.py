"""Do bulk draws play the same game?  Whole episodes of our engine and of upstream's own step, as distributions.

    python benchmarks/distributions.py [--worlds 8192] [--first 13] [--policy RUN] [--out FILE.json]

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

from perepisode.environments.craftax import observation
from perepisode.environments.craftax.engine import tally
from perepisode.environments.craftax.world import Craftax
from perepisode.runs import load_policy, write_atomically
from perepisode.training import network, ppo
from perepisode.training.train import params_of

LEAST = 0.01


def trained(folder: Path):
    """A player for `tally.collect`, its parameters and its memory's width."""
    run, weights = load_policy(folder)
    like = network.init(0, network.input_sizes(Craftax(), 0), run.learner.hidden, Craftax.actions)

    def act(params, keys, memory, starts, worlds):
        seen = jax.vmap(lambda world: observation.observe(world.game))(worlds)
        none = jnp.zeros((starts.shape[0], 0))
        logits, _, memory = network.step(params, Craftax(), memory, starts, seen, none, run.learner.precision)
        return jax.vmap(ppo.sample)(keys, logits), memory

    return act, params_of(weights, like), run.learner.hidden


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=8192)
    parser.add_argument("--first", type=int, default=13)
    parser.add_argument("--policy", type=Path, help="folder of a trained run without features of its own")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    players = {"trained": trained(given.policy)} if given.policy else {"random": (tally.at_random, None, 1)}

    found, least = {}, 1.0
    for name, (act, params, width) in players.items():
        tallies = []
        for seed, engine in enumerate(("fast", "upstream")):
            began = time.monotonic()
            memory = jnp.zeros((given.worlds, width))
            world = Craftax(engine=engine)
            tallies.append(
                tally.collect(world, act, params, memory, jax.random.key(100 + seed), given.worlds, given.first)
            )
            print(f"{name}, {engine}: {tallies[-1].episodes} episodes, {time.monotonic() - began:.0f} s", flush=True)
        p = tally.differences(*tallies)
        found[name] = {
            "episodes": [int(t.episodes) for t in tallies],
            "p": p,
            "histograms": {q: np.stack([t.histograms[i] for t in tallies]).tolist() for i, q in enumerate(tally.EDGES)},
            "edges": {q: edges.tolist() for q, edges in tally.EDGES.items()},
            "unlocked": [t.unlocked.tolist() for t in tallies],
        }
        for quantity, value in sorted(p.items(), key=lambda item: item[1]):
            print(f"  p = {value:.4f}  {quantity}")
        least = min(least, min(p.values()) * len(p))
        print(f"{name}: smallest p times {len(p)} tests: {min(p.values()) * len(p):.3f}", flush=True)
        if given.out:
            write_atomically(given.out, json.dumps(found))
    return int(least < LEAST)


if __name__ == "__main__":
    sys.exit(main())
