"""Staged scenes and actions that exercise every rule, and a step-by-step comparison with Craftax.

Random actions alone never leave the first floors.  Here the player is anywhere on any floor, with a rich inventory,
among mobs, projectiles, plants and all kinds of blocks.  The tests and the exactness benchmark use them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from craftax.craftax import craftax_state as upstream
from craftax.craftax.game_logic import craftax_step, is_game_over

from perepisode.environments.base import EndCause
from perepisode.environments.craftax.engine.draws import upstream_draws
from perepisode.environments.craftax.engine.state import State, from_upstream, to_upstream
from perepisode.environments.craftax.engine.step import step
from perepisode.environments.craftax.engine.tables import (
    DIRECTIONS,
    FLOOR_MOBS,
    LEVELS,
    PARAMS,
    SCALAR_ITEMS,
    SIZE,
    STATIC,
    Action,
    Block,
)
from perepisode.environments.craftax.events import Events
from perepisode.environments.craftax.upstream import end_cause
from perepisode.pytree import pytree

EnvState = Any  # Craftax's dataclasses declare numbers where arrays are stored
Inventory: Any = upstream.Inventory
NEAR = 5  # the largest distance of staged mobs, projectiles and blocks from the player
USEFUL = (
    Block.PATH, Block.GRASS, Block.CRAFTING_TABLE, Block.FURNACE, Block.CHEST, Block.WATER, Block.NECROMANCER,
    Block.ENCHANTMENT_TABLE_FIRE, Block.ENCHANTMENT_TABLE_ICE, Block.RIPE_PLANT,
)  # fmt: skip
TOOL_LEVELS = {"pickaxe": 5, "sword": 5, "bow": 2}


def stage(key: jax.Array, state: EnvState) -> EnvState:
    """A scene with a random floor and position, random inventory, mobs and blocks."""
    place, blocks, body, mobs, foe, missiles, plants, env = jax.random.split(key, 8)
    state = _stand_somewhere(place, state)
    state = _scatter_blocks(blocks, state)
    state = _equip(body, state)
    state = _populate(mobs, state)
    state = _confront(foe, state)
    state = _shoot(missiles, state)
    state = _plant(plants, state)
    keys = jax.random.split(env, 7)
    return state.replace(
        chests_opened=jax.random.bernoulli(keys[0], 0.5, (LEVELS,)),
        monsters_killed=jax.random.randint(keys[1], (LEVELS,), 6, 11),
        boss_progress=jax.random.randint(keys[2], (), 0, LEVELS - 1),
        boss_timesteps_to_spawn_this_round=jax.random.randint(keys[3], (), -8, 3),
        achievements=jax.random.bernoulli(keys[4], 0.3, state.achievements.shape),
        timestep=_late_or_early(keys[5]),
        light_level=jax.random.uniform(keys[6]),
    )


def _late_or_early(key: jax.Array) -> jax.Array:
    """A time of day, or in one scene of ten the last steps before the time limit."""
    early = jax.random.randint(key, (), 0, 2 * PARAMS.day_length)
    late = PARAMS.max_timesteps - 1 - early % 50
    return jnp.where(jax.random.uniform(key) < 0.1, late, early)


def _stand_somewhere(key: jax.Array, state: EnvState) -> EnvState:
    """Next to a ladder, at the edge of the map, or anywhere."""
    keys = jax.random.split(key, 6)
    level = jax.random.randint(keys[0], (), 0, LEVELS)
    anywhere = jax.random.randint(keys[1], (2,), 0, SIZE)
    edge = jnp.where(jax.random.bernoulli(keys[2], 0.5, (2,)), (SIZE - 1) * (anywhere % 2), anywhere)
    spots = jnp.stack([state.up_ladders[level], state.down_ladders[level], edge, anywhere])
    return state.replace(
        player_level=level,
        player_position=spots[jax.random.randint(keys[3], (), 0, 4)],
        player_direction=jax.random.randint(keys[4], (), 1, 5),
        is_sleeping=jax.random.bernoulli(keys[5], 0.05),
        is_resting=jax.random.bernoulli(keys[0], 0.05),
    )


def _scatter_blocks(key: jax.Array, state: EnvState) -> EnvState:
    keys = jax.random.split(key, 5)
    grid = jnp.stack(jnp.meshgrid(jnp.arange(SIZE), jnp.arange(SIZE), indexing="ij"), -1)
    offset = jnp.abs(grid - state.player_position)
    offset = jnp.minimum(offset, SIZE - offset)  # also across the edge, where Craftax's indices wrap around
    near = (offset <= NEAR).all(-1) & (offset > 0).any(-1)
    floor = jnp.arange(LEVELS)[:, None, None] == state.player_level
    kinds = jax.random.randint(keys[0], (SIZE, SIZE), 2, len(Block))
    useful = jnp.array(USEFUL)
    kinds = jnp.where(
        jax.random.bernoulli(keys[1], 0.4, kinds.shape),
        useful[jax.random.randint(keys[2], kinds.shape, 0, len(useful))],
        kinds,
    )
    density = jnp.array([0.05, 0.3, 0.7])[jax.random.randint(keys[3], (), 0, 3)]
    replaced = near & jax.random.bernoulli(keys[4], density, kinds.shape) & floor
    items = jax.random.randint(keys[3], kinds.shape, 0, 5)
    item_replaced = (offset <= 1).all(-1) & jax.random.bernoulli(keys[2], 0.2, kinds.shape) & floor
    light = jnp.where(near & floor, jax.random.uniform(keys[1], kinds.shape), state.light_map)
    return state.replace(
        map=jnp.where(replaced, kinds, state.map),
        item_map=jnp.where(item_replaced, items, state.item_map),
        light_map=light,
    )


def _equip(key: jax.Array, state: EnvState) -> EnvState:
    uniforms = iter(jax.random.uniform(key, (100,)))

    def between(low, high):
        return low + (high - low) * next(uniforms)

    def below(bound, count=None):
        if count is None:
            return between(0, bound).astype(jnp.int32)
        return jnp.stack([below(bound) for _ in range(count)])

    most = jnp.array([3, 12, 100])[below(3)]
    items = {name: below(TOOL_LEVELS.get(name, most)) for name in SCALAR_ITEMS}
    return state.replace(
        inventory=Inventory(armour=below(3, 4) * below(2), potions=below(most, 6), **items),
        player_health=between(2.0, 13.0),
        player_food=below(10),
        player_drink=below(10),
        player_energy=below(10),
        player_mana=below(16),
        player_recover=between(-16.0, 26.0),
        player_hunger=between(0.0, 25.0),
        player_thirst=between(0.0, 20.0),
        player_fatigue=between(-10.0, 30.0),
        player_recover_mana=between(0.0, 30.0),
        player_xp=below(3),
        player_dexterity=1 + below(5),
        player_strength=1 + below(5),
        player_intelligence=1 + below(5),
        learned_spells=below(2, 2).astype(bool),
        sword_enchantment=below(3),
        bow_enchantment=below(3),
        armour_enchantments=below(3, 4),
    )


def _around(key: jax.Array, state: EnvState, count: int) -> jax.Array:
    """Distinct cells of the map near the player, without the player's own."""
    corner = jnp.clip(state.player_position - NEAR, 0, SIZE - 2 * NEAR - 1)
    side = jnp.arange(2 * NEAR + 1)
    grid = jnp.stack(jnp.meshgrid(corner[0] + side, corner[1] + side, indexing="ij"), -1).reshape(-1, 2)
    distance = jnp.abs(grid - state.player_position).sum(-1)
    score = jax.random.uniform(key, distance.shape) / (1 + distance)
    return grid[jax.lax.top_k(jnp.where(distance > 0, score, -1.0), count)[1]]


