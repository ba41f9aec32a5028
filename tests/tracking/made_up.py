"""Run folders with made-up metrics, and metrics.jsonl read without the package."""

import json
from dataclasses import replace
from pathlib import Path

from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.runs import Run, RunFolder

CONFIG = replace(TEMPTATION_PPO, num_envs=8, num_steps=16, update_epochs=1, num_minibatches=2, hidden_size=8)
UPDATES = 60
RUNS = [
    Run("temptation", "temptation", "esr", {"budget": 1}, seed, 1.0, CONFIG.steps_per_update * UPDATES, config=CONFIG)
    for seed in (1, 2)
]


def made_up(out: Path, run: Run = RUNS[0]) -> RunFolder:
    folder = RunFolder.of(out, run)
    folder.open(run, "cpu: made up")
    return folder


def row(update: int, speed: float = 1000.0) -> dict:
    """A row in which no episode ended every third time; `speed` is what differs when an update is trained again."""
    ended = None if update % 3 == 0 else update / 7
    clock = {"steps_per_second": speed, "eta_seconds": UPDATES - update}
    return {"update": update, "steps": update * CONFIG.steps_per_update, "return": ended, "kl": 1e-4, "clock": clock}


def expected(folder: RunFolder) -> dict[str, list[tuple[int, float]]]:
    """Every value of metrics.jsonl as (steps, value), by the name that trackers show."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in folder.metrics.read_text().splitlines():
        values = json.loads(line)
        steps, clock = values.pop("steps"), values.pop("clock")
        named = [(f"train/{name}", value) for name, value in values.items()]
        for name, value in [*named, *((f"clock/{name}", value) for name, value in clock.items())]:
            if value is not None:
                found.setdefault(name, []).append((steps, value))
    return found
