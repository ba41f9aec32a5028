"""A matrix and a plan as text: tables for people, JSON and CSV for programs."""

import csv
import io
import json
import textwrap
from collections.abc import Sequence

from perepisode import console
from perepisode.runs import Run, folder_name
from perepisode.study.packing import GIB, BenchResult, Device, pack, programs
from perepisode.study.plan import Study, Task

Families = dict[str, list[Run]]
WIDTH = 100  # characters per line of a plan


def table(families: Families) -> str:
    """One line per arm, then the number of runs of every family."""
    rows = []
    for family, runs in families.items():
        arms: dict[tuple[str, ...], list[Run]] = {}
        for run in runs:
            arms.setdefault((run.dilemma, run.method, run.arm, f"{run.gamma:g}"), []).append(run)
        rows += [[family, *arm, " ".join(str(run.seed) for run in members)] for arm, members in arms.items()]
    counts = " + ".join(f"{family} {len(runs)}" for family, runs in families.items())
    steps = {run.total_timesteps for runs in families.values() for run in runs}
    total = sum(map(len, families.values()))
    listed = console.plain(("family", "dilemma", "method", "arm", "gamma", "seeds"), rows)
    return f"{listed}\n{total} runs of {', '.join(f'{n:.3g}' for n in sorted(steps))} steps: {counts}\n"


def as_json(families: Families) -> str:
    return json.dumps([_entry(family, run) for family, runs in families.items() for run in runs], indent=1) + "\n"


def as_csv(families: Families) -> str:
    text = io.StringIO()
    columns = ("id", "family", "env", "dilemma", "method", "arm", "gamma", "seed", "total_timesteps", "folder")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_entry(family, run) for family, runs in families.items() for run in runs)
    return text.getvalue()


def _entry(family: str, run: Run) -> dict:
    return {"id": run.id, "family": family, "arm": run.arm, "folder": folder_name(run), **run.to_json()}


FORMATS = {"table": table, "json": as_json, "csv": as_csv}


# ---- the plan -----------------------------------------------------------------------------------------------


def plan_text(study: Study, bench: BenchResult, device: Device, gpus: int = 0) -> str:
    """The packs in order with their memory and hours, then the totals; `gpus` is how many GPUs share the work."""
    known = bench.known_for(device, gpus)
    rows = [_task_row(task, bench, known) for task in study.tasks]
    headings = ["task", "runs", "steps", "GiB", *(["hours"] if known else []), "contents, waits for"]
    steps, packs = sum(task.steps for task in study.tasks), len(study.of_kind("train"))
    memory = f"{device.memory / GIB:.0f} GiB per {'gpu' if gpus else device.kind}"
    return (
        f"{console.plain(headings, _wrap_last_column(headings, rows))}\n"
        f"{study.runs} runs in {packs} packs, {steps:.3g} steps; packed for {memory}\n"
        f"{_time(study, bench, known, gpus or device.count)}\n{_sharing(study)}"
    )


def _time(study: Study, bench: BenchResult, known: bool, devices: int) -> str:
    """How long the study takes, on which device, and the source of that estimate."""
    hours = bench.hours(sum(task.steps for task in study.tasks))
    speed = f"{bench.steps_per_second:,.0f} steps/s"
    if not known:
        sizes = study.tasks[0].members[0].run().config
        bench_command = f"perepisode bench --num-envs {sizes.num_envs} --hidden-size {sizes.hidden_size}"
        return (
            f"hours are not known: there is no GPU here; {bench.device} takes {_duration(hours)} at {speed}\n"
            f"to measure this machine: {bench_command}, then --bench FILE"
        )
    if bench.source:
        estimate = f"{_duration(hours)} at {speed}, measured on {bench.device or 'some device'} ({bench.source})"
    elif bench.device:
        estimate = f"{_duration(hours)} on {bench.device}, at {speed} as measured there"
    else:
        estimate = f"about {_duration(hours)} at {speed}, which is a guess"
    return estimate + (f"; {_duration(hours / devices)} on {devices} of them" if devices > 1 else "")


def _duration(hours: float) -> str:
    minutes = 60 * hours
    return f"{hours:.1f} hours" if hours >= 1 else f"{minutes:.0f} minutes" if minutes >= 2 else "two minutes or less"


def _sharing(study: Study) -> str:
    """How many programs are compiled, and how many there would be if each method were packed separately."""
    packs = [[member.run() for member in task.members] for task in study.of_kind("train")]
    methods: dict[tuple[str, ...], list[Run]] = {}
    for run in (run for runs in packs for run in runs):
        methods.setdefault(run.objective_type, []).append(run)
    largest = max(map(len, packs))
    separate = [part for runs in methods.values() for part in pack(runs, largest)]
    return (
        f"methods share programs: {programs(packs)} to compile for {len(packs)} packs; "
        f"with each method by itself: {programs(separate)} for {len(separate)}\n"
    )


def _task_row(task: Task, bench: BenchResult, known: bool) -> list[str]:
    description = "\n".join(filter(None, (_contents(task), _after(task))))
    if not task.members:
        return [task.name, *[""] * (4 if known else 3), description]
    hours = [f"{bench.hours(task.steps):.2f}"] if known else []
    gib = len(task.members) * bench.memory_of(task.members[0].run()) / GIB
    return [task.name, str(len(task.members)), f"{task.steps:.3g}", f"{gib:.2f}", *hours, description]


def _contents(task: Task) -> str:
    if not task.members:
        return ""
    methods, dilemmas = (list(dict.fromkeys(m.plain[name] for m in task.members)) for name in ("method", "dilemma"))
    listed = ", ".join(methods) if len(methods) <= 3 else f"{', '.join(methods[:2])} and {len(methods) - 2} more"
    return f"{listed} ({dilemmas[0] if len(dilemmas) == 1 else f'{len(dilemmas)} dilemmas'})"


def _after(task: Task) -> str:
    """The tasks it waits for, which are numbered consecutively."""
    if len(task.after) < 2:
        return f"after {task.after[0]}" if task.after else ""
    return f"after {task.after[0]} … {task.after[-1]}"


def _wrap_last_column(headings: Sequence[str], rows: list[list[str]]) -> list[list[str]]:
    """The parts of the last cell on one line if they fit, or on a line each."""
    widths = [max(len(row[i]) for row in [headings, *rows]) + console.GAP for i in range(len(headings) - 1)]
    room = max(20, WIDTH - sum(widths))
    wrapped = []
    for *cells, last in rows:
        lines = [last.replace("\n", "; ")]
        if len(lines[0]) > room:
            lines = [line for part in last.split("\n") for line in textwrap.wrap(part, room, break_on_hyphens=False)]
        wrapped += [[*(cells if i == 0 else [""] * len(cells)), line] for i, line in enumerate(lines)]
    return wrapped
