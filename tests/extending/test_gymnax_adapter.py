"""The adapter for environments with the gymnax interface, on a small one written without gymnax."""

import hashlib
import linecache
from pathlib import Path
from typing import NamedTuple

import guide
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from test_wrong_env import TINY

import perepisode
from perepisode import plugins
from perepisode.cli import Train
from perepisode.config import ConfigError
from perepisode.environments import check_env
from perepisode.environments.base import EndCause
from perepisode.environments.gymnax_adapter import from_gymnax

pytestmark = pytest.mark.xdist_group("extending-bare")

LEDGE = """
from typing import NamedTuple

import jax
import jax.numpy as jnp
from perepisode.environments.gymnax_adapter import from_gymnax

class State(NamedTuple):
    x: jax.Array
    time: jax.Array

class Params(NamedTuple):
    max_steps_in_episode: int = 6

class Space(NamedTuple):
    n: int = 2

class Ledge:
    '''Each step moves left or right and pays the position; at -3 and 3 the agent falls.'''

    name, default_params = "Ledge-v1", Params()

    def __init__(self, step_values=5):
        self.step_values = step_values

    def action_space(self, params):
        return Space()

    def reset_env(self, key, params):
        state = State(0, 0)  # not arrays, and x is a float after the first step
        return jnp.array([[0.0, 0.0]]), state

    def step_env(self, key, state, action, params):
        x = state.x + jnp.where(action == 1, 1.0, -1.0)
        after = State(x, state.time + 1)
        seen = jnp.stack([x, after.time / 6])[None]
        fallen, late = jnp.abs(x) >= 3, after.time >= params.max_steps_in_episode
        ends = (fallen, late) if self.step_values == 6 else (fallen | late,)
        return seen, after, x, *ends, {"left": x < 0}

    def reset(self, key, params):
        raise AssertionError("the adapter must call reset_env")

    def step(self, key, state, action, params):
        raise AssertionError("the adapter must call step_env: this one resets automatically")

def left(before, action, after, info):
    return info["left"]

def turns(before, action, after, info):
    return (jnp.sign(before.x) != jnp.sign(after.x)).astype(jnp.int32) * 2

Five = from_gymnax(Ledge(), detectors={"left": left, "turns": turns})
Six = from_gymnax(Ledge(6), Params(4), detectors=left, name="six")
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with guide.folder(tmp_path_factory.mktemp("gymnax"), ledge=LEDGE) as path:
        yield path


def by_hand(actions: bytes, limit: int = 6) -> tuple[float, int, int, str]:
    """Return, both counts and the end, in plain Python."""
    x = paid = left = turns = 0
    for time, action in enumerate(actions, 1):
        before, x = x, x + (1 if action else -1)
        paid, left, turns = paid + x, left + (x < 0), turns + 2 * (np.sign(before) != np.sign(x))
        if abs(x) >= 3 or time >= limit:
            assert time == len(actions)
            return paid, left, turns, "timeout" if time >= limit else "death"
    raise AssertionError("the episode has not ended")


def test_it_is_trained_evaluated_reported_and_replayed_with_the_counts_of_its_detectors(home):
    trained = ["--method", "esr:budget=1", "ser:weight=0.1", "--dilemma", "turns", "--out", "out"]
    for words in (
        ["train", "--env", "ledge.py:Five", *trained, *TINY],
        ["evaluate", "out", "--num-envs", "32", "--num-steps", "24", "--episodes-per-env", "2"],
        ["report", "out/episodes.parquet", "--runs", "out"],
        ["watch", "out/episodes.parquet", "--worst", "2"],
    ):
        code, out, err = guide.call(*words)
        assert code == 0, err
    assert out.count("reproduced exactly") == 2
    table = pd.read_parquet("out/episodes.parquet")
    columns = ["return", "violations_left", "violations_turns", "end_cause"]
    assert [tuple(row) for row in table[columns].to_numpy()] == [by_hand(actions) for actions in table["actions"]]
    assert set(table["end_cause"]) == {"death", "timeout"}
    assert (table["violations"] == table["violations_turns"]).all()


def test_a_run_records_the_file_and_the_environment(home):
    run = Train(env="ledge.py:Five", method=("ser:weight=1",)).runs()[0][0]
    making = run.source["the making of ledge_v1"]
    assert run.source == {
        "ledge.py": "sha256:" + hashlib.sha256(Path("ledge.py").read_bytes()).hexdigest()[:12],
        "the making of ledge_v1": making,
    }
    assert run.env == "ledge_v1"


def test_six_values_distinguish_a_fall_at_the_time_limit_from_a_timeout(home):
    six, five = perepisode.make("ledge.py:Six"), perepisode.make("ledge.py:Five")
    assert six.dilemmas == ("left",)
    for env, time, x, cause in (
        (six, 3, 2.0, EndCause.DEATH),
        (six, 3, 0.0, EndCause.TIMEOUT),
        (six, 0, 2.0, EndCause.DEATH),
        (six, 0, 0.0, EndCause.RUNNING),
        (five, 5, 2.0, EndCause.TIMEOUT),  # five values cannot distinguish it
        (five, 4, 2.0, EndCause.DEATH),
    ):
        state = env.reset(jax.random.key(0))
        inner = state.env_state._replace(x=jnp.float32(x), time=jnp.int32(time))
        state = type(state)(inner, state.observation, jnp.int32(time))
        _, outcome = env.step(jax.random.key(0), state, jnp.int32(1))
        assert outcome.end_cause == cause


WRONG = """
from ledge import Ledge, from_gymnax

