"""The paper's comparison, trained by this code: which runs, and how their results come to lie in this folder.

    python results/evidence.py plan                        # what is still to be trained, in packs
    python results/evidence.py run out/evidence            # on a GPU; started again, it goes on where it was stopped
    python results/evidence.py keep out/evidence           # what is committed, the report on it, README's part of that
    python results/evidence.py renew                       # that report and part again, after other words in DISCUSSION
    python results/check.py                                # rebuilds both, fails on a difference

`run` trains and judges packs of up to 16 runs that are not kept here yet, then replays the worst episode of each agent
named in WATCHED.  `keep` takes the episodes tables, every sixteenth row of the training metrics, the seconds each pack
took and the replays.  The packs of lists 1 and 2 were started by hand, as `run` starts them (`python -m
perepisode.study.work OUT TASK`), the second while the first still trained, so that it compiled meanwhile.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import readme

from perepisode.environments.craftax.world import Craftax
from perepisode.report import page
from perepisode.runs import Run, write_atomically
from perepisode.study import local, plan

HERE = Path(__file__).parent
KEPT = HERE / "craftax"
DISCUSSION = HERE / "discussion.md"  # our words on it; every number in them is read from the report's tables
EVERY = 16  # rows of the metrics that are kept
SEEDS = (42, 123, 7)
MORE_SEEDS = (*SEEDS, 11, 23)  # for what is compared closely; none of them chose ν (results/search)
WATCHED = {
    "esr": ("esr", "k=1", "exact"),
    "esr_paper_detector": ("esr", "k=1", "paper"),
    "lagrangian": ("lagrangian", "d=0.5", "exact"),
    "ser": ("ser", "w=0.1", "exact"),
    "ser_racc": ("ser_racc", "w=0.1", "exact"),
}  # page: method, arm, detector it was trained on


def arm(method: str, dilemma: str = "no_killing", detector: str = "exact", seeds=SEEDS, **settings) -> list[Run]:
    return [Run("craftax", dilemma, method, settings, seed, detector=detector) for seed in seeds]


# In order of importance
LISTS: dict[int, list[list[Run]]] = {
    1: [
        arm("unconstrained"),
        arm("ser", weight=0.1),
        arm("ser", weight=0.3),
        arm("lagrangian", budget=0.5),
        arm("lagrangian", budget=1),
        arm("esr", budget=1),
        arm("ser_racc", weight=0.1),
        arm("esr", budget=1, detector="paper"),
    ],
    2: [
        arm("esr", budget=0),
        arm("esr", budget=2),
        arm("esr", budget=4),
    ],
    3: [
        arm("erm", enforcement="heuristic"),
        arm("ser", weight=0.03),
        arm("ser", weight=0.2),
    ],
    # the unconstrained agent of the first list serves here too: every dilemma is counted for every agent
    4: [
        arm("lagrangian", "sustainability", budget=1),
        arm("ser", "sustainability", weight=0.1),
        arm("esr", "sustainability", budget=1),
    ],
    # told loudly what they have accrued: ESR, and the control with the same input and a linear objective
    5: [
        arm("esr", budget=1, told="loud", seeds=MORE_SEEDS),
        arm("ser_racc", weight=0.1, told="loud", seeds=MORE_SEEDS),
        arm("ser_racc", weight=0.15, told="loud", seeds=MORE_SEEDS),
    ],
    # their rivals on the mean
    6: [
        arm("ser", weight=0.1, seeds=MORE_SEEDS),
        arm("ser", weight=0.15, seeds=MORE_SEEDS),
        arm("lagrangian", budget=0.25),
        arm("lagrangian", budget=0.5, seeds=MORE_SEEDS),
    ],
    # other budgets and the other methods with a budget an episode
    7: [
        arm("esr", budget=2, told="loud"),
        arm("esr", budget=4, told="loud"),
        arm("saute", budget=1, told="loud"),
        arm("chance", budget=1, told="loud"),
    ],
}


def study(lists: list[int], steps: int) -> plan.Study:
    """The runs of these lists that are not kept yet."""
    kept = {json.loads(path.read_text())["id"] for path in KEPT.glob("curves/*/run.json")}
    runs = [replace(one, steps=steps) for number in lists for arms in LISTS[number] for one in arms]
    missing = [run for run in runs if run.id not in kept]
    composed = plan.compose(missing, Craftax.pack, chunk=20)
    # the report is made by `keep`, from what is kept
    return replace(composed, tasks=tuple(composed.of_kind("train")))


def show(composed: plan.Study) -> int:
    for task in composed.tasks:
        arms = dict.fromkeys(f"{run.dilemma} {run.method} {run.arm}" for run in (one.run() for one in task.members))
        print(f"{task.name}: {len(task.members)} runs, {task.steps:.3g} steps: {', '.join(arms)}")
    return 0


def run(out: Path, composed: plan.Study) -> int:
    return local.run(plan.save(composed, out), out, [{}]) or watch(out)


def watch(out: Path) -> int:
    """Where the agents were judged: another device rounds differently, and an episode may then take another turn."""
    from perepisode.evaluation import episodes
    from perepisode.replay.source import worst_first
    from perepisode.replay.watch import watch as replay

    for table in sorted((out / "episodes").glob("*.parquet")):
        read = episodes.read(table)
        for name, (method, arm, detector) in WATCHED.items():
            own = read[(read["method"] == method) & (read["arm"] == arm) & (read["detector"] == detector)]
            if len(own):
                replay(table, out / "watch" / name, row=tuple(worst_first(own)[:1]), runs=out / "runs")
    return 0


# ---- what is committed --------------------------------------------------------------------------------------


def keep(out: Path, say: Callable[[str], None] = print) -> int:
    """Add what is committed to what is there, then renew the report and README's part of it."""
    for folder in (KEPT / "episodes", KEPT / "curves", KEPT / "packs"):
        folder.mkdir(parents=True, exist_ok=True)
    for table in sorted((out / "episodes").glob("*.parquet")):
        shutil.copy(table, KEPT / "episodes" / f"{out.name}-{table.name}")
        shutil.copy(out / "tasks" / table.stem / "done", KEPT / "packs" / f"{out.name}-{table.stem}.json")
    for folder in sorted(path.parent for path in (out / "runs").glob("*/done")):
        (KEPT / "curves" / folder.name).mkdir(exist_ok=True)
        shutil.copy(folder / "run.json", KEPT / "curves" / folder.name)
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        write_atomically(KEPT / "curves" / folder.name / "metrics.jsonl", "\n".join(lines[::EVERY]) + "\n")
    for replayed in sorted((out / "watch").glob("*")):
        shutil.copytree(replayed, KEPT / "watch" / replayed.name, dirs_exist_ok=True)
    return renew(say)


