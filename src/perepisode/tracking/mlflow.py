"""MLflow: one run of the experiment `perepisode` per run folder, found again by the tag `perepisode.run`.

MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME mean what they mean elsewhere.  MLflow itself tells what was sent.
"""

import os
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import mlflow  # pyright: ignore[reportMissingImports]
from mlflow.entities import Metric, Param, RunTag  # pyright: ignore[reportMissingImports]

from perepisode.runs import RunFolder
from perepisode.tracking.feed import Description, Row, Tracker

EXPERIMENT = "perepisode"
BATCH = 1000  # metrics that MLflow accepts at once
STATUS = {"finished": "FINISHED", "diverged": "FAILED"}


class MLflow(Tracker):
    """A run's metrics by environment step; its parameters and tags."""

    @staticmethod
    def view(out: Path) -> str:
        return "mlflow ui"

    def __init__(self, folder: RunFolder, about: Description):
        self.client = mlflow.MlflowClient()
        experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT).experiment_id
        tags = {f"perepisode.{name}": value for name, value in about.tags.items()}
        found = self.client.search_runs([experiment], f"tags.`perepisode.run` = '{about.id}'", max_results=1)
        self.last: dict[str, int] = {}  # the last step that MLflow has, by metric
        run = found[0] if found else self.client.create_run(experiment, run_name=about.name, tags=tags)
        self.id = run.info.run_id
        params = [Param(name, str(value)) for name, value in about.hyperparameters.items()]
        self.client.log_batch(self.id, params=params, tags=[RunTag(*tag) for tag in tags.items()])
        self.client.update_run(self.id, status="RUNNING")

    def missing(self, rows: Sequence[Row]) -> Sequence[Row]:
        for name in {name for row in rows for name in row.values} - self.last.keys():
            self.last[name] = max((metric.step for metric in self.client.get_metric_history(self.id, name)), default=0)
        kept = [
            Row(row.step, {name: value for name, value in row.values.items() if row.step > self.last[name]})
            for row in rows
        ]
        return [row for row in kept if row.values]

    def send(self, rows: Sequence[Row]) -> None:
        now = int(time.time() * 1000)
        metrics = (Metric(name, value, now, row.step) for row in rows for name, value in row.values.items())
        while batch := list(islice(metrics, BATCH)):
            self.client.log_batch(self.id, metrics=batch)

    def close(self, outcome: str) -> None:
        if outcome in STATUS:
            self.client.set_terminated(self.id, STATUS[outcome])
