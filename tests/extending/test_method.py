"""The method of docs/tutorials/add-a-method.md: trained, evaluated, reported, replayed; one-line errors."""

import json
import math
import re
from itertools import pairwise

import guide
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode.methods import METHODS, Accrued
from perepisode.report.style import look

pytestmark = pytest.mark.xdist_group("extending-method")

OTHER = {
    "taken": """
from perepisode.methods.objective import Objective, register_method
@register_method
class Mine(Objective):
    name, label = "ser", "Mine"
""",
    "plain": "class Plain:\n    name, label = 'plain', 'Plain'\n",
    "thirsty": "import no_such_library\n",
}


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The section's commands, done."""
    with guide.folder(tmp_path_factory.mktemp("method"), "A method", **OTHER) as home:
        yield guide.follow("A method"), home / "out" / "entropic"


@pytest.fixture(scope="module")
def episodes(followed):
    return pd.read_parquet(followed[1] / "episodes.parquet")


def u(beta, earned, violations, cost=2.0):
    return (1 - math.exp(-beta * (earned - cost * violations))) / beta


def test_rewards_add_up_to_the_utility_of_the_totals(followed):
    objective = METHODS["entropic"].build(beta=0.5)
    gains, harms = [1.0, 0.0, 2.5, -0.5], [0, 1, 0, 1]
    totals = [Accrued(jnp.float32(sum(gains[:n])), jnp.float32(sum(harms[:n]))) for n in range(5)]
    rewards = [float(objective.reward(None, *pair)) for pair in pairwise(totals)]
    assert rewards[0] == pytest.approx(2 - 2 * math.exp(-0.5))  # R = 1
    assert rewards[1] == pytest.approx(2 * math.exp(-0.5) - 2 * math.exp(0.5))  # R - c v falls from 1 to -1
    assert sum(rewards) == pytest.approx(u(0.5, 3.0, 2)) == pytest.approx(2 - 2 * math.exp(0.5))


def test_the_table_has_every_episodes_utility(episodes):
    assert set(episodes["method"]) == {"entropic"}
    assert dict(zip(episodes["arm"], episodes["value"])) == {"β=0.1": 0.1, "β=0.5": 0.5}
    assert set(episodes["seed"]) == {42, 123, 7}
    charged = episodes["violations"]  # no step of the miniature holds two
    assert charged.max() > 1
    expected = [u(*row) for row in zip(episodes["value"], episodes["return"], charged)]
    np.testing.assert_allclose(episodes["utility"], expected, rtol=1e-4, atol=1e-4)


def test_its_agents_observe_what_they_have_accrued(followed):
    from safetensors.numpy import load_file

    weights = load_file(next(followed[1].glob("*/policy.safetensors")))
    inputs = sum(value.shape[0] for name, value in weights.items() if name.startswith("embed") and value.ndim == 2)
    assert inputs == 3 + 2  # the observation of the miniature, and ν


def test_the_report_names_it(followed):
    report = followed[1] / "report"
    exported = pd.read_csv(report / "data" / "complete_temptation.csv").set_index("agent")
    assert {"Entropic (β=0.1)", "Entropic (β=0.5)"} == set(exported.index)
    html = (report / "index.html").read_text()
    assert "Entropic (β=0.1)" in html
    assert look("entropic").label == "Entropic"
    assert look("entropic").colour.lower() in (report / "figures" / "training_temptation.svg").read_text().lower()


def test_the_worst_episodes_are_replayed(followed):
    printed, out = followed
    assert printed["watch"].count("reproduced exactly") == 2
    page = (out / "watch" / "index.html").read_text()
    assert "Both episodes were reproduced exactly" in page
    assert "Utility of the episode so far" in page
    assert re.search(r"1 · Entropic β=0.\d, seed \d+: \d+ violations, return", page)


