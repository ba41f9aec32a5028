"""The paper's comparison, trained by this code: which runs, and how their results come to lie in this folder.

    python results/evidence.py plan                        # what is still to be trained, in packs
    python results/evidence.py run out/evidence            # on a GPU; started again, it goes on where it was stopped
    python results/evidence.py keep out/evidence           # what is committed, the reports on it, README's parts
    python results/evidence.py renew                       # those reports and parts again, after other words in HOMES
    python results/check.py                                # rebuilds them, fails on a difference

`run` trains and judges packs of up to 16 runs that are not kept here yet, then replays the worst episode of each agent
named in WATCHED.  `keep` takes the episodes tables, every sixteenth row of the training metrics and sums over all of
them (`seconds.tally`), the seconds each pack took and the replays.  The packs of lists 1 and 2 were started by hand, as
`run` starts them (`python -m perepisode.study.run_task OUT TASK`), the second while the first still trained, so that it
compiled meanwhile.

There are two folders with a report each.  results/craftax has the paper's ν; results/loud has agents that are told
loudly what they have accrued, their rivals, and in its report also those of results/craftax that are told nothing.
Agents told the paper's ν stay out of it: a report reads a method's arms as one line, and these would be a second one.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import paper_length
import readme
import seconds

from perepisode.environments.craftax.env import Craftax
from perepisode.evaluation import episodes
from perepisode.methods import METHODS
from perepisode.report import page
from perepisode.runs import Run, RunFolder
from perepisode.study import local, plan

HERE = Path(__file__).parent


class Home(NamedTuple):
    """A folder of what is committed, and of the report on it."""

    kept: Path
    lists: tuple[int, ...]
    discussion: Path  # our words on it; every number in them is read from the report's tables


CRAFTAX = Home(HERE / "craftax", (1, 2, 3, 4), HERE / "discussion.md")
LOUD = Home(HERE / "loud", (5, 6, 7), HERE / "discussion_loud.md")
LONG = Home(paper_length.KEPT, (), HERE / "discussion_paper_length.md")
HOMES = (LONG, CRAFTAX, LOUD)
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
    ],
    # the unconstrained agent of the first list serves here too: every dilemma is counted for every agent
    4: [
        arm("lagrangian", "sustainability", budget=1),
        arm("ser", "sustainability", weight=0.1),
        arm("esr", "sustainability", budget=1),
    ],
    # told loudly what they have accrued: ESR, and the control with the same input and a linear objective
    5: [
        arm("esr", budget=1, accrued_obs="loud", seeds=MORE_SEEDS),
        arm("ser_racc", weight=0.1, accrued_obs="loud", seeds=MORE_SEEDS),
        arm("ser_racc", weight=0.15, accrued_obs="loud", seeds=MORE_SEEDS),
    ],
    # their rivals on the mean
    6: [
        arm("ser", weight=0.1, seeds=MORE_SEEDS),
        arm("ser", weight=0.15, seeds=MORE_SEEDS),
        arm("lagrangian", budget=0.25),
        arm("lagrangian", budget=0.5, seeds=MORE_SEEDS),
    ],
    # other budgets, the other methods with a budget an episode, and the strictest price
    7: [
        arm("esr", budget=2, accrued_obs="loud"),
        arm("esr", budget=4, accrued_obs="loud"),
        arm("saute", budget=1, accrued_obs="loud"),
        arm("chance", budget=1, accrued_obs="loud"),
        arm("ser", weight=0.2),
    ],
}


def study(lists: list[int], steps: int) -> plan.Study:
    """The runs of these lists that are not kept yet."""
    kept = {json.loads(path.read_text())["id"] for home in HOMES for path in home.kept.glob("curves/*/run.json")}
    runs = [replace(one, total_timesteps=steps) for number in lists for arms in LISTS[number] for one in arms]
    missing = [run for run in runs if run.id not in kept]
    if not missing:
        sys.exit("every run of these lists is kept already")
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
    from perepisode.replay.selection import worst_first
    from perepisode.replay.watch import watch as replay

    for table in sorted((out / "episodes").glob("*.parquet")):
        read = episodes.read(table)
        for name, (method, arm, detector) in WATCHED.items():
            own = read[(read["method"] == method) & (read["arm"] == arm) & (read["detector"] == detector)]
            if len(own):
                replay(table, out / "watch" / name, row=tuple(worst_first(own)[:1]), runs=out / "runs")
    return 0


# ---- what is committed --------------------------------------------------------------------------------------


def home_of(out: Path) -> Home:
    """Where trained runs are kept: with the last of their lists, each run being of the first list that names it."""
    runs = [RunFolder(path.parent).read() for path in sorted((out / "runs").glob("*/done"))]
    if not runs:
        sys.exit(f"{out} holds no finished run")
    named: dict[str, int] = {}
    for number, arms in LISTS.items():
        for one in (one for arm in arms for one in arm):
            named.setdefault(replace(one, total_timesteps=runs[0].total_timesteps).id, number)
    if strange := [run for run in runs if run.id not in named]:
        sys.exit(f"{strange[0].method} {strange[0].arm} seed {strange[0].seed} is in no list")
    last = max(named[run.id] for run in runs)
    return next(home for home in HOMES if last in home.lists)


def keep(out: Path, log: Callable[[str], None] = print) -> int:
    """Add what is committed to what is there, then renew the reports and README's parts of them."""
    home = home_of(out)
    for folder in (home.kept / "episodes", home.kept / "curves", home.kept / "packs"):
        folder.mkdir(parents=True, exist_ok=True)
    for table in sorted((out / "episodes").glob("*.parquet")):
        shutil.copy(table, home.kept / "episodes" / f"{out.name}-{table.name}")
        shutil.copy(out / "tasks" / table.stem / "done", home.kept / "packs" / f"{out.name}-{table.stem}.json")
    for folder in sorted(path.parent for path in (out / "runs").glob("*/done")):
        seconds.keep_curve(folder, home.kept / "curves" / folder.name, EVERY)
    if home is CRAFTAX:  # the same agents with other seeds are no more to look at
        for replayed in sorted((out / "watch").glob("*")):
            shutil.copytree(replayed, home.kept / "watch" / replayed.name, dirs_exist_ok=True)
    return renew(log)