def _populate(key: jax.Array, state: EnvState) -> EnvState:
    keys = jax.random.split(key, 4)
    positions = _around(keys[0], state, 8)
    density = jax.random.uniform(keys[1])
    native = jnp.asarray(FLOOR_MOBS)[state.player_level]

    def fill(mobs, index, first):
        slots = mobs.mask.shape[1]
        sub = jax.random.split(jax.random.fold_in(keys[2], index), 5)
        kinds = jnp.where(
            jax.random.bernoulli(sub[0], 0.5), native[index], jax.random.randint(sub[1], (slots,), 0, (3, 8, 8)[index])
        )
        floor = jnp.arange(LEVELS)[:, None] == state.player_level
        return mobs.replace(
            position=jnp.where(floor[..., None], positions[first : first + slots], mobs.position),
            health=jnp.where(floor, jax.random.uniform(sub[2], (slots,), minval=0.1, maxval=12.0), mobs.health),
            mask=jnp.where(floor, jax.random.bernoulli(sub[3], density, (slots,)), mobs.mask),
            attack_cooldown=jnp.where(floor, jax.random.randint(sub[4], (slots,), -2, 3), mobs.attack_cooldown),
            type_id=jnp.where(floor, kinds, mobs.type_id),
        )

    return state.replace(
        passive_mobs=fill(state.passive_mobs, 0, 0),
        melee_mobs=fill(state.melee_mobs, 1, 3),
        ranged_mobs=fill(state.ranged_mobs, 2, 6),
    )


