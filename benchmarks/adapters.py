"""Speed through the gymnax adapter: Craftax with automatic resets, ours against upstream's, in one process.

python benchmarks/adapters.py [--out doors.json] [--num-envs 64] [--turns 6]

Three programs step the same number of environments with random actions in a scan, and return the whole observation in
every step: `jax.vmap(env.step)` of our adapter; upstream with optimistic resets (one reset for every 16 environments in
each step, as in its baselines); and upstream with its own automatic reset, which resets all of them in each step.  They
are timed alternately, so that other load on the machine slows all of them equally.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from craftax.craftax_env import make_craftax_env_from_name

from perepisode.compilation import use_cache
from perepisode.interop import gymnax
from perepisode.runs import versions, write_atomically
from perepisode.study.bench import table

RATIO = 16  # environments per reset in upstream's baselines
ACTIONS = 43
ACROSS = (0, 0, 0, None)


class Program(NamedTuple):
    what: str
    reset: Callable  # key → observation, state of all environments
    step: Callable  # key, state, actions → observation, state, done
    steps: int  # per timed call
    warmup_calls: int  # until episodes end at the usual rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("doors.json"))
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--turns", type=int, default=6)
    arguments = parser.parse_args()
    use_cache()
    programs = [adapter(arguments.num_envs), optimistic(arguments.num_envs), automatic(arguments.num_envs)]
    prepared = [_prepared(program, arguments.num_envs) for program in programs]
    for turn in range(arguments.turns):
        for row, call in prepared:
            _timed(row, call, turn)
    rows = [_summed(row, arguments.num_envs) for row, _ in prepared]
    for row in rows:
        row["times_upstream"] = row["steps_per_second"] / rows[1]["steps_per_second"]
    load = os.getloadavg()[0]  # of the last minute, including this process
    about = {"device": jax.devices()[0].device_kind, "cores": os.cpu_count(), "load": load, "versions": versions()}
    write_atomically(arguments.out, json.dumps(about | {"doors": rows}, indent=1))
    print(f"{about['device']}, {about['cores']} cores, load {load:.1f}; upstream: with optimistic resets")
    print(table(rows))


# ---- the three programs -------------------------------------------------------------------------------------


def adapter(num_envs: int) -> Program:
    env, params = gymnax.make("craftax", dilemma="no_killing")

    def reset(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, num_envs), params)

    def step(key, state, actions):
        keys = jax.random.split(key, num_envs)
        values = jax.vmap(env.step, in_axes=ACROSS)(keys, state, actions, params)
        observation, state, _, terminated, truncated, _ = values
        return observation, state, terminated | truncated

    return Program("our adapter", reset, step, steps=64, warmup_calls=8)


def automatic(num_envs: int) -> Program:
    env = make_craftax_env_from_name("Craftax-Symbolic-v1", auto_reset=True)
    params = env.default_params

    def reset(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, num_envs), params)

    def step(key, state, actions):
        keys = jax.random.split(key, num_envs)
        observation, state, _, ended, _ = jax.vmap(env.step, in_axes=ACROSS)(keys, state, actions, params)
        return observation, state, ended

    return Program("automatic", reset, step, steps=4, warmup_calls=1)


def optimistic(num_envs: int) -> Program:
    """One reset for `RATIO` environments; if more episodes end in a step, they share reset states."""
    env = make_craftax_env_from_name("Craftax-Symbolic-v1", auto_reset=False)
    params, resets = env.default_params, num_envs // RATIO

    def reset(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, num_envs), params)

    def step(key, state, actions):
        key_step, key_reset, key_choice = jax.random.split(key, 3)
        keys = jax.random.split(key_step, num_envs)
        observation, state, _, ended, _ = jax.vmap(env.step, in_axes=ACROSS)(keys, state, actions, params)
        fresh = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key_reset, resets), params)
        assigned = jax.random.choice(key_choice, num_envs, (resets,), replace=False, p=ended.astype(jnp.float32))
        source = jnp.repeat(jnp.arange(resets), RATIO).at[assigned].set(jnp.arange(resets))

        def merge(new, old):
            return jnp.where(ended.reshape(num_envs, *[1] * (old.ndim - 1)), new[source], old)

        return *jax.tree.map(merge, fresh, (observation, state)), ended

    return Program("optimistic", reset, step, steps=32, warmup_calls=2)


# ---- timing -------------------------------------------------------------------------------------------------


def _prepared(program: Program, num_envs: int) -> tuple[dict[str, Any], Callable]:
    """A row without times, and a function whose calls continue from each other's state."""

    def body(carry, key):
        _, state = carry
        key_action, key_step = jax.random.split(key)
        actions = jax.random.randint(key_action, (num_envs,), 0, ACTIONS)
        observation, state, ended = program.step(key_step, state, actions)
        return (observation, state), ended.sum()

    held = [jax.block_until_ready(jax.jit(program.reset)(jax.random.key(0)))]
    run = jax.jit(lambda carry, keys: jax.lax.scan(body, carry, keys), donate_argnums=0)
    keys = jax.random.split(jax.random.key(1), program.steps)
    start = time.perf_counter()
    compiled = run.lower(held[0], keys).compile()
    row = {"what": program.what, "num_envs": num_envs, "compile_seconds": time.perf_counter() - start}
    row |= {"steps": program.steps, "seconds": [], "ended": 0}

    def call(number: int):
        held[0], ended = compiled(held[0], jax.random.split(jax.random.key(2 + number), program.steps))
        return int(ended.sum())

    for number in range(program.warmup_calls):
        call(10_000 + number)
    return row, call


def _timed(row: dict[str, Any], call: Callable, turn: int) -> None:
    start = time.perf_counter()
    row["ended"] += call(turn)
    row["seconds"].append(time.perf_counter() - start)


def _summed(row: dict[str, Any], num_envs: int) -> dict[str, Any]:
    """Means over all turns, because some turns have many resets and others none."""
    steps = row["steps"] * len(row["seconds"])
    seconds = sum(row["seconds"]) / steps
    return row | {
        "ms_per_step": 1e3 * seconds,
        "steps_per_second": num_envs / seconds,
        "episodes_ended_per_1000_steps": 1e3 * row["ended"] / (steps * num_envs),
    }


if __name__ == "__main__":
    main()
