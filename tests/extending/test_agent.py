"""The agent of docs/tutorials/add-an-agent.md, from outside the package: trained, evaluated, reported, replayed."""

import json

import guide
import pandas as pd
import pytest

pytestmark = pytest.mark.xdist_group("extending-agent")


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The section's commands, done."""
    with guide.folder(tmp_path_factory.mktemp("agent"), "An agent") as home:
        yield guide.follow("An agent"), home / "out" / "reinforce"


def test_it_learns_to_accept_what_pays(followed):
    """A linear policy has no hard threshold, but it accepts some offers and not others, at a gain over all or none."""
    episodes = pd.read_parquet(followed[1] / "episodes.parquet")
    priced = (episodes["return"] - 2.0 * episodes["violations"]).mean()
    assert priced > 30.5  # 30 without any violation
    assert 0 < episodes["violations"].mean() < 4


def test_its_runs_name_the_agent_its_settings_and_its_source(followed):
    (run, *_), rows = sorted(followed[1].glob("*/run.json")), sorted(followed[1].glob("*/metrics.jsonl"))
    plain = json.loads(run.read_text())
    assert plain["agent"] == "reinforce"
    assert plain["reinforce"] == {"num_envs": 64, "num_steps": 40, "step_size": 0.3}
    assert "reinforce.py" in plain["source"]
    assert "ppo" not in plain
    assert {"grad_norm", "return"} <= json.loads(rows[0].read_text().splitlines()[-1]).keys()


def test_its_episodes_are_reported_and_replayed(followed):
    printed, out = followed
    assert (out / "report" / "index.html").exists()
    assert printed["watch"].count("reproduced exactly") == 2


def test_it_belongs_to_the_run(followed, capsys):
    """Without the plugin the run is refused with a remedy, and another agent is another run."""
    code, _, error = guide.call("train", "--agent", "no_such_agent")
    assert code == 2
    assert "choose from ppo_gru, ppo_mlp, pqn_gru" in error
