"""Hand-built Craftax scenes, scripted players, and a compiled step that is checked against upstream.

Craftax takes most of a minute to compile, so all compiled functions are cached here: the tests share one batch size
and run scenes, policies and random play through the same programs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.rehearsal import hunter
from craftax.craftax.constants import Action, BlockType, ItemType
from craftax.craftax.envs.craftax_symbolic_env import CraftaxSymbolicEnvNoAutoReset
from craftax.craftax.game_logic import craftax_step
from craftax.craftax.renderer import render_craftax_symbolic

from perepisode.environments.base import Outcome
from perepisode.environments.craftax import observation, upstream
from perepisode.environments.craftax.env import Craftax, CraftaxState

ENVIRONMENTS = 64
FLOORS = 9
CENTRE = np.array([24, 24])
ATTACKS = [Action.DO.value, Action.SHOOT_ARROW.value, Action.CAST_FIREBALL.value, Action.CAST_ICEBALL.value]
WORLD = Craftax(engine="upstream")


# Programs


@cache
def initial_games():
    """ENVIRONMENTS initial games from our reset, and the same from upstream's environment."""
    environment = CraftaxSymbolicEnvNoAutoReset()

    def both(key):
        return WORLD.reset(key).game, environment.reset_env(key, environment.default_params)[1]

    return jax.jit(jax.vmap(both))(jax.random.split(jax.random.key(0), ENVIRONMENTS))


def same_bits(ours, theirs):
    """True if two leaves agree in type and in every bit (so that NaN and signed zero count)."""
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    if jnp.issubdtype(ours.dtype, jax.dtypes.prng_key):
        ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
    if jnp.issubdtype(ours.dtype, jnp.floating):
        ours, theirs = (jax.lax.bitcast_convert_type(leaf, jnp.int32) for leaf in (ours, theirs))
    return (ours == theirs).all()


def views(game):
    """Upstream's rendering of a game, and ours."""
    ours = observation.upstream_vector(observation.observe(game))
    return render_craftax_symbolic(game), ours


def _checked_step(key, state, action):
    """Our step, and whether upstream's step and renderer agree on each part."""
    after, outcome = WORLD.step(key, state, action)
    game, reward = craftax_step(key, state.game, action, upstream.PARAMS, upstream.SIZES)
    agrees = {
        "state": jax.tree.map(same_bits, after.game, game),
        "reward": same_bits(outcome.task_reward, reward),
        "view": same_bits(*views(after.game)),
        "over": outcome.ended == upstream.game_logic.is_game_over(game, upstream.PARAMS, upstream.SIZES),
    }
    return after, outcome, agrees


checked_step = jax.jit(jax.vmap(_checked_step))
batch_views = jax.jit(jax.vmap(views))
batch_observe = jax.jit(jax.vmap(observation.observe))


def disagreements(agrees) -> list[str]:
    """Names of the parts that differ from upstream in any environment of the batch."""
    leaves = jax.tree_util.tree_leaves_with_path(agrees)
    return [jax.tree_util.keystr(path) for path, equal in leaves if not np.asarray(equal).all()]


# Players: policy(key, game) → action


def random_player(key, game):
    return jax.random.randint(key, (), 0, WORLD.actions)


def peaceful_player(key, game):
    """Any action except a blow, an arrow or a spell."""
    harmless = np.setdiff1d(np.arange(WORLD.actions), ATTACKS)
    return jax.random.choice(key, harmless)


HOSTILE = ("melee_mobs", "ranged_mobs")
PLAYERS = {
    "random": random_player,
    "peaceful": peaceful_player,
    "cow_hunter": hunter,
    "fighter": partial(hunter, prey=HOSTILE),
    "archer": partial(hunter, prey=HOSTILE, strikes=ATTACKS[1:], reach=9),
}


@jax.jit
@jax.vmap
def choose(key, game, player):
    return jax.lax.switch(player, list(PLAYERS.values()), key, game)


# Play


@dataclass(frozen=True)
class Play:
    """The record of a walk, [step, env] unless noted."""

    player: np.ndarray  # [env], name of the player
    outcome: Outcome
    monsters_killed: np.ndarray  # change of upstream's counter of hostile kills
    floor: np.ndarray
    light_level: np.ndarray
    dark_cells: np.ndarray
    projectiles: np.ndarray  # projectiles in view
    disagreements: list  # names of the parts that ever differed from upstream

    def of(self, player, counts):
        return np.asarray(counts)[:, self.player == player]


@jax.jit
def _restart(ended, state, initial):
    def pick(new, old):
        return jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return jax.tree.map(pick, initial, state)


