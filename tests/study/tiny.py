"""Studies small enough for a test: real runs on the miniature, a few dozen updates long."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd

from perepisode.config import EvalConfig
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.evaluation import episodes
from perepisode.runs import Run
from perepisode.study import matrix, plan

CONFIG = replace(TEMPTATION_PPO, num_envs=16, num_steps=20, hidden_size=8, num_minibatches=2, update_epochs=1)
UPDATE = CONFIG.steps_per_update
EVALUATION = EvalConfig(num_envs=8, num_steps=80, episodes_per_env=2)


def run(method: str, updates: int, seed: int = 42, **settings) -> Run:
    return Run(
        env="temptation",
        dilemma="temptation",
        method=method,
        method_settings=settings,
        seed=seed,
        gamma=1.0,
        total_timesteps=updates * UPDATE,
        config=CONFIG,
    )


def study(updates: int = 20, late_updates: int = 0, chunk: int = 2) -> plan.Study:
    """Two packs of two runs and, if `late_updates`, a distilled arm that needs both; then the report."""
    pool = [run("unconstrained", updates, seed) for seed in (42, 7)]
    pool += [run("ser", updates, seed, weight=0.3) for seed in (42, 7)]
    late = [run("esr_distilled", late_updates, utility=matrix.utility_label(pool))] if late_updates else []
    return plan.compose([*pool, *late], 2, EVALUATION, checkpoint_seconds=1.0, chunk=chunk)


def all_episodes(out: Path) -> pd.DataFrame:
    """Every episode of a study, sorted."""
    table = episodes.read(Path(out) / "episodes")
    return table.sort_values(["run", "env_index", "episode_index"], ignore_index=True)


def metrics_without_clock(out: Path, runs: str = "runs") -> dict[str, list[dict]]:
    """Every row of every run, without the columns that depend on the clock."""
    found = {}
    for path in sorted((Path(out) / runs).glob("*/metrics.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.parent.name] = [{k: v for k, v in row.items() if k != "clock"} for row in rows]
    return found
