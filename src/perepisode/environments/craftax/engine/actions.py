"""The player's actions: crafting, placing, shooting, casting, drinking, reading, enchanting, levelling up.

A step executes one action, so every rule may read the inventory from before the step.  Each rule returns its change of
the inventory vector, and the step sums the changes.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.cells import any_of, first_of, pack, unpack, vector
from perepisode.environments.craftax.engine.sight import Floor, Sight, direction_vector, pick
from perepisode.environments.craftax.engine.state import State
from perepisode.environments.craftax.engine.tables import (
    ARMOUR,
    FRIENDLY,
    HOLDS_ITEM,
    ITEMS,
    MISSILES,
    PARAMS,
    POTIONS,
    SLOT,
    SOLID,
    Achievement,
    Action,
    Block,
    Item,
    Projectile,
    counts,
    rows,
)
from perepisode.environments.craftax.engine.unlock import grant

ACTIONS = len(Action)
NO_LIMIT = 1 << 10
IRON_KIT = counts(wood=1, stone=1, iron=1, coal=1)
COST = rows(ACTIONS, {
    Action.MAKE_WOOD_PICKAXE: counts(wood=1),
    Action.MAKE_STONE_PICKAXE: counts(wood=1, stone=1),
    Action.MAKE_IRON_PICKAXE: IRON_KIT,
    Action.MAKE_DIAMOND_PICKAXE: counts(wood=1, diamond=3),
    Action.MAKE_WOOD_SWORD: counts(wood=1),
    Action.MAKE_STONE_SWORD: counts(wood=1, stone=1),
    Action.MAKE_IRON_SWORD: IRON_KIT,
    Action.MAKE_DIAMOND_SWORD: counts(wood=1, diamond=2),
    Action.MAKE_IRON_ARMOUR: counts(iron=3, coal=3),
    Action.MAKE_DIAMOND_ARMOUR: counts(diamond=3),
    Action.MAKE_ARROW: counts(wood=1, stone=1),
    Action.MAKE_TORCH: counts(wood=1, coal=1),
})  # fmt: skip
YIELD = rows(ACTIONS, {Action.MAKE_ARROW: counts(arrows=2), Action.MAKE_TORCH: counts(torches=4)})
TOOLS = rows(ACTIONS, {  # the level of the crafted tool
    Action.MAKE_WOOD_PICKAXE: counts(pickaxe=1),
    Action.MAKE_STONE_PICKAXE: counts(pickaxe=2),
    Action.MAKE_IRON_PICKAXE: counts(pickaxe=3),
    Action.MAKE_DIAMOND_PICKAXE: counts(pickaxe=4),
    Action.MAKE_WOOD_SWORD: counts(sword=1),
    Action.MAKE_STONE_SWORD: counts(sword=2),
    Action.MAKE_IRON_SWORD: counts(sword=3),
    Action.MAKE_DIAMOND_SWORD: counts(sword=4),
})  # fmt: skip
# A recipe fails at its limit: the same or a better tool, or 99 of a product.
LIMIT = np.where(TOOLS > 0, TOOLS, np.where(YIELD > 0, 99, NO_LIMIT))
NEEDS_FURNACE = (Action.MAKE_IRON_PICKAXE, Action.MAKE_IRON_SWORD, Action.MAKE_IRON_ARMOUR)
# One integer per item, because each table lookup is a memory access.
RECIPES = COST | YIELD << 4 | TOOLS << 8 | LIMIT << 12
ARMOUR_BITS = ((1 << ARMOUR.stop) - 1) ^ ((1 << ARMOUR.start) - 1)


def craft(items: jax.Array, sight: Sight, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Change of the inventory, and the achievements unlocked beyond possession."""
    recipe = jnp.asarray(RECIPES)[action]
    cost, gain, tool, limit = recipe & 15, (recipe >> 4) & 15, (recipe >> 8) & 15, recipe >> 12
    iron, diamond = action == Action.MAKE_IRON_ARMOUR, action == Action.MAKE_DIAMOND_ARMOUR
    grade = jnp.where(iron, 1, jnp.where(diamond, 2, 0))
    worse = pack(items < grade) & ARMOUR_BITS
    made = (
        (pack((items < cost) | (items >= limit)) == 0)
        & cells.member(action, np.flatnonzero(COST.any(1)))
        & ((worse != 0) | ~(iron | diamond))
        & sight.near_table
        & (sight.near_furnace | ~cells.member(action, NEEDS_FURNACE))
    )
    change = jnp.where(tool > 0, tool - items, gain - cost)
    change = jnp.where(unpack(worse & -worse, ITEMS), grade - items, change)
    unlocked = grant(made & iron, Achievement.MAKE_IRON_ARMOUR)
    unlocked = unlocked | grant(made & diamond, Achievement.MAKE_DIAMOND_ARMOUR)
    return jnp.where(made, change, 0), unlocked


