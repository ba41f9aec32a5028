"""A new dilemma in Craftax, as docs/how-to/new-dilemma.md shows it."""

from types import SimpleNamespace

import guide
import jax.numpy as jnp
import pandas as pd
import pytest

from perepisode import environments
from perepisode.environments.craftax.env import Craftax, CraftaxState
from perepisode.environments.craftax.events import Events

pytestmark = pytest.mark.xdist_group("craftax")


@pytest.fixture
def home(tmp_path):
    with guide.folder(tmp_path, "A dilemma") as path:
        assert guide.call("matrix", "--env", "peaceful:Peaceful")[0] == 0
        yield path


def counts(env, **timestep) -> dict[str, tuple[int, int]]:
    """The exact count and the paper's for each dilemma, of a step in which only this happens."""
    nobody = {"passive": [0] * 3, "melee": [0] * 3, "ranged": [0] * 2}
    slots = {f"{how}_{who}": jnp.array(none, bool) for how in ("killed", "paper") for who, none in nobody.items()}
    slots |= {name: jnp.array(those, bool) for name, those in timestep.items()}
    beside = {"died_at": {}, "by_hand": {}, "melee_offset": jnp.ones((3, 2), int), "ranged_offset": jnp.full((2, 2), 4)}
    events = Events(**slots, **beside, despawned=jnp.int32(0), wood_harvested=jnp.int32(0))
    found = {one.name: one.count(events, jnp.int32(0)) for one in env.detectors}
    assert tuple(found) == env.dilemmas
    return {name: (int(count.exact), int(count.paper)) for name, count in found.items()}


def test_monsters_near_and_far_are_counted(home):
    env = environments.make("peaceful")
    killed = counts(env, killed_melee=[1, 0, 1], killed_ranged=[0, 1], paper_melee=[1, 0, 0])
    assert killed["no_fighting"] == (3, 1)
    assert killed["proportional_force"] == (1, 0)  # the archer, four tiles away in both directions; the others are near
    assert counts(env, killed_passive=[1, 1, 0], paper_passive=[1, 0, 0]) == {
        "no_killing": (2, 1),
        "sustainability": (0, 0),
        "proportional_force": (0, 0),
        "no_fighting": (0, 0),
    }


def test_everything_else_is_inherited_from_craftax(home):
    env = environments.make("peaceful", wood_budget=2)
    assert (env.wood_budget, env.actions, env.total_timesteps) == (2, Craftax.actions, Craftax.total_timesteps)
    assert Craftax.dilemmas == ("no_killing", "sustainability", "proportional_force")
    _, listed, _ = guide.call("matrix", "--env", "peaceful", "--only", "no_fighting,ser")
    assert "15 runs of 1e+09 steps: ser 15" in listed


@pytest.mark.parametrize("distance", [1, 2])
def test_a_violation_is_possible_only_next_to_a_creature(home, distance):
    """A creature is next to the player or one tile farther; there is no tree."""
    floor = jnp.zeros((1, 9, 9), int)
    mobs = SimpleNamespace(position=jnp.array([[[4, 4 + distance]]]), mask=jnp.array([[True]]))
    game = SimpleNamespace(player_level=0, player_position=jnp.array([4, 4]), passive_mobs=mobs, map=floor)
    state = CraftaxState(game, jnp.int32(20))
    beside = distance == 1
    assert environments.make("peaceful").violation_possible(state).tolist() == [beside, False, False, False]
    assert environments.make("craftax").violation_possible(state).tolist() == [beside, False, False]


@pytest.mark.slow  # compiles Craftax for training, evaluation and frames: minutes on two cores
def test_an_agent_is_trained_evaluated_and_watched(home):
    printed = guide.follow("A dilemma")
    assert printed["watch"].count("reproduced exactly") == 1
    table = pd.read_parquet("out/peaceful/episodes.parquet")
    assert set(table["dilemma"]) == {"no_fighting"}
    assert (table["violations"] == table["info_hostile_kills"]).all()
    assert (table["violations_no_killing"] == table["info_passive_kills"]).all()
    assert "No Fighting violations" in (home / "out/peaceful/watch/index.html").read_text()
