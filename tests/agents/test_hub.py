"""An agent in a folder for the Hugging Face Hub: the Hub reads its metadata, and it plays like the agent file."""

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.boundary.command_line import answer, refused

from perepisode import agents
from perepisode.agents import card, hub
from perepisode.agents.hub import _yaml
from perepisode.evaluation import episodes
from perepisode.zoo import HubFolder
from perepisode.zoo.agent_file import HUB_NAMES, AgentFile

NAMES = {"README.md", "config.json", "model.safetensors", "metrics.jsonl"}


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def shared(agent, tmp_path) -> HubFolder:
    return hub.write(agent, tmp_path / "esr-mine")


def front_matter(folder: HubFolder) -> dict:
    _, metadata, _ = (folder.path / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(metadata)


def done(*words: object) -> str:
    code, out, err = answer(*words)
    assert (code, err) == (0, ""), err
    return out


def test_the_folder_holds_the_agent_files_under_other_names(agent, shared):
    assert {path.name for path in shared.path.iterdir()} == NAMES
    for ending, name in ((".json", "config.json"), (".safetensors", "model.safetensors")):
        assert (shared.path / name).read_bytes() == agent.sibling(ending).read_bytes()
    assert (shared.path / "README.md").read_text().endswith("---\n\n" + card.render(shared))


def test_its_metadata_names_the_library_the_task_and_the_evaluation(agent, shared):
    metadata, evaluation = front_matter(shared), agent.metadata["evaluation"]
    assert metadata["library_name"] == "perepisode"
    assert metadata["license"] == "mit"
    assert {"reinforcement-learning", "safe-rl", "temptation", "esr"} <= set(metadata["tags"])
    (model,) = metadata["model-index"]
    assert model["name"] == "esr-mine"
    (result,) = model["results"]
    assert result["task"]["type"] == "reinforcement-learning"
    assert result["dataset"] == {"type": "temptation-temptation", "name": "Temptation, Temptation"}
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values == {
        "mean_reward": pytest.approx(evaluation["return"]),
        "violations": pytest.approx(evaluation["violations"]),
        "p_any": pytest.approx(evaluation["p_any"]),
        "p_over_1": pytest.approx(evaluation["p_over_1"]),
        "cvar": pytest.approx(evaluation["cvar"]),
        "worst": evaluation["worst"],
    }


@pytest.mark.parametrize("value", [1e-6, 0.0, -2.5, 3, "no", "1e5", '"ü: #\\', True, ["a", {"b": [1, 2], "c": "null"}]])
def test_values_in_yaml_read_as_they_are(value):
    assert yaml.safe_load("\n".join(_yaml({"key": value}))) == {"key": value}


@pytest.mark.skipif(find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")
def test_the_hubs_own_reader_finds_the_evaluation(agent, shared):
    from huggingface_hub import ModelCard

    data = ModelCard.load(shared.path / "README.md").data
    assert (data.library_name, data.license, data.model_name) == ("perepisode", "mit", "esr-mine")
    found = {result.metric_type: result.metric_value for result in data.eval_results}
    assert found["cvar"] == pytest.approx(agent.metadata["evaluation"]["cvar"])
    assert {result.task_type for result in data.eval_results} == {"reinforcement-learning"}
    assert {result.dataset_type for result in data.eval_results} == {"temptation-temptation"}


def cached(folder: HubFolder, home: Path) -> Path:
    """The folder as the Hub's cache holds it: a snapshot of links to blobs."""
    repository = home / "models--someone--esr-mine"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    for index, path in enumerate(sorted(folder.path.iterdir())):
        shutil.copy(path, repository / "blobs" / str(index))
        (snapshot / path.name).symlink_to(f"../../blobs/{index}")
    return snapshot


def test_a_snapshot_in_the_cache_of_the_hub_is_read(shared, tmp_path):
    snapshot = cached(shared, tmp_path / "hub")
    if find_spec("huggingface_hub"):
        from huggingface_hub import snapshot_download

        found = snapshot_download("someone/esr-mine", cache_dir=tmp_path / "hub", local_files_only=True)
        assert Path(found) == snapshot
    (read,) = agents.find(snapshot)
    assert read.load()[0] == shared.load()[0]
    assert read.metrics.exists()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_links_out_of_the_folder_are_refused(shared, tmp_path, name):
    secret = tmp_path / "secret"
    shutil.move(shared.path / name, secret)
    (shared.path / name).symlink_to(secret)
    with pytest.raises(ValueError, match="is a link out of its folder"):
        shared.sibling({value: key for key, value in HUB_NAMES.items()}[name])
    if name in ("config.json", "model.safetensors"):
        assert "is a link out of its folder" in refused("agents", "card", shared.path)
        assert "is a link out of its folder" in refused("evaluate", shared.path)


def test_a_link_from_a_folder_called_snapshots_reaches_only_its_blobs(shared, tmp_path):
    snapshot = cached(shared, tmp_path / "hub")
    other = tmp_path / "elsewhere"
    shutil.move(snapshot.parents[1] / "blobs", other)
    for path in snapshot.iterdir():
        target = other / os.readlink(path).rpartition("/")[2]
        path.unlink()
        path.symlink_to(target)
    assert "is a link out of its folder" in refused("evaluate", snapshot)


def test_it_is_accepted_wherever_an_agent_is(folder, agent, shared, tmp_path):
    """`evaluate`, `report`, `watch`, `agents card`, `agents export` and Python."""
    sizes = ("--num-envs", 4, "--num-steps", 80, "--episodes-per-env", 2)
    done("evaluate", "esr-mine", *sizes)
    done("evaluate", agent.path, *sizes, "--out", "by_file.parquet")
    assert not (shared.path / "episodes.parquet").exists()
    table = episodes.read(Path("episodes.parquet"))
    assert table.equals(episodes.read(Path("by_file.parquet")))
    assert set(table["run"]) == {folder.read().id}

    done("report", "episodes.parquet", "--runs", "esr-mine")
    assert Path("report/data/training_temptation.csv").exists()
    assert "reproduced exactly" in done("watch", "esr-mine", "--worst", 1)
    assert done("agents", "card", "esr-mine") == card.render(shared)
    done("agents", "export", "esr-mine", "--hub-layout", "copy")
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == agent.path.read_bytes()

    weights = agent.load()[1]
    for name in ("esr-mine", "esr-mine/model.safetensors", "esr-mine/config.json"):
        loaded = agents.find_one(name).load()[1]
        assert all(np.array_equal(loaded[key], weights[key]) for key in weights)
    assert agents.load("esr-mine").env == agents.load(agent.path).env


def test_a_run_folder_is_exported_with_its_episodes(folder, agent):
    out = done("agents", "export", folder.path, "--hub-layout", "mine")
    assert "next: hf upload USER/mine mine" in out
    assert agents.find_one("mine").metadata == agent.metadata


def test_a_bundled_agent_is_exported():
    done("agents", "export", "no_killing/esr-k1", "--hub-layout", "esr-k1")
    (model,) = front_matter(HubFolder(Path("esr-k1")))["model-index"]
    assert model["name"] == "esr-k1"
    assert agents.find_one("esr-k1").read() == agents.find_one("no_killing/esr-k1").read()


def test_an_export_replaces_only_an_agent(agent, shared, tmp_path):
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "README.md").write_text("mine")
    for target in (thesis, thesis / "README.md"):
        assert "exists and holds no agent" in refused("agents", "export", agent.path, "--hub-layout", target)
    assert (thesis / "README.md").read_text() == "mine"
    agent.metrics.unlink()
    hub.write(AgentFile(agent.path), shared.path)
    assert {path.name for path in shared.path.iterdir()} == NAMES - {"metrics.jsonl"}
    (tmp_path / "empty").mkdir()
    done("agents", "export", agent.path, "--hub-layout", tmp_path / "empty")


def test_a_damaged_or_edited_folder_is_refused(shared):
    config = shared.path / "config.json"
    plain = json.loads(config.read_text())
    plain["evaluation"]["cvar"] = 0.0
    config.write_text(json.dumps(plain))
    assert "config.json was changed after model.safetensors was written" in refused("agents", "card", shared.path)
    config.write_text("{")
    assert "config.json is damaged" in refused("evaluate", shared.path)
    config.unlink()
    assert "has no run folder" in refused("agents", "card", shared.path)


def test_one_of_two_targets_is_given(agent):
    for words in ((), ("--out", "a.safetensors", "--hub-layout", "b")):
        message = refused("agents", "export", agent.path, *words)
        assert "give either --out FILE.safetensors or --hub-layout FOLDER" in message
