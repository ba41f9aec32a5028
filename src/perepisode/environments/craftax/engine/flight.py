"""Projectiles: launched by ranged mobs, flying one cell a step, hitting the player, mobs and blocks."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.cells import any_of, first_of
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
    PROJECTILE_DAMAGE,
    PROJECTILE_OF,
    RANGED,
    SIZE,
    SOLID,
    Block,
)
from perepisode.environments.craftax.engine.unlock import for_kills
from perepisode.pytree import pytree

SOLIDS = np.flatnonzero(SOLID)


@pytree
class Ahead:
    """The cells that projectiles enter next."""

    position: jax.Array  # int32[missile, 2]
    id: jax.Array  # int32[missile], as `wrapped_id`
    block: jax.Array  # int32[missile]


def shoot_at_player(floor: Floor, intent: Intent, shooters: jax.Array, ahead: Ahead, shots: Ahead):
    """Each shooting mob takes the first free slot, if any.  `shots` are the cells in front of the two mobs."""
    missiles, directions = floor.missiles, floor.directions
    mobs, toward = floor.creatures.slots(RANGED), intent.toward[RANGED]
    kinds = jnp.asarray(PROJECTILE_OF)[mobs.type_id]
    friendly = jnp.zeros(3, bool)
    for shooter in range(2):
        slot = jnp.concatenate([first_of(~missiles.mask[HOSTILE]) & shooters[shooter], friendly])
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
    """Hostile projectiles.  They break tables and furnaces; also returned: which did, and the cells as they left them."""
    missiles, player = floor.missiles, state.player_position
    mask, position = missiles.mask[HOSTILE], ahead.position[HOSTILE]
    reaches_player = (position == player).all(-1)
    hits = mask & (reaches_player | (missiles.position[HOSTILE] == player).all(-1))
    damage = damage_to_player(state, jnp.asarray(PROJECTILE_DAMAGE)[missiles.type_id[HOSTILE]])
    ids = cells.cell_id(position)
    mob_ids = cells.cell_id(floor.creatures.position)
    in_mob = any_of((ids[:, None] == mob_ids) & floor.creatures.mask) | reaches_player
    lands = (position < SIZE).all(-1)  # Craftax's write beyond the far edge is dropped, before the near edge wraps
    health, blocks, broken = state.player_health, list(ahead.block), []
    for missile in range(HOSTILE.stop):
        health = health - damage[missile] * hits[missile]
        breaks = mask[missile] & cells.member(blocks[missile], (Block.FURNACE, Block.CRAFTING_TABLE)) & lands[missile]
        broken.append(breaks)
        for later in range(missile + 1, len(blocks)):
            same = breaks & (ahead.id[later] == ahead.id[missile])
            blocks[later] = jnp.where(same, Block.PATH, blocks[later])
    block = jnp.stack(blocks)
    flies = mask & cells.in_bounds(position) & ~cells.member(block[HOSTILE], SOLIDS) & ~in_mob & ~hits
    state = replace(
        state,
        player_health=health,
        is_sleeping=state.is_sleeping & ~any_of(hits),
        is_resting=state.is_resting & ~any_of(hits),
    )
    new_mask = jnp.concatenate([flies, missiles.mask[FRIENDLY]])
    floor = replace(floor, missiles=replace(missiles, mask=new_mask))
    return state, floor, jnp.stack(broken), replace(ahead, block=block)


def fly_at_mobs(state: State, floor: Floor, ahead: Ahead) -> tuple[State, Floor, jax.Array]:
    """The player's projectiles hit the mob in their cell or else the one in the next, and end there."""
    before = floor.creatures
    missiles = floor.missiles
    mask = missiles.mask[FRIENDLY]
    damage = arrow_damage(state, missiles.type_id[FRIENDLY], mask)
    dealt = total(damage[:, None], creature_defense(before.type_id))  # [missile, creature]
    mob_ids = cells.cell_id(before.position)
    here = cells.cell_id(missiles.position[FRIENDLY])[:, None] == mob_ids
    there = cells.cell_id(ahead.position[FRIENDLY])[:, None] == mob_ids
    creatures, struck = before, []
    for missile in range(3):
        hit = here[missile] & creatures.mask
        first = any_of(hit)
        creatures = strike(creatures, hit, dealt[missile])
        hit = there[missile] & creatures.mask
        creatures = strike(creatures, hit, jnp.where(first, 0.0, dealt[missile]))
        struck.append(first | any_of(hit))
    solid = cells.member(ahead.block[FRIENDLY], SOLIDS)
    flies = mask & cells.in_bounds(ahead.position[FRIENDLY]) & ~solid & ~jnp.stack(struck)
    killed = before.mask & ~creatures.mask
    kills = sum((killed & ~IS_PASSIVE)[mob].astype(jnp.int32) for mob in range(killed.shape[0]))
    state = replace(state, monsters_killed=state.monsters_killed + at_level(state) * kills)
    new_mask = jnp.concatenate([missiles.mask[HOSTILE], flies])
    floor = replace(
        floor, creatures=creatures, missiles=replace(missiles, mask=new_mask, position=ahead.position)
    )
    return state, floor, for_kills(killed, before.type_id, eaten=False)
