"""Play the engine and Craftax side by side with the same draws and compare every field after every step.

    python benchmarks/engine_exactness.py [--steps 1000000] [--worlds 256] [--length 25] [--seed 0]

Three worlds of four are staged (any floor, rich, among mobs, see `engine.rehearsal`), one is fresh.  Prints what was
covered and which fields ever differed; exit status 1 if any did.
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import generate, rehearsal, to_upstream
from perepisode.environments.craftax.engine.tables import Achievement, Action


def start(key, world, staged):
    scene = rehearsal.stage(key, world)
    return rehearsal.begin(jax.tree.map(lambda left, right: jnp.where(staged, left, right), scene, world))


def play(seen, key, length):
    """`length` steps of a batch of worlds."""

    def advance(seen, key):
        luck, choice = jax.random.split(key)
        worlds = seen.over.shape[0]
        actions = jax.vmap(rehearsal.choose_action)(jax.random.split(choice, worlds))
        seen, _ = jax.vmap(rehearsal.compare_step)(seen, jax.random.split(luck, worlds), actions)
        return seen, None

    seen, _ = jax.lax.scan(advance, seen, jax.random.split(key, length))
    return jax.tree.map(lambda count: count.sum(0), (seen.steps, seen.actions, seen.unlocked, seen.mismatches))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--worlds", type=int, default=256)
    parser.add_argument("--length", type=int, default=25, help="steps of a world before it is staged anew")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    key, pool = jax.random.split(jax.random.PRNGKey(given.seed))
    worlds = jax.jit(jax.vmap(lambda key: to_upstream(generate(key))))(jax.random.split(pool, given.worlds))
    begin = jax.jit(jax.vmap(start))
    run = jax.jit(play, static_argnums=2)
    staged = jnp.arange(given.worlds) % 4 != 0
    total, done, began, shown = None, 0, time.monotonic(), 0.0
    while done < given.steps:
        key, scene, luck = jax.random.split(key, 3)
        found = run(begin(jax.random.split(scene, given.worlds), worlds, staged), luck, given.length)
        total = found if total is None else jax.tree.map(jnp.add, total, found)
        done = int(total[0].sum())
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(f"{done} steps, {shown - began:.0f} s, {sum(map(int, total[3].values()))} mismatches", flush=True)
    return report(*total)


def report(steps, actions, unlocked, mismatches) -> int:
    names = {kind.value: kind.name for kind in Action}
    print("steps by floor:   ", " ".join(map(str, np.asarray(steps))))
    print("steps by action:  ", ", ".join(f"{names[i]} {int(n)}" for i, n in enumerate(actions)))
    print("unlocked:         ", ", ".join(f"{kind.name} {int(unlocked[kind])}" for kind in Achievement))
    never = [kind.name for kind in Achievement if not int(unlocked[kind])]
    print("never unlocked:   ", ", ".join(never) or "none")
    wrong = {name: int(count) for name, count in mismatches.items() if int(count)}
    print(f"fields compared:   {len(mismatches)}")
    print("fields that differ:", wrong or "none")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
