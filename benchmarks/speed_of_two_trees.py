"""Training speed of two versions of the package on Craftax, alternating in one process, and their ratios.

python benchmarks/speed_of_two_trees.py OTHER [--populations 1 3 8 16] [--rounds 5] [--num-envs 1024]

OTHER is another checkout, such as a worktree of the commit before: `git worktree add ../before HEAD~1`.  A ratio above
1 means that this tree is faster.  Rounds alternate between the trees, so that clocks and temperature affect both alike.
"""

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

HERE = Path(__file__).resolve().parents[1]
UPDATES = 4  # per timed call


def loaded(tree: Path) -> dict[str, Any]:
    """The modules of the package in this tree, imported afresh; `use` makes them the current ones."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "perepisode"]:
        del sys.modules[name]
    sys.path.insert(0, str(tree / "src"))
    try:
        for name in ("runs", "config", "training.train", "environments.craftax.env"):
            importlib.import_module(f"perepisode.{name}")
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "perepisode"}
    finally:
        sys.path.pop(0)


def use(modules: dict[str, Any]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "perepisode"]:
        del sys.modules[name]
    sys.modules.update(modules)


def training(modules: dict[str, Any], size: int, arguments: argparse.Namespace) -> Callable[[], float]:
    """Compile the updates of `size` runs; the result times a few of them, in seconds per update."""
    use(modules)
    runs, config, train = (modules[f"perepisode.{name}"] for name in ("runs", "config", "training.train"))
    sizes = {"num_envs": arguments.num_envs, "hidden_size": arguments.hidden_size, "precision": arguments.precision}
    own = replace(config.PPOConfig(), **sizes)
    key = "config" if "config" in {field.name for field in fields(runs.Run)} else "ppo"
    steps = own.steps_per_update * 10_000
    members = [
        runs.Run(
            arguments.env, arguments.dilemma, "lagrangian", {"budget": 1}, seed, total_timesteps=steps, **{key: own}
        )
        for seed in range(size)
    ]
    program, population = train.prepare(members)
    update = sys.modules.get("perepisode.training.update") or sys.modules["perepisode.training.ppo"]
    params = update.initial_params(program, population, list(range(size)))
    state = jax.jit(partial(update.init, program))(population, params)
    state = jax.block_until_ready(train.run_chunk(program, UPDATES, population, state, UPDATES)[0])
    modules.update({name: one for name, one in sys.modules.items() if name.partition(".")[0] == "perepisode"})

    def seconds() -> float:
        nonlocal state
        start = time.perf_counter()
        state = jax.block_until_ready(train.run_chunk(program, UPDATES, population, state, UPDATES)[0])
        return (time.perf_counter() - start) / UPDATES

    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--populations", type=int, nargs="+", default=[1, 3, 8, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--env", default="craftax")
    parser.add_argument("--dilemma", default="no_killing")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--hidden-size", type=int, default=512)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    trees = {"other": loaded(arguments.other.resolve()), "this": loaded(HERE)}
    rows = []
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {arguments.env}; milliseconds per update")
    for size in arguments.populations:
        timed = {name: training(modules, size, arguments) for name, modules in trees.items()}
        times: dict[str, list[float]] = {name: [] for name in timed}
        for number in range(arguments.rounds):
            for name in sorted(timed, reverse=bool(number % 2)):
                use(trees[name])
                times[name].append(1e3 * timed[name]())
        middle = {name: statistics.median(values) for name, values in times.items()}
        ratios = [other / this for other, this in zip(times["other"], times["this"])]
        row = {"runs": size, **middle, "ratio": middle["other"] / middle["this"], "ratios": ratios}
        rows.append(row)
        print(
            f"{size:3} runs: other {middle['other']:.2f}, this {middle['this']:.2f}, other / this "
            f"{row['ratio']:.4f} (rounds {min(ratios):.4f} to {max(ratios):.4f})",
            flush=True,
        )
        if arguments.out:
            arguments.out.write_text(json.dumps({"device": jax.devices()[0].device_kind, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
