"""A matrix and a plan as text: for people a table, for programs JSON or CSV."""

import csv
import io
import json

from perepisode import terminal
from perepisode.runs import Run, folder_name
from perepisode.study.packing import GIB, Bench, Device, memory_of, pack, programs
from perepisode.study.plan import Study, Task

Families = dict[str, list[Run]]


def table(families: Families) -> str:
    """One line an arm, then the number of runs of every family."""
    rows = []
    for family, runs in families.items():
        arms: dict[tuple[str, ...], list[Run]] = {}
        for run in runs:
            arms.setdefault((run.dilemma, run.method, run.arm, f"{run.gamma:g}"), []).append(run)
        rows += [[family, *arm, " ".join(str(run.seed) for run in members)] for arm, members in arms.items()]
    counts = " + ".join(f"{family} {len(runs)}" for family, runs in families.items())
    steps = {run.steps for runs in families.values() for run in runs}
    total = sum(map(len, families.values()))
    listed = terminal.plain(("family", "dilemma", "method", "arm", "gamma", "seeds"), rows)
    return f"{listed}\n{total} runs of {', '.join(f'{n:.3g}' for n in sorted(steps))} steps: {counts}\n"


def as_json(families: Families) -> str:
    return json.dumps([_entry(family, run) for family, runs in families.items() for run in runs], indent=1) + "\n"


def as_csv(families: Families) -> str:
    text = io.StringIO()
    columns = ("id", "family", "env", "dilemma", "method", "arm", "gamma", "seed", "steps", "folder")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_entry(family, run) for family, runs in families.items() for run in runs)
    return text.getvalue()


def _entry(family: str, run: Run) -> dict:
    return {"id": run.id, "family": family, "arm": run.arm, "folder": folder_name(run), **run.to_json()}


FORMATS = {"table": table, "json": as_json, "csv": as_csv}


# ---- the plan -----------------------------------------------------------------------------------------------


def plan_text(study: Study, bench: Bench, device: Device, gpus: int) -> str:
    """Packs in order with their memory and hours, and the whole study's."""
    rows = [_task_row(task, bench) for task in study.tasks]
    headings = ("task", "runs", "what", "steps", "GiB", "hours", "after")
    steps = sum(task.steps for task in study.tasks)
    hours = steps / bench.steps_per_second / 3600
    packs = len(study.of_kind("train"))
    shared = f"; about {hours / gpus:.1f} h on {gpus} of them" if gpus > 1 else ""
    return (
        terminal.plain(headings, rows)
        + f"\n{study.runs} runs in {packs} packs, {steps:.3g} steps, {hours:.1f} device hours at "
        + f"{bench.steps_per_second:,.0f} steps/s ({bench.source}){shared}; "
        + f"the {device.kind} has {device.memory / GIB:.0f} GiB\n"
        + _sharing(study)
    )


def _sharing(study: Study) -> str:
    """What it saves that any methods share a program."""
    packs = [[member.run() for member in task.members] for task in study.of_kind("train")]
    kinds: dict[tuple[str, ...], list[Run]] = {}
    for run in (run for runs in packs for run in runs):
        kinds.setdefault(run.kind, []).append(run)
    largest = max(map(len, packs))
    apart = [part for runs in kinds.values() for part in pack(runs, largest)]
    return (
        f"methods share programs: {programs(packs)} to compile for {len(packs)} packs; "
        f"each method by itself: {programs(apart)} for {len(apart)}\n"
    )


def _task_row(task: Task, bench: Bench) -> list[str]:
    after = ", ".join(task.after) if len(task.after) <= 3 else f"{task.after[0]} … {task.after[-1]}"
    if not task.members:
        return [task.name, "", task.dilemma, "", "", "", after]
    each = bench.bytes_per_run if bench.bytes_per_run == bench.bytes_per_run else memory_of(task.members[0].run())
    hours = task.steps / bench.steps_per_second / 3600
    gib = len(task.members) * each / GIB
    return [task.name, str(len(task.members)), _what(task), f"{task.steps:.3g}", f"{gib:.2f}", f"{hours:.2f}", after]


def _what(task: Task) -> str:
    methods, dilemmas = (list(dict.fromkeys(m.plain[name] for m in task.members)) for name in ("method", "dilemma"))
    listed = ", ".join(methods) if len(methods) <= 4 else f"{', '.join(methods[:3])} and {len(methods) - 3} more"
    return f"{listed} ({dilemmas[0] if len(dilemmas) == 1 else f'{len(dilemmas)} dilemmas'})"