def renew(log: Callable[[str], None] = print) -> int:
    """The reports and README's parts of them again, from what is kept: after other words, or other code."""
    for home in HOMES:
        shutil.rmtree(home.kept / "report", ignore_errors=True)  # or tables that are no longer made would stay
        report(home, home.kept / "report")
        log(f"wrote {home.kept / 'report' / 'index.html'}")
    readme.write(HERE)
    log("wrote README's parts\nnext: python results/check.py")
    return 0


def report(home: Home, into: Path) -> None:
    """The report of a folder that `keep` filled."""
    tables, curves = _tables(home), [home.kept / "curves"]
    # beside `into`, so that a report made elsewhere for comparison has the same links
    replays = [into.parent / "watch" / path.name for path in sorted((home.kept / "watch").glob("*"))]
    further = {LONG: paper_length.declared, LOUD: partial(seconds.declared, [CRAFTAX.kept, LOUD.kept])}
    with tempfile.TemporaryDirectory() as folder, further.get(home, nullcontext)():
        if home is LOUD:
            tables += _untold(Path(folder))
            curves += [
                path for path in sorted(CRAFTAX.kept.glob("curves/*")) if not _told(RunFolder(path).read().method)
            ]
        page.build(tables, into, curves=curves, watch=replays, discussion=home.discussion)


def _tables(home: Home) -> list[Path]:
    return sorted((home.kept / "episodes").glob("*.parquet"))


def _told(method: str) -> bool:
    """Whether a method's agents are told anything of what they have accrued."""
    return METHODS[method].accrued_obs is not None


def _untold(into: Path) -> list[Path]:
    """The agents of results/craftax that are told nothing, in tables of the same names."""
    written = []
    for table in _tables(CRAFTAX):
        read = episodes.read(table, without=episodes.REPLAY_COLUMNS)
        own = read[~read["method"].map(_told)]
        if len(own):
            written.append(paper_length.write_again(own, into / table.name, read.attrs["provenance"]))
    return written


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
