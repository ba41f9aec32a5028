"""Craftax's constants as small NumPy tables, and the order in which the engine packs items and mobs.

The values come from the pinned craftax package, their single source; only the layout differs.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from craftax.craftax import constants as upstream
from craftax.craftax.craftax_state import EnvParams, StaticEnvParams

PARAMS = EnvParams()
STATIC = StaticEnvParams()
SIZE = STATIC.map_size[0]
LEVELS = STATIC.num_levels
BOSS_LEVEL = LEVELS - 1


def _plain(enum) -> Any:
    return IntEnum(enum.__name__, {member.name: member.value for member in enum})


Block = _plain(upstream.BlockType)
Item = _plain(upstream.ItemType)
Action = _plain(upstream.Action)
Achievement = _plain(upstream.Achievement)
Projectile = _plain(upstream.ProjectileType)

DIRECTIONS = np.asarray(upstream.DIRECTIONS)[:9]  # rows 5 to 8 stand still
SOLID = np.asarray(upstream.SOLID_BLOCK_MAPPING)
HOLDS_ITEM = np.asarray(upstream.CAN_PLACE_ITEM_MAPPING)
TORCH_LIGHT = np.asarray(upstream.TORCH_LIGHT_MAP)
VISIBLE_LIGHT = 0.05  # cells with more light than this are visible
ACHIEVEMENTS = len(Achievement)
ACHIEVEMENT_REWARD = np.asarray(upstream.ACHIEVEMENT_REWARD_MAP)
FLOOR_ACHIEVEMENT = np.asarray(upstream.LEVEL_ACHIEVEMENT_MAP)

# The mobs of a floor occupy one row of eight slots, in the order in which they move.
MELEE, PASSIVE, RANGED = slice(0, 3), slice(3, 6), slice(6, 8)
CREATURES = 8
CREATURE_CLASS = np.array([1, 1, 1, 0, 0, 0, 2, 2])  # column of upstream's per-class tables
IS_PASSIVE = CREATURE_CLASS == 0
# The projectiles of a floor occupy one row of six slots: the mobs', then the player's.
HOSTILE, FRIENDLY = slice(0, 3), slice(3, 6)
MISSILES = 6

DEFENSE = np.asarray(upstream.MOB_TYPE_DEFENSE_MAPPING)  # [type, class, damage kind]
COLLISION = np.asarray(upstream.MOB_TYPE_COLLISION_MAPPING).astype(bool)  # [type, class, (ground, water, lava)]
MOB_HEALTH = np.asarray(upstream.MOB_TYPE_HEALTH_MAPPING)  # [type, class]
MELEE_DAMAGE = np.asarray(upstream.MOB_TYPE_DAMAGE_MAPPING)[:, 1]  # [type, damage kind]
PROJECTILE_DAMAGE = np.asarray(upstream.MOB_TYPE_DAMAGE_MAPPING)[:, 3]
PROJECTILE_OF = np.asarray(upstream.RANGED_MOB_TYPE_TO_PROJECTILE_TYPE_MAPPING)
FLOOR_MOBS = np.asarray(upstream.FLOOR_MOB_MAPPING)  # [level, class]
SPAWN_CHANCE = np.asarray(upstream.FLOOR_MOB_SPAWN_CHANCE)  # [level, (passive, melee, ranged, melee by night)]
CLEARED = upstream.MONSTERS_KILLED_TO_CLEAR_LEVEL
BOSS_EXTRA_DAMAGE = upstream.BOSS_FIGHT_EXTRA_DAMAGE
BOSS_WAVE = upstream.BOSS_FIGHT_SPAWN_TURNS
SWORD_DAMAGE = np.array([1, 2, 3, 5, 8], np.int32)

# The inventory is one vector of counts, so that a recipe is a row of a table.
SCALAR_ITEMS = (
    "wood", "stone", "coal", "iron", "diamond", "sapling", "pickaxe", "sword", "bow", "arrows", "torches", "ruby",
    "sapphire", "books",
)  # fmt: skip
SLOT = {name: index for index, name in enumerate(SCALAR_ITEMS)}
ARMOUR = slice(len(SLOT), len(SLOT) + 4)
POTIONS = slice(ARMOUR.stop, ARMOUR.stop + 6)
ITEMS = POTIONS.stop


def counts(**amounts: int) -> np.ndarray:
    """An inventory vector with the named amounts and zeros elsewhere."""
    vector = np.zeros(ITEMS, np.int32)
    for name, amount in amounts.items():
        vector[SLOT[name]] = amount
    return vector


def rows(size: int, entries: dict) -> np.ndarray:
    """A [size, item] table from {row: inventory vector}."""
    table = np.zeros((size, ITEMS), np.int32)
    for row, vector in entries.items():
        table[row] = vector
    return table
