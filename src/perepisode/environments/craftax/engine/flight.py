"""Projectiles: launched by ranged mobs, flying one cell a step, hitting the player, mobs and blocks."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.cells import any_of, pack, unpack
from perepisode.environments.craftax.engine.combat import (
    arrow_damage,
    creature_defense,
    damage_to_player,
    strike,
    total,
)
from perepisode.environments.craftax.engine.interact import at_level
from perepisode.environments.craftax.engine.mobs import Intent
from perepisode.environments.craftax.engine.sight import Floor
from perepisode.environments.craftax.engine.state import State
from perepisode.environments.craftax.engine.tables import (
    FRIENDLY,
    HOSTILE,
    IS_PASSIVE,
    MISSILES,
    PROJECTILE_DAMAGE,
    PROJECTILE_OF,
    RANGED,
    SIZE,
    SOLID,
    Block,
)
from perepisode.pytree import pytree

SOLIDS = np.flatnonzero(SOLID)
IS_FRIENDLY = np.arange(MISSILES) >= FRIENDLY.start
EARLIER = np.arange(3) < np.arange(MISSILES)[:, None]  # Craftax moves projectiles sequentially


@pytree
class Ahead:
    """The next cells of the projectiles."""

    position: jax.Array  # int32[missile, 2]
    id: jax.Array  # int32[missile], as `wrapped_id`
    block: jax.Array  # int32[missile]


def shoot_at_player(floor: Floor, intent: Intent, shooters: jax.Array, ahead: Ahead, shots: Ahead):
    """Each shooting mob uses the first free slot, if any.  `shots` are the cells in front of the two mobs."""
    missiles, directions = floor.missiles, floor.directions
    mobs, toward = floor.creatures.slots(RANGED), intent.toward[RANGED]
    kinds = jnp.asarray(PROJECTILE_OF)[mobs.type_id]
    for shooter in range(2):
        free = pack(~missiles.mask[HOSTILE])
        slot = unpack(free & -free, MISSILES) & shooters[shooter]
        missiles = replace(
            missiles,
            position=jnp.where(slot[:, None], mobs.position[shooter], missiles.position),
            mask=missiles.mask | slot,
            type_id=jnp.where(slot, kinds[shooter], missiles.type_id),
        )
        directions = jnp.where(slot[:, None], toward[shooter], directions)
        ahead = Ahead(
            position=jnp.where(slot[:, None], shots.position[shooter], ahead.position),
            id=jnp.where(slot, shots.id[shooter], ahead.id),
            block=jnp.where(slot, shots.block[shooter], ahead.block),
        )
    return replace(floor, missiles=missiles, directions=directions), ahead


def fly_at_player(state: State, floor: Floor, ahead: Ahead) -> tuple[State, Floor, jax.Array, Ahead]:
    """Move the hostile projectiles.  Also returns which broke a table or furnace, and the cells afterwards."""
    missiles, player = floor.missiles, state.player_position
    mask, position = missiles.mask[HOSTILE], ahead.position[HOSTILE]
    reaches_player = cells.same(position, player)
    hits = mask & (reaches_player | cells.same(missiles.position[HOSTILE], player))
    damage = damage_to_player(state, jnp.asarray(PROJECTILE_DAMAGE)[missiles.type_id[HOSTILE]])
    ids = cells.cell_id(position)
    mob_ids = cells.cell_id(floor.creatures.position)
    in_mob = any_of((ids[:, None] == mob_ids) & floor.creatures.mask) | reaches_player
    # Craftax drops a write beyond the far edge and wraps one before the near edge.
    lands = (position[:, 0] < SIZE) & (position[:, 1] < SIZE)
    broken = mask & lands & cells.member(ahead.block[HOSTILE], (Block.FURNACE, Block.CRAFTING_TABLE))
    gone_before = broken & (ahead.id[:, None] == ahead.id[HOSTILE]) & EARLIER
    block = jnp.where(any_of(gone_before), Block.PATH, ahead.block)
    health = state.player_health
    for missile in range(HOSTILE.stop):
        health = health - damage[missile] * hits[missile]
    flies = mask & cells.in_bounds(position) & ~cells.member(block[HOSTILE], SOLIDS) & ~in_mob & ~hits
    state = replace(
        state,
        player_health=health,
        is_sleeping=state.is_sleeping & ~any_of(hits),
        is_resting=state.is_resting & ~any_of(hits),
    )
    flying = unpack(pack(flies), MISSILES) | (missiles.mask & IS_FRIENDLY)
    floor = replace(floor, missiles=replace(missiles, mask=flying))
    return state, floor, broken, replace(ahead, block=block)


def fly_at_mobs(state: State, floor: Floor, ahead: Ahead) -> tuple[State, Floor]:
    """The player's projectiles hit the mob in their cell, else the one in the next cell, and stop there."""
    before = floor.creatures
    missiles = floor.missiles
    mask = missiles.mask[FRIENDLY]
    damage = arrow_damage(state, missiles.type_id[FRIENDLY], mask)
    dealt = total(damage[:, None], creature_defense(before.type_id))  # [missile, creature]
    mob_ids = cells.cell_id(before.position)
    here = cells.cell_id(missiles.position[FRIENDLY])[:, None] == mob_ids
    there = cells.cell_id(ahead.position[FRIENDLY])[:, None] == mob_ids
    creatures, struck = before, jnp.int32(0)  # as bits
    for missile in range(3):
        hit = here[missile] & creatures.mask
        first = any_of(hit)
        creatures = strike(creatures, hit, dealt[missile])
        hit = there[missile] & creatures.mask
        creatures = strike(creatures, hit, jnp.where(first, 0.0, dealt[missile]))
        struck = struck | (first | any_of(hit)) << missile
    stopped = cells.member(ahead.block, SOLIDS) | ~cells.in_bounds(ahead.position)
    stopped = stopped | unpack(struck << FRIENDLY.start, MISSILES)
    killed = before.mask & ~creatures.mask
    kills = jax.lax.population_count(pack(killed & ~IS_PASSIVE))
    state = replace(state, monsters_killed=state.monsters_killed + at_level(state) * kills)
    new_mask = missiles.mask & ~(IS_FRIENDLY & stopped)
    floor = replace(floor, creatures=creatures, missiles=replace(missiles, mask=new_mask, position=ahead.position))
    return state, floor
