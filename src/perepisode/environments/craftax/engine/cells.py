"""Cells of a floor: reading, writing and random choice."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine.tables import LEVELS, PARAMS, SIZE
from perepisode.pytree import pytree, static

FLOOR = SIZE * SIZE
REACH = PARAMS.mob_despawn_distance - 1  # mobs spawn only within their despawn distance
WINDOW = 2 * REACH + 1


def in_bounds(cells: jax.Array) -> jax.Array:
    """bool[...] for int32[..., 2]."""
    row, column = cells[..., 0], cells[..., 1]
    return (row >= 0) & (row < SIZE) & (column >= 0) & (column < SIZE)


def cell_id(cells: jax.Array) -> jax.Array:
    """Index of a cell within its floor; -1 outside the map."""
    return jnp.where(in_bounds(cells), cells[..., 0] * SIZE + cells[..., 1], -1)


def same(left: jax.Array, right: jax.Array) -> jax.Array:
    """bool[...]: whether the cells are equal."""
    equal = left == right
    return equal[..., 0] & equal[..., 1]


def wrapped_id(cells: jax.Array) -> jax.Array:
    """The cell that indexing an array at these coordinates reads: negative values wrap, large values clamp.

    Craftax reads cells outside the map this way and does not always check bounds afterwards.
    """
    wrapped = jnp.clip(jnp.where(cells < 0, cells + SIZE, cells), 0, SIZE - 1)
    return wrapped[..., 0] * SIZE + wrapped[..., 1]


def read(grid: jax.Array, level: jax.Array, ids: jax.Array) -> jax.Array:
    """Values of one floor's cells; `ids` must be valid.

    The barrier makes XLA read the values once.  Otherwise it repeats the read in every kernel that uses them, some of
    which run after the map is written, and therefore has to copy the map first.
    """
    values = grid.reshape(-1).at[level * FLOOR + ids].get(mode="promise_in_bounds")
    return jax.lax.optimization_barrier(values)


def write(grid: jax.Array, level: jax.Array, ids: jax.Array, values: jax.Array, where: jax.Array) -> jax.Array:
    """A single scatter; entries that write the same cell must agree."""
    index = jnp.where(where, level * FLOOR + ids, LEVELS * FLOOR)
    return grid.reshape(-1).at[index].set(values.astype(grid.dtype), mode="drop").reshape(grid.shape)


def member(values: jax.Array, kinds) -> jax.Array:
    """Whether a block, 0 to 63, is among `kinds`: a bit test, because a table lookup is a memory access."""
    low = sum(1 << int(kind) for kind in kinds if kind < 32)
    high = sum(1 << (int(kind) - 32) for kind in kinds if kind >= 32)
    word = jnp.where(values < 32, np.uint32(low), np.uint32(high))
    return (word >> (values.astype(jnp.uint32) & 31)) & 1 == 1


def any_of(flags: jax.Array) -> jax.Array:
    """Any along the last axis, unrolled, since a reduction kernel does not pay off for a few flags."""
    result = flags[..., 0]
    for index in range(1, flags.shape[-1]):
        result = result | flags[..., index]
    return result


def pack(flags: jax.Array) -> jax.Array:
    """bool[..., n] as the bits of an integer, lowest first.  Operations on up to 31 flags become scalar operations."""
    bits = flags[..., 0].astype(jnp.int32)
    for index in range(1, flags.shape[-1]):
        bits = bits | (flags[..., index].astype(jnp.int32) << index)
    return bits


def unpack(bits: jax.Array, count: int) -> jax.Array:
    """The inverse of `pack`."""
    return (bits[..., None] >> np.arange(count, dtype=np.int32)) & 1 == 1


def first_of(flags: jax.Array) -> jax.Array:
    """One-hot of the first True along the last axis; all False if there is none."""
    bits = pack(flags)
    return unpack(bits & -bits, flags.shape[-1])


def vector(*values: jax.Array) -> jax.Array:
    """Stack the values with selects, which XLA fuses with their neighbours; it often does not fuse a concatenation."""
    index_of = np.arange(len(values))
    joined = values[-1][..., None]
    for index in reversed(range(len(values) - 1)):
        joined = jnp.where(index_of <= index, values[index][..., None], joined)
    return joined


@pytree
class Cells:
    """A rectangle of candidate cells, row by row."""

    corner: jax.Array  # int32[2]
    blocks: jax.Array  # int8[cell]
    width: int = static()

    @property
    def rows(self) -> jax.Array:
        return self.corner[0] + np.arange(self.width**2, dtype=np.int32) // self.width

    @property
    def columns(self) -> jax.Array:
        return self.corner[1] + np.arange(self.width**2, dtype=np.int32) % self.width

    def cover(self, ids: jax.Array, blocks: jax.Array, where: jax.Array) -> Cells:
        """Replace the blocks of some cells, given by their index within the floor."""
        row, column = ids // SIZE - self.corner[0], ids % SIZE - self.corner[1]
        inside = where & (row >= 0) & (row < self.width) & (column >= 0) & (column < self.width)
        index = jnp.where(inside, row * self.width + column, self.width**2)
        return replace(self, blocks=self.blocks.at[index].set(blocks.astype(self.blocks.dtype), mode="drop"))


@pytree
class CumulativeChoice:
    """Craftax's method: a cumulative sum of probabilities over the whole floor and a binary search."""

    uniform: jax.Array  # [3]

    def candidates(self, grid: jax.Array, level: jax.Array, player: jax.Array) -> Cells:
        floor = jax.lax.dynamic_index_in_dim(grid, level, 0, keepdims=False)
        return Cells(jnp.zeros(2, jnp.int32), floor.reshape(-1), SIZE)

    def pick(self, which: int, cells: Cells, valid: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether any cell is valid, and a uniformly random valid cell."""
        number = valid.sum()
        cumulative = jnp.cumsum(valid / number)
        level = cumulative[-1] * (1 - self.uniform[which])
        index = jnp.searchsorted(cumulative, level)
        return number > 0, vector(index // SIZE, index % SIZE)


@pytree
class HashChoice:
    """The valid cell with the largest hash within reach of the player: one reduction."""

    seed: jax.Array  # uint32[3]

    def candidates(self, grid: jax.Array, level: jax.Array, player: jax.Array) -> Cells:
        corner = jnp.clip(player - REACH, 0, SIZE - WINDOW)
        blocks = jax.lax.dynamic_slice(grid, (level, corner[0], corner[1]), (1, WINDOW, WINDOW))
        return jax.lax.optimization_barrier(Cells(corner, blocks.reshape(-1), WINDOW))  # see `read`

    def pick(self, which: int, cells: Cells, valid: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Like `CumulativeChoice.pick`.  The hash fills the upper 22 bits; the index breaks ties in the lower ten."""
        index = np.arange(WINDOW**2, dtype=np.uint32)
        ranks = (_mix(self.seed[which] + index * np.uint32(0x9E3779B9)) & np.uint32(0xFFFFFC00)) | (index + 1)
        best = jnp.where(valid, ranks, 0).max(-1)
        winner = (best & 1023).astype(jnp.int32) - 1
        return best > 0, cells.corner + vector(winner // WINDOW, winner % WINDOW)


def _mix(words: jax.Array) -> jax.Array:
    """A 32-bit avalanche hash (Wellons' lowbias32)."""
    words = (words ^ (words >> 16)) * np.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * np.uint32(0x846CA68B)
    return words ^ (words >> 16)
