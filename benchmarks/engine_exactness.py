"""Run the engine and Craftax in parallel with the same random numbers, and compare every field after every step.

    python benchmarks/engine_exactness.py [--steps 1000000] [--num-envs 256] [--length 25] [--seed 0] [--policy RUN]

Half of the environments start a new staged scene every `length` steps (any floor, rich inventory, among mobs; see
benchmarks/rehearsal.py), with random actions or those of a scripted hunter.  The other half start in generated worlds
and run to the end of the episode: with random actions, the hunter's and, with --policy, those of a trained agent.  The
script prints its coverage and the fields that differed; the exit status is 1 if any did.
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
from policies import trained

from perepisode.environments.craftax.engine import generate, to_upstream
from perepisode.environments.craftax.engine.tables import Achievement, Action

HOSTILE = ("melee_mobs", "ranged_mobs")
KINDS = ("staged, random", "staged, hunter", "natural, random or hunter", "natural, trained")


def untrained(params, keys, hidden_state, is_first, games):
    """Stands in for the trained agent if none is given."""
    return jax.vmap(rehearsal.choose_action)(keys), hidden_state


def kinds_of(num_envs: int) -> jax.Array:
    return jnp.arange(num_envs) % len(KINDS)


def begin(key, fresh, staged):
    scene = rehearsal.stage(key, fresh)
    return rehearsal.begin(jax.tree.map(lambda left, right: jnp.where(staged, left, right), scene, fresh))


def resume(seen, hidden_state, key, pool):
    """Restage the scenes and replace finished natural games; counters are kept."""
    keys = jax.random.split(key, len(kinds_of(seen.over.shape[0])))
    kinds = kinds_of(len(keys))
    new = jax.vmap(begin)(keys, pool, kinds < 2)
    replaced = (kinds < 2) | seen.over

    def pick(left, right):
        return jnp.where(replaced.reshape(-1, *[1] * (left.ndim - 1)), left, right)

    counters = ("steps", "actions", "unlocked", "mismatches")
    merged = jax.tree.map(pick, new, seen)
    return merged.__class__(**{**vars(merged), **{name: vars(seen)[name] for name in counters}}), hidden_state, replaced


def hunt(key, game):
    """Pursues cows or enemies with any weapon; one action in ten is random."""
    keys = jax.random.split(key, 3)
    strikes = (Action.DO, Action.DO, Action.SHOOT_ARROW, Action.CAST_FIREBALL, Action.CAST_ICEBALL)
    prey = jnp.where(
        jax.random.uniform(keys[0]) < 0.3,
        rehearsal.hunter(keys[1], game),
        rehearsal.hunter(keys[1], game, HOSTILE, strikes, reach=3),
    )
    return jnp.where(jax.random.uniform(keys[2]) < 0.1, rehearsal.choose_action(keys[0]), prey)


def play(act, length, params, seen, hidden_state, is_first, key):
    """`length` steps of a batch of games."""
    num_envs = is_first.shape[0]
    kinds = kinds_of(num_envs)

    def advance(carry, key):
        seen, hidden_state, is_first = carry
        luck, choice, last = jax.random.split(key, 3)
        keys = jax.random.split(choice, num_envs)
        hunted = jax.vmap(hunt)(keys, seen.theirs)
        anything = jax.vmap(rehearsal.choose_action)(keys)
        learned, hidden_state = act(params, jax.random.split(last, num_envs), hidden_state, is_first, seen.theirs)
        hunts = (kinds == 1) | ((kinds == 2) & (jnp.arange(num_envs) % 8 == 2))
        actions = jnp.where(kinds == 3, learned, jnp.where(hunts, hunted, anything))
        seen, _ = jax.vmap(rehearsal.compare_step)(seen, jax.random.split(luck, num_envs), actions)
        return (seen, hidden_state, jnp.zeros_like(is_first)), None

    (seen, hidden_state, _), _ = jax.lax.scan(advance, (seen, hidden_state, is_first), jax.random.split(key, length))
    return seen, hidden_state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--length", type=int, default=25, help="steps per staged scene")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=Path, help="folder of a trained run without an accrued observation")
    arguments = parser.parse_args()

    act, params, width = trained(arguments.policy) if arguments.policy else (untrained, None, 1)
    key, pool_key = jax.random.split(jax.random.PRNGKey(arguments.seed))
    fresh = jax.jit(jax.vmap(lambda key: to_upstream(generate(key))))
    renew = jax.jit(resume, donate_argnums=(0, 1))
    run = jax.jit(partial(play, act, arguments.length), donate_argnums=(1, 2))

    pool = fresh(jax.random.split(pool_key, arguments.num_envs))
    seen = jax.jit(jax.vmap(rehearsal.begin))(pool)
    hidden_state, rounds = jnp.zeros((arguments.num_envs, width)), 0
    done, start, shown = 0, time.monotonic(), 0.0
    while done < arguments.steps:
        key, scene, luck, more = jax.random.split(key, 4)
        seen, hidden_state, is_first = renew(seen, hidden_state, scene, pool)
        seen, hidden_state = run(params, seen, hidden_state, is_first, luck)
        done, rounds = int(seen.steps.sum()), rounds + 1
        if rounds % 40 == 0:  # new worlds for later episodes
            pool = fresh(jax.random.split(more, arguments.num_envs))
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            wrong = sum(int(count.sum()) for count in seen.mismatches.values())
            print(f"{done} steps, {shown - start:.0f} s, {wrong} mismatches", flush=True)
    return report(seen, arguments.policy)


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
