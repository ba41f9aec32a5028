"""Observations: 430 bytes in storage, expanded to upstream's 8268 features as network input.

Upstream's symbolic view is 99 cells of 37 blocks, 5 items, 40 mob channels (5 classes of 8 types) and a light
bit, then 51 scalars.  Cells in darkness or outside the map show nothing, so darkness is encoded as an index past the
last block, whose one-hot row is zero; the light bit follows from it.
"""

from __future__ import annotations

import numpy as np

from perepisode.environments.base import SparseOneHot
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

ROWS, COLUMNS = VIEW = (9, 11)
CELLS = ROWS * COLUMNS
BLOCKS, ITEMS, MOB_TYPES = 37, 5, 8
MOB_CLASSES = ("melee_mobs", "passive_mobs", "ranged_mobs", "mob_projectiles", "player_projectiles")
MOB_CHANNELS = len(MOB_CLASSES) * MOB_TYPES
DARK_BLOCK, DARK_ITEM, UNSEEN = BLOCKS, ITEMS, CELLS * MOB_CHANNELS
LIT_ABOVE = 0.05
KILLS_TO_OPEN_LADDER = 8


@pytree
class Observation:
    """One view, with cells in row-major order."""

    blocks: jax.Array  # uint8[99], DARK_BLOCK where dark
    items: jax.Array  # uint8[99], DARK_ITEM where dark
    mobs: jax.Array  # uint16[14]: cell * 40 + class * 8 + type, or UNSEEN
    scalars: jax.Array  # float32[51], as upstream computes them


def observe(state) -> Observation:
    """The observation of a Craftax state: upstream's `EnvState` or the fast engine's `State`."""
    corner = state.player_position.astype(jnp.int32) - jnp.array(VIEW) // 2
    rows, columns = corner[0] + jnp.arange(ROWS)[:, None], corner[1] + jnp.arange(COLUMNS)[None, :]
    height, width = state.map.shape[-2:]
    on_map = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    cells = state.player_level, jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)

    def window(floors):
        return floors.at[cells].get(mode="promise_in_bounds")

    lit = on_map & (window(state.light_map).astype(jnp.float32) > LIT_ABOVE)
    return Observation(
        blocks=jnp.where(lit, window(state.map), DARK_BLOCK).astype(jnp.uint8).reshape(CELLS),
        items=jnp.where(lit, window(state.item_map), DARK_ITEM).astype(jnp.uint8).reshape(CELLS),
        mobs=_visible_mobs(state, corner, lit),
        scalars=_scalars(state),
    )


def encode(observation: Observation, dtype="float32") -> tuple[jax.Array | SparseOneHot, ...]:
    """Observations with any leading axes → features: blocks, items, mobs, light, scalars."""
    lead = observation.blocks.shape[:-1]
    blocks = jax.nn.one_hot(observation.blocks, BLOCKS, dtype=dtype).reshape(*lead, CELLS * BLOCKS)
    items = jax.nn.one_hot(observation.items, ITEMS, dtype=dtype).reshape(*lead, CELLS * ITEMS)
    mobs = SparseOneHot(observation.mobs, CELLS * MOB_CHANNELS)
    light = (observation.blocks != DARK_BLOCK).astype(dtype)
    return blocks, items, mobs, light, observation.scalars.astype(dtype)


def upstream_vector(observation: Observation) -> jax.Array:
    """float32[..., 8268]: the same features cell by cell, in the order of upstream's flat observation."""
    *cells, scalars = (part.dense() if isinstance(part, SparseOneHot) else part for part in encode(observation))
    lead = scalars.shape[:-1]
    view = jnp.concatenate([part.reshape(*lead, CELLS, -1) for part in cells], axis=-1)
    return jnp.concatenate([view.reshape(*lead, -1), scalars], axis=-1)


def _visible_mobs(state, corner: jax.Array, lit: jax.Array) -> jax.Array:
    """The ones that upstream's renderer writes, by slot.

    It writes every slot in turn: one for living mobs, zero for dead or distant ones, at an index that wraps around when
    negative.  The last slot written to a (cell, channel) therefore wins, and a stale slot can hide a living mob.
    """
    mobs = [getattr(state, name) for name in MOB_CLASSES]

    def on_floor(field):
        # concatenated before indexing the floor: one gather for all classes
        return jnp.concatenate([getattr(m, field) for m in mobs], axis=1)[state.player_level]

    classes = np.repeat(np.arange(len(mobs)), [m.mask.shape[1] for m in mobs])
    position = on_floor("position").astype(jnp.int32) - corner
    channel = classes * MOB_TYPES + on_floor("type_id").astype(jnp.int32)

    extent = jnp.array(VIEW)
    on_screen = ((position >= 0) & (position < extent)).all(-1)
    written = jnp.where(position < 0, position + extent, position)
    lands = ((written >= 0) & (written < extent)).all(-1)
    target = (written[:, 0] * COLUMNS + written[:, 1]) * MOB_CHANNELS + channel

    later = np.triu(np.ones((len(classes), len(classes)), bool), 1)
    overwritten = (later & (target[:, None] == target[None, :]) & lands[None, :]).any(-1)
    row, column = jnp.clip(position, 0, extent - 1).T
    seen = on_floor("mask") & on_screen & ~overwritten & lit[row, column]
    return jnp.where(seen, target, UNSEEN).astype(jnp.uint16)


def _scalars(state) -> jax.Array:
    """Inventory, potions, intrinsics, direction, armour, enchantments, special values; upstream's scales."""
    held = state.inventory
    floor = state.player_level
    rooted = [held.wood, held.stone, held.coal, held.iron, held.diamond, held.sapphire, held.ruby]
    rooted += [held.sapling, held.torches, held.arrows]
    tenths = [state.player_health, state.player_food, state.player_drink, state.player_energy]
    tenths += [state.player_mana, state.player_xp, state.player_dexterity, state.player_strength]
    tenths += [state.player_intelligence]
    special = [state.light_level, state.is_sleeping, state.is_resting, *state.learned_spells]
    return jnp.concatenate(
        [
            jnp.sqrt(_floats(rooted)) / 10.0,
            _floats([held.books]) / 2.0,
            _floats([held.pickaxe, held.sword]) / 4.0,
            _floats([state.sword_enchantment, state.bow_enchantment, held.bow]),
            jnp.sqrt(held.potions.astype(jnp.float32)) / 10.0,
            _floats(tenths) / 10.0,
            (state.player_direction.astype(jnp.int32) == jnp.arange(1, 5)).astype(jnp.float32),
            held.armour.astype(jnp.float32) / 2.0,
            state.armour_enchantments.astype(jnp.float32),
            _floats(special),
            _floats([floor]) / 10.0,
            _floats([state.monsters_killed[floor] >= KILLS_TO_OPEN_LADDER, _boss_vulnerable(state)]),
        ]
    )


def _boss_vulnerable(state) -> jax.Array:
    floor = state.player_level
    guarded = state.melee_mobs.mask[floor].any() | state.ranged_mobs.mask[floor].any()
    return ~guarded & (state.boss_timesteps_to_spawn_this_round <= 0)


def _floats(values) -> jax.Array:
    return jnp.stack([jnp.asarray(value).astype(jnp.float32) for value in values])