def half(before, action, after, info):
    return 0.5

Wrong = from_gymnax(Ledge(), detectors=half, name="wrong")
"""


def test_an_invalid_detector_is_refused_in_one_line(home):
    Path("wrong.py").write_text(WRONG)
    code, _, err = guide.call("train", "--env", "wrong.py:Wrong", *TINY)
    assert (code, err.count("\n")) == (2, 1)
    assert "wrong: the detector of half returns float32[]; it must return one whole number or a bool" in err


def test_actions_that_are_not_discrete_are_refused():
    class Box:
        name, default_params = "box", None

        def action_space(self, params):
            return "Box(3,)"

    with pytest.raises(ConfigError, match=r"box has the action space Box\(3,\); it must be discrete"):
        from_gymnax(Box(), detectors={"none": lambda *_: 0})


class Wrapped:
    """Like a wrapper of gymnax: it forwards attributes that it lacks to the wrapped environment."""

    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        return getattr(self._env, name)

    def step(self, key, state, action, params):
        raise AssertionError("it resets automatically")


def test_a_wrapper_is_refused_instead_of_bypassed(home):
    from ledge import Ledge, left

    with pytest.raises(ConfigError, match="Wrapped is a wrapper, and its step resets automatically"):
        from_gymnax(Wrapped(Ledge()), detectors=left)


def test_the_arguments_of_the_adapter_are_part_of_its_source(home):
    from ledge import Ledge, Params, left

    def limited(most):
        def beyond(before, action, after, info):
            return after.x > most

        return beyond

    def sources(env=None, params=None, detectors=left, **more):
        return plugins.sources(from_gymnax(env or Ledge(), params, detectors=detectors, name="again", **more))

    same = sources()
    assert sources() == sources(Ledge(), Params(), max_episode_steps=6) == same

    class Gains(NamedTuple):
        gain: float
        max_steps_in_episode: int = 6

    others = [sources(params=Gains(1.0)), sources(params=Gains(2.0))]
    others += [
        sources(params=Params(4)),
        sources(Ledge(6)),
        sources(max_episode_steps=3),
        sources(detectors={"right": left}),
    ]
    others += [sources(detectors=limited(1)), sources(detectors=limited(2))]
    digests = [one["the making of again"] for one in (same, *others)]
    assert len(set(digests)) == len(digests)
    assert sources(detectors=limited(2)) == others[-1]


def test_the_files_of_the_call_and_of_the_detectors_are_recorded(home, tmp_path):
    detector = "def off(before, action, after, info):\n    return action == 1\n"
    pole = "from ledge import *\nfrom dets import off\nPole = from_gymnax(Ledge(), detectors=off, name='pole')\n"
    with guide.folder(tmp_path, ledge=LEDGE, dets=detector, pole=pole):
        source = Train(env="pole.py:Pole", method=("ser:weight=1",)).runs()[0][0].source
    assert set(source) == {"pole.py", "dets.py", "ledge.py", "the making of pole"}


def test_the_cell_of_a_detector_is_its_source(home, monkeypatch):
    """In a notebook, where there are no files."""
    from ledge import Ledge

    def typed(cell):
        text = f"def off(before, action, after, info):\n    return {cell}\n"
        monkeypatch.setitem(linecache.cache, "<cell 1>", (len(text), None, text.splitlines(keepends=True), "<cell 1>"))
        space = {"__name__": "typed", "from_gymnax": from_gymnax, "env": Ledge()}
        exec(compile(text, "<cell 1>", "exec"), space)
        exec(compile("Pole = from_gymnax(env, detectors=off, name='pole')", "<cell 2>", "exec"), space)
        return plugins.sources(space["Pole"]), text

    (first, text), (other, _) = typed("action == 1"), typed("(action == 0) * 50")
    assert first["typed"] == "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:12] != other["typed"]


def test_a_truncation_by_the_environment_counts_as_a_timeout(home):
    from ledge import Ledge, left

    class Timed(Ledge):
        def step_env(self, key, state, action, params):
            seen, after, reward, fallen, _, info = Ledge.step_env(self, key, state, action, params)
            return seen, after, reward, fallen, info

        def is_truncated(self, state, params):
            return state.time >= 2

    env = from_gymnax(Timed(6), detectors=left, name="timed")()
    state, causes = env.reset(jax.random.key(0)), []
    for action in (1, 0):
        state, outcome = env.step(jax.random.key(0), state, jnp.int32(action))
        causes.append(outcome.end_cause)
    assert causes == [EndCause.RUNNING, EndCause.TIMEOUT]


def four(self, key, state, action, params):
    return jnp.zeros(2), state, 0.0, False


def two_arrays(self, key, params):
    return {"a": jnp.zeros(2), "b": jnp.zeros(2)}, 0


def nothing(*_):
    return None


def pairs(*_):
    return jnp.zeros(2, int)


@pytest.mark.parametrize(
    ("env", "arguments", "message"),
    [
        ({}, {"detectors": [1]}, "detectors must be a named function, or functions by dilemma"),
        ({}, {"detectors": {}}, "detectors must be a named function"),
        ({}, {"detectors": lambda *_: 0}, "detectors must be a named function"),
        ({}, {"detectors": nothing, "stepz": 3}, "Environment has no attribute 'stepz'"),
        ({}, {"detectors": nothing, "name": "my world"}, "invalid name 'my world'"),
        ({}, {"detectors": {"a/b": nothing}}, "invalid name 'a/b'"),
        ({}, {"detectors": nothing}, "odd: the detector of nothing returns nothing; it must return one whole number"),
        ({}, {"detectors": pairs}, r"odd: the detector of pairs returns int32\[2\]; it must return one whole number"),
        (
            {"step_env": four},
            {"detectors": nothing},
            "odd: step returns 4 values; the gymnax interface has five or six",
        ),
        ({"reset_env": two_arrays}, {"detectors": nothing}, "the observation must be one array, not"),
    ],
)
def test_an_invalid_call_is_refused(home, env, arguments, message):
    from ledge import Ledge

    with pytest.raises(ConfigError, match=message):
        check_env.check(from_gymnax(type("Odd", (Ledge,), env)(), **{"name": "odd", **arguments})())
    with pytest.raises(ConfigError, match="takes the environment and its parameters as two arguments"):
        from_gymnax((Ledge(), None), detectors=nothing)
