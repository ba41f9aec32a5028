"""`perepisode bench`: training speed and memory, for plans.  benchmarks/speed.py compares with upstream."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from perepisode import console
from perepisode.config import PPOConfig
from perepisode.environments.craftax.env import Craftax
from perepisode.runs import Run, versions, write_atomically
from perepisode.study import profile
from perepisode.training import update
from perepisode.training.train import prepare, run_chunk


def defaults() -> tuple[tuple[int, ...], PPOConfig]:
    """Population sizes and network without options: the paper's agent, or a smaller one on a CPU."""
    if jax.default_backend() == "cpu":
        return (1, 3), replace(PPOConfig(), num_envs=64, hidden_size=128)
    return (1, 3, 8, 16), PPOConfig()


def bench(
    out: Path, populations: Sequence[int], config: PPOConfig, precisions: Sequence[str], profiled: bool = False
) -> None:
    """Measure and print the table; every row is written to the JSON file `out` at once, so a time limit loses none."""
    results = {"device": jax.devices()[0].device_kind, "versions": versions(), "training": []}
    for precision in precisions:
        for size in populations:
            results["training"].append(training_row(size, replace(config, precision=precision), profiled))
            write_atomically(out, json.dumps(results, indent=1))
    print(f"{results['device']}, jax {results['versions']['jax']}")
    print(table(results["training"]))
    for row in results["training"] if profiled else ():
        print(f"{row['what']}, {row['runs']} run{'s' * (row['runs'] > 1)}: {profile.text(row['shares'])}")


def seconds_of(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall time of a compiled call, including the wait for its result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def training_row(size: int, config: PPOConfig, profiled: bool = False) -> dict[str, Any]:
    """Time of whole updates of `size` parallel runs on Craftax; if `profiled`, also the share of each part."""
    run = Run(
        Craftax.name, Craftax.dilemmas[0], "lagrangian", {"budget": 1}, total_timesteps=config.steps_per_update * 1000
    )
    program, members = prepare(runs := [replace(run, seed=seed, config=config) for seed in range(size)])
    params = update.initial_params(program, members, [run.seed for run in runs])
    state = jax.jit(partial(update.init, program))(members, params)
    start = time.perf_counter()
    lowered = run_chunk.lower(program, 4, members, state, 4)
    lowered.compile()
    compile_seconds = time.perf_counter() - start
    state = run_chunk(program, 4, members, state, 2)[0]

    def four_updates():
        nonlocal state
        state = run_chunk(program, 4, members, state, 4)[0]
        return state.update

    seconds = seconds_of(four_updates, 3) / 4
    row = {
        "what": f"train {config.precision}",
        "runs": size,
        "num_envs": config.num_envs,
        "hidden_size": config.hidden_size,
        "ms_per_update": 1e3 * seconds,
        "steps_per_second": size * config.steps_per_update / seconds,
        "compile_seconds": compile_seconds,
        "peak_bytes": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use"),
    }
    if profiled:
        # a CUDA graph would appear in the trace as one operation
        without_graphs = lowered.compile({"xla_gpu_graph_min_graph_size": "1000000"})
        events = profile.traced(lambda: without_graphs(members, state, 1))
        row["shares"] = profile.shares(events, profile.parts(without_graphs.as_text() or ""))
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """A table of eighty columns; the JSON file has every digit."""
    cells = [
        [
            row["what"],
            str(row.get("runs", "")),
            str(row["num_envs"]),
            f"{row.get('ms_per_step', row.get('ms_per_update')):.2f}",
            _short(row["steps_per_second"]),
            f"{row['times_upstream']:.1f} ×" if "times_upstream" in row else "",
            f"{row['compile_seconds']:.0f} s",
        ]
        for row in rows
    ]
    return console.plain(("what", "runs", "envs", "ms", "steps/s", "upstream", "compile"), cells)


def _short(number: float) -> str:
    return f"{number / 1e6:.2f} M" if number >= 1e6 else f"{number / 1e3:.1f} k"
