"""An invalid environment is refused in one line; an unusual one trains, evaluates, reports and replays."""

import guide
import numpy as np
import pandas as pd
import pytest
from test_plugins import BARE, refused

import perepisode
from perepisode import environments
from perepisode.config import ConfigError
from perepisode.environments import check_env
from perepisode.replay.episode import replay

pytestmark = pytest.mark.xdist_group("extending-bare")

COUNTS = "jnp.stack([action == 1, action == 0]).astype(jnp.int32)"
OUTCOME = "Outcome(1.0 + action, counts, counts, {}, ends)"
TINY = (
    "--steps",
    "64",
    "--num-envs",
    "4",
    "--num-steps",
    "8",
    "--num-minibatches",
    "2",
    "--hidden-size",
    "8",
    "--seeds",
    "1",
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (COUNTS, "jnp.stack([action, action]) * 0.5", "Outcome.violations is float32[2]; it must be a whole number"),
        (COUNTS, "(action == 1).astype(jnp.int32)", "Outcome.violations is int32[]; it must be a whole number"),
        (COUNTS, "jnp.zeros(3, jnp.int32)", "Outcome.violations is int32[3]; it must be a whole number for each"),
        (COUNTS, "1 // 0", "step cannot be traced by JAX (ZeroDivisionError: "),
        (COUNTS, "nothing", "step cannot be traced by JAX (NameError: name 'nothing' is not defined; line 14 of"),
        (COUNTS, "(1 if action else 0)", "step cannot be traced by JAX (TracerBoolConversionError: "),
        ("counts, counts, {}", "counts, counts[:1], {}", "Outcome.paper_violations is int32[1]; it must be"),
        ("Outcome(1.0 + action", "Outcome(jnp.ones(2)", "Outcome.task_reward is float32[2]; it must be one number"),
        ("{}, ends", "{'x': ends}, ends", "Outcome.info must have a count for each of info_keys = ()"),
        ("{}, ends", "{}, ends * 1.0", "Outcome.end_cause is float32[]; it must be an EndCause"),
        (OUTCOME, "1.0", "step must return the next state and an Outcome"),
        ("return state + 1,", "return state + 1.0,", "state is int32[] after reset and float32[] after step"),
        ("return state + 1,", "return (state, state),", "step must return a state of the structure of reset's"),
        ("state[None]", "jnp.zeros((3, 3))", "observe must return one vector, not float32[3,3]; or define encode"),
        ("state[None]", "(state, state)", "encode cannot be traced by JAX (AttributeError: "),
        ("return jnp.zeros((), jnp.int32)", "return jnp.zeros(-1)", "reset cannot be traced by JAX ("),
    ],
)
def test_an_invalid_environment_is_refused_before_anything_is_written(tmp_path, old, new, message):
    assert old in BARE
    with guide.folder(tmp_path, bare=BARE.replace(old, new)) as home:
        assert f"bare: {message}" in refused("train", "--env", "bare.py:Bare", *TINY)
        assert not (home / "out").exists()


def test_a_sum_that_falls_within_an_episode_is_less_than_no_violation():
    """Two environments, one dilemma: a total may decrease where a new episode begins, and nowhere else."""
    env = environments.make("temptation")
    ended = np.array([[False, True], [True, False], [False, False]])
    right = np.array([[[1], [4]], [[3], [0]], [[0], [2]]])
    check_env.check_totals(env, ended, right)
    for place, value in (((0, 0), -1), ((1, 0), 0), ((2, 1), -1)):
        wrong = right.copy()
        wrong[place] = value
        with pytest.raises(ConfigError, match="temptation counted a negative number of violations of temptation"):
            check_env.check_totals(env, ended, wrong)


