"""The runs that the paper's claims need: the packs of results/claims/plan.toml.

    python results/claims.py packs                    # the packs of the plan: stored or missing, with their GPU minutes
    python results/claims.py run OUT PACK [PACK ...]  # on a GPU: train and evaluate packs; started again, it resumes
    python results/claims.py keep OUT --commit HASH   # store the results of finished packs, trained by that commit
    python results/readme.py                          # write the board (results/board.py) into the documentation

OUT is one study, whichever packs are run: its folder can be copied from one machine to the next.  A machine that keeps
nothing needs one command that runs a pack and copies `study.json`, `tasks/`, `episodes/` and `runs/*/` of it elsewhere.
"""

import argparse
import json
import shlex
import shutil
import sys
import tomllib
from functools import cache
from pathlib import Path

import seconds

from perepisode import cli
from perepisode.environments.craftax.env import Craftax
from perepisode.runs import Run, RunFolder, write_atomically
from perepisode.safe_io import read_json
from perepisode.study import local, plan

HERE = Path(__file__).parent
KEPT = HERE / "claims"
PLAN = tomllib.loads((KEPT / "plan.toml").read_text(encoding="utf-8"))
EVERY = 16  # of the rows of metrics, one is stored
LATER = ("esr_distilled", " matched")  # agents whose utility or setting is known only after other runs


def runs_of(pack: dict) -> list[Run]:
    """The runs of a pack."""
    return [run for agent in pack["agents"] for run in trained(agent, pack["dilemma"], pack["scale"])]


@cache
def trained(agent: str, dilemma: str, scale: str) -> tuple[Run, ...]:
    """The runs of an agent of the plan, with the seeds of the scale unless it names others; none if they come later."""
    if agent.endswith(LATER):
        return ()
    (method, *options), size = shlex.split(agent), PLAN["scales"][scale]
    seeds = [] if "--seeds" in options else ["--seeds", *map(str, size["seeds"])]
    words = ["train", "--env", "craftax", "--dilemma", dilemma, "--method", method, *options, *seeds]
    return tuple(cli.parsed([*words, "--total-timesteps", str(size["total_timesteps"])]).runs()[0])


def study() -> plan.Study:
    """One task per pack."""
    tasks = (plan.Task(p["name"], "train", members=tuple(map(plan.Member.of, runs_of(p)))) for p in PLAN["pack"])
    return plan.Study("craftax", tuple(tasks), Craftax.eval_config, chunk=20)


def stored() -> set[str]:
    return {path.stem for path in (KEPT / "packs").glob("*.json")}


def packs() -> int:
    for task, pack in zip(study().tasks, PLAN["pack"]):
        state = "stored" if task.name in stored() else f"missing, {pack['gpu_minutes']} GPU minutes"
        print(f"{task.name}: {len(task.members)} runs, {task.steps:.3g} steps, {state}")
    return 0


def run(out: Path, names: list[str]) -> int:
    return local.run(plan.save(study(), out), out, [{}], tasks=tuple(names))


def keep(out: Path, commit: str) -> int:
    """Store episodes tables, thinned metrics, and for each pack its seconds and the commit that trained it."""
    for task in plan.load(out).tasks:
        if not (done := out / "tasks" / task.name / "done").exists():
            continue
        for folder in ("episodes", "curves", "packs"):
            (KEPT / folder).mkdir(exist_ok=True)
        shutil.copy(out / "episodes" / f"{task.name}.parquet", KEPT / "episodes")
        for member in task.members:
            if RunFolder(out / "runs" / member.folder).done:
                seconds.keep_curve(out / "runs" / member.folder, KEPT / "curves" / member.folder, EVERY)
        about = read_json(done, "copy it again")
        about["made_with"]["commit"] = commit
        write_atomically(KEPT / "packs" / f"{task.name}.json", json.dumps(about, indent=1) + "\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("packs")
    training, keeping = commands.add_parser("run"), commands.add_parser("keep")
    for command in (training, keeping):
        command.add_argument("out", type=Path)
    training.add_argument("packs", nargs="+", choices=[pack["name"] for pack in PLAN["pack"]])
    keeping.add_argument("--commit", required=True, help="of the code that trained, if it ran outside of a clone")
    given = parser.parse_args()
    if given.command == "run":
        return run(given.out, given.packs)
    return keep(given.out, given.commit) if given.command == "keep" else packs()


if __name__ == "__main__":
    sys.exit(main())
