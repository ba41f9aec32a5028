"""An environment with continuous actions: declared, trained, resumed, evaluated, exported, reported and replayed."""

import json
from dataclasses import dataclass
from functools import partial

import guide
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from test_plugins import refused
from test_wrong_env import TINY
from tests.resuming import straight_and_resumed

import perepisode
from perepisode.algorithms import fitting
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS, action_space, stepping
from perepisode.environments.action_space import Box
from perepisode.environments.base import EndCause, Environment, Outcome
from perepisode.environments.gymnax_adapter import from_gymnax
from perepisode.replay.episode import differences, replay
from perepisode.runs import RunFolder

pytestmark = pytest.mark.xdist_group("extending-bare")

DRIFT = """
from perepisode import Box, EndCause, Environment, Outcome, register_env
from perepisode.lazy import jax, jnp

@register_env
class Drift(Environment):
    '''A position that drifts; the second number of an action counts when it is large.  Seven steps.'''

    name, dilemmas, actions = "drift", ("large",), Box((-1.0, 0.0), (1.0, 4.0))

    def reset(self, key):
        return {"here": jax.random.uniform(key, (), minval=-1.0, maxval=1.0), "time": jnp.int32(0)}

    def step(self, key, state, action):
        here = 0.9 * state["here"] + 0.3 * action[0] + 0.1 * jnp.sin(action[1]) + 0.1 * jax.random.normal(key)
        after = {"here": here, "time": state["time"] + 1}
        counts = (action[1] > 3.0).astype(jnp.int32)[None]
        ends = jnp.where(after["time"] >= 7, EndCause.TIMEOUT, EndCause.RUNNING)
        return after, Outcome((1.0 - 0.37 * here**2) / 3, counts, counts, {}, ends)

    def observe(self, state):
        return jnp.stack([state["here"], state["time"] / 7])
"""
AGENTS = ("ppo_gru", "ppo_mlp")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with trained and evaluated runs of both agents, their report and two replays."""
    with guide.folder(tmp_path_factory.mktemp("continuous"), drift=DRIFT) as path:
        for agent in AGENTS:
            done(
                "train", "--env", "drift.py:Drift", "--agent", agent, "--method", "esr:budget=1", "--out", "out", *TINY
            )
        done("evaluate", "out", "--num-envs", "16", "--num-steps", "28", "--episodes-per-env", "2")
        done("report", "out/episodes.parquet", "--runs", "out")
        (path / "watch.log").write_text(done("watch", "out/episodes.parquet", "--worst", "2", "--out", "watch"))
        yield path


def done(*words: str) -> str:
    code, out, err = guide.call(*words)
    assert code == 0, err
    return out


def test_counts_equal_a_recount_from_the_stored_actions(home):
    """The second of each pair of float32 numbers; the first two bytes of a number must not be read as another."""
    table = pd.read_parquet("out/episodes.parquet")
    assert len(table) >= 2 * 16 * 2
    for row in table.to_dict("records"):
        actions = np.frombuffer(row["actions"], "<f4").reshape(-1, 2)
        assert len(actions) == row["length"] == 7
        assert row["violations"] == (actions[:, 1] > 3.0).sum()
        assert (actions >= [-1.0, 0.0]).all()
        assert (actions <= [1.0, 4.0]).all()
    assert table["violations"].nunique() > 1


def test_every_episode_is_replayed_to_the_bit(home):
    """Returns too, which products and sums determine, although other programs computed them."""
    env = perepisode.make("drift")
    for row in pd.read_parquet("out/episodes.parquet").to_dict("records"):
        replayed = replay(row, env)
        assert not differences(row, replayed)
    assert (home / "watch.log").read_text().count("reproduced exactly") == 2
    described = guide.player((home / "watch" / "index.html").read_text())["actions"]
    first = np.frombuffer(row["actions"], "<f4").reshape(-1, 2)[0]
    assert env.describe(first, None) == f"action {first[0]:.3g}, {first[1]:.3g}"
    assert described[0].startswith("action ")
    assert "," in described[0]


@pytest.mark.parametrize("agent", AGENTS)
def test_resuming_is_equal_to_the_bit(home, agent, tmp_path):
    (run,) = [RunFolder(path.parent).read() for path in home.glob("out/*/run.json") if _agent(path) == agent]
    straight, resumed = straight_and_resumed(run, tmp_path)
    assert float(jnp.abs(straight.params.log_std).max()) > 0  # it is learned
    for one, other in zip(jax.tree.leaves(resumed.params), jax.tree.leaves(straight.params), strict=True):
        np.testing.assert_array_equal(one, other)


def _agent(path) -> str:
    return json.loads(path.read_text()).get("agent", "ppo_gru")


@pytest.mark.parametrize("agent", AGENTS)
def test_an_exported_agent_is_evaluated_and_replayed(home, agent):
    (folder,) = [path.parent for path in home.glob("out/*/run.json") if _agent(path) == agent]
    name = f"{agent}.safetensors"
    done("agents", "export", str(folder), "--episodes", "out/episodes.parquet", "--out", name)
    done(
        "evaluate",
        name,
        "--num-envs",
        "16",
        "--num-steps",
        "28",
        "--episodes-per-env",
        "2",
        "--out",
        f"{agent}.parquet",
    )
    again = pd.read_parquet(f"{agent}.parquet")
    for row in again.to_dict("records"):
        assert not differences(row, replay(row, perepisode.make("drift")))


def test_the_declaration_of_the_page_is_that_of_the_test(home):
    shown = {}
    exec(guide.code("Continuous actions"), shown)
    assert shown["actions"] == ENVIRONMENTS["drift"].actions


def test_an_agent_without_continuous_actions_is_refused_in_one_line(home):
    error = refused("train", "--env", "drift.py:Drift", "--agent", "pqn_gru", *TINY)
    assert (
        "agent pqn_gru needs discrete actions, and those of drift are continuous; choose from ppo_gru, ppo_mlp" in error
    )


def test_what_fits_is_described(home):
    assert fitting.describe(ENVIRONMENTS["drift"]) == "2 inputs and continuous actions of size 2 on a cpu"
    assert fitting.config_for(ENVIRONMENTS["drift"], "cpu").hidden_size == 64


# ---- declarations


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("0", "Drift has actions = 0; it must be a whole number from 1 to 65536, or a Box"),
        ("True", "Drift has actions = True; it must be a whole number from 1 to 65536, or a Box"),
        ("2.0", "Drift has actions = 2.0; it must be a whole number from 1 to 65536, or a Box"),
        ("(-1.0, 1.0)", "it must be a whole number from 1 to 65536, or a Box"),
        ("Box((1.0,), (-1.0,))", "a Box has the bounds 1 and -1; use low < high"),
        ("Box((0.0,), (float('nan'),))", "a Box has the bounds 0 and nan; use low < high"),
        ("Box((0.0, 0.0), (1.0,))", "low bounds of shape (2,) and high bounds of shape (1,); give one pair for"),
        ("Box((), ())", "low bounds of shape (0,) and high bounds of shape (0,)"),
        ("Box(jnp.zeros((2, 2)), jnp.ones((2, 2)))", "low bounds of shape (2, 2) and high bounds of shape (2, 2)"),
        ("Box((0.0,) * 1025, (1.0,) * 1025)", "give one pair for each of 1 to 1024 numbers"),
    ],
)
def test_an_invalid_declaration_is_refused(tmp_path, declared, message):
    with guide.folder(tmp_path, wrong=DRIFT.replace("Box((-1.0, 0.0), (1.0, 4.0))", declared)) as home:
        assert message in refused("train", "--env", "wrong.py:Drift", *TINY)
        assert not (home / "out").exists()


def test_bounds_are_float32():
    """Actions are compared with them in float32: 0.1 in float64 is less than in float32."""
    box = Box(low=-0.1, high=np.array([0.1]))
    assert box.high == (float(np.float32(0.1)),)
    action_space.refuse_unknown(box, np.float32([[0.1], [-0.1]]), "env")
    with pytest.raises(ConfigError, match=r"action 0\.1000000\d* is out of bounds; env has numbers from -0.1 to 0.1"):
        action_space.refuse_unknown(box, np.nextafter(np.float32([[0.1]]), np.float32(1)), "env")


def test_an_infinite_number_is_out_of_bounds_without_bounds():
    box = Box((-np.inf,), (np.inf,))
    action_space.refuse_unknown(box, np.float32([[1e30]]), "env")
    for number in (np.inf, -np.inf, np.nan):
        with pytest.raises(ConfigError, match="is out of bounds"):
            action_space.refuse_unknown(box, np.float32([[number]]), "env")


@dataclass(frozen=True)
class Odd(Environment):
    """Its state has a key, and its outcome plain numbers."""

    name, dilemmas, actions = "odd", ("harm",), Box((0.0,), (1.0,))

    def reset(self, key):
        return key

    def step(self, key, state, action):
        return key, Outcome(1, (action > 0.5).astype(jnp.int32), jnp.zeros(1, int), {}, EndCause.RUNNING)


def test_a_step_may_return_keys_and_plain_numbers():
    first, second = jax.random.split(jax.random.key(0))
    after, outcome = jax.jit(partial(stepping.step, Odd()))(second, first, jnp.float32([0.75]))
    assert after == second
    assert (outcome.task_reward, outcome.violations.tolist(), outcome.end_cause) == (1, [1], EndCause.RUNNING)


# ---- gymnax


class Space:
    """A box as gymnax has it: bounds for all numbers or for each, and a shape."""

    def __init__(self, low, high, shape):
        self.low, self.high, self.shape = low, high, shape


class Sums:
    """One step that pays the sum of a matrix of actions; the first of its second row is harm where it is large."""

    name, default_params = "sums", None

    def __init__(self, low, high, shape=(2, 3)):
        self.space = low, high, shape

    def action_space(self, params):
        return Space(*self.space)

    def reset_env(self, key, params):
        return jnp.zeros(1), jnp.zeros(())

    def step_env(self, key, state, action, params):
        return jnp.zeros(1), state, action.sum(), True, {"first": action[1, 0]}


def first(before, action, after, info):
    assert action.shape == (2, 3)  # of the wrapped environment
    return info["first"] > 1


@pytest.fixture
def registry():
    known = dict(ENVIRONMENTS)
    yield
    ENVIRONMENTS.clear()
    ENVIRONMENTS.update(known)


def test_the_adapter_flattens_actions_of_any_shape(registry):
    env = from_gymnax(Sums(-1.0, np.full((2, 3), 2.0)), detectors=first, max_episode_steps=5)()
    assert env.actions == Box((-1.0,) * 6, (2.0,) * 6)
    action = jnp.float32([0, 0, 0, 1.5, 0, 0.25])
    _, outcome = env.step(jax.random.key(0), env.reset(jax.random.key(0)), action)
    assert (float(outcome.task_reward), outcome.violations.tolist()) == (1.75, [1])


def test_the_adapter_refuses_other_spaces(registry):
    with pytest.raises(ConfigError, match=r"box of real numbers"):
        from_gymnax(type("Odd", (Sums,), {"action_space": lambda *_: "Dict(a, b)"})(0, 1), detectors=first)
    with pytest.raises(ConfigError, match="a Box has the bounds 1 and 1; use low < high"):
        from_gymnax(Sums(1.0, 1.0), detectors=first)
