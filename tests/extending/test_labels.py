"""Runs that differ in any setting get different labels, and a file named by a setting is kept with its run."""

import hashlib
import json

import guide
import numpy as np
import pandas as pd
import pytest

from perepisode import agents
from perepisode.agents.export import export
from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.runs import RunFolder, flat_settings
from perepisode.settings import distinguish_arms
from perepisode.study import matrix

pytestmark = pytest.mark.xdist_group("extending-labels")

TINY = (
    "--steps",
    "1024",
    "--num-envs",
    "8",
    "--num-steps",
    "8",
    "--num-minibatches",
    "2",
    "--hidden-size",
    "8",
    "--seeds",
    "1",
    "2",
)
EVALUATION = ("--num-envs", "4", "--num-steps", "80", "--episodes-per-env", "2")
TOLERANT = """
import json
from perepisode.lazy import jnp
from perepisode.methods.objective import Objective, cost, register_method, task_reward
from perepisode.settings import setting

@register_method
class Tolerant(Objective):
    owed: object = setting(help="by so many violations", file=lambda text: jnp.array(json.loads(text), float))
    relief: float = setting(0.0, "off every violation", low=0)

    name, label = "tolerant", "Tolerant"

    def reward(self, dual, before, after):
        debts = [jnp.interp(one.violations, jnp.arange(len(self.owed)), self.owed) for one in (before, after)]
        return task_reward(before, after) - debts[1] + debts[0] + self.relief * cost(before, after)
"""


