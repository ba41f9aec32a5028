"""The DO action: strike the mob in front, else mine, drink, eat, open or attack the block in front."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.cells import any_of, pack, unpack
from perepisode.environments.craftax.engine.combat import creature_defense, strike, sword_damage, total
from perepisode.environments.craftax.engine.draws import Draws
from perepisode.environments.craftax.engine.sight import Floor, Sight
from perepisode.environments.craftax.engine.state import State
from perepisode.environments.craftax.engine.tables import (
    BOSS_WAVE,
    IS_PASSIVE,
    ITEMS,
    LEVELS,
    PASSIVE,
    SLOT,
    Achievement,
    Action,
    Block,
    counts,
)
from perepisode.environments.craftax.engine.unlock import grant

NOTHING = 63
MINING = {  # block: new block, required pickaxe, item
    Block.TREE: (Block.GRASS, 0, "wood"), Block.FIRE_TREE: (Block.FIRE_GRASS, 0, "wood"),
    Block.ICE_SHRUB: (Block.ICE_GRASS, 0, "wood"),
    Block.STONE: (Block.PATH, 1, "stone"), Block.STALAGMITE: (Block.PATH, 1, "stone"),
    Block.COAL: (Block.PATH, 1, "coal"), Block.IRON: (Block.PATH, 2, "iron"),
    Block.DIAMOND: (Block.PATH, 3, "diamond"), Block.SAPPHIRE: (Block.PATH, 4, "sapphire"),
    Block.RUBY: (Block.PATH, 4, "ruby"),
    Block.FURNACE: (Block.PATH, 0, None), Block.CRAFTING_TABLE: (Block.PATH, 0, None),
    Block.CHEST: (Block.PATH, 0, None), Block.RIPE_PLANT: (Block.PLANT, 0, None),
}  # fmt: skip
# One integer per block, because each table lookup is a memory access: new block, pickaxe, item.
MINED = np.array([block | NOTHING << 16 for block in Block], np.int32)
for _block, (_becomes, _pickaxe, _item) in MINING.items():
    MINED[_block] = _becomes | _pickaxe << 8 | (NOTHING if _item is None else SLOT[_item]) << 16
FOUND_ONCE = counts(pickaxe=1, sword=1) > 0  # a tool from a chest replaces a worse one


def max_food(state: State) -> jax.Array:
    """Also the maximum of drink and energy."""
    return 7 + 2 * state.player_dexterity


def at_level(state: State) -> jax.Array:
    """One-hot of the player's floor."""
    return jnp.arange(LEVELS) == state.player_level


def fight(state: State, floor: Floor, sight: Sight, does: jax.Array) -> tuple[State, Floor, jax.Array]:
    """Strike the mob in front; a passive mob killed by hand is eaten.  Also returns whether anything was hit."""
    before = floor.creatures
    hit = does & before.mask & cells.same(before.position, sight.facing)
    creatures = strike(before, hit, total(sword_damage(state), creature_defense(before.type_id)))
    killed = before.mask & ~creatures.mask
    eaten = any_of(killed[PASSIVE])
    state = replace(
        state,
        player_food=jnp.where(eaten, jnp.minimum(max_food(state), state.player_food + 6), state.player_food),
        player_hunger=jnp.where(eaten, 0.0, state.player_hunger),
        monsters_killed=state.monsters_killed + at_level(state) * any_of(killed & ~IS_PASSIVE),
    )
    return state, replace(floor, creatures=creatures), any_of(hit)


def mine(draws: Draws, state: State, sight: Sight, works: jax.Array):
    """Use the block in front if `works`: next state, new block, change of the inventory, unlocked."""
    block, items = sight.block, state.inventory.counts
    mined = jnp.asarray(MINED)[block]
    works &= items[SLOT["pickaxe"]] >= (mined >> 8) & 255
    given = jnp.where((block == Block.GRASS) & (draws.sapling < 0.1), SLOT["sapling"], mined >> 16)
    change = (np.arange(ITEMS) == given).astype(jnp.int32)
    change = change + jnp.where(block == Block.CHEST, loot(draws.chest, state), 0)
    drinks = works & ((block == Block.WATER) | (block == Block.FOUNTAIN))
    eats = works & (block == Block.RIPE_PLANT)
    is_faced = cells.same(state.growing_plants_positions, sight.facing)
    matches = pack(is_faced)
    first = unpack(jnp.where(matches == 0, 1, matches & -matches), is_faced.shape[0])
    state = replace(
        state,
        player_drink=jnp.where(drinks, jnp.minimum(max_food(state), state.player_drink + 1), state.player_drink),
        player_thirst=jnp.where(drinks, 0.0, state.player_thirst),
        player_food=jnp.where(eats, jnp.minimum(max_food(state), state.player_food + 4), state.player_food),
        player_hunger=jnp.where(eats, 0.0, state.player_hunger),
        growing_plants_age=jnp.where(first & eats, 0, state.growing_plants_age),
    )
    unlocked = grant(drinks, Achievement.COLLECT_DRINK) | grant(eats, Achievement.EAT_PLANT)
    unlocked = unlocked | grant(works & (block == Block.CHEST), Achievement.OPEN_CHEST)
    becomes = jnp.where(works, mined & 255, block)
    return state, becomes, jnp.where(works, change, 0), unlocked


def loot(chest: jax.Array, state: State) -> jax.Array:
    """The contents added by a chest.  The first on floor 1 has a bow, the first on floors 3 and 4 a book each."""
    items, level = state.inventory.counts, state.player_level
    first = ~any_of(at_level(state) & state.chests_opened)
    bow = first & (level == 1)
    book = first & ((level == 3) | (level == 4))
    gain = jnp.where(FOUND_ONCE, jnp.maximum(chest - items, 0), chest)
    gain = gain + jnp.where(bow, (1 - items[SLOT["bow"]]) * counts(bow=1), 0)
    return gain + jnp.where(book, counts(books=1), 0)


def interact(draws: Draws, state: State, floor: Floor, sight: Sight, action: jax.Array):
    """Craftax's `do_action`; chest and boss count even if a mob is in front of them or the cell is off the map."""
    does = action == Action.DO
    state, floor, fought = fight(state, floor, sight, does)
    works = does & sight.facing_inside & ~fought
    state, block, change, unlocked = mine(draws, state, sight, works)
    opens = does & (sight.block == Block.CHEST)
    undefended = ~any_of(floor.creatures.mask & ~IS_PASSIVE)
    hurt = does & (sight.block == Block.NECROMANCER) & sight.on_boss_floor & undefended
    hurt &= state.boss_timesteps_to_spawn_this_round <= 0
    wave = jnp.where(hurt, BOSS_WAVE, state.boss_timesteps_to_spawn_this_round)
    state = replace(
        state,
        chests_opened=state.chests_opened | (at_level(state) & opens),
        boss_progress=state.boss_progress + hurt,
        boss_timesteps_to_spawn_this_round=wave,
    )
    unlocked = unlocked | grant(hurt & works, Achievement.DAMAGE_NECROMANCER)
    return state, floor, block, change, unlocked


def occupied(floor: Floor, cell: jax.Array) -> jax.Array:
    """Whether a living mob is in this cell."""
    return any_of(floor.creatures.mask & (cells.cell_id(floor.creatures.position) == cells.cell_id(cell)))
