"""Speed of the engine against upstream's step, and of training, in one process, with the device utilization of each.

python benchmarks/speed.py [--out bench.json] [--num-envs 1024 8192] [--populations 1 3 8 16] [--precision bf16]

"share_of_arithmetic" and "share_of_bandwidth" in the JSON are relative to one large matrix product and one large copy
on this device.  On a CPU, `--num-envs 64 --populations` is enough.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.algorithms.ppo_gru import PPOGru
from perepisode.compilation import use_cache
from perepisode.config import PPOConfig
from perepisode.environments.craftax.env import Craftax
from perepisode.runs import versions, write_atomically
from perepisode.study.bench import seconds_of, table, training_row

STEPS = 64  # environment steps per timed call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--num-envs", type=int, nargs="*", default=[1024, 8192])
    parser.add_argument("--populations", type=int, nargs="*", default=[1, 3, 8, 16])
    parser.add_argument("--precision", nargs="+", default=["bf16"])
    arguments = parser.parse_args()
    use_cache()
    results = {"device": jax.devices()[0].device_kind, "versions": versions(), "ceilings": ceilings()}
    results |= {"engine": [], "training": []}

    def keep(kind: str, rows: list[dict[str, Any]]) -> None:
        results[kind] += rows
        write_atomically(arguments.out, json.dumps(results, indent=1))

    for precision in arguments.precision:
        config = replace(PPOConfig(), precision=precision)
        for size in arguments.populations:
            keep("training", [_shares(training_row(size, config), config, results["ceilings"])])
    for num_envs in arguments.num_envs:
        keep("engine", engine_rows(num_envs, results["ceilings"]))
    print(table(results["engine"] + results["training"]))


def _shares(row: dict[str, Any], config: PPOConfig, peaks: dict[str, float]) -> dict[str, Any]:
    env = Craftax()
    params = jax.eval_shape(lambda: PPOGru(env, config).init(0, 0))
    per_update = row["runs"] / (row["ms_per_update"] / 1e3)
    arithmetic = _flops(params, config) * per_update / peaks["flops_per_second"]
    return row | {
        "share_of_arithmetic": arithmetic,
        "share_of_bandwidth": _bytes(params, config) * per_update / peaks["bytes_per_second"],
    }


def ceilings() -> dict[str, float]:
    """What this device reaches on one large matrix product and one large copy, the reference of the shares."""
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


def engine_rows(num_envs: int, peaks: dict[str, float]) -> list[dict[str, Any]]:
    """The fast engine with both kinds of random numbers, and upstream's own step, on the same states."""
    from perepisode.environments.craftax import engine

    keys = jax.random.split(jax.random.key(0), min(num_envs, 256))
    states = jax.jit(jax.vmap(engine.generate))(keys)
    # a few hundred different worlds, repeated, because world generation is not measured
    states = jax.tree.map(lambda x: jnp.concatenate([x] * -(-num_envs // len(keys)))[:num_envs], states)

    def fast(draw, key, state, action):
        return engine.step(draw(key), state, action)[0]

    lit = jax.jit(jax.vmap(engine.lit_only))(states)
    entries = [
        _compiled_steps("engine", num_envs, lit, partial(fast, engine.bulk_draws), peaks),
        _compiled_steps("exact engine", num_envs, states, partial(fast, engine.upstream_draws), peaks),
    ]
    theirs = jax.jit(jax.vmap(engine.to_upstream))(states)
    entries.append(_compiled_steps("upstream", num_envs, theirs, _upstream_step, peaks))
    rows = _timed_in_turn(entries, num_envs)
    for row in rows:
        row["times_upstream"] = row["steps_per_second"] / rows[-1]["steps_per_second"]
    return rows


def _upstream_step(key: jax.Array, state: Any, action: jax.Array) -> Any:
    from craftax.craftax.craftax_state import EnvParams, StaticEnvParams
    from craftax.craftax.game_logic import craftax_step

    # its state has raw key data
    return craftax_step(jax.random.key_data(key), state, action, EnvParams(), StaticEnvParams())[0]


def _compiled_steps(name: str, num_envs: int, states: Any, step: Callable, peaks: dict[str, float]):
    """A row without times, and a function that runs STEPS steps; each call continues from the last one's states."""
    keys = jax.random.split(jax.random.key(1), (STEPS, num_envs))  # like the actions, not part of the step
    actions = jax.random.randint(jax.random.key(2), (STEPS, num_envs), 0, 43)

    def body(states, given):
        return jax.vmap(step)(given[0], states, given[1]), None

    run = jax.jit(lambda states, given: jax.lax.scan(body, states, given)[0], donate_argnums=0)
    start = time.perf_counter()
    compiled = run.lower(states, (keys, actions)).compile()
    compile_seconds = time.perf_counter() - start
    held = [compiled(jax.tree.map(jnp.copy, states), (keys, actions))]

    def again():
        held[0] = compiled(held[0], (keys, actions))
        return held[0]

    # a step must read and write everything except the maps, of which it needs a few cells
    small = [leaf for leaf in jax.tree.leaves(states) if leaf.size // num_envs < 48 * 48]
    least = 2.0 * sum(leaf.nbytes for leaf in small) / peaks["bytes_per_second"]
    return {"what": name, "num_envs": num_envs, "compile_seconds": compile_seconds, "least_seconds": least}, again


def _timed_in_turn(entries, num_envs: int, rounds: int = 15) -> list[dict[str, Any]]:
    """Median times of alternating calls, so that other load on the machine slows all programs equally."""
    times = np.array([[seconds_of(again, 1) for _, again in entries] for _ in range(rounds)])
    rows = []
    for (row, _), seconds in zip(entries, np.median(times, axis=0) / STEPS):
        share = row.pop("least_seconds") / seconds
        rows.append(
            row | {"ms_per_step": 1e3 * seconds, "steps_per_second": num_envs / seconds, "share_of_bandwidth": share}
        )
    return rows


# ---- minimum work of an update ------------------------------------------------------------------------------


def _flops(params: Any, config: PPOConfig) -> float:
    """Matrix products of one run's update: one pass of acting, and `update_epochs` passes forward and backward."""
    kernels = [leaf.shape for leaf in jax.tree.leaves(params) if leaf.ndim == 2]
    embedding = sum(a * b for a, b in kernels if a != config.hidden_size)
    inner = sum(a * b for a, b in kernels) - embedding
    # the embedding's input needs no gradient: two products in training instead of three
    per_step = 2.0 * (embedding + inner) + config.update_epochs * 2.0 * (2 * embedding + 3 * inner)
    return per_step * config.steps_per_update


def _bytes(params: Any, config: PPOConfig) -> float:
    """The least memory traffic of one run's update: every array is written once and read where it is used."""
    number = 2 if config.precision == "bf16" else 4
    inputs = sum(leaf.shape[0] for leaf in params.embedding)
    # input, embedding, three gates, residuals of the GRU (hidden, previous, four inside), two layers of two heads;
    # each is written, read by the next layer and by the backward pass, and its gradient is written and read
    activations = config.hidden_size * (1 + 3 + 6 + 4)
    sample = number * (3 * inputs + 5 * activations)
    weights = 4 * sum(leaf.size for leaf in jax.tree.leaves(params))
    adam = 7 * weights  # gradient, both moments and the weights read; moments and weights written
    return config.update_epochs * (config.steps_per_update * sample + config.num_minibatches * adam)


if __name__ == "__main__":
    main()
