"""The player's body and clock: floors, walking, sleep, hunger, thirst, fatigue, recovery, mana, plants, light."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from perepisode.environments.craftax.engine import cells
from perepisode.environments.craftax.engine.cells import any_of
from perepisode.environments.craftax.engine.interact import at_level, max_food
from perepisode.environments.craftax.engine.sight import CENTRE, Sight, direction_vector, pick
from perepisode.environments.craftax.engine.state import Inventory, State
from perepisode.environments.craftax.engine.tables import (
    BOSS_LEVEL,
    CLEARED,
    FLOOR_ACHIEVEMENT,
    PARAMS,
    SOLID,
    Achievement,
    Action,
    Block,
    Item,
)
from perepisode.environments.craftax.engine.unlock import ON_FLOOR, grant

BARRIERS = (*(kind for kind in Block if SOLID[kind]), Block.WATER, Block.LAVA)
RIPE_AGE = 600
MOST_ITEMS = 99


def change_floor(state: State, action: jax.Array) -> tuple[State, jax.Array]:
    """Ladders.  Each floor below the first unlocks an achievement, and the first visit gives experience."""
    level = state.player_level
    item = cells.read(state.item_map, level, cells.wrapped_id(state.player_position))
    cleared = any_of(at_level(state) & (state.monsters_killed >= CLEARED))
    down = (action == Action.DESCEND) & (item == Item.LADDER_DOWN) & cleared & (level < BOSS_LEVEL)
    up = (action == Action.ASCEND) & (item == Item.LADDER_UP) & (level > 0)
    level = level + down - up
    arrival = jnp.where(down, state.up_ladders[level], state.down_ladders[level])
    unlocked = jnp.where(level != 0, jnp.asarray(ON_FLOOR)[level], 0)
    new = (level != 0) & ~state.achievements[jnp.asarray(FLOOR_ACHIEVEMENT)[level]]
    state = replace(
        state,
        player_level=level,
        player_position=jnp.where(down | up, arrival, state.player_position),
        player_xp=state.player_xp + new,
    )
    return state, unlocked


def walk(state: State, sight: Sight, occupied: jax.Array, action: jax.Array) -> State:
    """Move one cell if it is free; the player turns even if it is not."""
    step = direction_vector(action)
    moving = (action >= 1) & (action <= 4)
    block = pick(sight.blocks, CENTRE + 3 * step[0] + step[1])
    target = state.player_position + step
    free = cells.in_bounds(target) & ~occupied & ~cells.member(block, BARRIERS)
    return replace(
        state,
        player_position=jnp.where(moving & free, target, state.player_position),
        player_direction=jnp.where(moving, action, state.player_direction),
    )


def boss_logic(state: State, on_boss_floor: jax.Array) -> tuple[State, jax.Array]:
    left = state.boss_timesteps_to_spawn_this_round - on_boss_floor
    won = state.boss_progress >= BOSS_LEVEL
    return replace(state, boss_timesteps_to_spawn_this_round=left), grant(won, Achievement.DEFEAT_NECROMANCER)


def grow_plants(state: State) -> tuple[State, jax.Array]:
    """Age all plants by one step; also returns which are ripe."""
    age = (state.growing_plants_age + 1) * state.growing_plants_mask
    return replace(state, growing_plants_age=age), age >= RIPE_AGE


def sleep_and_rest(state: State, action: jax.Array) -> tuple[State, jax.Array]:
    """Sleep ends at full energy, rest at full health or without food or drink."""
    full_energy = state.player_energy >= max_food(state)
    full_health = state.player_health >= max_health(state)
    starved = (state.player_food <= 0) | (state.player_drink <= 0)
    sleeping = state.is_sleeping | ((action == Action.SLEEP) & ~full_energy)
    resting = state.is_resting | ((action == Action.REST) & ~full_health)
    state = replace(state, is_sleeping=sleeping & ~full_energy, is_resting=resting & ~(full_health | starved))
    return state, grant(sleeping & full_energy, Achievement.WAKE_UP)


def max_health(state: State) -> jax.Array:
    return 8 + state.player_strength


def update_needs(state: State) -> State:
    """Hunger, thirst, fatigue, recovery and mana each fill a counter; a full counter costs or gives one point."""
    sleeping, not_boss = state.is_sleeping, state.player_level != BOSS_LEVEL
    decay = 1.0 - (0.125 * (state.player_dexterity - 1))
    pace = jnp.where(sleeping, 0.5, 1.0) * decay
    hunger, food = state.player_hunger + pace, state.player_food
    food = jnp.where(hunger > 25, jnp.maximum(food - not_boss, 0), food)
    thirst, drink = state.player_thirst + pace, state.player_drink
    drink = jnp.where(thirst > 20, jnp.maximum(drink - not_boss, 0), drink)
    fatigue, energy = state.player_fatigue, state.player_energy
    fatigue = jnp.where(sleeping, jnp.minimum(fatigue - 1, 0), fatigue + decay)
    tired, refreshed = fatigue > 30, fatigue < -10
    energy = jnp.where(tired, jnp.maximum(energy - not_boss, 0), energy)
    energy = jnp.where(refreshed, jnp.minimum(state.player_energy + 1, max_food(state)), energy)
    state = replace(
        state,
        player_hunger=jnp.where(hunger > 25, 0.0, hunger),
        player_food=food,
        player_thirst=jnp.where(thirst > 20, 0.0, thirst),
        player_drink=drink,
        player_fatigue=jnp.where(tired | refreshed, 0.0, fatigue),
        player_energy=energy,
    )
    return recover(state, not_boss)


def recover(state: State, not_boss: jax.Array) -> State:
    """Health recovers while food, drink and energy last, and decreases otherwise; mana always recovers."""
    sleeping, health = state.is_sleeping, state.player_health
    provided = (state.player_food > 0) & (state.player_drink > 0) & ((state.player_energy > 0) | sleeping)
    loss = jnp.where(sleeping, -0.5, -1.0) * not_boss
    counter = state.player_recover + jnp.where(provided, jnp.where(sleeping, 2.0, 1.0), loss)
    better, worse = counter > 25, counter < -15
    health = jnp.where(better, jnp.minimum(health + 1, max_health(state)), jnp.where(worse, health - 1, health))
    talent = 1 + 0.25 * (state.player_intelligence - 1)
    mana = jnp.where(sleeping, state.player_recover_mana + 2, state.player_recover_mana + 1) * talent
    return replace(
        state,
        player_health=health,
        player_recover=jnp.where(better | worse, 0.0, counter),
        player_mana=state.player_mana + (mana > 30),
        player_recover_mana=jnp.where(mana > 30, 0.0, mana),
    )


def clip(state: State) -> State:
    most = max_food(state)
    return replace(
        state,
        inventory=Inventory(jnp.minimum(state.inventory.counts, MOST_ITEMS)),
        player_health=jnp.minimum(jnp.maximum(state.player_health, 0), max_health(state)),
        player_food=jnp.minimum(jnp.maximum(state.player_food, 0), most),
        player_drink=jnp.minimum(jnp.maximum(state.player_drink, 0), most),
        player_energy=jnp.minimum(jnp.maximum(state.player_energy, 0), most),
        player_mana=jnp.minimum(jnp.maximum(state.player_mana, 0), 6 + 3 * state.player_intelligence),
    )


def daylight(timestep: jax.Array) -> jax.Array:
    progress = (timestep / PARAMS.day_length) % 1 + 0.3
    return 1 - jnp.abs(jnp.cos(jnp.pi * progress)) ** 3
