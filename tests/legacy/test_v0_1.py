"""Files of version 0.1 (v0_1/, written at commit 8eb8b4d) are read, resumed and reported; its options still work."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import perepisode
from perepisode import agents, cli
from perepisode.evaluation import episodes
from perepisode.runs import find_run_folders
from perepisode.study import local, plan
from perepisode.training.train import TrainingOptions, train

FILES = Path(__file__).parent / "v0_1"
ESR, LAGRANGIAN = "d70d949d20e8", "eb5ce57a71f6"


@pytest.fixture
def copy(tmp_path):
    """A copy of one of the folders: what is read there may be written to."""
    return lambda name: Path(shutil.copytree(FILES / name, tmp_path / name))


def test_a_run_folder_is_read_in_todays_names_and_keeps_its_id():
    esr, lagrangian = (folder.read() for folder in find_run_folders(FILES / "runs"))
    assert (esr.id, lagrangian.id) == (ESR, LAGRANGIAN)
    assert esr.method_settings == {"budget": 1, "rho_u": 0.5, "sharpness": 12, "accrued_obs": "scaled"}
    assert lagrangian.method_settings["lambda_lr"] == 0.05
    assert {run.cost_per for run in (esr, lagrangian)} == {"event"}
    assert esr.env_settings["offer_prob"] == 0.2
    assert (esr.ppo.num_envs, esr.ppo.num_steps, esr.ppo.hidden_size, esr.total_timesteps) == (8, 16, 8, 2560)
    assert esr.arm == "k=1, scaled obs"


def test_a_finished_run_is_neither_trained_nor_evaluated_again(copy, capsys):
    runs = copy("runs")
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    train([folder.read() for folder in find_run_folders(runs)], TrainingOptions(runs))
    perepisode.evaluate(runs, num_envs=8, num_steps=80, episodes_per_env=2)
    assert "2 of 2 agents are already in" in capsys.readouterr().out
    after = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert before == {path: content for path, content in after.items() if path in before}
    assert not any(path.name in ("policy.safetensors", "metrics.jsonl") for path in after.keys() - before.keys())


def test_an_interrupted_training_resumes_from_its_checkpoint(copy):
    out = copy("interrupted")
    before = {folder.path.name: folder.metrics.read_text().splitlines() for folder in find_run_folders(out)}
    runs = [folder.read() for folder in reversed(find_run_folders(out))]  # as they were given
    folders = train(runs, TrainingOptions(out, chunk=5))
    assert {folder.path.name for folder in folders} == set(before)  # in the same folders, under their old names
    for folder in folders:
        assert folder.done
        lines = folder.metrics.read_text().splitlines()
        assert [json.loads(line)["update"] for line in lines] == list(range(1, 21))
        # five updates and their clock as they were: nothing before the checkpoint was trained again
        assert lines[:5] == before[folder.path.name]
        assert "cvar" in json.loads(lines[-1])


def test_an_agent_file_acts_and_is_evaluated(tmp_path):
    file = FILES / "agent" / "esr-scaled.safetensors"
    assert agents.find_one(file).read().id == ESR
    assert agents.find_one(file).metadata["evaluation"]["protocol"] == {
        "num_envs": 8, "num_steps": 80, "episodes_per_env": 2, "seed": 0,
    }  # fmt: skip
    assert agents.load(file).objective.rho_u == 0.5
    table = perepisode.evaluate(file, tmp_path / "episodes.parquet", num_envs=2, num_steps=80, episodes_per_env=1)
    assert set(episodes.read(table)["run"]) == {ESR}


def test_an_episodes_table_is_read_and_reported(copy, tmp_path):
    runs = copy("runs")
    table = episodes.read(runs / "episodes.parquet")
    assert set(table["arm"]) == {"k=1, scaled obs", "d=1"}
    assert set(table["total_timesteps"]) == {2560}
    assert table["info_offers"].sum() > 0
    assert not {name for name in table.columns if name == "steps" or name.startswith("audit_")}
    settings = [episodes.parse_settings(text) for text in table["settings"].unique()]
    assert {one["ent_coef"] for one in settings} == {0.1}
    assert {one["cost_per"] for one in settings} == {"event"}
    assert [one.get("accrued_obs") for one in settings if "rho_u" in one] == ["scaled"]
    page = perepisode.report(runs / "episodes.parquet", tmp_path / "report", runs=runs)
    curves = (tmp_path / "report" / "figures").glob("training_*.csv")
    assert "told" not in page.read_text(encoding="utf-8")
    assert any("scaled obs" in path.read_text() for path in curves)


def test_a_study_goes_on(copy):
    out = copy("study")
    study = plan.load(out)
    assert local.run(study, out, local.slots_for("cpu", 1)) == 0
    found = episodes.read(out / "episodes")
    assert set(found["method"]) == {"unconstrained", "ser", "esr_distilled"}
    # the first pack was trained and evaluated by version 0.1, and is left as it was
    first = "episodes/train-01.parquet"
    assert (out / first).read_bytes() == (FILES / "study" / first).read_bytes()
    assert np.isfinite(found["return"]).all()


def test_old_options_work_and_say_their_new_name(capsys):
    asked = ["train", "--method", "esr:told=loud:charge=0.5", "lagrangian:budget=1", "--rate", "0.1", "--chance", "0.2"]
    asked += ["--envs", "16", "--entropy", "0.02", "--penalty", "count", "--set", "world.gain=4", "--steps", "1e5"]
    esr, lagrangian = cli.parsed(asked).runs()[0][::3]
    assert (esr.method_settings, lagrangian.method_settings) == (
        {"accrued_obs": "scaled", "rho_u": 0.5},
        {"budget": 1, "lambda_lr": 0.1},
    )
    assert esr.env_settings == {"offer_prob": 0.2, "max_gain": 4}
    assert (esr.ppo.num_envs, esr.ppo.ent_coef, esr.cost_per, esr.total_timesteps) == (16, 0.02, "event", 100_000)
    said = capsys.readouterr().err.splitlines()
    assert "perepisode: --rate is now called --lambda-lr" in said
    assert "perepisode: told is now called accrued_obs" in said
    assert len(said) == len(set(said)) == 8
