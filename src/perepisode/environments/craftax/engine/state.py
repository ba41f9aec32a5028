"""The engine's state: Craftax's with small integer maps and with mobs and items in packed arrays."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from craftax.craftax import craftax_state as upstream
from craftax.craftax.world_gen.world_gen import generate_world

from perepisode.environments.craftax.engine.tables import (
    ARMOUR,
    FRIENDLY,
    HOSTILE,
    MELEE,
    PARAMS,
    PASSIVE,
    POTIONS,
    RANGED,
    SCALAR_ITEMS,
    SIZE,
    SLOT,
    STATIC,
    VISIBLE_LIGHT,
)
from perepisode.pytree import pytree


@pytree
class Mobs:
    """Slots of mobs or projectiles on all floors or on one."""

    position: jax.Array  # int32[..., slot, 2]; a dead projectile keeps moving off the map
    health: jax.Array  # float32[..., slot]
    mask: jax.Array  # bool[..., slot]
    attack_cooldown: jax.Array  # int32[..., slot]
    type_id: jax.Array  # int32[..., slot]

    def slots(self, which: slice) -> Mobs:
        others = (self.health, self.mask, self.attack_cooldown, self.type_id)
        return Mobs(self.position[..., which, :], *(field[..., which] for field in others))


@pytree
class Inventory:
    """Counts of all items in one vector, also readable by name."""

    counts: jax.Array  # int32[..., item], in the order of `tables.SLOT`, then armour, then potions

    def __getattr__(self, name: str) -> jax.Array:
        if name in SLOT:
            return self.counts[..., SLOT[name]]
        raise AttributeError(name)

    armour = property(lambda self: self.counts[..., ARMOUR])
    potions = property(lambda self: self.counts[..., POTIONS])


@pytree
class State:
    """One game.  Fields and the properties below have the names of Craftax's `EnvState`."""

    map: jax.Array  # int8[level, row, column]
    item_map: jax.Array  # int8[level, row, column]
    light_map: jax.Array  # float32[level, row, column], or int8 after `lit_only`
    down_ladders: jax.Array
    up_ladders: jax.Array
    chests_opened: jax.Array
    monsters_killed: jax.Array

    player_position: jax.Array
    player_level: jax.Array
    player_direction: jax.Array
    player_health: jax.Array
    player_food: jax.Array
    player_drink: jax.Array
    player_energy: jax.Array
    player_mana: jax.Array
    is_sleeping: jax.Array
    is_resting: jax.Array
    player_recover: jax.Array
    player_hunger: jax.Array
    player_thirst: jax.Array
    player_fatigue: jax.Array
    player_recover_mana: jax.Array
    player_xp: jax.Array
    player_dexterity: jax.Array
    player_strength: jax.Array
    player_intelligence: jax.Array

    inventory: Inventory
    creatures: Mobs  # [level, 8]: melee, passive, ranged
    missiles: Mobs  # [level, 6]: the mobs' projectiles, the player's
    missile_directions: jax.Array  # int32[level, 6, 2]

    growing_plants_positions: jax.Array
    growing_plants_age: jax.Array
    growing_plants_mask: jax.Array
    potion_mapping: jax.Array
    learned_spells: jax.Array
    sword_enchantment: jax.Array
    bow_enchantment: jax.Array
    armour_enchantments: jax.Array
    boss_progress: jax.Array
    boss_timesteps_to_spawn_this_round: jax.Array
    light_level: jax.Array
    achievements: jax.Array
    state_rng: jax.Array  # uint32[2]; unused, kept for equality with Craftax
    timestep: jax.Array

    melee_mobs = property(lambda self: self.creatures.slots(MELEE))
    passive_mobs = property(lambda self: self.creatures.slots(PASSIVE))
    ranged_mobs = property(lambda self: self.creatures.slots(RANGED))
    mob_projectiles = property(lambda self: self.missiles.slots(HOSTILE))
    player_projectiles = property(lambda self: self.missiles.slots(FRIENDLY))
    mob_projectile_directions = property(lambda self: self.missile_directions[..., HOSTILE, :])
    player_projectile_directions = property(lambda self: self.missile_directions[..., FRIENDLY, :])


SAME = tuple(
    name for name in State.__dataclass_fields__
    if name not in ("map", "item_map", "inventory", "creatures", "missiles", "missile_directions", "state_rng")
)  # fmt: skip


def from_upstream(state: upstream.EnvState) -> State:
    """Convert Craftax's state; `to_upstream` is the exact inverse.  `mob_map` follows from the living mobs."""
    items = state.inventory
    scalars = jnp.stack([getattr(items, name) for name in SCALAR_ITEMS], -1)
    return State(
        map=state.map.astype(jnp.int8),
        item_map=state.item_map.astype(jnp.int8),
        inventory=Inventory(jnp.concatenate([scalars, items.armour, items.potions], -1)),
        creatures=_join(state.melee_mobs, state.passive_mobs, state.ranged_mobs),
        missiles=_join(state.mob_projectiles, state.player_projectiles),
        missile_directions=jnp.concatenate([state.mob_projectile_directions, state.player_projectile_directions], -2),
        state_rng=jax.random.key_data(state.state_rng),
        **{name: jnp.asarray(getattr(state, name)) for name in SAME},
    )


def to_upstream(state: State) -> upstream.EnvState:
    """Convert to Craftax's state."""
    items = {name: getattr(state.inventory, name) for name in (*SCALAR_ITEMS, "armour", "potions")}
    mobs = ("melee_mobs", "passive_mobs", "ranged_mobs", "mob_projectiles", "player_projectiles")
    return upstream.EnvState(
        map=state.map.astype(jnp.int32),
        item_map=state.item_map.astype(jnp.int32),
        mob_map=mob_map(state),
        inventory=upstream.Inventory(**items),
        mob_projectile_directions=state.mob_projectile_directions,
        player_projectile_directions=state.player_projectile_directions,
        state_rng=state.state_rng,
        **{name: upstream.Mobs(**vars(getattr(state, name))) for name in mobs},
        **{name: getattr(state, name) for name in SAME},
    )


def mob_map(state: State) -> jax.Array:
    """Cells with a living creature, bool[..., level, row, column]: Craftax's `mob_map`, which is not stored."""
    rows = state.creatures.position[..., 0, None] == jnp.arange(SIZE)
    columns = state.creatures.position[..., 1, None] == jnp.arange(SIZE)
    rows &= state.creatures.mask[..., None]
    return (rows[..., :, None] & columns[..., None, :]).any(-3)


def lit_only(state: State) -> State:
    """The same game with an int8 light_map, 1 where lit: half the size, the same dynamics and observations.

    No rule depends on the brightness, and light only increases, so the flag suffices; `to_upstream` needs the values.
    """
    return replace(state, light_map=(state.light_map > VISIBLE_LIGHT).astype(jnp.int8))


def generate(key: jax.Array) -> State:
    """A newly generated world, equal to Craftax's `reset_env(key)`."""
    _, step_key = jax.random.split(key)
    return from_upstream(generate_world(step_key, PARAMS, STATIC))


def _join(*mobs: upstream.Mobs) -> Mobs:
    axes = {"position": -2, "health": -1, "mask": -1, "attack_cooldown": -1, "type_id": -1}
    return Mobs(**{name: jnp.concatenate([getattr(mob, name) for mob in mobs], axis) for name, axis in axes.items()})
