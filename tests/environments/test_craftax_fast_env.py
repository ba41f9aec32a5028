"""The fast engine against the oracle: same outcome and observation at every step of play on all floors."""

from functools import partial

import jax
import numpy as np
import pytest
import scripted

from perepisode.environments.craftax import engine
from perepisode.environments.craftax.env import Craftax, CraftaxState

pytestmark = pytest.mark.xdist_group("craftax")

FAST = Craftax(engine="fast", rng="upstream")


@jax.jit
@jax.vmap
def fast_step(key, state, action):
    game = engine.from_upstream(state.game)
    after, outcome = FAST.step(key, CraftaxState(game=game, harvested=state.harvested), action)
    return outcome, FAST.observe(after), after.harvested


def test_outcome_and_view_equal_the_oracles_bit_for_bit():
    same = jax.jit(partial(jax.tree.map, jax.vmap(scripted.same_bits)))
    kills = 0
    for step in scripted.walk(120):
        oracle = step.outcome, scripted.batch_observe(step.after.game), step.after.harvested
        fast = fast_step(step.keys, step.before, step.action)
        assert scripted.disagreements(same(fast, oracle)) == []
        kills += np.asarray(step.outcome.info["passive_kills"]).sum()
    assert kills > 50
