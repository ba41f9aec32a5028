"""Inputs of the rules of one step: the floor's mobs, the blocks around the player, the faced cell."""

import jax
import jax.numpy as jnp

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.state import Mobs, State
from perepisode.environments.craftax.engine.tables import BOSS_LEVEL, Block
from perepisode.pytree import pytree

AROUND = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))
CENTRE = 4


@pytree
class Floor:
    """The mobs and projectiles on the player's floor, read from the state once and written back once."""

    creatures: Mobs  # [8]
    missiles: Mobs  # [6]
    directions: jax.Array  # int32[6, 2]


@pytree
class Sight:
    """The player's surroundings before the action."""

    blocks: jax.Array  # int32[9]: the three by three cells around the player, as Craftax reads them
    near_table: jax.Array
    near_furnace: jax.Array
    facing: jax.Array  # int32[2]
    facing_id: jax.Array
    facing_inside: jax.Array  # whether the faced cell is on the map
    block: jax.Array  # of the faced cell
    item: jax.Array  # of the faced cell
    on_boss_floor: jax.Array


def take_floor(state: State) -> Floor:
    def take(array):
        return jax.lax.dynamic_index_in_dim(array, state.player_level, 0, keepdims=False)

    return Floor(
        creatures=jax.tree.map(take, state.creatures),
        missiles=jax.tree.map(take, state.missiles),
        directions=take(state.missile_directions),
    )


def direction_vector(action: jax.Array) -> jax.Array:
    """int32[..., 2] for the actions left, right, up, down; zero for all others."""
    row = (action == 4).astype(jnp.int32) - (action == 3)
    column = (action == 2).astype(jnp.int32) - (action == 1)
    return cells.vector(row, column)


def look(state: State) -> Sight:
    level, player = state.player_level, state.player_position
    around = player + jnp.array(AROUND)
    ids, inside = cells.wrapped_id(around), cells.in_bounds(around)
    blocks = cells.read(state.map, level, ids).astype(jnp.int32)
    neighbour = inside & (jnp.arange(9) != CENTRE)
    step = direction_vector(state.player_direction)
    index = CENTRE + 3 * step[0] + step[1]
    facing = player + step
    facing_id = cells.wrapped_id(facing)
    return Sight(
        blocks=blocks,
        near_table=cells.any_of(neighbour & (blocks == Block.CRAFTING_TABLE)),
        near_furnace=cells.any_of(neighbour & (blocks == Block.FURNACE)),
        facing=facing,
        facing_id=facing_id,
        facing_inside=cells.in_bounds(facing),
        block=pick(blocks, index),
        item=cells.read(state.item_map, level, facing_id).astype(jnp.int32),
        on_boss_floor=level == BOSS_LEVEL,
    )


def pick(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[index]` for a short vector, as a chain of selects."""
    chosen = values[0]
    for position in range(1, values.shape[0]):
        chosen = jnp.where(index == position, values[position], chosen)
    return chosen
