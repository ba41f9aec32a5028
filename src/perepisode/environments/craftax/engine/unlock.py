"""Achievements unlocked in a step, as bits of three words that rules combine cheaply."""

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax import constants as upstream

from perepisode.environments.craftax.engine.tables import (
    ACHIEVEMENTS,
    CREATURE_CLASS,
    CREATURES,
    FLOOR_ACHIEVEMENT,
    IS_PASSIVE,
    SLOT,
    Achievement,
)

WORDS = 3
BITS = np.zeros((ACHIEVEMENTS, WORDS), np.uint32)
for _index in range(ACHIEVEMENTS):
    BITS[_index, _index // 32] = 1 << (_index % 32)

ON_KILL = np.asarray(upstream.MOB_ACHIEVEMENT_MAP)[CREATURE_CLASS]  # [creature, type]
ON_FLOOR = BITS[FLOOR_ACHIEVEMENT]  # [level, word]

FOR_ITEMS = {  # achievement: item, least number
    "COLLECT_WOOD": ("wood", 1), "COLLECT_STONE": ("stone", 1), "COLLECT_COAL": ("coal", 1),
    "COLLECT_IRON": ("iron", 1), "COLLECT_DIAMOND": ("diamond", 1), "COLLECT_RUBY": ("ruby", 1),
    "COLLECT_SAPPHIRE": ("sapphire", 1), "COLLECT_SAPLING": ("sapling", 1), "FIND_BOW": ("bow", 1),
    "MAKE_ARROW": ("arrows", 1), "MAKE_TORCH": ("torches", 1),
    "MAKE_WOOD_PICKAXE": ("pickaxe", 1), "MAKE_STONE_PICKAXE": ("pickaxe", 2),
    "MAKE_IRON_PICKAXE": ("pickaxe", 3), "MAKE_DIAMOND_PICKAXE": ("pickaxe", 4),
    "MAKE_WOOD_SWORD": ("sword", 1), "MAKE_STONE_SWORD": ("sword", 2),
    "MAKE_IRON_SWORD": ("sword", 3), "MAKE_DIAMOND_SWORD": ("sword", 4),
}  # fmt: skip
ITEM_OF = np.zeros(ACHIEVEMENTS, np.int32)
NEEDED = np.full(ACHIEVEMENTS, 1 << 20, np.int32)
for _name, (_item, _number) in FOR_ITEMS.items():
    ITEM_OF[Achievement[_name]], NEEDED[Achievement[_name]] = SLOT[_item], _number


def grant(condition: jax.Array, achievement: int) -> jax.Array:
    """uint32[word] with the achievement's bit set if the condition holds."""
    return jnp.where(condition, BITS[achievement], np.uint32(0))


def for_kills(by_hand: jax.Array, by_missile: jax.Array, types: jax.Array) -> jax.Array:
    """A passive mob counts only if killed by hand, because only then it is eaten."""
    killed = by_hand | (by_missile & ~IS_PASSIVE)
    achievement = jnp.asarray(ON_KILL)[np.arange(CREATURES), types][:, None]
    bits = jnp.uint32(1) << (achievement & 31).astype(jnp.uint32)
    words = jnp.where(killed[:, None] & (achievement >> 5 == np.arange(WORDS)), bits, np.uint32(0))
    gained = words[0]
    for index in range(1, CREATURES):
        gained = gained | words[index]
    return gained


def as_flags(words: jax.Array) -> jax.Array:
    """bool[achievement]."""
    bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    return (bits.reshape(-1) == 1)[:ACHIEVEMENTS]


def for_items(items: jax.Array) -> jax.Array:
    """bool[achievement]: achievements that depend only on the inventory at the end of the step."""
    return items[ITEM_OF] >= NEEDED
