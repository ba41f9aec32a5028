"""`perepisode bench`: steps a second of the engine, of upstream's step and of training, all in one process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from perepisode import environments
from perepisode.config import Learner
from perepisode.runs import Run, versions, write_atomically
from perepisode.training import ppo
from perepisode.training.population import order
from perepisode.training.train import prepare, run_chunk

if TYPE_CHECKING:
    from perepisode.cli import Bench

STEPS = 64  # world steps in one timed call


def bench(options: Bench) -> dict[str, Any]:
    """Measure what `options` asks for and print the table; the JSON grows with every row, so a limit loses none."""
    found = {"device": jax.devices()[0].device_kind, "versions": versions(), "ceilings": ceilings()}
    found |= {"engine": [], "training": []}

    def keep(kind: str, rows: list[dict[str, Any]]) -> None:
        found[kind] += rows
        write_atomically(options.out, json.dumps(found, indent=1))

    for precision in options.precision:
        learner = replace(Learner(), envs=options.envs, hidden=options.hidden, precision=precision)
        for size in options.populations:
            keep("training", [training_row(size, learner, found["ceilings"])])
    for worlds in options.worlds:
        keep("engine", engine_rows(worlds, options.upstream, found["ceilings"]))
    show(found)
    return found


def seconds_of(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall time of a call whose result is waited for; it must have been compiled before."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def ceilings() -> dict[str, float]:
    """What this device reaches on one large product and on one large copy: the floors a step is held against."""
    cpu = jax.default_backend() == "cpu"
    size = 1024 if cpu else 8192
    kind = jnp.float32 if cpu else jnp.bfloat16
    a = jax.random.normal(jax.random.key(0), (size, size), kind)
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(a))
    words = jnp.arange(2**22 if cpu else 2**29, dtype=jnp.float32)
    copy = jax.jit(lambda x: x + 1.0)
    jax.block_until_ready(copy(words))
    return {
        "flops_per_second": 2.0 * size**3 / seconds_of(lambda: product(a)),
        "bytes_per_second": 2.0 * words.nbytes / seconds_of(lambda: copy(words)),
    }


# ---- the engine ---------------------------------------------------------------------------------------------


def engine_rows(worlds: int, upstream: bool, peaks: dict[str, float]) -> list[dict[str, Any]]:
    """The fast engine with both kinds of draws and, on request, upstream's own step, on the same worlds."""
    from perepisode.environments.craftax import engine

    keys = jax.random.split(jax.random.key(0), min(worlds, 256))
    states = jax.jit(jax.vmap(engine.generate))(keys)
    # a few hundred different worlds, repeated: generating is not what is measured
    states = jax.tree.map(lambda x: jnp.concatenate([x] * -(-worlds // len(keys)))[:worlds], states)

    def fast(draw, key, state, action):
        return engine.step(draw(key), state, action)[0]

    lit = jax.jit(jax.vmap(engine.lit_only))(states)
    entries = [
        _compiled_steps("engine", worlds, lit, partial(fast, engine.bulk_draws), peaks),
        _compiled_steps("exact engine", worlds, states, partial(fast, engine.upstream_draws), peaks),
    ]
    if upstream:
        theirs = jax.jit(jax.vmap(engine.to_upstream))(states)
        entries.append(_compiled_steps("upstream", worlds, theirs, _upstream_step, peaks))
    rows = _timed_in_turn(entries, worlds)
    if upstream:
        for row in rows:
            row["times_upstream"] = row["steps_per_second"] / rows[-1]["steps_per_second"]
    return rows


def _upstream_step(key: jax.Array, state: Any, action: jax.Array) -> Any:
    from craftax.craftax.craftax_state import EnvParams, StaticEnvParams
    from craftax.craftax.game_logic import craftax_step

    # its state keeps the raw words of a key
    return craftax_step(jax.random.key_data(key), state, action, EnvParams(), StaticEnvParams())[0]


def _compiled_steps(name: str, worlds: int, states: Any, step: Callable, peaks: dict[str, float]):
    """A row still without its times, and a call that plays STEPS steps; states go from call to call, as in training."""
    keys = jax.random.split(jax.random.key(1), (STEPS, worlds))  # given, as the actions are: neither is the step's work
    actions = jax.random.randint(jax.random.key(2), (STEPS, worlds), 0, 43)

    def body(states, given):
        return jax.vmap(step)(given[0], states, given[1]), None

    run = jax.jit(lambda states, given: jax.lax.scan(body, states, given)[0], donate_argnums=0)
    began = time.perf_counter()
    compiled = run.lower(states, (keys, actions)).compile()
    compile_seconds = time.perf_counter() - began
    held = [compiled(jax.tree.map(jnp.copy, states), (keys, actions))]

    def again():
        held[0] = compiled(held[0], (keys, actions))
        return held[0]

    # a step must read and write everything but the maps, of which it needs a few cells
    small = [leaf for leaf in jax.tree.leaves(states) if leaf.size // worlds < 48 * 48]
    least = 2.0 * sum(leaf.nbytes for leaf in small) / peaks["bytes_per_second"]
    return {"what": name, "worlds": worlds, "compile_seconds": compile_seconds, "least_seconds": least}, again


def _timed_in_turn(entries, worlds: int, rounds: int = 15) -> list[dict[str, Any]]:
    """Median times, all programs by turns: what else a machine does then slows each of them alike."""
    times = np.array([[seconds_of(again, 1) for _, again in entries] for _ in range(rounds)])
    rows = []
    for (row, _), seconds in zip(entries, np.median(times, axis=0) / STEPS):
        share = row.pop("least_seconds") / seconds
        rows.append(
            row | {"ms_per_step": 1e3 * seconds, "steps_per_second": worlds / seconds, "share_of_bandwidth": share}
        )
    return rows


# ---- training -----------------------------------------------------------------------------------------------


def training_row(size: int, learner: Learner, peaks: dict[str, float], env: str = "craftax") -> dict[str, Any]:
    """Whole updates of one population of `size` runs."""
    steps = learner.steps_per_update * 1000
    dilemma = environments.WORLDS[env].dilemmas[0]
    runs = order(
        [Run(env, dilemma, "lagrangian", {"budget": 1}, seed=s, steps=steps, learner=learner) for s in range(size)]
    )
    program, members = prepare(runs)
    params = ppo.initial_params(program, members, [run.seed for run in runs])
    state = jax.jit(partial(ppo.init, program))(members, params)
    began = time.perf_counter()
    run_chunk.lower(program, 4, members, state, 4).compile()
    compile_seconds = time.perf_counter() - began
    held = [run_chunk(program, 4, members, state, 2)[0]]

    def again():
        held[0] = run_chunk(program, 4, members, held[0], 4)[0]
        return held[0].update

    seconds = seconds_of(again, 3) / 4
    total = size * learner.steps_per_update
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "what": f"train {learner.precision}",
        "runs": size,
        "worlds": learner.envs,
        "hidden": learner.hidden,
        "ms_per_update": 1e3 * seconds,
        "steps_per_second": total / seconds,
        "compile_seconds": compile_seconds,
        "peak_bytes": stats.get("peak_bytes_in_use"),
        "share_of_arithmetic": _flops(params, learner) * size / seconds / peaks["flops_per_second"],
        "share_of_bandwidth": _bytes(params, learner) * size / seconds / peaks["bytes_per_second"],
    }


def _flops(params: Any, learner: Learner) -> float:
    """Products of one run's update: acting once, learning `epochs` times forward and backward."""
    kernels = [leaf.shape[1:] for leaf in jax.tree.leaves(params) if leaf.ndim == 3]
    embedding = sum(a * b for a, b in kernels if a != learner.hidden)
    inner = sum(a * b for a, b in kernels) - embedding
    # the embedding's input needs no gradient: two products in training instead of three
    per_step = 2.0 * (embedding + inner) + learner.epochs * 2.0 * (2 * embedding + 3 * inner)
    return per_step * learner.steps_per_update


def _bytes(params: Any, learner: Learner) -> float:
    """What one run's update must at least move: the learner's arrays, each written once and read where it is used."""
    number = 2 if learner.precision == "bf16" else 4
    inputs = sum(leaf.shape[1] for leaf in params.embedding)
    # input, embedding, three gates, what the GRU keeps (hidden, before, four inside), two layers of two heads;
    # each written, read by the next layer and by the backward pass, and its gradient written and read
    wide = learner.hidden * (1 + 3 + 6 + 4)
    sample = number * (3 * inputs + 5 * wide)
    weights = 4 * sum(leaf.size / leaf.shape[0] for leaf in jax.tree.leaves(params))
    adam = 7 * weights  # gradient, both moments and the weights read; moments and weights written
    return learner.epochs * (learner.steps_per_update * sample + learner.minibatches * adam)


def show(found: dict[str, Any]) -> None:
    """A table that fits eighty columns; the JSON has every digit.

    "flops" and "bytes" are the shares reached of what one large product and one large copy reach on this device.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{found['device']}, jax {found['versions']['jax']}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for title in ("what", "runs", "worlds", "ms", "steps/s", "upstream", "compile", "flops", "bytes"):
        table.add_column(title, justify="left" if title == "what" else "right", no_wrap=True)
    for row in found["engine"] + found["training"]:
        table.add_row(
            row["what"],
            str(row.get("runs", "")),
            str(row["worlds"]),
            f"{row.get('ms_per_step', row.get('ms_per_update')):.2f}",
            _short(row["steps_per_second"]),
            f"{row['times_upstream']:.1f} ×" if "times_upstream" in row else "",
            f"{row['compile_seconds']:.0f} s",
            f"{100 * row['share_of_arithmetic']:.0f} %" if "share_of_arithmetic" in row else "",
            f"{100 * row['share_of_bandwidth']:.0f} %",
        )
    Console().print(table)


def _short(number: float) -> str:
    return f"{number / 1e6:.2f} M" if number >= 1e6 else f"{number / 1e3:.1f} k"
