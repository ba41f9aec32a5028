"""`perepisode bench`: steps a second and memory of training, for plans.  Against upstream: benchmarks/speed.py."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from perepisode import terminal
from perepisode.config import Learner
from perepisode.environments.craftax.world import Craftax
from perepisode.runs import Run, versions, write_atomically
from perepisode.study import profile
from perepisode.training import ppo
from perepisode.training.train import prepare, run_chunk


def here() -> tuple[tuple[int, ...], Learner]:
    """What is measured where nothing is said: the paper's agent, and on a CPU a smaller one."""
    if jax.default_backend() == "cpu":
        return (1, 3), replace(Learner(), envs=64, hidden=128)
    return (1, 3, 8, 16), Learner()


def bench(
    out: Path, populations: Sequence[int], learner: Learner, precisions: Sequence[str], profiled: bool = False
) -> None:
    """Measure and print the table; the JSON `out` grows with every row, so a limit loses none."""
    found = {"device": jax.devices()[0].device_kind, "versions": versions(), "training": []}
    for precision in precisions:
        for size in populations:
            found["training"].append(training_row(size, replace(learner, precision=precision), profiled))
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


def training_row(size: int, learner: Learner, profiled: bool = False) -> dict[str, Any]:
    """Whole updates of one population of `size` runs on Craftax; if `profiled`, also what part each piece takes."""
    run = Run(Craftax.name, Craftax.dilemmas[0], "lagrangian", {"budget": 1}, steps=learner.steps_per_update * 1000)
    program, members = prepare(runs := [replace(run, seed=seed, learner=learner) for seed in range(size)])
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
        "what": f"train {learner.precision}",
        "runs": size,
        "worlds": learner.envs,
        "hidden": learner.hidden,
        "ms_per_update": 1e3 * seconds,
        "steps_per_second": size * learner.steps_per_update / seconds,
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
            str(row["worlds"]),
            f"{row.get('ms_per_step', row.get('ms_per_update')):.2f}",
            _short(row["steps_per_second"]),
            f"{row['times_upstream']:.1f} ×" if "times_upstream" in row else "",
            f"{row['compile_seconds']:.0f} s",
        ]
        for row in rows
    ]
    return terminal.plain(("what", "runs", "worlds", "ms", "steps/s", "upstream", "compile"), cells)


def _short(number: float) -> str:
    return f"{number / 1e6:.2f} M" if number >= 1e6 else f"{number / 1e3:.1f} k"
