"""One step of one environment: Craftax's rules in Craftax's order, with all maps written once at the end."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine import actions, body, cells, flight, mobs, spawning, unlock
from perepisode.environments.craftax.engine.draws import Draws
from perepisode.environments.craftax.engine.interact import at_level, interact, occupied
from perepisode.environments.craftax.engine.sight import Floor, Sight, look, take_floor
from perepisode.environments.craftax.engine.state import Inventory, Mobs, State
from perepisode.environments.craftax.engine.tables import (
    ACHIEVEMENT_REWARD,
    HOSTILE,
    MELEE,
    PASSIVE,
    RANGED,
    TORCH_LIGHT,
    VISIBLE_LIGHT,
    Action,
    Block,
    Item,
)
from perepisode.environments.craftax.events import Events
from perepisode.pytree import pytree


@pytree
class Edits:
    """Pending changes of the maps, visible to later rules of the step and written at its end."""

    block: jax.Array  # new block of the faced cell
    changed: jax.Array  # whether the faced cell changes
    torch: jax.Array  # whether a torch is placed on it
    broken: jax.Array  # bool[3]: hostile projectiles that broke a block
    broken_ids: jax.Array  # int32[3]


def step(draws: Draws, state: State, action: jax.Array) -> tuple[State, jax.Array, Events]:
    """Next state, reward and events.  The caller vmaps and checks whether the episode ended."""
    start = state
    action = jnp.where(state.is_sleeping | state.is_resting, Action.NOOP, action)
    state, entered = body.change_floor(state, action)
    floor, sight = take_floor(state), look(state)
    seen = floor.creatures
    seen_from = state.player_position
    state, floor, edits, acted = act(draws, state, floor, sight, action)
    state, floor, edits, acted = phase_barrier(state, floor, edits, acted)
    struck = floor.creatures
    state, floor, edits, fought = update_mobs(draws, state, floor, sight, edits)
    state, floor, edits, fought = phase_barrier(state, floor, edits, fought)
    fallen = floor.creatures
    floor, map_is_read = populate(draws, state, floor, sight, edits)
    state = write_floor(state, floor)
    state, ripe = body.grow_plants(state)
    state = write_maps(state, sight, edits, ripe, map_is_read)
    state, woke = body.sleep_and_rest(state, action)
    state = body.clip(body.update_needs(state))
    by_hand, by_missile = seen.mask & ~struck.mask, struck.mask & ~fallen.mask & (fallen.health <= 0)
    slain = unlock.for_kills(by_hand, by_missile, seen.type_id)
    state, reward = finish(draws, start, state, entered | acted | fought | woke | slain)
    wood = state.inventory.wood - start.inventory.wood
    return state, reward, make_events(seen, seen_from, struck, fallen, floor.creatures, wood)


def phase_barrier(state: State, *others):
    """Separate two phases: without it XLA repeats the arithmetic of one phase in each result of the next.

    Excludes the maps, which change only at the end of the step and must not be copied.
    """
    small = replace(state, map=None, item_map=None, light_map=None)
    small, *others = jax.lax.optimization_barrier((small, *others))
    return (replace(small, map=state.map, item_map=state.item_map, light_map=state.light_map), *others)


def act(draws: Draws, state: State, floor: Floor, sight: Sight, action: jax.Array):
    """The player's actions before the mobs move."""
    items = state.inventory.counts
    crafted, unlocked = actions.craft(items, sight, action)
    state, floor, mined, collected, gained = interact(draws, state, floor, sight, action)
    unlocked = unlocked | gained
    block, torch, sapling, placed, gained = actions.place(items, sight, occupied(floor, sight.facing), action)
    block = jnp.where(action == Action.DO, mined, block)
    unlocked = unlocked | gained
    state = actions.sow(state, sight.facing, sapling)
    state, floor, shot, gained = actions.launch(state, floor, action)
    unlocked = unlocked | gained
    state, drunk, gained = actions.drink_potion(state, action)
    unlocked = unlocked | gained
    state, read, gained = actions.read_book(state, draws.spell, action)
    unlocked = unlocked | gained
    state, spent, gained = actions.enchant(state, replace(sight, block=block), draws.armour, action)
    unlocked = unlocked | gained
    state, gained = body.boss_logic(state, sight.on_boss_floor)
    unlocked = unlocked | gained
    state = replace(state, inventory=Inventory(items + crafted + collected + placed + shot + drunk + read + spent))
    state = actions.level_up(state, action)
    way = state.player_position + actions.direction_vector(action)
    state = body.walk(state, sight, occupied(floor, way), action)
    edits = Edits(block, block != sight.block, torch, jnp.zeros(3, bool), jnp.zeros(3, jnp.int32))
    return state, floor, edits, unlocked


