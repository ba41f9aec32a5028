"""Plugins work in every command like built-in methods and environments, and wrong ones are refused in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import guide
import jax.numpy as jnp
import pytest

import perepisode
from perepisode.cli import Train
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS, Accrued
from perepisode.training import population

PLAIN = {"PYTHONPATH": "", "COLUMNS": "200"}
BARE = """
import jax.numpy as jnp
from perepisode.environments import Environment, register_env
from perepisode.environments.base import EndCause, Outcome

@register_env
class Bare(Environment):
    name, dilemmas, actions = "bare", ("harm", "other"), 2

    def reset(self, key):
        return jnp.zeros((), jnp.int32)

    def step(self, key, state, action):
        counts = jnp.stack([action == 1, action == 0]).astype(jnp.int32)
        ends = jnp.where(state >= 4, EndCause.TIMEOUT, EndCause.RUNNING)
        return state + 1, Outcome(1.0 + action, counts, counts, {}, ends)

    def observe(self, state):
        return state[None]
"""


@pytest.fixture
def home(tmp_path):
    with guide.folder(tmp_path, "A method", bare=BARE) as path:
        yield path


def refused(*words: str) -> str:
    """The one line on stderr."""
    code, out, err = guide.call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    return err


def test_matrix_and_plan_accept_a_plugin_environment(home):
    _, named, _ = guide.call("matrix", "--env", "bare:Bare")
    assert "129 runs of 1e+06 steps: erm 21 + ser 30 + lagrangian 24 + esr 12 + budget 18" in named
    assert ENVIRONMENTS["bare"].dilemmas == ("harm", "other")
    _, known, _ = guide.call("matrix", "--env", "bare")
    assert known == named
    code, planned, _ = guide.call("study", "plan", "--env", "bare:Bare", "--only", "ser")
    assert code == 0
    assert "30 runs in 2 packs, 3e+07 steps" in planned
    assert "next: perepisode study run --env bare:Bare" in planned
    assert "bare declares no env 'Bear'" in refused("matrix", "--env", "bare:Bear")


@pytest.mark.parametrize(
    ("what", "base", "body", "message"),
    [
        ("method", "Objective", "label = 'L'", "odd.Odd is not a complete method: it does not define name"),
        ("method", "Objective", "name = 'odd'", "odd.Odd is not a complete method: it does not define label"),
        ("method", "Objective", "name, label = 'ser', 'L'", "named 'ser': perepisode.methods.ser and odd; rename one"),
        (
            "env",
            "Environment",
            "name = 'odd'",
            "odd.Odd is not a complete environment: it does not define dilemmas and actions",
        ),
        (
            "env",
            "Environment",
            "name, dilemmas, actions = 'temptation', ('a',), 2",
            "two environments are named 'temptation'",
        ),
        ("env", "Environment", "name, dilemmas, actions = 'odd', ('a',), 65537", "whole number from 1 to 65536"),
        (
            "env",
            "Environment",
            "name, dilemmas, actions = 'odd', ('a',), 2.0",
            "Odd has actions = 2.0; it must be a whole",
        ),
        (
            "env",
            "Environment",
            "name, dilemmas, actions = 'odd', (), 2",
            "Odd has dilemmas = (); it must be a tuple of",
        ),
        (
            "env",
            "Environment",
            "name, dilemmas, actions = 'odd', ('harm'), 2",
            "dilemmas = 'harm'; it must be a tuple of",
        ),
    ],
)
def test_an_invalid_declaration_is_refused_on_import(tmp_path, what, base, body, message):
    imports = (
        "from perepisode.environments import Environment, register_env\nfrom perepisode.methods.objective import *\n"
    )
    text = f"{imports}@register_{what}\nclass Odd({base}):\n    {body}\n"
    with guide.folder(tmp_path, odd=text):
        before = dict(METHODS), dict(ENVIRONMENTS)
        assert message in refused("train", f"--{what}", "odd:Odd")
        assert before == (METHODS, ENVIRONMENTS)


WORDY = """
import jax.numpy as jnp
from perepisode.methods.objective import Objective, cost, register_method, task_reward
from perepisode.settings import setting

