"""Spawning: whether a mob of each class appears in this step, where, and in which slot."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from perepisode.environments.craftax.engine.cells import Cells, any_of, member, pack, unpack
from perepisode.environments.craftax.engine.draws import Draws
from perepisode.environments.craftax.engine.interact import at_level
from perepisode.environments.craftax.engine.sight import Floor, pick
from perepisode.environments.craftax.engine.state import Mobs, State
from perepisode.environments.craftax.engine.tables import (
    CLEARED,
    CREATURES,
    FLOOR_MOBS,
    MELEE,
    MOB_HEALTH,
    PARAMS,
    PASSIVE,
    RANGED,
    SPAWN_CHANCE,
    Block,
)

SOIL = (Block.GRASS, Block.PATH, Block.FIRE_GRASS, Block.ICE_GRASS)
GRAVES = (Block.GRAVE, Block.GRAVE2, Block.GRAVE3)
DEEP_THING = 5  # the ranged mob that lives in water
PASSIVE_NEAREST, HOSTILE_NEAREST, BOSS_FARTHEST = 3, 9, 6


def spawn(draws: Draws, state: State, floor: Floor, candidates: Cells, on_boss_floor: jax.Array) -> Floor:
    """Passive, then melee, then ranged.  `candidates` excludes occupied cells; new mobs also avoid each other."""
    level = state.player_level
    chance = jnp.asarray(SPAWN_CHANCE)[level]
    types = jnp.asarray(FLOOR_MOBS)[jnp.where(on_boss_floor, state.boss_progress, level)]
    rows = candidates.rows - state.player_position[0]
    columns = candidates.columns - state.player_position[1]
    squared = rows * rows + columns * columns
    soil, graves = member(candidates.blocks, SOIL), member(candidates.blocks, GRAVES)
    free = squared < PARAMS.mob_despawn_distance**2
    apart = jnp.where(on_boss_floor, squared <= BOSS_FARTHEST**2, squared > HOSTILE_NEAREST**2)
    waters = jnp.where(types[2] == DEEP_THING, candidates.blocks == Block.WATER, soil)
    coefficient = hostile_coefficient(state, on_boss_floor)
    night = chance[1] + chance[3] * jnp.square(1 - state.light_level)

    creatures = floor.creatures
    for which, slots, column, kind, suitable, wanted in (
        (0, PASSIVE, 0, jnp.asarray(FLOOR_MOBS)[level][0], soil & (squared > PASSIVE_NEAREST**2),
         (draws.spawn[0] < chance[0]) & ~on_boss_floor),
        (1, MELEE, 1, types[1], jnp.where(on_boss_floor, graves, soil) & apart,
         draws.spawn[1] < night * coefficient),
        (2, RANGED, 2, types[2], jnp.where(on_boss_floor, graves, waters) & apart,
         draws.spawn[2] < chance[2] * coefficient),
    ):  # fmt: skip
        room = any_of(~creatures.mask[slots])
        any_valid, cell = draws.cell.pick(which, candidates, suitable & free)
        appears = wanted & room & any_valid
        creatures = place_mob(creatures, slots, kind, MOB_HEALTH[:, column], cell, appears)
        free = free & ~(appears & (candidates.rows == cell[0]) & (candidates.columns == cell[1]))
    return replace(floor, creatures=creatures)


def hostile_coefficient(state: State, on_boss_floor: jax.Array) -> jax.Array:
    """Factor of the hostile spawn rate: three until a floor is cleared; on the boss floor, certain during a wave."""
    uncleared = any_of(at_level(state) & (state.monsters_killed < CLEARED))
    wave = (state.boss_timesteps_to_spawn_this_round >= 1) * 1000
    return (1 + 2 * uncleared) * jnp.where(on_boss_floor, wave, 1)


def place_mob(creatures: Mobs, slots: slice, kind: jax.Array, healths, cell: jax.Array, appears: jax.Array) -> Mobs:
    """Fill the first free slot.  Like Craftax, write the type even if none spawns, in slot one if all are full."""
    free = pack(~creatures.mask[slots])
    lowest = jnp.where(free == 0, 1, free & -free)
    slot = unpack(lowest << slots.start, CREATURES)
    taken = slot & appears
    return replace(
        creatures,
        position=jnp.where(taken[:, None], cell, creatures.position),
        health=jnp.where(taken, pick(jnp.asarray(healths), kind), creatures.health),
        mask=creatures.mask | taken,
        type_id=jnp.where(slot, kind, creatures.type_id),
    )
