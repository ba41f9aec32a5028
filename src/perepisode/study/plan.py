"""A study as values: its tasks, their dependencies, and the file that fixes both.

<out>/study.json            the runs, the packs, the order; written once, so that every later start agrees
<out>/runs/<run>/           run folders, as `perepisode train` writes them
<out>/episodes/<pack>.parquet
<out>/utilities/<dilemma>.json
<out>/tasks/<task>/         log, lock, heartbeat, and `done` or `failed`
<out>/report/index.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from perepisode import legacy, safe_io, settings
from perepisode.config import ConfigError, EvalConfig, canonical
from perepisode.environments import ENVIRONMENTS
from perepisode.methods.esr_distilled import POOL
from perepisode.runs import Run, folder_name, write_atomically
from perepisode.settings import setting
from perepisode.study import matrix, packing

FORMAT = 2
KINDS = ("train", "evaluate", "distill", "exact", "replay", "report")  # of tasks; see run_task.KINDS


@dataclass(frozen=True)
class Member:
    """A run as study.json keeps it: enough to find its folder and read its progress without importing JAX."""

    id: str
    folder: str
    updates: int
    total_timesteps: int
    plain: dict[str, Any]  # Run.to_json

    @classmethod
    def of(cls, run: Run) -> Member:
        return cls(run.id, folder_name(run), run.updates, run.total_timesteps, run.to_json())

    def run(self) -> Run:
        return Run.from_json(self.plain)


@dataclass(frozen=True)
class Task:
    """One unit of work.

    train: train and evaluate a pack of runs; evaluate: evaluate trained agents; distill: fit a dilemma's utility;
    exact: compute the miniature's optima; replay: replay the worst episodes; report: write the report.
    """

    name: str
    kind: str
    after: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    dilemma: str = ""
    agents: tuple[str, ...] = ()  # by name or file

    @property
    def steps(self) -> int:
        return sum(member.total_timesteps for member in self.members)


@dataclass(frozen=True)
class Study:
    env: str
    tasks: tuple[Task, ...]
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    checkpoint_seconds: float = setting(600.0, low=0)
    chunk: int = setting(10, low=1)

    @property
    def id(self) -> str:
        """The same for the same runs and evaluation, however they are packed."""
        ids = sorted([member.id for task in self.tasks for member in task.members] + self.agents)
        return hashlib.sha256(canonical([ids, _evaluation(self.evaluation)]).encode()).hexdigest()[:12]

    def task(self, name: str) -> Task:
        for task in self.tasks:
            if task.name == name:
                return task
        raise ConfigError(f"this study has no task {name!r}; it has {', '.join(task.name for task in self.tasks)}")

    def of_kind(self, kind: str) -> list[Task]:
        return [task for task in self.tasks if task.kind == kind]

    @property
    def agents(self) -> list[str]:
        return [name for task in self.tasks for name in task.agents]

    @property
    def runs(self) -> int:
        return sum(len(task.members) for task in self.tasks)


def compose_evaluation(env: str, packs: Sequence[Sequence[str]]) -> Study:
    """A study of trained agents: evaluate them, replay some of their episodes, report."""
    evaluated = [Task(f"evaluate-{i:02d}", "evaluate", agents=tuple(names)) for i, names in enumerate(packs, 1)]
    replay = Task("replay", "replay", tuple(task.name for task in evaluated))
    report = Task("report", "report", tuple(task.name for task in (*evaluated, replay)))
    return Study(env, (*evaluated, replay, report), ENVIRONMENTS[env].eval_config)


def compose(runs: Sequence[Run], size: int, evaluation: EvalConfig | None = None, **options: Any) -> Study:
    """Pack and order the runs: the pools first, each dilemma's distilled arms after its own pool."""
    if not runs:
        raise ConfigError("there is no run to plan")
    for run in runs:
        run.checked()
    # the pools come first: distillation waits for them
    runs = sorted(runs, key=_priority)
    late = [run for run in runs if run.method == "esr_distilled"]
    pool = [run for run in runs if late and run.method in POOL]
    others = [run for run in runs if run not in pool and run not in late]
    largest_first = sorted(packing.pack(others, size), key=len, reverse=True)  # so that none of them ends last alone
    trained = _train_tasks("train", [*packing.pack(pool, size), *largest_first])
    distilling = [_distill_task(dilemma, runs, trained) for dilemma in dict.fromkeys(run.dilemma for run in late)]
    distilled = _train_tasks("distilled", packing.pack(late, size))
    distilled = [replace(task, after=tuple(f"distill-{name}" for name in _dilemmas(task))) for task in distilled]
    tasks = [*trained, *distilling, *distilled]
    if ENVIRONMENTS[runs[0].env].exact is not None:
        tasks.append(Task("exact", "exact"))
    tasks.append(Task("report", "report", tuple(task.name for task in tasks)))
    env = runs[0].env
    return Study(env, tuple(tasks), evaluation or ENVIRONMENTS[env].eval_config, **options)


def _priority(run: Run) -> tuple[bool, int]:
    by_dilemma = run.method in (*POOL, "esr_distilled")
    return run.method not in POOL, ENVIRONMENTS[run.env].dilemmas.index(run.dilemma) if by_dilemma else 0


