"""A study as values: its tasks, what waits for what, and the file that fixes both for good.

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
KINDS = ("train", "judge", "distill", "exact", "replay", "report")  # of task; what each does is in work.py


@dataclass(frozen=True)
class Member:
    """A run as a study keeps it: enough to find its folder and follow its progress without importing JAX."""

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
    """One piece of work.

    train: a pack of runs, then judge them; judge: agents that are trained already; distill: a dilemma's utility;
    exact: the miniature's optima; replay: episodes to be watched; report.
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
        """The same for the same runs judged in the same way, however they are packed."""
        ids = sorted([member.id for task in self.tasks for member in task.members] + self.agents)
        return hashlib.sha256(canonical([ids, _judged(self.evaluation)]).encode()).hexdigest()[:12]

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


def judging(env: str, packs: Sequence[Sequence[str]]) -> Study:
    """A study of agents that are trained already: judge them, replay some of their episodes, report."""
    judged = [Task(f"judge-{i:02d}", "judge", agents=tuple(names)) for i, names in enumerate(packs, 1)]
    replay = Task("replay", "replay", tuple(task.name for task in judged))
    tasks = (*judged, replay, Task("report", "report", tuple(task.name for task in (*judged, replay))))
    return Study(env, tasks, ENVIRONMENTS[env].eval_config)


def compose(runs: Sequence[Run], size: int, evaluation: EvalConfig | None = None, **options: Any) -> Study:
    """Pack the runs and put them in order: the pools first, each dilemma's distilled arms after its own pool."""
    if not runs:
        raise ConfigError("there is no run to plan")
    for run in runs:
        run.checked()
    # the pools come first: distillation waits for them
    runs = sorted(runs, key=_turn)
    late = [run for run in runs if run.method == "esr_distilled"]
    awaited = [run for run in runs if late and run.method in POOL]
    others = [run for run in runs if run not in awaited and run not in late]
    largest_first = sorted(packing.pack(others, size), key=len, reverse=True)  # so that nobody waits for it at the end
    trained = _named("train", [*packing.pack(awaited, size), *largest_first])
    distilling = [_distilling(dilemma, runs, trained) for dilemma in dict.fromkeys(run.dilemma for run in late)]
    distilled = _named("distilled", packing.pack(late, size))
    distilled = [replace(task, after=tuple(f"distill-{name}" for name in _dilemmas(task))) for task in distilled]
    tasks = [*trained, *distilling, *distilled]
    if ENVIRONMENTS[runs[0].env].exact is not None:
        tasks.append(Task("exact", "exact"))
    tasks.append(Task("report", "report", tuple(task.name for task in tasks)))
    env = runs[0].env
    return Study(env, tuple(tasks), evaluation or ENVIRONMENTS[env].eval_config, **options)


def _turn(run: Run) -> tuple[bool, int]:
    by_dilemma = run.method in (*POOL, "esr_distilled")
    return run.method not in POOL, ENVIRONMENTS[run.env].dilemmas.index(run.dilemma) if by_dilemma else 0


def _named(prefix: str, packs: Iterable[tuple[Run, ...]]) -> list[Task]:
    return [Task(f"{prefix}-{i:02d}", "train", members=tuple(map(Member.of, runs))) for i, runs in enumerate(packs, 1)]


def _dilemmas(task: Task) -> list[str]:
    return list(dict.fromkeys(member.plain["dilemma"] for member in task.members))


def _distilling(dilemma: str, runs: Sequence[Run], trained: list[Task]) -> Task:
    pool = {run.id for run in matrix.pool_of(runs, dilemma)}
    labels = {
        run.method_settings["utility"] for run in runs if run.method == "esr_distilled" and run.dilemma == dilemma
    }
    if labels != {matrix.utility_label(matrix.pool_of(runs, dilemma))}:
        raise ConfigError(f"the distilled arms of {dilemma} were made for another pool; plan them with their pool")
    needed = [task.name for task in trained if pool & {member.id for member in task.members}]
    return Task(f"distill-{dilemma}", "distill", tuple(needed), dilemma=dilemma)


# ---- the file -----------------------------------------------------------------------------------------------


def save(study: Study, out: Path) -> Study:
    """Write study.json, or return the study that the folder already holds; ConfigError if it is another one."""
    path = Path(out) / "study.json"
    if path.exists():
        known = load(out)
        if known.id != study.id:
            raise ConfigError(
                f"{out} holds another study ({known.id}: {known.runs} runs on {known.env}), "
                f"not this one ({study.id}: {study.runs} runs on {study.env}); choose another --out"
            )
        return known
    stranger = next((name for name in Path(out).glob("*")), None) if Path(out).is_dir() else None
    if stranger is not None:
        raise ConfigError(f"{out} is not empty ({stranger.name}) and holds no study; choose another --out")
    content = {"format": FORMAT, "id": study.id, **asdict(study), "evaluation": _judged(study.evaluation)}
    write_atomically(path, json.dumps(content, indent=1))
    return study


def _judged(protocol: EvalConfig) -> dict[str, int]:
    """As a study states it; its agents are all judged in the same worlds."""
    return {name: value for name, value in vars(protocol).items() if name != "seed"}


def load(out: Path) -> Study:
    """The study of a folder; imports no JAX and asks no device."""
    path = Path(out) / "study.json"
    if not path.exists():
        raise ConfigError(f"{out} holds no study; start one with `perepisode study run --out {out}`")
    plain = safe_io.read_json(path, "put it back or choose another --out")
    if plain.get("format") not in (1, FORMAT):
        raise ConfigError(
            f"{path} has format {plain.get('format')!r}, this version reads 1 and {FORMAT}; choose another --out"
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
    """What it names becomes the names of files, and words of a cluster's script: it must be no more than a name."""
    members = tuple(Member(**member) for member in plain["members"])
    agents = tuple(plain.get("agents", ()))  # studies made before there were any have none
    task = Task(plain["name"], plain["kind"], tuple(plain["after"]), members, plain["dilemma"], agents)
    below = [member.folder for member in members]
    for name in (task.name, task.dilemma or "none", *task.after):
        if not safe_io.is_plain_name(name):
            raise ValueError(f"{name!r} is no name")
    if any(Path(name).name != name or name == ".." or not name.isprintable() for name in below):
        raise ValueError(f"a run of {task.name} lies outside the study")
    if task.kind not in KINDS or task.name in before or not set(task.after) <= set(before):
        raise ValueError(f"task {task.name} is none that a study has")
    for member in members:
        whole = all(isinstance(count, int) and 0 <= count < 2**63 for count in (member.updates, member.total_timesteps))
        if not isinstance(member.id, str) or not isinstance(member.plain, dict) or not whole:
            raise ValueError(f"a member of {task.name} is no run")
    if not all(isinstance(name, str) and name.isprintable() for name in agents):
        raise ValueError(f"{task.name} names no agents")
    return task
