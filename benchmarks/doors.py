"""Speed through the gymnax door: Craftax with automatic resets, ours against upstream's, in one process.

python benchmarks/doors.py [--out doors.json] [--worlds 64] [--turns 6]

Three programs play the same number of worlds with random actions, in a scan, the whole observation vector written in
every step: `jax.vmap(env.step)` of our door; upstream's game with optimistic resets (of every 16 worlds one is made
anew in each step, as its baselines do it); and upstream's own automatic reset, which makes all of them.  They are timed
by turns, so that whatever else the machine does slows all of them alike.
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

RATIO = 16  # worlds for each that is made anew, in upstream's baselines
ACTIONS = 43
ACROSS = (0, 0, 0, None)


class Program(NamedTuple):
    what: str
    reset: Callable  # of one key → observation, state of all worlds
    step: Callable  # of key, state, actions → observation, state, ended
    steps: int  # in one timed call
    calls: int  # before it is timed, so that episodes end as often as they ever do


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("doors.json"))
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--turns", type=int, default=6)
    given = parser.parse_args()
    use_cache()
    programs = [door(given.worlds), optimistic(given.worlds), automatic(given.worlds)]
    prepared = [_prepared(program, given.worlds) for program in programs]
    for turn in range(given.turns):
        for row, call in prepared:
            _timed(row, call, turn)
    rows = [_summed(row, given.worlds) for row, _ in prepared]
    for row in rows:
        row["times_upstream"] = row["steps_per_second"] / rows[1]["steps_per_second"]
    load = os.getloadavg()[0]  # of the last minute, ours among it
    found = {"device": jax.devices()[0].device_kind, "cores": os.cpu_count(), "load": load, "versions": versions()}
    write_atomically(given.out, json.dumps(found | {"doors": rows}, indent=1))
    print(f"{found['device']}, {found['cores']} cores, load {load:.1f}; times are of upstream with optimistic resets")
    print(table(rows))


# ---- the three programs -------------------------------------------------------------------------------------


def door(worlds: int) -> Program:
    env, params = gymnax.make("craftax", dilemma="no_killing")

    def reset(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, worlds), params)

    def step(key, state, actions):
        keys = jax.random.split(key, worlds)
        values = jax.vmap(env.step, in_axes=ACROSS)(keys, state, actions, params)
        observation, state, _, terminated, truncated, _ = values
        return observation, state, terminated | truncated

    return Program("our door", reset, step, steps=64, calls=8)


def automatic(worlds: int) -> Program:
    env = make_craftax_env_from_name("Craftax-Symbolic-v1", auto_reset=True)
    params = env.default_params

    def reset(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, worlds), params)

    def step(key, state, actions):
        keys = jax.random.split(key, worlds)
        observation, state, _, ended, _ = jax.vmap(env.step, in_axes=ACROSS)(keys, state, actions, params)
        return observation, state, ended

    return Program("automatic", reset, step, steps=4, calls=1)


def optimistic(worlds: int) -> Program:
    """One fresh world for `RATIO` places; places that end together beyond that share one."""
    env = make_craftax_env_from_name("Craftax-Symbolic-v1", auto_reset=False)
    params, made = env.default_params, worlds // RATIO

    def reset(key):
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, worlds), params)

    def step(key, state, actions):
        key_step, key_reset, key_choice = jax.random.split(key, 3)
        keys = jax.random.split(key_step, worlds)
        observation, state, _, ended, _ = jax.vmap(env.step, in_axes=ACROSS)(keys, state, actions, params)
        fresh = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key_reset, made), params)
        served = jax.random.choice(key_choice, worlds, (made,), replace=False, p=ended.astype(jnp.float32))
        source = jnp.repeat(jnp.arange(made), RATIO).at[served].set(jnp.arange(made))

        def renewed(new, old):
            return jnp.where(ended.reshape(worlds, *[1] * (old.ndim - 1)), new[source], old)

        return *jax.tree.map(renewed, fresh, (observation, state)), ended

    return Program("optimistic", reset, step, steps=32, calls=2)


# ---- timing -------------------------------------------------------------------------------------------------


def _prepared(program: Program, worlds: int) -> tuple[dict[str, Any], Callable]:
    """A row still without its times, and a call that plays on from where the last one stopped."""

    def body(carry, key):
        _, state = carry
        key_action, key_step = jax.random.split(key)
        actions = jax.random.randint(key_action, (worlds,), 0, ACTIONS)
        observation, state, ended = program.step(key_step, state, actions)
        return (observation, state), ended.sum()

    held = [jax.block_until_ready(jax.jit(program.reset)(jax.random.key(0)))]
    run = jax.jit(lambda carry, keys: jax.lax.scan(body, carry, keys), donate_argnums=0)
    keys = jax.random.split(jax.random.key(1), program.steps)
    began = time.perf_counter()
    compiled = run.lower(held[0], keys).compile()
    row = {"what": program.what, "worlds": worlds, "compile_seconds": time.perf_counter() - began}
    row |= {"steps": program.steps, "seconds": [], "ended": 0}

    def call(number: int):
        held[0], ended = compiled(held[0], jax.random.split(jax.random.key(2 + number), program.steps))
        return int(ended.sum())

    for number in range(program.calls):
        call(10_000 + number)
    return row, call


def _timed(row: dict[str, Any], call: Callable, turn: int) -> None:
    began = time.perf_counter()
    row["ended"] += call(turn)
    row["seconds"].append(time.perf_counter() - began)


def _summed(row: dict[str, Any], worlds: int) -> dict[str, Any]:
    """Over all turns: a turn in which many worlds are made counts as much as one in which none is."""
    steps = row["steps"] * len(row["seconds"])
    seconds = sum(row["seconds"]) / steps
    return row | {
        "ms_per_step": 1e3 * seconds,
        "steps_per_second": worlds / seconds,
        "episodes_ended_per_1000_steps": 1e3 * row["ended"] / (steps * worlds),
    }


if __name__ == "__main__":
    main()