def renew(say: Callable[[str], None] = print) -> int:
    """The report and README's part of it again, from what is kept: after other words, or other code."""
    shutil.rmtree(KEPT / "report", ignore_errors=True)  # or tables that are no longer made would stay
    report(KEPT, KEPT / "report")
    readme.write(KEPT)
    say(f"wrote {KEPT / 'report' / 'index.html'} and README's part of it\nnext: python results/check.py")
    return 0


def report(kept: Path, into: Path) -> None:
    """The report of a folder that `keep` filled."""
    tables, replays = sorted((kept / "episodes").glob("*.parquet")), sorted((kept / "watch").glob("*"))
    page.build(tables, into, curves=[kept / "curves"], watch=replays, discussion=DISCUSSION)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("plan", "run"):
        command = commands.add_parser(name)
        if name == "run":
            command.add_argument("out", type=Path)
        command.add_argument("--lists", type=int, nargs="+", default=[1], choices=sorted(LISTS))
        command.add_argument("--steps", type=float, default=1e8)
    commands.add_parser("keep").add_argument("out", type=Path)
    commands.add_parser("renew")
    given = parser.parse_args()
    if given.command == "renew":
        return renew()
    if given.command == "keep":
        return keep(given.out)
    composed = study(given.lists, int(given.steps))
    return show(composed) if given.command == "plan" else run(given.out, composed)


if __name__ == "__main__":
    sys.exit(main())