def _confront(key: jax.Array, state: EnvState) -> EnvState:
    """In half of the scenes a weak enemy in front of the player; on the last floor only the necromancer."""
    keys = jax.random.split(key, 3)
    boss = state.player_level == LEVELS - 1
    floor = jnp.arange(LEVELS) == state.player_level
    ahead = state.player_position + jnp.asarray(DIRECTIONS)[state.player_direction]
    inside = ((ahead >= 0) & (ahead < SIZE)).all()
    faced = inside & jax.random.bernoulli(keys[0], 0.5)
    melee = jax.random.bernoulli(keys[1])
    native = jnp.asarray(FLOOR_MOBS)[state.player_level]

    def strike_first(mobs, here, kind):
        first = (floor[:, None] & here & ~boss) & (jnp.arange(mobs.mask.shape[1]) == 0)
        mobs = out_of_the_way(mobs)
        return mobs.replace(
            position=jnp.where(first[..., None], ahead, mobs.position),
            health=jnp.where(first, jax.random.uniform(keys[2], minval=0.1, maxval=4.0), mobs.health),
            mask=(mobs.mask | first) & ~(floor[:, None] & faced & boss),
            type_id=jnp.where(first, kind, mobs.type_id),
        )

    def out_of_the_way(mobs):
        """Two mobs never share a cell in Craftax."""
        return mobs.replace(mask=mobs.mask & ~(floor[:, None] & faced & (mobs.position == ahead).all(-1)))

    level, row, column = state.player_level, *jnp.clip(ahead, 0, SIZE - 1)
    block = jnp.where(faced & boss, Block.NECROMANCER, state.map[level, row, column])
    state = state.replace(
        passive_mobs=out_of_the_way(state.passive_mobs),
        melee_mobs=strike_first(state.melee_mobs, faced & melee, native[1]),
        ranged_mobs=strike_first(state.ranged_mobs, faced & ~melee, native[2]),
        map=state.map.at[level, row, column].set(block),
    )
    return to_upstream(from_upstream(state))  # this derives the mob map


def _shoot(key: jax.Array, state: EnvState) -> EnvState:
    floor = jnp.arange(LEVELS)[:, None] == state.player_level
    steps = jnp.array([[0, -1], [0, 1], [-1, 0], [1, 0]])

    def launch(projectiles, directions, key, kinds):
        keys = jax.random.split(key, 4)
        heading = steps[jax.random.randint(keys[0], (3,), 0, 4)]
        projectiles = projectiles.replace(
            position=jnp.where(floor[..., None], _around(keys[1], state, 3), projectiles.position),
            mask=jnp.where(floor, jax.random.bernoulli(keys[2], 0.6, (3,)), projectiles.mask),
            type_id=jnp.where(floor, kinds[jax.random.randint(keys[3], (3,), 0, len(kinds))], projectiles.type_id),
        )
        return projectiles, jnp.where(floor[..., None], heading, directions)

    hostile, friendly = jax.random.split(key)
    theirs = launch(state.mob_projectiles, state.mob_projectile_directions, hostile, jnp.arange(8))
    ours = launch(state.player_projectiles, state.player_projectile_directions, friendly, jnp.arange(5))
    return state.replace(
        mob_projectiles=theirs[0],
        mob_projectile_directions=theirs[1],
        player_projectiles=ours[0],
        player_projectile_directions=ours[1],
    )


def _plant(key: jax.Array, state: EnvState) -> EnvState:
    keys = jax.random.split(key, 3)
    return state.replace(
        growing_plants_positions=_around(keys[0], state, STATIC.max_growing_plants),
        growing_plants_age=jax.random.randint(keys[1], (STATIC.max_growing_plants,), 580, 605),
        growing_plants_mask=jax.random.bernoulli(keys[2], 0.3, (STATIC.max_growing_plants,)),
    )


