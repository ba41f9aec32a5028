"""`perepisode bench`: steps a second and memory of training, for plans.  Against upstream: benchmarks/speed.py."""

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
from perepisode.training import ppo
from perepisode.training.train import prepare, run_chunk


def defaults() -> tuple[tuple[int, ...], PPOConfig]:
    """Population sizes and network without options: the paper's agent, or a smaller one on a CPU."""
    if jax.default_backend() == "cpu":
        return (1, 3), replace(PPOConfig(), num_envs=64, hidden_size=128)
    return (1, 3, 8, 16), PPOConfig()


def bench(
    out: Path, populations: Sequence[int], config: PPOConfig, precisions: Sequence[str], profiled: bool = False
) -> None:
    """Measure and print the table; the JSON `out` grows with every row, so a limit loses none."""
    found = {"device": jax.devices()[0].device_kind, "versions": versions(), "training": []}
    for precision in precisions:
        for size in populations:
            found["training"].append(training_row(size, replace(config, precision=precision), profiled))
            write_atomically(out, json.dumps(found, indent=1))
    print(f"{found['device']}, jax {found['versions']['jax']}")
    print(table(found["training"]))
    for row in found["training"] if profiled else ():
        print(f"{row['what']}, {row['runs']} run{'s' * (row['runs'] > 1)}: {profile.said(row['shares'])}")


def seconds_of(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall time of a call whose result is waited for; it must have been compiled before."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def training_row(size: int, config: PPOConfig, profiled: bool = False) -> dict[str, Any]:
    """Whole updates of one population of `size` runs on Craftax; if `profiled`, also what part each piece takes."""
    run = Run(
        Craftax.name, Craftax.dilemmas[0], "lagrangian", {"budget": 1}, total_timesteps=config.steps_per_update * 1000
    )
    program, members = prepare(runs := [replace(run, seed=seed, ppo=config) for seed in range(size)])
    params = ppo.initial_params(program, members, [run.seed for run in runs])
    state = jax.jit(partial(ppo.init, program))(members, params)
    began = time.perf_counter()
    lowered = run_chunk.lower(program, 4, members, state, 4)
    lowered.compile()
    compile_seconds = time.perf_counter() - began
    held = [run_chunk(program, 4, members, state, 2)[0]]

    def again(updates=4):
        held[0] = run_chunk(program, 4, members, held[0], updates)[0]
        return held[0].update

    seconds = seconds_of(again, 3) / 4
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
        # kernels that are launched together are traced under one name
        apart = lowered.compile({"xla_gpu_graph_min_graph_size": "1000000"})
        events = profile.traced(lambda: apart(members, held[0], 1))
        row["shares"] = profile.shares(events, profile.parts(apart.as_text() or ""))
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """That fits eighty columns; the JSON has every digit."""
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
