"""Training curves: a run folder's metrics.jsonl, thinned to what a figure can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perepisode import legacy, safe_io
from perepisode.runs import RunFolder, flat_settings
from perepisode.settings import distinguish_arms
from perepisode.zoo import AgentFile, AgentSource

MAX_ROWS = 1500  # parsed per run; a figure is about 600 pixels wide
KEYS = ("return", "violations", "lambda")


@dataclass(frozen=True, eq=False)
class Curve:
    """One run's metrics over its training steps; missing values are NaN."""

    dilemma: str
    method: str
    arm: str
    seed: int
    gamma: float
    steps: np.ndarray
    values: dict[str, np.ndarray]

    def has(self, key: str) -> bool:
        return bool(np.isfinite(self.values[key]).any())

    def without(self, key: str) -> Curve:
        """The same run with one metric set to NaN."""
        return replace(self, values={**self.values, key: np.full(len(self.steps), np.nan)})

    def at(self, key: str, grid: np.ndarray) -> np.ndarray:
        """The metric at the steps of a grid, smoothed over 1 % of the run."""
        known = np.isfinite(self.values[key])
        if not self.has(key):
            return np.full(len(grid), np.nan)
        steps, values = self.steps[known], self.values[key][known]
        width = max(1, len(values) // 100)
        totals = np.cumsum(np.insert(values, 0, 0.0))
        ends = np.arange(1, len(values) + 1)
        starts = np.maximum(0, ends - width)
        return np.interp(grid, steps, (totals[ends] - totals[starts]) / (ends - starts))


def read(sources: Iterable[str | Path | AgentSource], arms: Mapping[str, str] | None = None) -> list[Curve]:
    """Curves of trained agents, of run folders, of metrics.jsonl files, or of folders that contain run folders.

    `arms` maps the runs of an episodes table to their arms; other runs get theirs by the same rule as in a table.
    """
    found = [pair for source in sources for pair in _with_metrics(source)]
    plains = [plain for plain, _ in found]
    named = [tuple(plain.get(name) for name in ("dilemma", "method", "arm")) for plain in plains]
    curves = []
    for (plain, metrics), more in zip(found, distinguish_arms(named, list(map(flat_settings, plains)))):
        arm = ", ".join(filter(None, (plain.get("arm"), more)))
        curves.append(_read_run({**plain, "arm": (arms or {}).get(str(plain.get("id")), arm)}, metrics))
    return [curve for curve in curves if curve is not None]


def _with_metrics(source: str | Path | AgentSource) -> list[tuple[dict, Path]]:
    """A run's configuration, as plain values, and its metrics file."""
    if isinstance(source, AgentFile):
        return [(source.metadata["run"], source.metrics)] if source.metrics.exists() else []
    path = source.path if isinstance(source, RunFolder) else Path(source)
    return [(RunFolder(folder).plain(), folder / "metrics.jsonl") for folder in _run_folders(path)]


def group(curves: Iterable[Curve]) -> dict[tuple[str, str], list[Curve]]:
    """The curves of each method and arm, one per seed."""
    found: dict[tuple[str, str], list[Curve]] = {}
    for curve in sorted(curves, key=lambda curve: (curve.method, curve.arm, curve.seed)):
        found.setdefault((curve.method, curve.arm), []).append(curve)
    return found


def _run_folders(path: Path) -> list[Path]:
    if path.name == "metrics.jsonl":
        return [path.parent]
    if (path / "metrics.jsonl").exists():
        return [path]
    found = sorted(file.parent for file in path.glob("**/metrics.jsonl"))
    if not found:
        raise ValueError(f"{path} contains no metrics.jsonl; give a run folder, or omit the curves")
    return found


def _read_run(run: dict, metrics: Path) -> Curve | None:
    lines = safe_io.read_text(metrics, "give a complete run folder").splitlines()
    rows = [row for line in lines[:: max(1, len(lines) // MAX_ROWS)] if (row := row_of(line)) is not None]
    if len(rows) < 2:
        return None
    columns = {key: np.array([safe_io.as_float(row.get(key)) for row in rows]) for key in ("steps", *KEYS)}
    steps = columns.pop("steps")
    names = (str(run.get("dilemma", "")), str(run.get("method", "")), str(run.get("arm", "")))
    seed = safe_io.as_float(run.get("seed"))
    return Curve(*names, int(seed) if seed == seed else 0, safe_io.as_float(run.get("gamma")), steps, columns)


def row_of(line: str) -> dict | None:
    """A line of metrics.jsonl; None for one cut short by a crash, which resumed training writes again."""
    row = safe_io.parse_row(line)
    return legacy.upgrade_metrics(row) if row is not None and safe_io.as_float(row.get("steps")) >= 0 else None