def choose_action(key: jax.Array) -> jax.Array:
    """A random action; half of them move or interact."""
    kind, which = jax.random.split(key)
    return jnp.where(
        jax.random.uniform(kind) < 0.5,
        jax.random.randint(which, (), 1, 6),
        jax.random.randint(which, (), 0, len(Action)),
    )


def hunter(key, game, prey=("passive_mobs",), strikes=(Action.DO,), reach=1):
    """Walks to the nearest prey and attacks it when it is in line and within reach, and any mob in the way."""
    key_stray, key_move, key_strike = jax.random.split(key, 3)
    floor = game.player_level
    position = jnp.concatenate([getattr(game, mobs).position[floor] for mobs in prey])
    alive = jnp.concatenate([getattr(game, mobs).mask[floor] for mobs in prey])
    offsets = position - game.player_position
    offset = offsets[jnp.argmin(jnp.where(alive, jnp.abs(offsets).sum(-1), 1000))]
    vertical = jnp.abs(offset[0]) > jnp.abs(offset[1])
    along_rows = jnp.where(offset[0] < 0, Action.UP, Action.DOWN)
    along_columns = jnp.where(offset[1] < 0, Action.LEFT, Action.RIGHT)
    toward = jnp.where(vertical, along_rows, along_columns)

    in_line = (jnp.abs(offset).min() == 0) & (jnp.abs(offset).max() <= reach)
    ahead = game.player_position + jnp.asarray(DIRECTIONS)[game.player_direction]
    in_the_way = game.mob_map[floor, ahead[0], ahead[1]]
    strike = (in_line | in_the_way) & (game.player_direction == toward)
    chosen = jnp.where(strike, jax.random.choice(key_strike, jnp.array(strikes)), toward)
    # an occasional random move gets it around obstacles
    stray = ~alive.any() | (~strike & (jax.random.uniform(key_stray) < 0.1))
    return jnp.where(stray, jax.random.randint(key_move, (), 1, 5), chosen)


@pytree
class Comparison:
    """One game in both engines, and counters of what happened."""

    theirs: EnvState
    ours: State
    over: jax.Array  # bool: the game has ended, so further steps do not count
    steps: jax.Array  # int32[level]
    actions: jax.Array  # int32[action]
    unlocked: jax.Array  # int32[achievement]
    mismatches: dict[str, jax.Array]  # steps after which the field differed


def begin(theirs: EnvState) -> Comparison:
    ours = from_upstream(theirs)
    return Comparison(
        theirs=theirs,
        ours=ours,
        over=is_game_over(theirs, PARAMS, STATIC),
        steps=jnp.zeros(LEVELS, jnp.int32),
        actions=jnp.zeros(len(Action), jnp.int32),
        unlocked=jnp.zeros(ours.achievements.shape, jnp.int32),
        mismatches={name: jnp.int32(0) for name in (*_leaves(theirs), "reward", "over")},
    )


def compare_step(seen: Comparison, luck: jax.Array, action: jax.Array) -> tuple[Comparison, Events]:
    """The same action with the same random numbers in both engines; also returns our step's events."""
    theirs, their_reward = craftax_step(luck, seen.theirs, action, PARAMS, STATIC)
    ours, our_reward, events = step(upstream_draws(luck), seen.ours, action)
    over = is_game_over(theirs, PARAMS, STATIC)
    left = {**_leaves(theirs), "reward": their_reward, "over": over}
    right = {**_leaves(to_upstream(ours)), "reward": our_reward, "over": end_cause(ours) != EndCause.RUNNING}
    counted = ~seen.over
    after = Comparison(
        theirs=theirs,
        ours=ours,
        over=seen.over | over,
        steps=seen.steps + counted * (jnp.arange(LEVELS) == theirs.player_level),
        actions=seen.actions + counted * (jnp.arange(len(Action)) == action),
        unlocked=seen.unlocked + counted * (theirs.achievements & ~seen.theirs.achievements),
        mismatches={
            name: number + (counted & differs(left[name], right[name])) for name, number in seen.mismatches.items()
        },
    )
    return after, events


def differs(left: jax.Array, right: jax.Array) -> jax.Array:
    """Whether two arrays differ in any bit."""
    if left.dtype == jnp.float32:
        left, right = (jax.lax.bitcast_convert_type(value, jnp.int32) for value in (left, right))
    return (left != right).any()


def _leaves(tree) -> dict[str, jax.Array]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