def test_training_and_evaluation_refuse_negative_counts(tmp_path):
    """Training notices it in the trained dilemma at the end of an episode, evaluation in any dilemma and step."""
    below = BARE.replace(COUNTS, "jnp.stack([-1 - action, jnp.where(state == 3, -1, 2)])")
    with guide.folder(tmp_path, bare=below) as home:
        message = refused_later("train", "--env", "bare.py:Bare", "--dilemma", "harm", *TINY)
        assert "bare counted a negative number of violations of harm; Outcome.violations must be zero or more" in message
        code, _, err = guide.call("train", "--env", "bare.py:Bare", "--dilemma", "other", *TINY)
        assert code == 0, err
        message = refused_later("evaluate", "out", "--num-envs", "2", "--num-steps", "8", "--episodes-per-env", "1")
        assert "bare counted a negative number of violations of harm" in message
        assert not (home / "out" / "episodes.parquet").exists()


def refused_later(*words: str) -> str:
    """The one line on stderr of a command that fails after it has started."""
    code, _, err = guide.call(*words)
    assert (code, err.count("\n")) == (2, 1), err
    return err


UNUSUAL = """
import jax
import jax.numpy as jnp
from perepisode import EndCause, Outcome, Environment, register_env

@register_env
class Dial(Environment):
    name, dilemmas, actions = "dial", ("far",), 300

    def reset(self, key):
        return jax.random.normal(key, (3,))

    def step(self, key, state, action):
        far = (action >= 256).astype(jnp.int32)[None]
        return state, Outcome(action.astype(jnp.float32), far, far, {}, jnp.int32(EndCause.TIMEOUT))

    def observe(self, state):
        return state
"""


def all_the_way(env: str, *words: str) -> pd.DataFrame:
    for command in (
        ["train", "--env", env, "--method", "ser:weight=0", "--out", "out", *TINY, *words],
        ["evaluate", "out", "--num-envs", "64", "--num-steps", "4", "--episodes-per-env", "2"],
        ["report", "out/episodes.parquet", "--runs", "out"],
        ["watch", "out/episodes.parquet", "--worst", "3"],
    ):
        code, out, err = guide.call(*command)
        assert code == 0, err
    assert out.count("reproduced exactly") == 3
    return pd.read_parquet("out/episodes.parquet")


def test_three_hundred_actions_floats_to_see_and_episodes_of_one_step(tmp_path):
    with guide.folder(tmp_path, dial=UNUSUAL) as home:
        table = all_the_way("dial.py:Dial")
        assert set(table["length"]) == {1}
        actions = np.array([np.frombuffer(content, "<u2")[0] for content in table["actions"]])
        assert table["return"].tolist() == actions.tolist()
        assert table["violations"].tolist() == (actions >= 256).astype(int).tolist()
        assert 256 <= actions.max() < 300
        shown = guide.player((home / "watch" / "index.html").read_text())["actions"]
        assert shown == [f"action {actions[actions >= 256].min()}"]  # the worst: a violation with the lowest reward


def test_a_horizon_of_one(tmp_path):
    with guide.folder(tmp_path):
        table = all_the_way("temptation", "--horizon", "1", "--offer-prob", "0.9", "--num-steps", "1")
        assert set(table["length"]) == {1}
        assert set(table["end_cause"]) == {"timeout"}
        assert ((table["return"] > 0.75) == (table["violations"] == 1)).all()
        assert set(table["violations"]) == {0, 1}


def test_rows_whose_actions_do_not_fit_are_refused(tmp_path):
    with guide.folder(tmp_path, dial=UNUSUAL):
        dial = perepisode.make("dial.py:Dial")
        with pytest.raises(ConfigError, match="actions are truncated; dial has 2 bytes per action"):
            replay({"actions": b"abc"}, dial)
        with pytest.raises(ConfigError, match="action 300 is unknown; dial has actions 0 to 299"):
            replay({"actions": (300).to_bytes(2, "little")}, dial)


def test_built_in_environments_are_not_traced(monkeypatch):
    monkeypatch.setattr(check_env, "_traced", lambda *_: pytest.fail("traced"))
    assert check_env.check(environments.make("craftax")).name == "craftax"
