"""What comes from outside the package is met by every command as the package's own is, and refused in one line."""

import guide
import pytest

from perepisode.environments import WORLDS

BARE = """
import jax.numpy as jnp
from perepisode.environments import World, world
from perepisode.environments.base import EndCause, Outcome

@world
class Bare(World):
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


def test_matrix_and_plan_take_a_world_from_outside(home):
    _, named, _ = guide.call("matrix", "--env", "bare:Bare")
    assert "129 runs of 1e+06 steps: erm 21 + ser 30 + lagrangian 24 + esr 12 + budget 18" in named
    assert WORLDS["bare"].dilemmas == ("harm", "other")
    _, known, _ = guide.call("matrix", "--env", "bare")
    assert known == named
    code, planned, _ = guide.call("study", "plan", "--env", "bare:Bare", "--only", "ser")
    assert code == 0
    assert "30 runs in 2 packs, 3e+07 steps" in planned
    assert "next: perepisode study run --env bare:Bare" in planned
    assert "bare declares no env 'Bear'" in refused("matrix", "--env", "bare:Bear")
