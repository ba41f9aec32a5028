"""Play the engine and Craftax side by side with the same draws and compare every field after every step.

    python benchmarks/engine_exactness.py [--steps 1000000] [--worlds 256] [--length 25] [--seed 0] [--policy RUN]

Half the worlds are staged anew every `length` steps (any floor, rich, among mobs, see `engine.rehearsal`) and played
at random or by a scripted hunter.  The other half are fresh worlds played to the end of their episodes: at random, by
the hunter and, with --policy, by a trained agent.  Prints what was covered and which fields ever differed; exit
status 1 if any did.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import rehearsal
from players import trained

from perepisode.environments.craftax.engine import generate, to_upstream
from perepisode.environments.craftax.engine.tables import Achievement, Action

HOSTILE = ("melee_mobs", "ranged_mobs")
KINDS = ("staged, random", "staged, hunter", "natural, random or hunter", "natural, trained")


def untrained(params, keys, memory, starts, games):
    """Plays in a trained agent's place where none is given."""
    return jax.vmap(rehearsal.choose_action)(keys), memory


def kinds_of(worlds: int) -> jax.Array:
    return jnp.arange(worlds) % len(KINDS)


def begin(key, fresh, staged):
    scene = rehearsal.stage(key, fresh)
    return rehearsal.begin(jax.tree.map(lambda left, right: jnp.where(staged, left, right), scene, fresh))


def resume(seen, memory, key, pool):
    """Scenes are set anew, finished natural worlds replaced; the counters are kept."""
    keys = jax.random.split(key, len(kinds_of(seen.over.shape[0])))
    kinds = kinds_of(len(keys))
    new = jax.vmap(begin)(keys, pool, kinds < 2)
    replaced = (kinds < 2) | seen.over

    def pick(left, right):
        return jnp.where(replaced.reshape(-1, *[1] * (left.ndim - 1)), left, right)

    counters = ("steps", "actions", "unlocked", "mismatches")
    merged = jax.tree.map(pick, new, seen)
    return merged.__class__(**{**vars(merged), **{name: vars(seen)[name] for name in counters}}), memory, replaced


def hunt(key, game):
    """After cows or enemies, with whatever strikes; now and then anything at all."""
    keys = jax.random.split(key, 3)
    strikes = (Action.DO, Action.DO, Action.SHOOT_ARROW, Action.CAST_FIREBALL, Action.CAST_ICEBALL)
    prey = jnp.where(
        jax.random.uniform(keys[0]) < 0.3,
        rehearsal.hunter(keys[1], game),
        rehearsal.hunter(keys[1], game, HOSTILE, strikes, reach=3),
    )
    return jnp.where(jax.random.uniform(keys[2]) < 0.1, rehearsal.choose_action(keys[0]), prey)


def play(act, length, params, seen, memory, starts, key):
    """`length` steps of a batch of worlds."""
    worlds = starts.shape[0]
    kinds = kinds_of(worlds)

    def advance(carry, key):
        seen, memory, starts = carry
        luck, choice, last = jax.random.split(key, 3)
        keys = jax.random.split(choice, worlds)
        hunted = jax.vmap(hunt)(keys, seen.theirs)
        anything = jax.vmap(rehearsal.choose_action)(keys)
        learned, memory = act(params, jax.random.split(last, worlds), memory, starts, seen.theirs)
        hunts = (kinds == 1) | ((kinds == 2) & (jnp.arange(worlds) % 8 == 2))
        actions = jnp.where(kinds == 3, learned, jnp.where(hunts, hunted, anything))
        seen, _ = jax.vmap(rehearsal.compare_step)(seen, jax.random.split(luck, worlds), actions)
        return (seen, memory, jnp.zeros_like(starts)), None

    (seen, memory, _), _ = jax.lax.scan(advance, (seen, memory, starts), jax.random.split(key, length))
    return seen, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--worlds", type=int, default=256)
    parser.add_argument("--length", type=int, default=25, help="steps of a scene before it is set anew")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=Path, help="folder of a trained run without features of its own")
    given = parser.parse_args()

    act, params, width = trained(given.policy) if given.policy else (untrained, None, 1)
    key, pool_key = jax.random.split(jax.random.PRNGKey(given.seed))
    fresh = jax.jit(jax.vmap(lambda key: to_upstream(generate(key))))
    renew = jax.jit(resume, donate_argnums=(0, 1))
    run = jax.jit(partial(play, act, given.length), donate_argnums=(1, 2))

    pool = fresh(jax.random.split(pool_key, given.worlds))
    seen = jax.jit(jax.vmap(rehearsal.begin))(pool)
    memory, rounds = jnp.zeros((given.worlds, width)), 0
    done, began, shown = 0, time.monotonic(), 0.0
    while done < given.steps:
        key, scene, luck, more = jax.random.split(key, 4)
        seen, memory, starts = renew(seen, memory, scene, pool)
        seen, memory = run(params, seen, memory, starts, luck)
        done, rounds = int(seen.steps.sum()), rounds + 1
        if rounds % 40 == 0:  # new worlds for those to come
            pool = fresh(jax.random.split(more, given.worlds))
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            wrong = sum(int(count.sum()) for count in seen.mismatches.values())
            print(f"{done} steps, {shown - began:.0f} s, {wrong} mismatches", flush=True)
    return report(seen, given.policy)


def report(seen, policy) -> int:
    kinds = np.asarray(kinds_of(seen.over.shape[0]))
    steps, actions, unlocked = (np.asarray(counts) for counts in (seen.steps, seen.actions, seen.unlocked))
    for index, kind in enumerate(KINDS):
        name = "natural, random" if index == 3 and policy is None else kind
        print(f"{name + ':':28} {steps[kinds == index].sum()} steps, by floor", *steps[kinds == index].sum(0))
    print("actions:", ", ".join(f"{kind.name} {n}" for kind, n in zip(Action, actions.sum(0))))
    print("unlocked:", ", ".join(f"{kind.name} {unlocked[:, kind].sum()}" for kind in Achievement))
    never = [kind.name for kind in Achievement if not unlocked[:, kind].any()]
    print("never unlocked:", ", ".join(never) or "none")
    wrong = {name: int(count.sum()) for name, count in seen.mismatches.items() if count.any()}
    print(f"{steps.sum()} steps, {len(seen.mismatches)} fields compared; fields that differ:", wrong or "none")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
