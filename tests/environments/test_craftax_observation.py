"""The compact observation expands to upstream's symbolic rendering bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scripted

from perepisode.environments.base import SparseOneHot
from perepisode.environments.craftax import observation

pytestmark = pytest.mark.xdist_group("craftax")


def assert_same_views(games):
    theirs, ours = map(np.asarray, scripted.batch_views(games))
    assert ours.dtype == np.float32
    assert ours.shape[-1] == 8268
    np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))


def crowded(seed):
    """Games with players anywhere, patches of darkness, and adjacent living and dead slots."""
    rng = np.random.default_rng(seed)
    games = scripted.initial_games()[0]
    player = rng.integers(0, 48, (scripted.ENVIRONMENTS, 2), dtype=np.int32)
    level = rng.integers(0, scripted.FLOORS, scripted.ENVIRONMENTS, dtype=np.int32)

    def throw(mobs, reach):
        near = rng.integers(-reach, reach + 1, mobs.position.shape) + player[:, None, None]
        return mobs.replace(
            position=near.astype(np.int32),
            mask=rng.random(mobs.mask.shape) < 0.6,
            type_id=rng.choice(rng.integers(0, 8, 2, dtype=np.int32), mobs.type_id.shape),
        )

    names = observation.MOB_CLASSES
    reaches = rng.choice([1, 3, 16], len(names))
    return games.replace(
        player_position=player,
        player_level=level,
        player_direction=rng.integers(1, 5, scripted.ENVIRONMENTS, dtype=np.int32),
        light_map=rng.choice(np.float32([0.0, 0.05, 0.051, 1.0]), games.light_map.shape),
        light_level=rng.random(scripted.ENVIRONMENTS, dtype=np.float32),
        monsters_killed=rng.integers(6, 10, games.monsters_killed.shape, dtype=np.int32),
        boss_timesteps_to_spawn_this_round=rng.integers(-1, 2, scripted.ENVIRONMENTS, dtype=np.int32),
        learned_spells=rng.random((scripted.ENVIRONMENTS, 2)) < 0.5,
        inventory=jax.tree.map(lambda held: rng.integers(0, 100, held.shape, dtype=np.int32), games.inventory),
        **{name: throw(getattr(games, name), reach) for name, reach in zip(names, reaches)},
    )


@pytest.mark.parametrize("seed", range(12))
def test_view_equals_upstreams_for_crowds_corners_and_darkness(seed):
    assert_same_views(crowded(seed))


def test_view_equals_upstreams_over_long_play_on_all_floors():
    play = scripted.long_play()
    assert "['view']" not in play.disagreements
    # Equality means little unless the play covers all kinds of views.
    assert set(np.unique(play.floor)) == set(range(scripted.FLOORS))
    assert play.light_level.min() < 0.1
    assert play.light_level.max() > 0.9
    assert (play.projectiles > 0).sum() > 100
    assert ((play.dark_cells > 0) & (play.dark_cells < observation.CELLS)).sum() > 1000


def test_a_stale_slot_hides_a_living_mob_as_it_does_upstream():
    """Upstream also writes dead slots: a zero written later to the same cell and channel wins."""
    alone = scripted.enter(scripted.meadow(), "passive_mobs", (1, 2), slot=0)
    buried = scripted.enter(alone, "passive_mobs", (1, 2), slot=1)
    passive = buried.passive_mobs
    buried = buried.replace(passive_mobs=passive.replace(mask=scripted.put(passive.mask, (0, 1), False)))
    games = jax.tree.map(lambda *rows: jnp.stack(rows), *([alone, buried] * (scripted.ENVIRONMENTS // 2)))
    assert_same_views(games)
    mobs = np.asarray(scripted.batch_observe(games).mobs)
    assert (mobs[0] != observation.UNSEEN).sum() == 1
    assert (mobs[1] != observation.UNSEEN).sum() == 0


def test_observation_is_small_and_encodes_under_any_leading_axes():
    games = scripted.initial_games()[0]
    seen = scripted.batch_observe(games)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(seen)) / scripted.ENVIRONMENTS
    assert size == 430
    folded = jax.tree.map(lambda leaf: leaf.reshape(4, 4, 4, -1), seen)
    flat, deep = observation.encode(seen), observation.encode(folded, jnp.bfloat16)
    assert [part.shape[-1] for part in flat] == [99 * 37, 99 * 5, 99 * 40, 99, 51]
    for part, folded_part in zip(flat, deep):
        if isinstance(part, SparseOneHot):
            part, folded_part = part.dense(), folded_part.dense(jnp.bfloat16)
        assert part.dtype == jnp.float32
        assert folded_part.dtype == jnp.bfloat16
        np.testing.assert_array_equal(folded_part.reshape(part.shape), part.astype(jnp.bfloat16))