def place(items: jax.Array, sight: Sight, occupied: jax.Array, action: jax.Array):
    """New block of the faced cell, torch, plant, change of the inventory, unlocked; fails where `occupied`."""
    block, item = sight.block, sight.item
    no_item = item == Item.NONE
    empty = ~cells.member(block, np.flatnonzero(SOLID)) & no_item
    possible = sight.facing_inside & ~occupied
    wood, stone = items[SLOT["wood"]], items[SLOT["stone"]]
    table = possible & (action == Action.PLACE_TABLE) & empty & (wood >= 2)
    furnace = possible & (action == Action.PLACE_FURNACE) & empty & (stone > 0)
    rock = possible & (action == Action.PLACE_STONE) & (empty | (block == Block.WATER)) & (stone > 0)
    torch = possible & (action == Action.PLACE_TORCH) & no_item & (items[SLOT["torches"]] > 0)
    torch &= cells.member(block, np.flatnonzero(HOLDS_ITEM))
    plant = possible & (action == Action.PLACE_PLANT) & no_item & (items[SLOT["sapling"]] > 0)
    plant &= block == Block.GRASS
    change = jnp.zeros(ITEMS, jnp.int32)
    unlocked = jnp.zeros(3, jnp.uint32)
    for placed, spent, achievement, becomes in (
        (table, counts(wood=2), Achievement.PLACE_TABLE, Block.CRAFTING_TABLE),
        (furnace, counts(stone=1), Achievement.PLACE_FURNACE, Block.FURNACE),
        (rock, counts(stone=1), Achievement.PLACE_STONE, Block.STONE),
        (torch, counts(torches=1), Achievement.PLACE_TORCH, None),
        (plant, counts(sapling=1), Achievement.PLACE_PLANT, Block.PLANT),
    ):
        change = jnp.where(placed, -spent, change)
        unlocked = unlocked | grant(placed, achievement)
        block = block if becomes is None else jnp.where(placed, int(becomes), block)
    return block, torch, plant, change, unlocked


def sow(state: State, position: jax.Array, sown: jax.Array) -> State:
    """Record a sapling in a free slot; without one of the ten slots it never grows."""
    slot = first_of(~state.growing_plants_mask) & sown
    return replace(
        state,
        growing_plants_positions=jnp.where(slot[:, None], position, state.growing_plants_positions),
        growing_plants_age=jnp.where(slot, 0, state.growing_plants_age),
        growing_plants_mask=state.growing_plants_mask | slot,
    )


def launch(state: State, floor: Floor, action: jax.Array) -> tuple[State, Floor, jax.Array, jax.Array]:
    """Arrows, fireballs and iceballs start in the player's cell, in the first free slot."""
    missiles, items = floor.missiles, state.inventory.counts
    free = pack(~missiles.mask[FRIENDLY])
    some_free, magic = free != 0, state.player_mana >= 2
    arrow = (action == Action.SHOOT_ARROW) & (items[SLOT["bow"]] >= 1) & (items[SLOT["arrows"]] >= 1) & some_free
    fire = (action == Action.CAST_FIREBALL) & magic & some_free & state.learned_spells[0]
    ice = (action == Action.CAST_ICEBALL) & magic & some_free & state.learned_spells[1]
    kind = jnp.where(arrow, Projectile.ARROW2, jnp.where(fire, Projectile.FIREBALL, Projectile.ICEBALL))
    slot = unpack((free & -free) << FRIENDLY.start, MISSILES) & (arrow | fire | ice)
    missiles = replace(
        missiles,
        position=jnp.where(slot[:, None], state.player_position, missiles.position),
        mask=missiles.mask | slot,
        type_id=jnp.where(slot, kind, missiles.type_id),
    )
    heading = direction_vector(state.player_direction)
    floor = replace(floor, missiles=missiles, directions=jnp.where(slot[:, None], heading, floor.directions))
    unlocked = grant(arrow, Achievement.FIRE_BOW) | grant(fire, Achievement.CAST_FIREBALL)
    unlocked = unlocked | grant(ice, Achievement.CAST_ICEBALL)
    state = replace(state, player_mana=state.player_mana - 2 * (fire | ice))
    return state, floor, jnp.where(arrow, -counts(arrows=1), 0), unlocked


