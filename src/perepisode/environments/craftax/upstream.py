"""Craftax's own step, split into its phases to detect deaths exactly: slow, but correct by construction.

The sub-calls, their order and their key splits are those of `craftax_step`, so the next state and the reward
are upstream's bit for bit.  The mob masks are read between them (phases A, B and C of `events`), because the state
after the step is not enough: `spawn_mobs` can refill a slot that a kill emptied earlier in the same step.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from craftax.craftax import game_logic
from craftax.craftax.constants import ACHIEVEMENT_REWARD_MAP, Action, BlockType
from craftax.craftax.craftax_state import EnvParams, EnvState, Mobs, StaticEnvParams
from craftax.craftax.util.game_logic_utils import has_beaten_boss
from craftax.craftax.world_gen.world_gen import generate_world

from perepisode.environments.base import EndCause, Key
from perepisode.environments.craftax.events import Events

PARAMS = EnvParams()
SIZES = StaticEnvParams()
TREES = tuple(block.value for block in (BlockType.TREE, BlockType.FIRE_TREE, BlockType.ICE_SHRUB))  # all yield wood


def reset(key: Key) -> EnvState:
    """A newly generated world: upstream's `reset_env` without the observation."""
    _, key_world = jax.random.split(key)
    return generate_world(key_world, PARAMS, SIZES)


def step(key: Key, state: EnvState, action: Any) -> tuple[EnvState, jax.Array, Events]:
    """One step of `craftax_step` → next state, reward and events."""
    before = state
    action = jnp.where(state.is_sleeping | state.is_resting, Action.NOOP.value, action)
    key, key_action = jax.random.split(key)
    key, key_book = jax.random.split(key)
    key, key_enchant = jax.random.split(key)
    key, key_mobs = jax.random.split(key)
    key, key_spawn = jax.random.split(key)
    key, key_state = jax.random.split(key)

    state = game_logic.change_floor(state, action, PARAMS, SIZES)
    state = game_logic.do_crafting(state, action)
    phase_a = state
    state = game_logic.do_action(key_action, state, action, SIZES)
    phase_b = state
    state = _act_apart_from_melee(key_book, key_enchant, state, action)
    state = game_logic.update_mobs(key_mobs, state, PARAMS, SIZES)
    phase_c = state
    state = game_logic.spawn_mobs(state, key_spawn, PARAMS, SIZES)
    state = game_logic.update_plants(state, SIZES)
    state = game_logic.update_player_intrinsics(state, action, SIZES)
    state = game_logic.clip_inventory_and_intrinsics(state, PARAMS)
    state = game_logic.calculate_inventory_achievements(state)

    reward = _reward(before, state)
    clock = state.timestep + 1
    light = game_logic.calculate_light_level(clock, PARAMS)
    state = replace(state, timestep=clock, light_level=light, state_rng=key_state)
    return state, reward, _events(before, phase_a, phase_b, phase_c, state)


def end_cause(state) -> jax.Array:
    """The reason for upstream's `is_game_over`.  Death takes precedence over all others."""
    dead = state.player_health <= 0
    won = has_beaten_boss(state, SIZES)
    timeout = state.timestep >= PARAMS.max_timesteps
    return jnp.select(
        [dead, won, timeout],
        [jnp.int32(EndCause.DEATH), jnp.int32(EndCause.WON), jnp.int32(EndCause.TIMEOUT)],
        jnp.int32(EndCause.RUNNING),
    )


def _act_apart_from_melee(key_book: Key, key_enchant: Key, state: EnvState, action: Any) -> EnvState:
    """The player's actions between phases B and C, none of which damages a mob."""
    state = game_logic.place_block(state, action, SIZES)
    state = game_logic.shoot_projectile(state, action, SIZES)
    state = game_logic.cast_spell(state, action, SIZES)
    state = game_logic.drink_potion(state, action)
    state = game_logic.read_book(key_book, state, action)
    state = game_logic.enchant(key_enchant, state, action)
    state = game_logic.boss_logic(state, SIZES)
    state = game_logic.level_up_attributes(state, action, PARAMS)
    return game_logic.move_player(state, action, PARAMS)


def _reward(before: EnvState, after: EnvState) -> jax.Array:
    """Weights of newly unlocked achievements plus 0.1 times the change in health."""
    unlocked = after.achievements.astype(int) - before.achievements.astype(int)
    return (unlocked * ACHIEVEMENT_REWARD_MAP).sum() + (after.player_health - before.player_health) * 0.1


def _events(before: EnvState, a: EnvState, b: EnvState, c: EnvState, after: EnvState) -> Events:
    floor = jnp.asarray(a.player_level)
    passive = _deaths(a.passive_mobs, b.passive_mobs, c.passive_mobs, after.passive_mobs, floor)
    melee = _deaths(a.melee_mobs, b.melee_mobs, c.melee_mobs, after.melee_mobs, floor)
    ranged = _deaths(a.ranged_mobs, b.ranged_mobs, c.ranged_mobs, after.ranged_mobs, floor)
    return Events(
        killed_passive=passive.killed,
        killed_melee=melee.killed,
        killed_ranged=ranged.killed,
        paper_passive=passive.paper,
        paper_melee=melee.paper,
        paper_ranged=ranged.paper,
        melee_offset=a.melee_mobs.position[floor] - a.player_position,
        ranged_offset=a.ranged_mobs.position[floor] - a.player_position,
        died_at={"passive": passive.died_at, "melee": melee.died_at, "ranged": ranged.died_at},
        by_hand={"passive": passive.by_hand, "melee": melee.by_hand, "ranged": ranged.by_hand},
        despawned=passive.despawned + melee.despawned + ranged.despawned,
        wood_harvested=jnp.maximum(after.inventory.wood - before.inventory.wood, 0).astype(jnp.int32),
    )


class _Deaths(NamedTuple):
    """Deaths and despawns of one class of mobs on the player's floor."""

    killed: jax.Array  # bool[slot]
    paper: jax.Array  # bool[slot], killed according to the paper's detector
    died_at: jax.Array  # int32[slot, 2]
    by_hand: jax.Array  # bool[slot]
    despawned: jax.Array  # int32


def _deaths(a: Mobs, b: Mobs, c: Mobs, after: Mobs, floor: jax.Array) -> _Deaths:
    by_hand = a.mask[floor] & ~b.mask[floor]
    gone_later = b.mask[floor] & ~c.mask[floor]
    dead = c.health[floor] <= 0
    return _Deaths(
        killed=by_hand | (gone_later & dead),
        paper=a.mask[floor] & ~after.mask[floor] & (after.health[floor] <= 0),
        died_at=jnp.where(by_hand[:, None], a.position[floor], c.position[floor]),
        by_hand=by_hand,
        despawned=(gone_later & ~dead).sum(dtype=jnp.int32),
    )
