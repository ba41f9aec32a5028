"""Episodes of the fast engine with bulk draws have the distributions of Craftax's own step.

`benchmarks/distributions.py` makes the same comparison over 10⁵ episodes on a GPU; its tallies are in `results/`.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import tally

from perepisode.environments.craftax.engine.tables import Achievement
from perepisode.environments.craftax.env import Craftax

pytestmark = pytest.mark.xdist_group("tally")  # one process plays for all tests
ENVIRONMENTS, FIRST = 64, 4
LEAST_P = 1e-4
RESULTS = Path(__file__).parents[2] / "results" / "distributions"


@pytest.fixture(scope="module")
def tallies():
    def played(seed, engine):
        memory = jnp.zeros((ENVIRONMENTS, 1))
        key = jax.random.key(seed)
        return tally.collect(Craftax(engine=engine), tally.at_random, None, memory, key, ENVIRONMENTS, FIRST)

    return played(1, "fast"), played(2, "upstream")


def test_every_environment_contributes_its_first_episodes(tallies):
    for one in tallies:
        assert one.episodes == ENVIRONMENTS * FIRST
        assert (one.histograms.sum(axis=1) == ENVIRONMENTS * FIRST).all()


def test_bulk_draws_play_the_same_game(tallies):
    found = tally.differences(*tallies)
    assert {"length", "return", "births", "despawns", "wood", "COLLECT_WOOD"} <= set(found)
    assert min(found.values()) > LEAST_P, found


def test_the_comparison_detects_a_difference(tallies):
    """10 % fewer episodes with wood and 25 % longer lives are detected at the committed sample size."""
    left, right = (_read("random", side) for side in range(2))
    assert min(tally.differences(left, right).values()) > LEAST_P
    fewer = right.unlocked.copy()
    fewer[Achievement.COLLECT_WOOD] = fewer[Achievement.COLLECT_WOOD] * 9 // 10
    longer = right.histograms.copy()
    longer[0] = np.roll(longer[0], 1)
    changed = tally.differences(left, tally.Tally(right.episodes, longer, fewer))
    assert changed["COLLECT_WOOD"] < LEAST_P
    assert changed["length"] < LEAST_P


@pytest.mark.parametrize("player", ["random", "trained"])
def test_the_committed_tallies_over_many_episodes_agree(player):
    left, right = (_read(player, side) for side in range(2))
    assert min(left.episodes, right.episodes) >= 100_000
    found = tally.differences(left, right)
    assert min(found.values()) * len(found) > 0.01, found


def _read(player, side):
    found = json.loads((RESULTS / f"{player}.json").read_text())[player]
    histograms = np.array([found["histograms"][name][side] for name in tally.EDGES])
    return tally.Tally(found["episodes"][side], histograms, np.array(found["unlocked"][side]))
