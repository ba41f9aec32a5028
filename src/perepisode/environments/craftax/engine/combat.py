"""Damage dealt to mobs and to the player."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine.cells import vector
from perepisode.environments.craftax.engine.sight import pick
from perepisode.environments.craftax.engine.state import Mobs, State
from perepisode.environments.craftax.engine.tables import (
    BOSS_EXTRA_DAMAGE,
    BOSS_LEVEL,
    CREATURE_CLASS,
    CREATURES,
    DEFENSE,
    PROJECTILE_DAMAGE,
    SWORD_DAMAGE,
    Projectile,
)


def total(damage: jax.Array, defense: jax.Array) -> jax.Array:
    """Sum over the kinds of damage (physical, fire, ice) after defense.

    Clamping the first product at zero does not change its value but forces it to be rounded before the addition, as in
    Craftax's reduction; otherwise a compiler may fuse the product with the addition.
    """
    parts = (1.0 - defense) * damage
    return (jnp.maximum(parts[..., 0], 0.0) + parts[..., 1]) + parts[..., 2]


def sword_damage(state: State) -> jax.Array:
    """float32[kind]: damage of the player's blow."""
    physical = pick(jnp.asarray(SWORD_DAMAGE), state.inventory.sword)
    magic = 1 + 0.05 * (state.player_intelligence - 1)
    fire = physical * (state.sword_enchantment == 1) * 0.5 * magic
    ice = physical * (state.sword_enchantment == 2) * 0.5 * magic
    return vector(physical * (1 + 0.25 * (state.player_strength - 1)), fire, ice)


def arrow_damage(state: State, types: jax.Array, alive: jax.Array) -> jax.Array:
    """float32[missile, kind]: damage of the player's arrows and spells, zero where not alive."""
    damage = jnp.asarray(PROJECTILE_DAMAGE)[types] * alive[:, None]
    is_arrow = (types == Projectile.ARROW) | (types == Projectile.ARROW2)
    is_spell = (types == Projectile.FIREBALL) | (types == Projectile.ICEBALL)
    enchanted = (jnp.arange(3) == state.bow_enchantment) & (jnp.arange(3) > 0)
    damage = damage + jnp.where(is_arrow[:, None] & enchanted, damage[:, :1] / 2, 0.0)
    damage = damage * jnp.where(is_arrow, 1 + 0.2 * (state.player_dexterity - 1), 1.0)[:, None]
    return damage * jnp.where(is_spell, 1 + 0.5 * (state.player_intelligence - 1), 1.0)[:, None]


def creature_defense(types: jax.Array) -> jax.Array:
    """float32[creature, kind]."""
    return jnp.asarray(DEFENSE[:, CREATURE_CLASS])[types, np.arange(CREATURES)]


def strike(creatures: Mobs, hit: jax.Array, damage: jax.Array) -> Mobs:
    """Subtract damage[creature] from the creatures hit; at zero health or less they die immediately."""
    health = creatures.health - jnp.where(hit, damage, 0.0)
    return replace(creatures, health=health, mask=creatures.mask & (health > 0))


def damage_to_player(state: State, damage: jax.Array) -> jax.Array:
    """float32[...] for damage float32[..., kind], through armour and its enchantments."""
    enchantments = state.armour_enchantments
    worn = [state.inventory.armour * 0.1, (enchantments == 1) * 0.2, (enchantments == 2) * 0.2]
    defense = vector(*(((part[0] + part[1]) + part[2]) + part[3] for part in worn))
    return total(damage * (1 + (state.player_level == BOSS_LEVEL) * BOSS_EXTRA_DAMAGE), defense)