def drink_potion(state: State, action: jax.Array) -> tuple[State, jax.Array, jax.Array]:
    """Each colour has one of six effects, permuted in every world."""
    which = action - Action.DRINK_POTION_RED
    drinks = (which >= 0) & (which < 6) & (pick(state.inventory.potions, which) > 0)
    effect = pick(state.potion_mapping, which)

    def gain(good, bad):
        return drinks * ((effect == good) * 8 - (effect == bad) * 3)

    state = replace(
        state,
        player_health=state.player_health + gain(0, 1),
        player_mana=state.player_mana + gain(2, 3),
        player_energy=state.player_energy + gain(4, 5),
    )
    change = -(drinks & (np.arange(ITEMS) == POTIONS.start + which)).astype(jnp.int32)
    return state, change, grant(drinks, Achievement.DRINK_POTION)


def read_book(state: State, uniform: jax.Array, action: jax.Array) -> tuple[State, jax.Array, jax.Array]:
    """Learn one of the unknown spells, each with equal probability."""
    reads = (action == Action.READ_BOOK) & (state.inventory.books > 0)
    known = state.learned_spells
    ice = jnp.where(known[0] == known[1], ~known[0] & (uniform < 0.5), known[0])
    unlocked = grant(reads & ice, Achievement.LEARN_ICEBALL) | grant(reads & ~ice, Achievement.LEARN_FIREBALL)
    state = replace(state, learned_spells=known | (reads & vector(~ice, ice)))
    return state, jnp.where(reads, -counts(books=1), 0), unlocked


def enchant(state: State, sight: Sight, uniform: jax.Array, action: jax.Array):
    """Enchant sword, bow or one piece of armour at a fire or ice table, for nine mana and a ruby or a sapphire."""
    items = state.inventory.counts
    fire = sight.block == Block.ENCHANTMENT_TABLE_FIRE
    kind = jnp.where(fire, 1, 2)
    gems = jnp.where(fire, items[SLOT["ruby"]], items[SLOT["sapphire"]])
    possible = (fire | (sight.block == Block.ENCHANTMENT_TABLE_ICE)) & (state.player_mana >= 9) & (gems >= 1)
    sword = possible & (action == Action.ENCHANT_SWORD) & (items[SLOT["sword"]] > 0)
    bow = possible & (action == Action.ENCHANT_BOW) & (items[SLOT["bow"]] > 0)
    armour = possible & (action == Action.ENCHANT_ARMOUR) & any_of(items[ARMOUR] > 0)
    piece = _armour_piece(state.armour_enchantments, kind, uniform)
    done = sword | bow | armour
    state = replace(
        state,
        sword_enchantment=jnp.where(sword, kind, state.sword_enchantment),
        bow_enchantment=jnp.where(bow, kind, state.bow_enchantment),
        armour_enchantments=jnp.where(piece & armour, kind, state.armour_enchantments),
        player_mana=state.player_mana - 9 * done,
    )
    change = jnp.where(done & fire, -counts(ruby=1), jnp.where(done, -counts(sapphire=1), 0))
    return state, change, grant(sword, Achievement.ENCHANT_SWORD) | grant(armour, Achievement.ENCHANT_ARMOUR)


def _armour_piece(enchantments: jax.Array, kind: jax.Array, uniform: jax.Array) -> jax.Array:
    """One-hot: an unenchanted piece if there is one, else one with the other enchantment, else the first."""
    plain = enchantments == 0
    eligible = plain | (~any_of(plain) & (enchantments != kind))
    running, total = [], jnp.float32(0)
    for index in range(4):
        total = total + eligible[index].astype(jnp.float32)
        running.append(total)
    return first_of(vector(*running) >= total * (1 - uniform))


def level_up(state: State, action: jax.Array) -> State:
    def raised(attribute, wanted):
        return (action == wanted) & (state.player_xp >= 1) & (attribute < PARAMS.max_attribute)

    dexterity = raised(state.player_dexterity, Action.LEVEL_UP_DEXTERITY)
    strength = raised(state.player_strength, Action.LEVEL_UP_STRENGTH)
    intelligence = raised(state.player_intelligence, Action.LEVEL_UP_INTELLIGENCE)
    return replace(
        state,
        player_dexterity=state.player_dexterity + dexterity,
        player_strength=state.player_strength + strength,
        player_intelligence=state.player_intelligence + intelligence,
        player_xp=state.player_xp - (dexterity | strength | intelligence),
    )