def test_the_matrix_sweeps_its_declared_values(followed):
    lines = followed[0]["matrix"].splitlines()
    assert [line.split()[3] for line in lines[1:3]] == ["β=0.1", "β=0.5"]
    assert "6 runs" in lines[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "nowhere:Entropic"], "--method nowhere:Entropic: nowhere cannot be imported (No module named"),
        (["--method", "thirsty:Any"], "thirsty cannot be imported (No module named 'no_such_library')"),
        (["--method", "entropic:Entropy"], "--method entropic:Entropy: entropic declares no method 'Entropy'"),
        (["--method", "plain:Plain"], "--method plain:Plain: plain declares no method 'Plain'"),
        (["--env", "entropic:Entropic"], "--env entropic:Entropic: entropic declares no env 'Entropic'"),
        (["--method", "taken:Mine"], "two methods are named 'ser': perepisode.methods.ser and taken; rename one"),
        (["--method", "entropics"], "'entropics' is unknown; choose from unconstrained, erm,"),
        (["--method", "entropic"], "entropic needs beta; give --set beta=..."),
        (["--method", "entropic", "--set", "beta=0"], "beta=0 is out of range; beta must be a number, above 0"),
        (["--method", "entropic", "--set", "beta=much"], "beta='much' is not a number; beta must be a number, above 0"),
        (
            ["--method", "entropic", "--set", "bet=1"],
            "no setting is called 'bet' here; entropic has beta, cost, accrued_obs",
        ),
        (
            ["--method", "entropic", "--set", "beta=1", "accrued_obs=all"],
            "accrued_obs 'all' is unknown; choose from paper",
        ),
    ],
)
def test_an_error_is_one_line(followed, words, message):
    code, out, err = guide.call("train", *words)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_name_in_use_keeps_its_owner(followed):
    guide.call("train", "--method", "taken:Mine")
    assert METHODS["ser"].__module__ == "perepisode.methods.ser"


def test_runs_of_a_plugin_are_read_only_if_the_user_names_it(followed, tmp_path):
    run = next(followed[1].glob("*/run.json")).parent
    before = METHODS.pop("entropic")
    try:
        with guide.folder(tmp_path):
            evaluate, export = ["evaluate", "--out", "new.parquet"], ["agents", "export", "--out", "mine.safetensors"]
            for words in (evaluate, ["watch"], export):
                code, _, err = guide.call(*words, str(run))
                assert (code, len(err.splitlines())) == (2, 1)
                assert "method 'entropic' is unknown" in err
                assert err.endswith("it is a plugin, name its file: PEREPISODE_PLUGINS=entropic.py perepisode ...\n")
    finally:
        METHODS["entropic"] = before


def test_no_module_named_by_a_run_folder_is_imported(followed, tmp_path):
    """Neither as a method nor as an environment, although Python would find the module."""
    run = next(followed[1].glob("*/run.json"))
    for entry in ("method", "env"):
        out = tmp_path / entry / "run"
        out.mkdir(parents=True)
        plain = json.loads(run.read_text()) | {entry: "harmful:Harmful"}
        (out / "run.json").write_text(json.dumps(plain))
        harmful = "import pathlib\npathlib.Path('was_here').touch()\n"
        with guide.folder(tmp_path / entry, harmful=harmful):
            for words in (["evaluate", "run"], ["watch", "run"], ["report", "x.csv", "--runs", "."]):
                code, _, err = guide.call(*words)
                assert code == 2
                assert "Traceback" not in err
            assert guide.imported_from(tmp_path / entry) == []
        assert not (tmp_path / entry / "was_here").exists()


def test_a_missing_module_in_the_variable_is_one_line(followed, monkeypatch):
    monkeypatch.setenv("PEREPISODE_PLUGINS", "entropic,nowhere")
    code, _, err = guide.call("version")
    assert code == 2
    assert err == "perepisode: PEREPISODE_PLUGINS=nowhere: nowhere cannot be imported (No module named 'nowhere')\n"


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """The commands of the section on reward streams, done; what they printed and their folder."""
    heading = "A method with several reward streams"
    with guide.folder(tmp_path_factory.mktemp("streams"), heading) as home:
        yield guide.follow(heading), home / "out" / "two"


def test_a_method_from_outside_learns_from_streams_of_its_own(streams):
    """The price of further violations decides how many follow, but hardly whether there is a first."""
    printed, out = streams
    episodes = pd.read_parquet(out / "episodes.parquet")
    counts = {value: own["violations"] for value, own in episodes.groupby("value")}
    any_, over = ({value: (own > limit).mean() for value, own in counts.items()} for limit in (0, 1))
    assert over[8.0] < 0.1 < 0.5 < over[0.5]
    assert any_[8.0] > 0.8
    assert printed["watch"].count("reproduced exactly") == 2


def test_the_streams_of_a_step_are_first_and_further_violations(streams):
    method = METHODS["two_prices"].build(further=3.0)
    totals = [Accrued(jnp.float32(r), jnp.float32(v)) for r, v in ((0, 0), (1.5, 2), (2, 2), (2, 5))]
    rewards = [method.rewards(None, *pair).tolist() for pair in pairwise(totals)]
    assert rewards == [[1.5, 1, 1], [0.5, 0, 0], [0, 0, 3]]
    np.testing.assert_allclose(method.mixture(None, 0.9, 0.8).coefficients, [0.25, -0.125, -0.75])
