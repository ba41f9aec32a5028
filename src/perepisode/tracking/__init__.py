"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, each fed from the metrics.jsonl of run folders.

metrics.jsonl is the truth.  A tracker is a copy of it that can be made while a run trains (`perepisode train --track`)
or at any later time (`perepisode track`), and made again: rows that the tracker has are not sent twice.
"""

from pathlib import Path

from perepisode import lazy
from perepisode.config import ConfigError
from perepisode.runs import RunFolder, find_run_folders
from perepisode.tracking.feed import Feed, Tracker

NAMES = ("tensorboard", "wandb", "mlflow")  # of the trackers, of their libraries and of the extras that install them


def check(name: str, command: str) -> None:
    """Raise ConfigError, before anything starts, if this tracker cannot be used."""
    lazy.require(f"{command} {name}", (name,), name)
    if problem := _load(name).problem():
        raise ConfigError(problem)


def feed(name: str, folder: RunFolder) -> Feed:
    """What sends the metrics of this run to this tracker."""
    return Feed(name, _load(name), folder)


def send(name: str, out: Path) -> tuple[int, int]:
    """Send what the runs in this folder have logged so far; returns the numbers of rows and of runs."""
    folders, sent = find_run_folders(out), 0
    for folder in folders:
        with feed(name, folder) as one:
            sent += one.send_new()
    return sent, len(folders)


def view(name: str, out: Path) -> str:
    """The command that shows the runs of this folder in this tracker, or sends them on."""
    return _load(name).view(out)


def _load(name: str) -> type[Tracker]:
    """The class of a tracker; importing it imports its library."""
    if name == "tensorboard":
        from perepisode.tracking.tensorboard import TensorBoard

        return TensorBoard
    if name == "wandb":
        from perepisode.tracking.wandb import WeightsAndBiases

        return WeightsAndBiases
    from perepisode.tracking.mlflow import MLflow

    return MLflow