def update_mobs(draws: Draws, state: State, floor: Floor, sight: Sight, edits: Edits):
    """Creatures move and attack, then projectiles fly."""
    player, boss = state.player_position, sight.on_boss_floor
    intent = mobs.intend(draws, floor.creatures, player, boss)
    ahead = floor.missiles.position + floor.directions
    shots = floor.creatures.position[RANGED] + intent.toward[RANGED]

    def view(positions):
        ids = cells.wrapped_id(positions)
        blocks = cells.read(state.map, state.player_level, ids).astype(jnp.int32)
        return positions, ids, jnp.where(edits.changed & (ids == sight.facing_id), edits.block, blocks)

    creatures, attacking = mobs.move_creatures(floor.creatures, intent, view(intent.target)[2], player, boss)
    state, woke = mobs.suffer_melee(state, floor, attacking)
    floor, path = flight.shoot_at_player(
        floor,
        intent,
        attacking[RANGED],
        flight.Ahead(*view(ahead)),
        flight.Ahead(*view(shots)),
    )
    floor = replace(floor, creatures=creatures)
    state, floor, broken, path = flight.fly_at_player(state, floor, path)
    state, floor = flight.fly_at_mobs(state, floor, path)
    rebuilt = cells.any_of(broken & (path.id[HOSTILE] == sight.facing_id))
    edits = replace(edits, changed=edits.changed & ~rebuilt, broken=broken, broken_ids=path.id[HOSTILE])
    return state, floor, edits, woke


def populate(draws: Draws, state: State, floor: Floor, sight: Sight, edits: Edits) -> tuple[Floor, jax.Array]:
    """Spawn mobs on the floor as it is after this step.

    Also returns a flag that is always True but depends on the last read of the map: a write that depends on the flag
    can overwrite the map in place.
    """
    candidates = draws.cell.candidates(state.map, state.player_level, state.player_position)
    mob_ids = cells.cell_id(floor.creatures.position)
    living = floor.creatures.mask
    crowded = cells.any_of(living & (mob_ids == sight.facing_id))
    candidates = candidates.cover(
        jnp.concatenate([sight.facing_id[None], edits.broken_ids, mob_ids]),
        jnp.concatenate([edits.block[None], jnp.full(3, Block.PATH), jnp.full(8, Block.INVALID)]),
        jnp.concatenate([(edits.changed & ~crowded)[None], edits.broken, living]),
    )
    return spawning.spawn(draws, state, floor, candidates, sight.on_boss_floor), candidates.blocks[0] < len(Block)


def write_floor(state: State, floor: Floor) -> State:
    here = at_level(state)

    def put(floors, floor):
        return jnp.where(here.reshape(-1, *[1] * floor.ndim), floor, floors)

    return replace(
        state,
        creatures=jax.tree.map(put, state.creatures, floor.creatures),
        missiles=replace(
            state.missiles,
            position=put(state.missiles.position, floor.missiles.position),
            mask=put(state.missiles.mask, floor.missiles.mask),
            type_id=put(state.missiles.type_id, floor.missiles.type_id),
        ),
        missile_directions=put(state.missile_directions, floor.directions),
    )