@jax.jit
@jax.vmap
def _look(state):
    seen = observation.observe(state.game)
    mob_class = jnp.where(seen.mobs == observation.UNSEEN, 0, seen.mobs % 40 // 8)
    return {
        "floor": state.game.player_level,
        "light_level": state.game.light_level,
        "dark_cells": (seen.blocks == observation.DARK_BLOCK).sum(),
        "projectiles": (mob_class >= 3).sum(),
    }


class Step(NamedTuple):
    """One step of the whole batch; every leaf has a leading axis of ENVIRONMENTS."""

    keys: jax.Array
    before: CraftaxState
    action: jax.Array
    after: CraftaxState
    outcome: Outcome
    agrees: dict


NAMES = ["cow_hunter"] * 16 + ["peaceful"] * 16 + ["random"] * 16 + ["fighter"] * 8 + ["archer"] * 8


def walk(steps: int) -> Iterator[Step]:
    """All players on all floors, checked against upstream; ended games restart from their initial state."""
    floors = [0] * 16 + [0] * 8 + list(range(1, 9)) + [0] * 8 + list(range(1, 9)) + 2 * list(range(8))
    env = np.arange(ENVIRONMENTS)
    games = _set_out(initial_games()[0], np.array(floors), equipped=(env < 16) | (env >= 40))
    # Cow hunters get open pasture, so that they meet enough cows to count.
    games = games.replace(map=put(games.map, (slice(0, 16), 0), BlockType.GRASS.value))
    initial = state = CraftaxState(game=games, harvested=jnp.zeros(ENVIRONMENTS, jnp.int32))
    player = jnp.array([list(PLAYERS).index(name) for name in NAMES])
    for key in jax.random.split(jax.random.key(1), steps):
        key_act, key_step = jax.random.split(key)
        action = choose(jax.random.split(key_act, ENVIRONMENTS), state.game, player)
        keys = jax.random.split(key_step, ENVIRONMENTS)
        after, outcome, agrees = checked_step(keys, state, action)
        yield Step(keys, state, action, after, outcome, agrees)
        state = _restart(outcome.ended, after, initial)


@cache
def long_play(steps: int = 320) -> Play:
    """The record of a long walk of all players."""
    outcomes, looks, kills, differing = [], [], [], set()
    for step in walk(steps):
        differing |= set(disagreements(step.agrees))
        kills.append((step.after.game.monsters_killed - step.before.game.monsters_killed).sum(-1))
        outcomes.append(step.outcome)
        looks.append(_look(step.after))
    stack = partial(jax.tree.map, lambda *rows: np.stack(rows))
    return Play(
        player=np.array(NAMES),
        outcome=stack(*outcomes),
        monsters_killed=np.stack(kills),
        disagreements=sorted(differing),
        **stack(*looks),
    )


def _set_out(games, floors, equipped):
    """Place the players on their floors at different times of day; the equipped carry every item."""
    env = np.arange(ENVIRONMENTS)
    arrival = np.asarray(games.up_ladders)[env, floors]
    start = np.where(floors[:, None] == 0, np.asarray(games.player_position), arrival)

    def outfit(rich, plain):
        worn = equipped.reshape(-1, *[1] * (plain.ndim - 1))
        return np.where(worn, np.asarray(rich, plain.dtype), plain)

    rich = dict.fromkeys(("wood", "stone", "coal", "iron", "diamond", "sapling", "ruby", "sapphire"), 9)
    rich |= {"arrows": 99, "torches": 20, "potions": 3, "books": 2}
    rich |= {"pickaxe": 4, "sword": 4, "bow": 1, "armour": 2}
    inventory = {name: outfit(amount, getattr(games.inventory, name)) for name, amount in rich.items()}
    return games.replace(
        player_position=start.astype(np.int32),
        player_level=floors.astype(np.int32),
        player_strength=outfit(5, games.player_strength),
        learned_spells=outfit(True, games.learned_spells),
        timestep=((37 * env) % 300).astype(np.int32),
        inventory=games.inventory.replace(**inventory),
    )


# Scenes


def put(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


@cache
def meadow():
    """A game on an empty, lit, grassy overworld with only the player, in the centre, facing right."""
    game = jax.tree.map(lambda leaf: leaf[0], initial_games()[0])
    return game.replace(
        map=put(game.map, 0, BlockType.GRASS.value),
        item_map=put(game.item_map, 0, ItemType.NONE.value),
        light_map=put(game.light_map, 0, 1.0),
        player_position=CENTRE.astype(np.int32),
        player_direction=np.int32(Action.RIGHT.value),
    )


def build(game, offset, block):
    """`block` at `offset` from the player."""
    row, column = np.asarray(game.player_position) + offset
    return game.replace(map=put(game.map, (int(game.player_level), row, column), block.value))


def tunnel(game, length):
    """Walls around the player's row to the right, so that mobs in it stay in line."""
    for step in range(-1, length + 2):
        for side in (-1, 1):
            game = build(game, (side, step), BlockType.WALL)
    return build(game, (0, length + 1), BlockType.WALL)


def enter(game, mobs, offset, slot=0, health=1.0, type_id=0):
    """A living mob of class `mobs` at `offset` from the player."""
    where = (int(game.player_level), slot)
    position = np.asarray(game.player_position) + offset
    crowd = getattr(game, mobs)
    crowd = crowd.replace(
        position=put(crowd.position, where, position),
        health=put(crowd.health, where, health),
        mask=put(crowd.mask, where, True),
        type_id=put(crowd.type_id, where, type_id),
    )
    game = game.replace(**{mobs: crowd})
    if "projectiles" in mobs:
        return game
    return game.replace(mob_map=put(game.mob_map, (where[0], *position), True))


def shoot(game, offset, direction, slot=0):
    """A player's arrow in flight at `offset` from the player."""
    game = enter(game, "player_projectiles", offset, slot, type_id=4)
    flights = put(game.player_projectile_directions, (int(game.player_level), slot), direction)
    return game.replace(player_projectile_directions=flights)


def step_scenes(scenes, seed=0):
    """One checked step of up to ENVIRONMENTS scenes (game, action, harvested) → states after it, and Outcome."""
    padded = list(scenes) + [scenes[-1]] * (ENVIRONMENTS - len(scenes))
    games, actions, harvested = zip(*padded)
    state = CraftaxState(
        game=jax.tree.map(lambda *rows: jnp.stack(rows), *games), harvested=jnp.array(harvested, jnp.int32)
    )
    keys = jax.random.split(jax.random.key(seed), ENVIRONMENTS)
    after, outcome, agrees = checked_step(keys, state, jnp.array([a.value for a in actions]))
    assert disagreements(agrees) == []
    first = partial(jax.tree.map, lambda leaf: leaf[: len(scenes)])
    return first(after), jax.tree.map(np.asarray, first(outcome))