def done(*words: str) -> str:
    code, out, err = guide.call(*words)
    assert code == 0, err
    return out


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Sweeps over a setting of PPO, of a method and of an environment; a plugin method with two swept settings."""
    with guide.folder(tmp_path_factory.mktemp("labels"), "A method", tolerant=TOLERANT) as home:
        (home / "steep.json").write_text("[0, 1, 4, 9, 16, 25, 36, 49]")
        (home / "flat.json").write_text("[0, 1, 2, 3, 4, 5, 6, 7]")
        done("train", "--budget", "1", "--ent-coef", "0.01", "0.02", *TINY)
        done("train", "--budget", "1", "--ent-coef", "0.01", "--set", "rho_u=2", *TINY)
        done("train", "--method", "ser", "--weight", "0.1", "--max-gain", "4", "5", *TINY)
        done("train", "--method", "lagrangian", "--budget", "1", "--set", "lambda_lr=0.1", *TINY)
        done("train", "--method", "entropic:Entropic", "--set", "beta=0.5", "cost=1,2", *TINY)
        done("train", "--method", "tolerant:Tolerant", "--set", "owed=steep.json,flat.json", *TINY)
        done("evaluate", "out", *EVALUATION)
        done("report", "out/episodes.parquet", "--runs", "out")
        yield home


def labels(home) -> set[str]:
    return set(pd.read_csv(home / "report" / "data" / "complete_temptation.csv")["agent"])


def digest(home, name: str) -> str:
    return "sha256:" + hashlib.sha256((home / name).read_bytes()).hexdigest()[:12]


def test_labels_have_the_settings_that_differ_and_no_others(home):
    assert labels(home) == {
        "ESR (k=1, rho_u=none, ent_coef=0.01)",
        "ESR (k=1, rho_u=none, ent_coef=0.02)",
        "ESR (k=1, rho_u=2, ent_coef=0.01)",
        "SER (w=0.1, max_gain=4)",
        "SER (w=0.1, max_gain=5)",
        "Lagrangian (d=1)",  # its lambda_lr is not the default, but there is no other Lagrangian
        "Entropic (β=0.5, cost=1)",
        "Entropic (β=0.5, cost=2)",
        f"Tolerant (owed={digest(home, 'steep.json')})",
        f"Tolerant (owed={digest(home, 'flat.json')})",
    }
    page = (home / "report" / "index.html").read_text()
    assert "SER (w=0.1, max_gain=4)" in page
    assert "Agents were trained with different settings: max_gain is 4 or 5, ent_coef is 0.01 or 0.02 or 0.1." in page


def test_every_agent_has_its_own_two_seeds(home):
    table = pd.read_csv(home / "report" / "data" / "complete_temptation.csv")
    assert (table["seeds"] == 2).all()
    runs = pd.read_csv(home / "report" / "data" / "runs.csv")
    labels_of = {row["run"]: row["agent"] for _, row in runs.iterrows() if row["method"] == "esr"}
    for folder in home.glob("out/*.esr.*"):
        run = RunFolder(folder).read()
        assert f"ent_coef={run.config.ent_coef}" in labels_of[run.id]


def test_training_curves_have_the_same_labels(home):
    curves = pd.read_csv(home / "report" / "data" / "training_temptation.csv")
    drawn = {f"{method} {arm}" for method, arm in zip(curves["method"], curves["arm"])}
    assert {"ser w=0.1, max_gain=4", "ser w=0.1, max_gain=5", "esr k=1, rho_u=2, ent_coef=0.01"} <= drawn
    assert set(curves["seeds"]) == {2}


def test_the_table_keeps_its_arms_and_a_later_sweep_gets_other_labels(home, tmp_path):
    written = pd.read_parquet(home / "out" / "episodes.parquet")
    assert set(written.loc[written["method"] == "esr", "arm"]) == {"k=1"}
    folders = [RunFolder(path) for path in sorted(home.glob("out/*.ser.*"))]
    tables = [str(tmp_path / name) for name in ("one.parquet", "two.parquet")]
    one, two = ([str(own.path) for own in folders if own.read().env_settings["max_gain"] == gain] for gain in (4, 5))
    done("evaluate", *one, "--out", tables[0], *EVALUATION)
    done("report", tables[0], "--out", str(tmp_path / "alone"))
    assert set(pd.read_csv(tmp_path / "alone" / "data" / "complete_temptation.csv")["agent"]) == {"SER (w=0.1)"}
    done("evaluate", *two, "--out", tables[1], *EVALUATION)
    both = {"SER (w=0.1, max_gain=4)", "SER (w=0.1, max_gain=5)"}
    done("report", *tables, "--out", str(tmp_path / "both"))
    assert set(pd.read_csv(tmp_path / "both" / "data" / "complete_temptation.csv")["agent"]) == both
    done("evaluate", *two, "--out", tables[0], *EVALUATION)  # extends the first table
    done("report", tables[0], "--out", str(tmp_path / "extended"))
    assert set(pd.read_csv(tmp_path / "extended" / "data" / "complete_temptation.csv")["agent"]) == both


def test_a_table_of_an_earlier_version_keeps_its_labels(home, tmp_path):
    old = pd.read_parquet(home / "out" / "episodes.parquet").drop(columns="settings")
    first = old.groupby(["method", "arm", "seed"])["run"].transform("first")
    episodes.write(old[old["run"] == first], tmp_path / "old.parquet")
    done("report", str(tmp_path / "old.parquet"), "--out", str(tmp_path / "report"))
    found = set(pd.read_csv(tmp_path / "report" / "data" / "complete_temptation.csv")["agent"])
    assert found == {"ESR (k=1)", "SER (w=0.1)", "Lagrangian (d=1)", "Entropic (β=0.5)", "Tolerant"}
    episodes.write(old[old["method"] == "esr"], tmp_path / "old.parquet")
    assert "two runs of esr k=1 have seed 1" in guide.call("report", str(tmp_path / "old.parquet"))[2]


def test_an_arm_to_watch_is_given_in_full_or_in_part(home):
    done("watch", "out/episodes.parquet", "--worst", "1", "--arm", "w=0.1, max_gain=4", "--out", "four")
    shown = (home / "four" / "index.html").read_text()
    assert "SER w=0.1, max_gain=4, seed" in shown
    assert "reproduced exactly" in shown
    done("watch", "out/episodes.parquet", "--worst", "3", "--arm", "k=1", "--out", "any")
    assert "ESR k=1, rho_u=" in (home / "any" / "index.html").read_text()
    assert "it has " in guide.call("watch", "out/episodes.parquet", "--arm", "k=11")[2]


def test_the_papers_arms_and_the_miniatures_keep_their_names():
    for env in ("craftax", "temptation"):
        own = matrix.of(env)
        runs = matrix.flat({**matrix.families(own), **matrix.extra_baselines(own)})
        assert len(runs) > 100
        arms = [(run.dilemma, run.method, run.arm) for run in runs]
        assert set(distinguish_arms(arms, [flat_settings(run.to_json()) for run in runs])) == {""}


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ([{"a": 1}, {"a": 1.0}], ["", ""]),
        ([{"a": 1e-9, "b": None}, {"a": 2e-9, "b": None}], ["a=1e-09", "a=2e-09"]),
        ([{"a": 0.1234567}, {"a": 0.1234568}], ["a=0.1234567", "a=0.1234568"]),
        ([{"a": True, "b": "x"}, {"a": False, "b": None}], ["a=true, b=x", "a=false, b=none"]),
        ([{"a": 1}, {"a": 1, "b": True}], ["", "b=true"]),  # a setting that was added later is omitted at its default
        ([{"a": 1}, {}], ["", ""]),  # a table without settings counts as equal
        ([{"a": 1}, {}, {"a": 2}], ["a=1", "", "a=2"]),
    ],
)
def test_which_settings_are_in_the_label(settings, labels):
    assert distinguish_arms(["k=1"] * len(settings), settings) == labels
    assert distinguish_arms(range(len(settings)), settings) == [""] * len(settings)  # other arms need no more


def test_settings_of_another_library(tmp_path):
    columns = {"method": "mine", "seed": 1, "return": [1.0, 2.0], "violations": [0, 1]}
    pd.DataFrame({**columns, "settings": ["fast", "slow"]}).to_csv(tmp_path / "own.csv")
    assert episodes.read(tmp_path / "own.csv")["arm"].tolist() == ["settings=fast", "settings=slow"]


def test_a_name_with_two_owners_is_listed_with_both():
    plain = {
        "method_settings": {"gain": 1},
        "env_settings": {"gain": 2, "wage": 3},
        "ppo": {},
        "cost_per": "step",
        "seed": 4,
    }
    assert flat_settings(plain) == {"method.gain": 1, "env.gain": 2, "wage": 3, "cost_per": "step"}


def test_a_file_named_by_a_setting_is_kept_with_the_run_and_with_its_agent(home, tmp_path):
    folders = {
        folder.read().method_settings["owed"]: folder for folder in map(RunFolder, home.glob("out/*.tolerant.*"))
    }
    assert set(folders) == {digest(home, "steep.json"), digest(home, "flat.json")}
    folder = folders[digest(home, "steep.json")]
    assert folder.stored_file("owed") == b"[0, 1, 4, 9, 16, 25, 36, 49]"
    table = pd.read_parquet(home / "out" / "episodes.parquet")
    own = table[table["run"] == folder.read().id]
    assert own["violations"].nunique() > 1
    paid = np.minimum(own["violations"], 7) ** 2
    np.testing.assert_allclose(own["utility"], own["return"] - paid, rtol=1e-5, atol=1e-5)
    exported = export(folder, home / "out" / "episodes.parquet", tmp_path / "steep.safetensors")
    assert agents.load(exported.path).objective.owed.tolist() == [0, 1, 4, 9, 16, 25, 36, 49]


def test_a_file_is_checked_before_anything_is_written(home):
    (home / "wrong.json").write_text("{")
    for message, words in (
        ("nowhere.json cannot be read", ("--method", "tolerant", "--set", "owed=nowhere.json")),
        ("create one with `perepisode distill`", ("--method", "esr_distilled", "--utility", "wrong.json")),
    ):
        code, _, err = guide.call("train", *words, *TINY, "--out", "none")
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    assert not (home / "none").exists()


def test_a_run_folder_of_version_0_1_has_its_utility(tmp_path):
    (tmp_path / "utility.json").write_text(json.dumps({"kind": "distilled"}))
    assert RunFolder(tmp_path).stored_file("utility") == b'{"kind": "distilled"}'
    (tmp_path / "other.json").write_text("{}")
    assert RunFolder(tmp_path).stored_file("other") is None


def test_a_missing_file_is_named_with_its_option():
    run = next(run for run in matrix.flat(matrix.families(matrix.of("temptation"))) if run.method == "esr_distilled")
    with pytest.raises(ConfigError, match=r"utility 'pool:.*' has no known file; give its file with --utility$"):
        run.objective()
