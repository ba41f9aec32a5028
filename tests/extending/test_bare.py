"""A plugin method in an environment with only the required attributes: every combination and every fallback."""

import json

import guide
import pandas as pd
import pytest
from test_plugins import BARE

from perepisode import environments
from perepisode.environments.base import Footprint

pytestmark = pytest.mark.xdist_group("extending-bare")

TINY = (
    "--steps",
    "128",
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
)
SWEPT = ("--set", "beta=0.1,0.5", "cost=1", "--ent-coef", "0.01", "0.02")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with guide.folder(tmp_path_factory.mktemp("bare"), "A method", bare=BARE) as home:
        command = ("train", "--env", "bare:Bare", "--dilemma", "other", "--method", "entropic:Entropic")
        code, out, err = guide.call(*command, *SWEPT, *TINY)
        assert code == 0, err
        yield out, home


def test_settings_of_method_and_ppo_are_swept_in_all_combinations(trained):
    out, home = trained
    assert "4 runs in 2 populations, one after the other" in out
    files = list(home.glob("out/*/run.json"))
    assert all((path.parent / "done").exists() for path in files)
    runs = [json.loads(path.read_text()) for path in files]
    found = {(run["method_settings"]["beta"], run["ppo"]["ent_coef"]) for run in runs}
    assert found == {(0.1, 0.01), (0.1, 0.02), (0.5, 0.01), (0.5, 0.02)}
    assert {run["method_settings"]["cost"] for run in runs} == {1}
    assert len(list(home.glob("out/populations/*"))) == 2


def test_a_bare_environment_is_trained_evaluated_reported_and_replayed(trained):
    _, home = trained
    one = str(next(home.glob("out/*β=0.5*/run.json")).parent)
    for words in (
        ["evaluate", one, "--num-envs", "4", "--num-steps", "16", "--episodes-per-env", "1"],
        ["report", "out/episodes.parquet", "--runs", one],
        ["watch", "out/episodes.parquet", "--worst", "1", "--abstaining", "1"],
        ["study", "plan", "--env", "bare"],
    ):
        code, _, err = guide.call(*words)
        assert code == 0, err
    table = pd.read_parquet("out/episodes.parquet")
    assert set(table["length"]) == {5}
    assert (table["return"] == 5 + table["violations_harm"]).all()
    assert (table["violations"] == 5 - table["violations_harm"]).all()
    page = (home / "watch" / "index.html").read_text()
    assert "reproduced exactly" in page
    assert "<canvas" not in page
    shown = guide.player(page)
    assert shown["film"] is None
    assert set(shown["actions"]) <= {"action 0", "action 1"}
    assert "Entropic (β=0.5)" in (home / "report" / "index.html").read_text()


def test_the_sizes_of_a_bare_environment_are_traced(trained):
    assert environments.make("bare").footprint() == Footprint(state=4, observation=4, features=1)
