"""Training speed of two versions of this package, in one process, turn by turn.

    git worktree add ../before COMMIT
    python benchmarks/two_trees.py ../before . --runs 1 3 8 16 --out results/bench/two_trees.json

Prints, for each population, the median time of an update in both and their ratio.  All programs are compiled first, in
threads; then the versions take turns, so that a slow moment of the machine meets both.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import jax

UPDATES = 4  # of one call


class Tree:
    """One version's modules, which replace the other's while it traces."""

    def __init__(self, root: Path):
        self.source, self.modules = str(root.resolve() / "src"), dict[str, ModuleType]()

    @contextmanager
    def imported(self) -> Iterator[None]:
        sys.modules.update(self.modules)
        sys.path.insert(0, self.source)
        try:
            yield
        finally:
            sys.path.remove(self.source)
            own = [name for name in sys.modules if name.split(".")[0] == "perepisode"]
            self.modules = {name: sys.modules.pop(name) for name in own}

    def lowered(self, env: str, runs: int, sizes: dict[str, int]) -> tuple[Any, Any, Any]:
        """The program of some updates of a population, its members and its initial state."""
        with self.imported():
            train, Run = import_module("perepisode.training.train"), import_module("perepisode.runs").Run
            assert train.__file__.startswith(self.source), f"{train.__file__} is of another version"
            config = replace(import_module("perepisode.config").PPOConfig(), **sizes)
            # `ppo` held what every agent needs before agents were exchangeable
            name, module = ("config", "update") if hasattr(train, "update") else ("ppo", "ppo")
            update = import_module(f"perepisode.training.{module}")
            environment = import_module("perepisode.environments").ENVIRONMENTS[env]
            steps = config.steps_per_update * 1000
            run = Run(env, environment.dilemmas[0], "lagrangian", {"budget": 1}, total_timesteps=steps)
            members_of = [replace(run, seed=seed, **{name: config}) for seed in range(runs)]
            program, members = train.prepare(members_of)
            params = update.initial_params(program, members, [run.seed for run in members_of])
            state = jax.jit(partial(update.init, program))(members, params)
            return train.run_chunk.lower(program, UPDATES, members, state, UPDATES), members, state


def timed(compiled: Callable, members: Any, state: Any) -> tuple[float, Any]:
    """Seconds of an update, and the next state."""
    start = time.perf_counter()
    state = jax.block_until_ready(compiled(members, state, UPDATES)[0])
    return (time.perf_counter() - start) / UPDATES, state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", type=Path, nargs=2, help="folders of the version before and after")
    parser.add_argument("--env", default="craftax")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 3, 8, 16])
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--hidden-size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wait-for", type=Path, help="time only after this file exists")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    trees, sizes = [Tree(path) for path in given.trees], {"num_envs": given.num_envs, "hidden_size": given.hidden_size}
    jobs, rows = {}, []
    with ThreadPoolExecutor(2 * len(given.runs)) as pool:
        for runs in given.runs:
            for side, tree in enumerate(trees):
                lowered, *arguments = tree.lowered(given.env, runs, sizes)
                jobs[runs, side] = (pool.submit(lowered.compile), arguments)
    while given.wait_for and not given.wait_for.exists():
        time.sleep(0.5)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {given.env}, ms per update")
    print(f"{'runs':>5} {'before':>9} {'after':>9} {'after / before':>15}")
    for runs in given.runs:
        programs = [jobs[runs, side][0].result() for side in (0, 1)]
        members, states = zip(*(jobs.pop((runs, side))[1] for side in (0, 1)))
        states, times = list(states), ([], [])
        for round_ in range(given.rounds + 1):
            for side in (0, 1) if round_ % 2 else (1, 0):
                seconds, states[side] = timed(programs[side], members[side], states[side])
                times[side].append(seconds)
        before, after = (1e3 * median(side[1:]) for side in times)  # the first call loads the program
        rows.append({"runs": runs, "before": before, "after": after, "ratio": after / before, "seconds": times})
        print(f"{runs:>5} {before:9.2f} {after:9.2f} {after / before:15.3f}", flush=True)
        if given.out:
            given.out.write_text(json.dumps({"device": jax.devices()[0].device_kind, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
