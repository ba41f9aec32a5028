"""Mob behaviour: movement, attacks, collisions and despawning."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.combat import damage_to_player
from perepisode.environments.craftax.engine.draws import Draws
from perepisode.environments.craftax.engine.sight import Floor, direction_vector
from perepisode.environments.craftax.engine.state import Mobs, State
from perepisode.environments.craftax.engine.tables import (
    COLLISION,
    CREATURE_CLASS,
    CREATURES,
    IS_PASSIVE,
    MELEE,
    MELEE_DAMAGE,
    PARAMS,
    SIZE,
    SOLID,
    Achievement,
    Block,
)
from perepisode.environments.craftax.engine.unlock import grant
from perepisode.pytree import pytree

IS_MELEE, IS_RANGED = CREATURE_CLASS == 1, CREATURE_CLASS == 2
# For each creature slot, bits of the types that cannot enter ground, water and lava.
BARRED = (COLLISION[:, CREATURE_CLASS] << np.arange(len(COLLISION))[:, None, None]).sum(0)
MELEE_COOLDOWN, RANGED_COOLDOWN = 5, 4


@pytree
class Intent:
    """The intended move of each creature on the floor, before collisions."""

    distance: jax.Array  # int32[8], L1 to the player
    toward: jax.Array  # int32[8, 2], one step along one axis
    target: jax.Array  # int32[8, 2]


def intend(draws: Draws, creatures: Mobs, player: jax.Array, on_boss_floor: jax.Array) -> Intent:
    """Melee mobs pursue nearby players, ranged mobs keep a distance of four to five, passive mobs wander."""
    away = player - creatures.position
    rows, columns = jnp.abs(away[:, 0]), jnp.abs(away[:, 1])
    distance = rows + columns
    along_columns = (columns > rows) | ((columns == rows) & (draws.axis < 0.5))
    toward = jnp.sign(away) * cells.vector(~along_columns, along_columns)
    wander = direction_vector(draws.wander)
    pursues = IS_MELEE & ((distance < 10) | on_boss_floor) & (draws.mood < 0.75)
    pursues = pursues | (IS_RANGED & (distance >= 6) & (draws.mood > 0.85))
    flees = IS_RANGED & (distance <= 3) & (draws.mood > 0.85)
    step = jnp.where(flees[:, None], -toward, jnp.where(pursues[:, None], toward, wander))
    return Intent(distance, toward, creatures.position + step)


def passable(types: jax.Array, targets: jax.Array, blocks: jax.Array) -> jax.Array:
    """bool[8]: whether a mob of this type can enter a block of this type."""
    solid = cells.member(blocks, np.flatnonzero(SOLID))
    water, lava = blocks == Block.WATER, blocks == Block.LAVA
    ground = ~(solid | water | lava)
    barred = jnp.where(ground, BARRED[:, 0], jnp.where(water, BARRED[:, 1], BARRED[:, 2]))
    return cells.in_bounds(targets) & ~solid & ((barred >> types) & 1 == 0)


def move_creatures(
    creatures: Mobs, intent: Intent, blocks: jax.Array, player: jax.Array, on_boss_floor: jax.Array
) -> tuple[Mobs, jax.Array]:
    """Move creatures sequentially, since each blocks its cell.  Also returns which of them attack.

    A ranged mob that cannot flee shoots instead.  Like Craftax, moves dead slots too.
    """
    far = intent.distance >= PARAMS.mob_despawn_distance
    stays = creatures.mask & ~(far & (IS_PASSIVE | ~on_boss_floor))
    ready = creatures.mask & (creatures.attack_cooldown <= 0)
    adjacent = ready & IS_MELEE & (intent.distance == 1)
    in_range = ready & IS_RANGED & (intent.distance >= 4) & (intent.distance <= 5)
    cornered = ready & IS_RANGED & (intent.distance <= 3)
    player_cell = player[0] * SIZE + player[1]
    target = intent.target[:, 0] * SIZE + intent.target[:, 1]
    clear = passable(creatures.type_id, intent.target, blocks) & (target != player_cell)
    cell = list(creatures.position[:, 0] * SIZE + creatures.position[:, 1])
    alive = list(creatures.mask)
    moves = attacks = jnp.zeros_like(player_cell)  # as bits
    for mob in range(CREATURES):
        blocked = ~clear[mob]
        for other in range(CREATURES):
            blocked = blocked | (alive[other] & (cell[other] == target[mob]))
        attack = adjacent[mob] | in_range[mob] | (cornered[mob] & blocked)
        move = ~blocked & ~attack
        cell[mob] = jnp.where(move, target[mob], cell[mob])
        alive[mob] = stays[mob]
        moves = moves | move << mob
        attacks = attacks | attack << mob
    attacking = cells.unpack(attacks, CREATURES)
    pause = np.where(IS_MELEE, MELEE_COOLDOWN, RANGED_COOLDOWN)
    cooldown = jnp.where(attacking, pause, creatures.attack_cooldown - ~IS_PASSIVE)
    moved = replace(
        creatures,
        position=jnp.where(cells.unpack(moves, CREATURES)[:, None], intent.target, creatures.position),
        mask=stays,
        attack_cooldown=cooldown,
    )
    return moved, attacking


def suffer_melee(state: State, floor: Floor, attacking: jax.Array) -> tuple[State, jax.Array]:
    """A sleeping player takes 3.5 times the damage of the first blow and wakes up."""
    blows = jnp.asarray(MELEE_DAMAGE)[floor.creatures.type_id[MELEE]]
    awake = damage_to_player(state, blows)
    asleep = damage_to_player(state, blows * (1 + 2.5))
    sleeping, resting, health = state.is_sleeping, state.is_resting, state.player_health
    woken = jnp.zeros_like(sleeping)
    for mob in range(MELEE.stop):
        hit = attacking[mob]
        health = health - jnp.where(sleeping, asleep[mob], awake[mob]) * hit
        woken = woken | (sleeping & hit)
        sleeping, resting = sleeping & ~hit, resting & ~hit
    state = replace(state, player_health=health, is_sleeping=sleeping, is_resting=resting)
    return state, grant(woken, Achievement.WAKE_UP)