def _train_tasks(prefix: str, packs: Iterable[tuple[Run, ...]]) -> list[Task]:
    return [Task(f"{prefix}-{i:02d}", "train", members=tuple(map(Member.of, runs))) for i, runs in enumerate(packs, 1)]


def _dilemmas(task: Task) -> list[str]:
    return list(dict.fromkeys(member.plain["dilemma"] for member in task.members))


def _distill_task(dilemma: str, runs: Sequence[Run], trained: list[Task]) -> Task:
    pool = {run.id for run in matrix.pool_of(runs, dilemma)}
    labels = {
        run.method_settings["utility"] for run in runs if run.method == "esr_distilled" and run.dilemma == dilemma
    }
    if labels != {matrix.utility_label(matrix.pool_of(runs, dilemma))}:
        raise ConfigError(f"the distilled arms of {dilemma} name another pool; plan them with their own pool")
    after = [task.name for task in trained if pool & {member.id for member in task.members}]
    return Task(f"distill-{dilemma}", "distill", tuple(after), dilemma=dilemma)


# ---- the file -----------------------------------------------------------------------------------------------


def save(study: Study, out: Path) -> Study:
    """Write study.json, or return the same study if the folder has it; raise ConfigError if it has another one."""
    path = Path(out) / "study.json"
    if path.exists():
        known = load(out)
        if known.id != study.id:
            raise ConfigError(
                f"{out} holds another study ({_about(known)}), not this one ({_about(study)}); "
                f"{len(_run_ids(known) & _run_ids(study))} runs are in both; choose another --out"
            )
        return known
    other = next(Path(out).glob("*"), None) if Path(out).is_dir() else None
    if other is not None:
        raise ConfigError(f"{out} is not empty ({other.name}) and holds no study; choose another --out")
    content = {"format": FORMAT, "id": study.id, **asdict(study), "evaluation": _evaluation(study.evaluation)}
    write_atomically(path, json.dumps(content, indent=1))
    return study


def _run_ids(study: Study) -> set[str]:
    return {member.id for task in study.tasks for member in task.members}


def _about(study: Study) -> str:
    """What distinguishes a study from another, for a message."""
    members = [member for task in study.tasks for member in task.members]
    seeds = " ".join(map(str, dict.fromkeys(member.plain.get("seed") for member in members)))
    steps = " or ".join(f"{steps:.4g}" for steps in dict.fromkeys(member.total_timesteps for member in members))
    return f"{study.runs} runs on {study.env}" + (f", seeds {seeds}, {steps} steps each" if members else "")


def _evaluation(config: EvalConfig) -> dict[str, int]:
    """The configuration in study.json, without the seed, which is the same in every study."""
    return {name: value for name, value in vars(config).items() if name != "seed"}


def load(out: Path) -> Study:
    """The study of a folder; imports no JAX and starts no device."""
    path = Path(out) / "study.json"
    if not path.exists():
        raise ConfigError(f"{out} holds no study; start one with `perepisode study run --out {out}`")
    plain = safe_io.read_json(path, "put it back or choose another --out")
    if plain.get("format") not in (1, FORMAT):
        raise ConfigError(
            f"{path} has format {plain.get('format')!r}; this version reads 1 and {FORMAT}; choose another --out"
        )
    try:
        if plain["format"] == 1:
            plain = legacy.upgrade_study(plain, Path(out) / "runs")
        tasks: tuple[Task, ...] = ()
        for task in plain["tasks"]:
            tasks += (_task(task, [one.name for one in tasks]),)
        evaluation = EvalConfig(**plain["evaluation"]).checked()
        study = Study(plain["env"], tasks, evaluation, plain["checkpoint_seconds"], plain["chunk"])
        settings.check_fields(study)
        return study
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} describes no study ({error!r}); put it back or choose another --out") from None


def _task(plain: dict[str, Any], before: list[str]) -> Task:
    """A validated task: its names become file names and words of a shell script, so they must be plain names."""
    members = tuple(Member(**member) for member in plain["members"])
    agents = tuple(plain.get("agents", ()))  # missing in older studies
    task = Task(plain["name"], plain["kind"], tuple(plain["after"]), members, plain["dilemma"], agents)
    for name in (task.name, task.dilemma or "none", *task.after):
        if not safe_io.is_plain_name(name):
            raise ValueError(f"{name!r} is not a name")
    folders = [member.folder for member in members]
    if any(Path(name).name != name or name == ".." or not name.isprintable() for name in folders):
        raise ValueError(f"a run of {task.name} is outside the study")
    if task.kind not in KINDS or task.name in before or not set(task.after) <= set(before):
        raise ValueError(f"a study cannot have task {task.name}")
    for member in members:
        counts = (member.updates, member.total_timesteps)
        valid = all(isinstance(count, int) and 0 <= count < 2**63 for count in counts)
        if not isinstance(member.id, str) or not isinstance(member.plain, dict) or not valid:
            raise ValueError(f"a member of {task.name} is not a run")
    if not all(isinstance(name, str) and name.isprintable() for name in agents):
        raise ValueError(f"{task.name} names no agents")
    return task