def write_maps(state: State, sight: Sight, edits: Edits, ripe: jax.Array, map_is_read: jax.Array) -> State:
    """Later writes win: a broken block over a placed one, a ripe plant (always on floor 0) over both."""
    level = state.player_level
    plants = cells.wrapped_id(state.growing_plants_positions)
    edited = jnp.concatenate([sight.facing_id[None], edits.broken_ids])
    overgrown = cells.any_of(ripe & (plants == edited[:, None])) & (level == 0)
    written = jnp.concatenate([edits.changed[None], edits.broken]) & ~overgrown
    ids = jnp.concatenate([edited, plants])
    levels = jnp.where(np.arange(ids.shape[0]) < 4, level, 0)
    values = jnp.concatenate([edits.block[None], jnp.full(3, Block.PATH), jnp.full(10, Block.RIPE_PLANT)])
    writes = jnp.concatenate([written, ripe]) & map_is_read
    torch = edits.torch
    return replace(
        state,
        map=cells.write(state.map, levels, ids, values, writes),
        item_map=cells.write(state.item_map, level, sight.facing_id[None], jnp.full(1, Item.TORCH), torch[None]),
        light_map=light_torch(state.light_map, level, sight.facing, torch),
    )


def light_torch(light_map: jax.Array, level: jax.Array, torch: jax.Array, placed: jax.Array) -> jax.Array:
    """A torch lights nine by nine cells."""
    around = np.stack(np.meshgrid(np.arange(-4, 5), np.arange(-4, 5), indexing="ij"), -1).reshape(-1, 2)
    near = torch + around
    ids = cells.wrapped_id(near)
    before = cells.read(light_map, level, ids)
    if light_map.dtype == jnp.float32:
        light = jnp.clip(TORCH_LIGHT.reshape(-1) + before, 0.0, 1.0)
    else:
        light = (before != 0) | (TORCH_LIGHT.reshape(-1) > VISIBLE_LIGHT)
    return cells.write(light_map, level, ids, light, placed & cells.in_bounds(near))


def finish(draws: Draws, start: State, state: State, unlocked: jax.Array) -> tuple[State, jax.Array]:
    """Achievements, reward and time.  Reward = weights of newly unlocked achievements + 0.1 change in health."""
    gained = unlock.as_flags(unlocked) | unlock.for_items(state.inventory.counts)
    new = gained & ~start.achievements
    reward = (new * ACHIEVEMENT_REWARD).sum() + (state.player_health - start.player_health) * 0.1
    timestep = state.timestep + 1
    state = replace(
        state,
        achievements=start.achievements | gained,
        timestep=timestep,
        light_level=body.daylight(timestep),
        state_rng=draws.state_rng,
    )
    return state, reward


def make_events(seen: Mobs, seen_from: jax.Array, struck: Mobs, fallen: Mobs, after: Mobs, wood: jax.Array) -> Events:
    """The events, from the mobs before the action, after it, after all moves and after spawning."""
    gone = struck.mask & ~fallen.mask
    by_hand = seen.mask & ~struck.mask
    killed = by_hand | (gone & (fallen.health <= 0))
    died_at = jnp.where(by_hand[:, None], seen.position, fallen.position)
    dropped = seen.mask & ~after.mask & (after.health <= 0)
    offset = seen.position - seen_from
    return Events(
        killed_passive=killed[PASSIVE],
        killed_melee=killed[MELEE],
        killed_ranged=killed[RANGED],
        paper_passive=dropped[PASSIVE],
        paper_melee=dropped[MELEE],
        paper_ranged=dropped[RANGED],
        melee_offset=offset[MELEE],
        ranged_offset=offset[RANGED],
        died_at=_by_class(died_at),
        by_hand=_by_class(by_hand),
        despawned=jax.lax.population_count(cells.pack(gone & (fallen.health > 0))),
        wood_harvested=jnp.maximum(wood, 0),
    )


def _by_class(creatures: jax.Array) -> dict[str, jax.Array]:
    return {"passive": creatures[PASSIVE], "melee": creatures[MELEE], "ranged": creatures[RANGED]}
