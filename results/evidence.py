"""The paper's comparison, trained by this code: which runs, and how their results come to lie in this folder.

    python results/evidence.py run out/evidence [--lists 1] [--steps 1e8]   # on a GPU; a stopped one goes on
    python results/evidence.py keep out/evidence results/no_killing         # what is committed
    python results/check.py                                                 # rebuilds the report, fails on a difference

`run` trains and judges packs of up to 16 runs, then replays the worst episode of each agent named in WATCHED.
`keep` takes the episodes tables, every sixteenth row of the training metrics, the replays, and builds the report.
"""

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from perepisode.config import Run
from perepisode.report import page
from perepisode.runs import write_atomically
from perepisode.study import local, packing, plan

EVERY = 16  # rows of the metrics that are kept
SEEDS = (42, 123, 7)
WATCHED = (("esr", "k=1"), ("lagrangian", "d=0.5"), ("ser", "w=0.1"))


def arm(method: str, dilemma: str = "no_killing", detector: str = "exact", **settings) -> Run:
    return Run("craftax", dilemma, method, settings, detector=detector)


# In order of importance
LISTS: dict[int, list[Run]] = {
    1: [
        arm("unconstrained"),
        arm("ser", weight=0.1),
        arm("ser", weight=0.3),
        arm("lagrangian", budget=0.5),
        arm("lagrangian", budget=1),
        arm("esr", budget=1),
        arm("ser_racc", weight=0.1),
    ],
    2: [
        arm("esr", budget=0),
        arm("esr", budget=2),
        arm("esr", budget=4),
        arm("erm", enforcement="heuristic"),
        arm("esr", budget=1, detector="paper"),
        arm("ser", weight=0.03),
        arm("ser", weight=0.2),
    ],
    3: [
        arm("unconstrained", "sustainability"),
        arm("lagrangian", "sustainability", budget=1),
        arm("ser", "sustainability", weight=0.1),
        arm("esr", "sustainability", budget=1),
    ],
}


def study(lists: list[int], steps: int) -> plan.Study:
    runs = [replace(one, seed=seed, steps=steps) for number in lists for one in LISTS[number] for seed in SEEDS]
    return plan.compose(runs, packing.PREFERRED["craftax"], checkpoint_seconds=120.0, chunk=20)


def run(out: Path, lists: list[int], steps: int) -> int:
    composed = plan.save(study(lists, steps), out)
    code = local.run(composed, out, [{}])
    return code or watch(out)


def watch(out: Path) -> int:
    """Where the agents were judged: another device rounds differently, and an episode may then take another turn."""
    from perepisode.report.replay import watch as replay_worst

    for method, name in WATCHED:
        for table in sorted((out / "episodes").glob("*.parquet")):
            if has(table, method, name):
                replay_worst(
                    table, out / "watch" / f"{method}_{name}", worst=1, method=method, arm=name, runs=out / "runs"
                )
    return 0


def has(table: Path, method: str, name: str) -> bool:
    import pandas as pd

    seen = pd.read_parquet(table, columns=["method", "arm"])
    return bool(((seen["method"] == method) & (seen["arm"] == name)).any())


def keep(out: Path, into: Path, say: Callable[[str], None] = print) -> int:
    """Copy what is committed, add it to what is there, and build the report from that alone."""
    for table in sorted((out / "episodes").glob("*.parquet")):
        (into / "episodes").mkdir(parents=True, exist_ok=True)
        shutil.copy(table, into / "episodes" / f"{out.name}-{table.name}")
    for folder in sorted(path.parent for path in (out / "runs").glob("*/done")):
        (into / "curves" / folder.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "run.json", into / "curves" / folder.name)
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        write_atomically(into / "curves" / folder.name / "metrics.jsonl", "\n".join(lines[::EVERY]) + "\n")
    for replayed in sorted((out / "watch").glob("*")):
        shutil.copytree(replayed, into / "watch" / replayed.name, dirs_exist_ok=True)
    report(into, into / "report")
    say(f"wrote {into / 'report' / 'index.html'}\nnext: python results/check.py")
    return 0


def report(kept: Path, into: Path) -> None:
    """The report of a folder that `keep` filled."""
    page.build(sorted((kept / "episodes").glob("*.parquet")), into, curves=[kept / "curves"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--lists", type=int, nargs="+", default=[1], choices=sorted(LISTS))
    running.add_argument("--steps", type=float, default=1e8)
    keeping = commands.add_parser("keep")
    keeping.add_argument("out", type=Path)
    keeping.add_argument("into", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        return run(given.out, given.lists, int(given.steps))
    return keep(given.out, given.into)


if __name__ == "__main__":
    sys.exit(main())
