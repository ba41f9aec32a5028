"""The study on a SLURM cluster: one job array per stage, and each element is a task that resumes by itself.

Before a time limit SLURM sends SIGUSR1 to the batch process, which is the task itself (`exec`); the task checkpoints
and requeues its job.  Preemption sends SIGTERM; the task checkpoints, and SLURM requeues it because of --requeue.
A cancelled job receives SIGTERM too, checkpoints, and is not requeued.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from perepisode import plugins, safe_io
from perepisode.config import ConfigError
from perepisode.report.links import render
from perepisode.runs import write_atomically
from perepisode.settings import setting
from perepisode.study import state
from perepisode.study.plan import Study, Task

STAGES = ("train", "distill", "distilled", "exact", "replay", "report")
MAX_FRUITLESS_STARTS = 3  # starts in a row without a single update, after which a task gives up


@dataclass(frozen=True)
class SlurmResources:
    """The resources requested from SLURM."""

    partition: Annotated[str, tyro.conf.arg(help_behavior_hint="")] = ""  # SLURM partition.
    account: Annotated[str, tyro.conf.arg(help_behavior_hint="")] = ""  # SLURM account.
    gpus: int = setting(1, low=0)  # GPUs per task; 0 for none.
    cpus: int = setting(8, low=1)  # CPU cores per task.
    host_memory: Annotated[str, tyro.conf.arg(help_behavior_hint="")] = ""  # Main memory per task, e.g. 64G.
    time: str = "24:00:00"  # Time limit per start; a longer task requeues itself and resumes.
    throttle: int = setting(0, low=0)  # Tasks that may run at the same time; 0 for no limit.
    # Seconds before the time limit at which a task checkpoints and requeues itself.
    warning: int = setting(300, low=1, high=65535)
    # Shell lines to run first, e.g. "module load cuda".
    setup: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STR ...", help_behavior_hint="")] = ()
    # Python interpreter of the tasks; default: this one.
    python: Annotated[str, tyro.conf.arg(help_behavior_hint="")] = sys.executable


TIME = re.compile(r"\d+(:[0-5]?\d(:[0-5]?\d)?)?|\d+-\d+(:[0-5]?\d(:[0-5]?\d)?)?")


def check(cluster: SlurmResources) -> None:
    """Raise ConfigError for values that SLURM would reject, before anything is written."""
    if not TIME.fullmatch(cluster.time):
        raise ConfigError(f"--time {cluster.time} is not a time limit; write hours:minutes:seconds or days-hours")
    if cluster.host_memory and not re.fullmatch(r"\d+[KMGT]?", cluster.host_memory):
        raise ConfigError(f"--host-memory {cluster.host_memory} is not an amount of memory; write it as 64G")


def write_scripts(study: Study, out: Path, cluster: SlurmResources) -> list[Path]:
    """One script for each stage with work left, and submit.sh, which submits them in order."""
    folder = Path(out).absolute() / "slurm"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.s*"):
        old.unlink()
    stages = _pending(study, out)
    if not stages:
        raise ConfigError(f"nothing is left to do in {out}; look at {out}/report/index.html")
    written = []
    for name, tasks in stages.items():
        path = folder / f"{name}.sbatch"
        write_atomically(path, stage_script(name, tasks, folder.parent, cluster))
        written.append(path)
    path = folder / "submit.sh"
    write_atomically(path, submit_script(stages))
    path.chmod(0o755)
    return [*written, path]


def _pending(study: Study, out: Path) -> dict[str, list[Task]]:
    left = [one.task for one in state.read(study, out) if one.state != "done"]
    stages = {name: [task for task in left if task.name.split("-")[0] == name] for name in STAGES}
    return {name: tasks for name, tasks in stages.items() if tasks}


def stage_script(name: str, tasks: list[Task], out: Path, cluster: SlurmResources) -> str:
    """An sbatch script whose array elements are the tasks of a stage; its jobs load the plugins of this process."""
    content = {"stage": name, "tasks": tasks, "cluster": cluster, "out": str(out), "quote": shlex.quote}
    loaded = {"plugins": os.environ.get(plugins.ENV_VARIABLE), "variable": plugins.ENV_VARIABLE, "here": os.getcwd()}
    return render(Path(__file__).with_name("stage.sbatch"), **content, **loaded) + "\n"


def submit_script(stages: dict[str, list[Task]]) -> str:
    """Submits the stages in order and prints `stage job` lines."""
    lines = ["#!/usr/bin/env bash", "set -euo pipefail", 'cd "$(dirname "$0")"', ""]
    for name in stages:
        waits = _dependency(name, stages)
        option = f"--dependency={waits} --kill-on-invalid-dep=yes " if waits else ""
        lines += [f"{name}=$(sbatch --parsable {option}{name}.sbatch)", f'echo "{name} ${{{name}%%;*}}"']
    return "\n".join(lines) + "\n"


def _dependency(name: str, stages: dict[str, list[Task]]) -> str:
    """The report waits until every other stage ends, even in failure; other stages need the success of their tasks."""
    if name == "report":
        others = [f"${{{stage}%%;*}}" for stage in stages if stage != "report"]
        return "afterany:" + ":".join(others) if others else ""
    needed = {other for task in stages[name] for other in task.after}
    elements = [
        f"${{{stage}%%;*}}_{index}"
        for stage, tasks in stages.items()
        for index, task in enumerate(tasks)
        if task.name in needed
    ]
    return "afterok:" + ":".join(elements) if elements else ""


def submit(study: Study, out: Path, cluster: SlurmResources) -> dict[str, str]:
    """Write and submit the scripts, and record the job of every stage."""
    for tool in ("sbatch", "squeue", "scontrol"):
        if not shutil.which(tool):
            raise ConfigError(
                f"there is no SLURM on this machine ({tool} is missing); use --dry-run to write the scripts only"
            )
    if jobs := queued(out):
        listed = " ".join(jobs)
        raise ConfigError(f"{out} is already submitted as job {listed}; wait, or run `scancel {listed}`")
    write_scripts(study, out, cluster)
    answer = subprocess.run(["bash", str(Path(out) / "slurm" / "submit.sh")], capture_output=True, text=True)
    jobs = dict(line.split() for line in answer.stdout.splitlines())
    write_atomically(Path(out) / "slurm" / "jobs.json", json.dumps(jobs, indent=1))
    if answer.returncode:
        submitted = f"; already submitted: {', '.join(jobs.values())}" if jobs else ""
        reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(f"sbatch failed: {reason}{submitted}")
    return jobs


def queued(out: Path) -> list[str]:
    """Jobs of an earlier submission that are still queued or running."""
    path = Path(out) / "slurm" / "jobs.json"
    jobs = safe_io.read_json(path, "delete it") if path.exists() else {}
    found = []
    for job in map(str, jobs.values()):  # one by one, because squeue fails if any of several is unknown
        answer = subprocess.run(["squeue", "--noheader", "--jobs", job], capture_output=True, text=True)
        if answer.returncode == 0 and answer.stdout.strip():
            found.append(job)
    return found


def requeue_this_job(task: Task, out: Path) -> str | None:
    """Ask SLURM to start this job again later; returns an error message, or None."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return None
    element = os.environ.get("SLURM_ARRAY_TASK_ID")
    job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{element}" if element else job
    if _fruitless(task, out):
        return f"{MAX_FRUITLESS_STARTS} starts in a row were too short for one update; ask for more time with --time"
    answer = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True)
    return f"scontrol requeue failed: {answer.stderr.strip()}; submit again to resume" if answer.returncode else None


def _fruitless(task: Task, out: Path) -> bool:
    """Whether this start and those before it ended without a single update."""
    path = Path(out) / "tasks" / task.name / "requeued"
    share = state.progress(task, Path(out))[0]
    before = safe_io.parse_row(safe_io.read_text(path, "delete it")) if path.exists() else None
    before = before or {"share": 0.0, "fruitless": 0}
    count = int(before["fruitless"]) + 1 if share == before["share"] and share < 1.0 else 0
    write_atomically(path, json.dumps({"share": share, "fruitless": count}))
    return count >= MAX_FRUITLESS_STARTS
