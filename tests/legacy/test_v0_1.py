"""Files of version 0.1 (v0_1/, written at commit 8eb8b4d) are read, resumed and reported; its options work."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perepisode
from perepisode import agents, cli, legacy, plugins
from perepisode.config import ConfigError, PPOConfig
from perepisode.environments.base import ENVIRONMENTS, Environment, register_env
from perepisode.evaluation import episodes
from perepisode.methods.objective import METHODS, Objective, register_method
from perepisode.runs import find_run_folders
from perepisode.study import local, plan
from perepisode.training.train import TrainingOptions, train

FILES = Path(__file__).parent / "v0_1"
ESR, LAGRANGIAN = "d70d949d20e8", "eb5ce57a71f6"


@pytest.fixture
def copy(tmp_path):
    """Copies one of the folders, because reading may create files in it."""
    return lambda name: Path(shutil.copytree(FILES / name, tmp_path / name))


def test_a_run_folder_is_read_with_current_names_and_keeps_its_id():
    esr, lagrangian = (folder.read() for folder in find_run_folders(FILES / "runs"))
    assert (esr.id, lagrangian.id) == (ESR, LAGRANGIAN)
    assert esr.method_settings == {"budget": 1, "rho_u": 0.5, "sharpness": 12, "accrued_obs": "scaled"}
    assert lagrangian.method_settings["lambda_lr"] == 0.05
    assert {run.cost_per for run in (esr, lagrangian)} == {"event"}
    assert esr.env_settings["offer_prob"] == 0.2
    assert (esr.config.num_envs, esr.config.num_steps, esr.config.hidden_size, esr.total_timesteps) == (8, 16, 8, 2560)
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
    runs = [folder.read() for folder in reversed(find_run_folders(out))]  # in their original order
    folders = train(runs, TrainingOptions(out, chunk=5))
    assert {folder.path.name for folder in folders} == set(before)  # folders keep their old names
    for folder in folders:
        assert folder.done
        lines = folder.metrics.read_text().splitlines()
        assert [json.loads(line)["update"] for line in lines] == list(range(1, 21))
        # the first five rows are unchanged, clock included: updates before the checkpoint were not repeated
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
    perepisode.report(runs / "episodes.parquet", tmp_path / "report", runs=runs)
    curves = (tmp_path / "report" / "data").glob("training_*.csv")
    assert "told" not in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert any("scaled obs" in path.read_text() for path in curves)


def test_a_study_resumes(copy):
    out = copy("study")
    study = plan.load(out)
    assert local.run(study, out, local.slots_for("cpu", 1)) == 0
    found = episodes.read(out / "episodes")
    assert set(found["method"]) == {"unconstrained", "ser", "esr_distilled"}
    # the first pack was trained and evaluated by version 0.1, and its table is unchanged
    first = "episodes/train-01.parquet"
    assert (out / first).read_bytes() == (FILES / "study" / first).read_bytes()
    assert np.isfinite(found["return"]).all()


def test_old_options_work_and_print_their_new_name(capsys):
    command = [
        "train",
        "--method",
        "esr:told=loud:charge=0.5",
        "lagrangian:budget=1",
        "--rate",
        "0.1",
        "--chance",
        "0.2",
    ]
    command += ["--envs", "16", "--entropy", "0.02", "--penalty", "count", "--set", "world.gain=4", "--steps", "1e5"]
    esr, lagrangian = cli.parsed(command).runs()[0][::3]
    assert (esr.method_settings, lagrangian.method_settings) == (
        {"accrued_obs": "scaled", "rho_u": 0.5},
        {"budget": 1, "lambda_lr": 0.1},
    )
    assert esr.env_settings == {"offer_prob": 0.2, "max_gain": 4}
    assert (esr.config.num_envs, esr.config.ent_coef, esr.cost_per, esr.total_timesteps) == (16, 0.02, "event", 100_000)
    printed = capsys.readouterr().err.splitlines()
    assert "perepisode: --rate is now called --lambda-lr" in printed
    assert "perepisode: told is now called accrued_obs" in printed
    assert len(printed) == len(set(printed)) == 8


@pytest.mark.parametrize(
    ("given", "upgraded"),
    [
        ("evaluate out --envs 8 --steps=80", "evaluate out --num-envs 8 --num-steps=80"),
        ("matrix --no-beyond --only esr,twins", "matrix --no-extra-baselines --only esr,gamma1"),
        ("train --told loud,paper --hidden 8", "train --accrued-obs scaled,paper --hidden-size 8"),
        ("train --gain 2 --steps 9", "train --gain 2 --steps 9"),  # a plugin has a setting called gain
        ("watch out --restraint 2", "watch out --abstaining 2"),
    ],
)
def test_options_of_every_command(given, upgraded):
    words, _ = legacy.upgrade_options(given.split(), current={"gain"})
    assert words == upgraded.split()


def test_a_csv_of_another_program_may_have_a_column_called_steps(tmp_path):
    table = pd.DataFrame({"method": ["a"], "seed": [1], "return": [3.0], "violations": [0], "steps": ["many"]})
    table.assign(audit_trail="x").to_csv(tmp_path / "theirs.csv", index=False)
    read = episodes.read(tmp_path / "theirs.csv")
    assert read["steps"].tolist() == ["many"]
    assert read["total_timesteps"].isna().all()


def test_settings_of_a_table():
    """Names that two owners share carry a prefix; renaming separates most of them."""
    old = {"rollout": 64, "entropy": 0.1, "method.rate": 0.1, "world.rate": 2, "penalty": "count", "steps": 9}
    old |= {"world.py": "sha256:1", "gain": 5.0}
    upgraded = json.loads(legacy.upgrade_settings(json.dumps(old), "lagrangian", "temptation"))
    assert upgraded == {
        "num_steps": 64, "ent_coef": 0.1, "lambda_lr": 0.1, "rate": 2, "cost_per": "event", "total_timesteps": 9,
        "world.py": "sha256:1", "max_gain": 5.0,
    }  # fmt: skip
    shared = {
        "learner.rollout": 64,
        "world.rollout": 3,
        "penalty": "step",
        "steps": 9,
        "method.gain": 1,
        "world.gain": 2,
    }
    upgraded = json.loads(legacy.upgrade_settings(json.dumps(shared), "mine", "theirs"))
    assert upgraded == {
        "num_steps": 64,
        "rollout": 3,
        "cost_per": "step",
        "total_timesteps": 9,
        "method.gain": 1,
        "env.gain": 2,
    }
    current = json.dumps({"rollout": 3, "num_steps": 64, "cost_per": "step", "total_timesteps": 9})
    for text in (current, "no JSON", None, "[1]"):
        assert legacy.upgrade_settings(text, "esr", "temptation") == text


def test_the_old_variable_for_plugins_works(monkeypatch):
    monkeypatch.delenv(plugins.ENV_VARIABLE, raising=False)
    monkeypatch.setenv("PEREPISODE_USE", "no_such_module")
    with pytest.raises(ConfigError, match="no_such_module cannot be imported"):
        plugins.load_plugins()


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("learner", PPOConfig(), "ppo"),
        ("steps", 1000, "total_timesteps"),
        ("harms", {"harm": "harms done"}, "violation_names"),
        ("longest", property(lambda self: 5), "max_episode_steps"),
    ],
)
def test_an_environment_with_attributes_of_version_0_1_is_refused(old, value, new):
    """They would be ignored, and the environment trained with other settings than it states."""
    members = {"name": "old_names", "dilemmas": ("harm",), "actions": 2, old: value}
    with pytest.raises(ConfigError, match=f"defines {old}, which is called {new} since version 0.2; rename it"):
        register_env(type("OldNames", (Environment,), members))
    assert "old_names" not in ENVIRONMENTS


def test_a_method_with_attributes_of_version_0_1_is_refused():
    members = {"name": "old_method", "label": "Old", "worth": lambda self, dual, totals: 0.0}
    with pytest.raises(ConfigError, match=r"defines worth, which is called episode_utility since version 0\.2"):
        register_method(type("OldMethod", (Objective,), members))
    assert "old_method" not in METHODS