@register_method
class Wordy(Objective):
    price: float = setting(1.0, "of a violation", low=0)
    shape: str = setting("flat", "of the price", choices=("flat", "rising"))

    name, label = "wordy", "Wordy"

    def reward(self, dual, before, after):
        price = self.price * (after.violations if self.shape == "rising" else 1.0)
        return task_reward(before, after) - price * cost(before, after)
"""


def test_a_setting_with_choices_can_be_swept_together_with_numbers(tmp_path):
    """A population sorts its runs by choice, in any order of the command line."""
    with guide.folder(tmp_path, wordy=WORDY):
        command = Train(method=("wordy:Wordy",), set=("price=1,2", "shape=rising,flat"), seeds=(1,))
        runs = population.order(command.runs()[0])
        assert [run.method_settings["shape"] for run in runs] == ["rising", "rising", "flat", "flat"]
        members = population.gather(runs)
        assert members.sizes == (2, 2)
        before, after = (Accrued(jnp.zeros(4), jnp.full(4, count)) for count in (1.0, 2.0))
        reward = members.map_with_dual(
            lambda one, dual, b, a: one.reward(dual, b, a), members.init_duals(), before, after
        )
        assert reward.tolist() == [-2.0, -4.0, -1.0, -2.0]
        own, ser = Train(method=("wordy:Wordy:price=3:shape=rising", "ser:weight=1"), seeds=(1,)).runs()[0]
        assert (own.method_settings, ser.method_settings) == ({"price": 3, "shape": "rising"}, {"weight": 1})


@pytest.mark.processes
def test_in_the_package_a_method_is_a_file_and_an_environment_a_folder_and_an_import(tmp_path):
    """In a copy of the package.  Settings become options, and one whose name is taken does not break the command."""
    shutil.copytree(Path(perepisode.__file__).parent, tmp_path / "perepisode", ignore=shutil.ignore_patterns("bundled"))
    methods, environments = tmp_path / "perepisode" / "methods", tmp_path / "perepisode" / "environments"
    _, entropic = guide.module("A method")
    (methods / "entropic.py").write_text(entropic.replace("cost", "ent_coef"))
    (methods / "wordy.py").write_text(WORDY.replace("price", "gamma"))
    (environments / "corridor").mkdir()
    (environments / "corridor" / "__init__.py").write_text(guide.module("An environment")[1])
    with open(environments / "__init__.py", "a") as file:
        file.write("import perepisode.environments.corridor\n")

    def output(*words):
        command = [sys.executable, "-m", "perepisode", *words]
        shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **PLAIN})
        assert shown.returncode in (0, 2), shown.stderr
        return shown.stdout + shown.stderr

    assert "12 runs" in output(
        "matrix", "--env", "corridor", "--extra-baselines", "--only", "entropic", "--seeds", *"123456"
    )
    shown = " ".join(output("train", "--help").split())
    assert "--beta VALUE" in shown
    assert "--patience VALUE" in shown
    assert "entropic, wordy, or your own" in shown
    refusal = output("train", "--method", "entropic", "--env", "corridor", "--beta", "0", "--length", "7")
    assert refusal == "perepisode: beta=0 is out of range; beta must be a number, above 0\n"
    assert "ent_coef could be method.ent_coef and ppo.ent_coef" in output(
        "train", "--method", "entropic", "--beta", "1", "--ent-coef", "0.1"
    )
    assert "gamma=-1 is out of range" in output("train", "--method", "wordy", "--set", "gamma=-1")
    assert "gamma=-1.0 is out of range" in output("train", "--method", "wordy", "--gamma", "-1")


def test_a_cluster_job_loads_the_plugin(home):
    submit = ("study", "submit", "--env", "bare:Bare", "--only", "ser", "--out", "study", "--dry-run")
    assert guide.call(*submit)[0] == 0
    script = (home / "study" / "slurm" / "train.sbatch").read_text().splitlines()
    line = script.index(f"cd {home}")
    assert script[line + 1] == "export PEREPISODE_PLUGINS=bare"
    assert script[-1].startswith("exec ")
