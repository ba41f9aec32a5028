"""Weights & Biases offline and MLflow with a local database: every row once, with its values, also after kills.

Neither library is among the test requirements; each test runs where its library is installed.
"""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from perepisode import tracking
from perepisode.runs import RunFolder
from tests.boundary.command_line import answer, refused
from tests.tracking.made_up import RUNS, UPDATES, expected, made_up, row


def needs(name: str):
    return pytest.mark.skipif(find_spec(name) is None, reason=f"the extra {name} is not installed")


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_DIR", "WANDB_PROJECT", "WANDB_API_KEY", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")


def send(name: str, folder: RunFolder) -> int:
    with tracking.feed(name, folder) as feed:
        return feed.send_new()


def wandb_record(folder: RunFolder) -> tuple[dict[str, list[tuple[int, float]]], list]:
    """The values in all offline files of a run, as (steps, value) by name, and the run as each file describes it."""
    from perepisode.tracking.wandb import _records

    found: dict[str, list[tuple[int, float]]] = {}
    runs = []
    for path in sorted(folder.path.parent.glob("wandb/offline-run-*/*.wandb")):
        for record in _records(path.read_bytes()):
            runs += [record.run] if record.HasField("run") else []
            items = {".".join([*item.nested_key]) or item.key: item.value_json for item in record.history.item}
            for name, value in items.items():
                if not name.startswith("_"):
                    found.setdefault(name, []).append((record.history.step.num, json.loads(value)))
    return found, runs


def mlflow_record(folder: RunFolder) -> tuple[dict[str, list[tuple[int, float]]], list]:
    import mlflow

    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("perepisode")
    runs = client.search_runs([experiment.experiment_id])
    found = {
        name: [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]
        for run in runs
        for name in run.data.metrics
    }
    return {name: sorted(pairs) for name, pairs in found.items()}, runs


RECORDS = {"wandb": wandb_record, "mlflow": mlflow_record}
BOTH = [pytest.param(name, marks=needs(name)) for name in RECORDS]


@pytest.mark.parametrize("name", BOTH)
def test_every_row_is_sent_once_with_its_values(name, tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(update) for update in range(1, 31)])
    assert send(name, folder) == 30
    assert send(name, folder) == 0
    folder.append_metrics([row(update) for update in range(31, UPDATES + 1)])
    assert send(name, folder) == 30
    assert RECORDS[name](folder)[0] == expected(folder)


@pytest.mark.parametrize("name", BOTH)
def test_what_a_resumed_run_trains_again_is_not_sent_again(name, tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(update) for update in range(1, 41)])
    assert send(name, folder) == 40
    folder.truncate_metrics(25)
    with tracking.feed(name, folder) as feed:
        assert feed.send_new() == 0
        for update in range(26, UPDATES + 1):
            folder.append_metrics([row(update)])
            feed.send_new()
    assert RECORDS[name](folder)[0] == expected(folder)


KILLED = """
import os, signal, sys
from pathlib import Path
from perepisode import tracking
from perepisode.runs import RunFolder
from tests.tracking.made_up import row

folder = RunFolder(Path(sys.argv[2]))
feed = tracking.feed(sys.argv[1], folder).__enter__()
for update in range(1, 41):
    folder.append_metrics([row(update)])
    feed.send_new()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.processes
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("checkpoint", [0, 25, 40])
def test_kill_nine_and_resume(name, checkpoint, tmp_path):
    """The next start resumes from a checkpoint that the tracker is ahead of."""
    folder = made_up(tmp_path)
    command = [sys.executable, "-c", KILLED, name, str(folder.path)]
    clean = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}  # that of this process
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], env=clean)
    assert killed.returncode == -signal.SIGKILL
    folder.truncate_metrics(checkpoint)
    with tracking.feed(name, folder) as feed:
        feed.send_new()
        for update in range(checkpoint + 1, UPDATES + 1):
            folder.append_metrics([row(update)])
            feed.send_new()
    assert RECORDS[name](folder)[0] == expected(folder)


@needs("wandb")
def test_wandb_shows_a_run_as_is_the_custom(tmp_path):
    folder = made_up(tmp_path)
    folder.append_metrics([row(1)])
    send("wandb", folder)
    (run,) = wandb_record(folder)[1]
    assert (run.run_id, run.project, run.display_name) == (RUNS[0].id, "perepisode", folder.path.name)
    assert run.run_group.startswith("temptation.esr.k=1.gamma1.")
    assert list(run.tags) == ["temptation", "temptation", "esr"]
    config = {entry.key: json.loads(entry.value_json) for entry in run.config.update}
    assert config["budget"] == 1
    assert config["seed"] == RUNS[0].seed
    assert config["hidden_size"] == 8
    assert config["anneal_lr"] is True


@needs("wandb")
def test_what_wandb_clean_deleted_after_a_sync_is_not_sent_again(tmp_path):
    import shutil

    folder = made_up(tmp_path)
    folder.append_metrics([row(update) for update in range(1, 4)])
    send("wandb", folder)
    shutil.rmtree(tmp_path / "wandb")
    assert send("wandb", folder) == 0
    assert not (tmp_path / "wandb").exists()
    folder.append_metrics([row(4)])
    assert send("wandb", folder) == 1


@needs("wandb")
def test_wandb_online_without_an_account_is_refused_before_training(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr("perepisode.training.train.train", lambda *_: pytest.fail("it started to train"))
    import wandb

    wandb.teardown()
    try:
        assert "run `wandb login`, or set WANDB_MODE=offline" in refused("train", "--track", "wandb")
    finally:
        wandb.teardown()


@needs("mlflow")
def test_mlflow_shows_a_run_as_is_the_custom(tmp_path):
    for run in RUNS:
        folder = made_up(tmp_path, run)
        folder.append_metrics([row(update) for update in range(1, 2 if run is RUNS[0] else UPDATES + 1)])
    code, out, _ = answer("track", tmp_path, "--to", "mlflow")
    assert code == 0
    assert out.splitlines()[-2:] == [f"sent {UPDATES + 1} rows of 2 runs to mlflow", "next: mlflow ui"]
    runs = {run.data.tags["perepisode.run"]: run for run in mlflow_record(folder)[1]}
    assert set(runs) == {run.id for run in RUNS}
    assert [runs[run.id].info.status for run in RUNS] == ["RUNNING", "FINISHED"]
    first = runs[RUNS[0].id]
    assert first.info.run_name == made_up(tmp_path).path.name
    assert first.data.params["budget"] == "1"
    assert first.data.params["hidden_size"] == "8"
    assert first.data.tags["perepisode.group"] == runs[RUNS[1].id].data.tags["perepisode.group"]
    assert send("mlflow", made_up(tmp_path)) == 0  # the same run of mlflow, not another
    assert len(mlflow_record(folder)[1]) == 2


@needs("mlflow")
def test_an_mlflow_server_that_is_down_is_one_line(tmp_path, monkeypatch):
    from perepisode.tracking import live
    from perepisode.training import progress

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    folder = made_up(tmp_path)
    folder.append_metrics([row(1)])
    said = []
    tracked = live.Tracked(progress.Progress(), ["mlflow"], tmp_path, said.append)
    tracked.start(RUNS[:1], 0)
    tracked.stop()
    assert len(said) == 1
    assert "\n" not in said[0]
    assert said[0].startswith("mlflow receives no more metrics (")
    assert said[0].endswith(" --to mlflow")
