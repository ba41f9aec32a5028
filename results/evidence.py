"""The paper's comparison, trained with this code: the list of runs, and how their results get into this folder.

    python results/evidence.py plan                        # what remains to be trained, in packs
    python results/evidence.py run out/evidence            # on a GPU; started again, it resumes
    python results/evidence.py keep out/evidence           # store the results, rebuild the reports and README's blocks
    python results/evidence.py renew                       # rebuild the reports and README's blocks only
    python results/evidence.py watch                       # rebuild the replays only, about a minute on a CPU
    python results/check.py                                # rebuild them elsewhere and fail on a difference

`run` trains and evaluates packs of up to 16 runs that are not stored here yet, then replays the worst episode of each
agent in WATCHED.  `keep` stores the episodes tables, every sixteenth row of the training metrics with sums over all
rows (`seconds.tally`), the seconds of each pack and the replays.  The packs of lists 1 and 2 were started by hand, as
`run` starts them (`python -m perepisode.study.run_task OUT TASK`), the second while the first was training, so that it
compiled in the meantime.

Two of the folders share runs.  results/craftax has the paper's accrued observation ν.  results/loud has agents with the
scaled observation (version 0.1 called it loud), their rivals and, in its report, those agents of results/craftax that
have no accrued observation.  Agents with the paper's ν are not in it: a report reads the arms of a method as one curve,
and theirs would be a second one.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
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
    """A folder of committed results and the report on them."""

    kept: Path
    lists: tuple[int, ...]
    discussion: Path  # its numbers are read from the report's tables


CRAFTAX = Home(HERE / "craftax", (1, 2, 3, 4), HERE / "discussion.md")
LOUD = Home(HERE / "loud", (5, 6, 7), HERE / "discussion_loud.md")
LONG = Home(paper_length.KEPT, (), HERE / "discussion_paper_length.md")
HOMES = (LONG, CRAFTAX, LOUD)
EVERY = 16  # of the rows of metrics, one is stored
SEEDS = (42, 123, 7)
MORE_SEEDS = (*SEEDS, 11, 23)  # for close comparisons; none was used to choose ν (results/search)
WATCHED = {
    "esr": ("esr", "k=1", "exact"),
    "esr_paper_detector": ("esr", "k=1", "paper"),
    "lagrangian": ("lagrangian", "d=0.5", "exact"),
    "ser": ("ser", "w=0.1", "exact"),
    "ser_racc": ("ser_racc", "w=0.1", "exact"),
}  # page: method, arm, training detector


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
    # the unconstrained agent of the first list serves here too: every agent's violations of every dilemma are counted
    4: [
        arm("lagrangian", "sustainability", budget=1),
        arm("ser", "sustainability", weight=0.1),
        arm("esr", "sustainability", budget=1),
    ],
    # the scaled observation: ESR, and the control with the same observation and a linear objective
    5: [
        arm("esr", budget=1, accrued_obs="scaled", seeds=MORE_SEEDS),
        arm("ser_racc", weight=0.1, accrued_obs="scaled", seeds=MORE_SEEDS),
        arm("ser_racc", weight=0.15, accrued_obs="scaled", seeds=MORE_SEEDS),
    ],
    # their rivals
    6: [
        arm("ser", weight=0.1, seeds=MORE_SEEDS),
        arm("ser", weight=0.15, seeds=MORE_SEEDS),
        arm("lagrangian", budget=0.25),
        arm("lagrangian", budget=0.5, seeds=MORE_SEEDS),
    ],
    # other budgets, the other methods with a per-episode budget, and the strictest price
    7: [
        arm("esr", budget=2, accrued_obs="scaled"),
        arm("esr", budget=4, accrued_obs="scaled"),
        arm("saute", budget=1, accrued_obs="scaled"),
        arm("chance", budget=1, accrued_obs="scaled"),
        arm("ser", weight=0.2),
    ],
}


def study(lists: list[int], steps: int) -> plan.Study:
    """The runs of these lists that are not stored yet."""
    kept = {json.loads(path.read_text())["id"] for home in HOMES for path in home.kept.glob("curves/*/run.json")}
    runs = [replace(one, total_timesteps=steps) for number in lists for arms in LISTS[number] for one in arms]
    missing = [run for run in runs if run.id not in kept]
    if not missing:
        sys.exit("every run of these lists is stored already")
    composed = plan.compose(missing, Craftax.pack, chunk=20)
    # `keep` builds the report
    return replace(composed, tasks=tuple(composed.of_kind("train")))


def show(composed: plan.Study) -> int:
    for task in composed.tasks:
        arms = dict.fromkeys(f"{run.dilemma} {run.method} {run.arm}" for run in (one.run() for one in task.members))
        print(f"{task.name}: {len(task.members)} runs, {task.steps:.3g} steps: {', '.join(arms)}")
    return 0


def run(out: Path, composed: plan.Study) -> int:
    return local.run(plan.save(composed, out), out, [{}]) or watch(out, out / "runs", WATCHED)


def watch(out: Path, runs: Path, names: Iterable[str]) -> int:
    """Replay on the device that evaluated: another one rounds differently, and an episode may take another course."""
    from perepisode.replay.selection import worst_first
    from perepisode.replay.watch import watch as replay

    for table in sorted((out / "episodes").glob("*.parquet")):
        read = episodes.read(table)
        for name in names:
            method, arm, detector = WATCHED[name]
            own = read[(read["method"] == method) & (read["arm"] == arm) & (read["detector"] == detector)]
            if len(own):
                replay(table, out / "watch" / name, row=tuple(worst_first(own)[:1]), runs=runs)
    return 0


def rewatch() -> int:
    """Rebuild the stored replays from the stored tables; the log says whether this device reproduces them."""
    stored = [path.name for path in sorted((CRAFTAX.kept / "watch").glob("*"))]
    return watch(CRAFTAX.kept, CRAFTAX.kept / "curves", stored) or paper_length.watch()


# ---- what is committed --------------------------------------------------------------------------------------


def home_of(out: Path) -> Home:
    """The folder of the last list among these runs; a run belongs to the first list that names it."""
    runs = [RunFolder(path.parent).read() for path in sorted((out / "runs").glob("*/done"))]
    if not runs:
        sys.exit(f"{out} contains no finished run")
    named: dict[str, int] = {}
    for number, arms in LISTS.items():
        for one in (one for arm in arms for one in arm):
            named.setdefault(replace(one, total_timesteps=runs[0].total_timesteps).id, number)
    if unlisted := [run for run in runs if run.id not in named]:
        sys.exit(f"{unlisted[0].method} {unlisted[0].arm} seed {unlisted[0].seed} is in no list")
    last = max(named[run.id] for run in runs)
    return next(home for home in HOMES if last in home.lists)


def keep(out: Path, log: Callable[[str], None] = print) -> int:
    """Store the results, then rebuild the reports and README's blocks."""
    home = home_of(out)
    for folder in (home.kept / "episodes", home.kept / "curves", home.kept / "packs"):
        folder.mkdir(parents=True, exist_ok=True)
    for table in sorted((out / "episodes").glob("*.parquet")):
        shutil.copy(table, home.kept / "episodes" / f"{out.name}-{table.name}")
        shutil.copy(out / "tasks" / table.stem / "done", home.kept / "packs" / f"{out.name}-{table.stem}.json")
    for folder in sorted(path.parent for path in (out / "runs").glob("*/done")):
        seconds.keep_curve(folder, home.kept / "curves" / folder.name, EVERY)
    if home is CRAFTAX:  # other seeds of the same agents show nothing new
        for replayed in sorted((out / "watch").glob("*")):
            shutil.copytree(replayed, home.kept / "watch" / replayed.name, dirs_exist_ok=True)
    return renew(log)


