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
WATCHED = {
    "esr": ("esr", "k=1", "exact"),
    "esr_paper_detector": ("esr", "k=1", "paper"),
    "lagrangian": ("lagrangian", "d=0.5", "exact"),
    "ser": ("ser", "w=0.1", "exact"),
}  # page: method, arm, detector it was trained on


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
        arm("esr", budget=1, detector="paper"),  # sees what the two above see, and so costs no program of its own
    ],
    2: [
        arm("esr", budget=0),
        arm("esr", budget=2),
        arm("esr", budget=4),
        arm("erm", enforcement="heuristic"),
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
    composed = plan.compose(runs, packing.PREFERRED["craftax"], checkpoint_seconds=400.0, chunk=20)
    # the report is made by `keep`, from what is kept
    return replace(composed, tasks=tuple(composed.of_kind("train")))


def run(out: Path, lists: list[int], steps: int) -> int:
    composed = plan.save(study(lists, steps), out)
    return local.run(composed, out, [{}]) or watch(out)


def watch(out: Path) -> int:
    """Where the agents were judged: another device rounds differently, and an episode may then take another turn."""
    from perepisode.evaluation import episodes
    from perepisode.report.replay import watch as replay
    from perepisode.report.replay_source import worst_first

    for table in sorted((out / "episodes").glob("*.parquet")):
        read = episodes.read(table)
        for name, (method, arm, detector) in WATCHED.items():
            own = read[(read["method"] == method) & (read["arm"] == arm) & (read["detector"] == detector)]
            if len(own):
                replay(table, out / "watch" / name, row=tuple(worst_first(own)[:1]), runs=out / "runs")
    return 0


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