def renew(log: Callable[[str], None] = print) -> int:
    """Rebuild the reports and README's blocks from the stored results."""
    for home in HOMES:
        shutil.rmtree(home.kept / "report", ignore_errors=True)  # also tables that no longer exist
        report(home, home.kept / "report")
        log(f"wrote {home.kept / 'report' / 'index.html'}")
    readme.write(HERE)
    log("wrote README's blocks\nnext: python results/check.py")
    return 0


def report(home: Home, into: Path) -> None:
    """The report of a folder that `keep` filled."""
    tables, curves = _tables(home), [home.kept / "curves"]
    # relative to `into`, so that a report built elsewhere for comparison has the same links
    replays = [into.parent / "watch" / path.name for path in sorted((home.kept / "watch").glob("*"))]
    further = {LONG: paper_length.declared, LOUD: partial(seconds.declared, [CRAFTAX.kept, LOUD.kept])}
    with tempfile.TemporaryDirectory() as folder, further.get(home, nullcontext)():
        if home is LOUD:
            tables += _without_accrued_obs(Path(folder))
            runs = {path: RunFolder(path).read().method for path in sorted(CRAFTAX.kept.glob("curves/*"))}
            curves += [path for path, method in runs.items() if not _has_accrued_obs(method)]
        page.build(tables, into, curves=curves, watch=replays, discussion=home.discussion)


def _tables(home: Home) -> list[Path]:
    return sorted((home.kept / "episodes").glob("*.parquet"))


def _has_accrued_obs(method: str) -> bool:
    return METHODS[method].accrued_obs is not None


def _without_accrued_obs(into: Path) -> list[Path]:
    """The agents of results/craftax without an accrued observation, in tables of the same names."""
    written = []
    for table in _tables(CRAFTAX):
        read = episodes.read(table, without=episodes.REPLAY_COLUMNS)
        own = read[~read["method"].map(_has_accrued_obs)]
        if len(own):
            written.append(paper_length.write_part(own, into / table.name, read.attrs["provenance"]))
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
    commands.add_parser("watch")
    given = parser.parse_args()
    if given.command == "watch":
        return rewatch()
    if given.command == "renew":
        return renew()
    if given.command == "keep":
        return keep(given.out)
    composed = study(given.lists, int(given.steps))
    return show(composed) if given.command == "plan" else run(given.out, composed)


if __name__ == "__main__":
    sys.exit(main())
