"""The random numbers of one step, separate from the rules that use them.

`upstream_draws` repeats Craftax's key splits, so that a step with them equals Craftax's bit for bit.  `bulk_draws`
draws the same distributions with a single call of the generator.
"""

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.craftax.engine.cells import CumulativeChoice, HashChoice
from perepisode.environments.craftax.engine.tables import CREATURES, ITEMS, PASSIVE, POTIONS, SLOT
from perepisode.pytree import pytree

ORES = np.array([SLOT[name] for name in ("coal", "iron", "diamond", "sapphire", "ruby")])
ORE_CHANCES = np.array([0.3, 0.3, 0.15, 0.125, 0.125], np.float32)
ORE_MOST = np.array([3, 2, 1, 1, 1], np.int32)
TOOL_CHANCES = np.array([0.4, 0.3, 0.2, 0.1], np.float32)


@pytree
class Draws:
    """Everything random in one step of one environment.  Uniform means float32 in [0, 1)."""

    sapling: jax.Array  # uniform: whether grass yields a sapling
    chest: jax.Array  # int32[item]: contents of a chest; for pickaxe and sword the level
    spell: jax.Array  # uniform: the spell a book teaches
    armour: jax.Array  # uniform: the piece to enchant
    wander: jax.Array  # int32[creature]: row of DIRECTIONS for a random move
    axis: jax.Array  # uniform[creature]: axis of approach when both distances are equal
    mood: jax.Array  # uniform[creature]: whether to wander or pursue
    spawn: jax.Array  # uniform[3]: whether a passive, melee, ranged mob spawns
    cell: CumulativeChoice | HashChoice  # where it spawns
    state_rng: jax.Array  # uint32[2]


def upstream_draws(key: jax.Array) -> Draws:
    """The draws of `craftax_step(key, ...)`."""
    _, (act, read, enchant, mobs, spawn, state_rng) = _subkeys(key, 6)
    _, (sapling, chest) = _subkeys(act, 2)
    wander, axis, mood = _mob_draws(mobs)
    _, spawn_keys = _subkeys(spawn, 6)
    spawn_uniforms = jax.vmap(jax.random.uniform)(spawn_keys)
    return Draws(
        sapling=jax.random.uniform(sapling),
        chest=_chest(chest),
        spell=jax.random.uniform(_subkeys(read, 1)[1][0]),
        armour=jax.random.uniform(_subkeys(enchant, 1)[1][0]),
        wander=wander,
        axis=axis,
        mood=mood,
        spawn=spawn_uniforms[0::2],
        cell=CumulativeChoice(spawn_uniforms[1::2]),
        state_rng=jax.random.key_data(state_rng),
    )


def _subkeys(key: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Repeat `key, sub = split(key)` `count` times: the last key and all subkeys."""

    def split(key, _):
        key, sub = jax.random.split(key)
        return key, sub

    return jax.lax.scan(split, key, length=count)


def _mob_draws(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Craftax threads one key through its mobs; melee mobs split four times and pass on the last subkey."""

    def melee(key, _):
        _, subs = _subkeys(key, 4)
        return subs[3], subs[:3]

    def ranged(key, _):
        return _subkeys(key, 3)

    key, _ = jax.random.split(key)
    key, melee_keys = jax.lax.scan(melee, key, length=3)
    key, _ = jax.random.split(key)
    key, passive_keys = _subkeys(key, 3)
    key, _ = jax.random.split(key)
    _, ranged_keys = jax.lax.scan(ranged, key, length=2)

    def directions(keys, count):
        return 1 + jax.vmap(lambda sub: jax.random.randint(sub, (), 0, count))(keys)

    def uniforms(column):
        hunters = jnp.concatenate([melee_keys[:, column], ranged_keys[:, column]])
        drawn = jax.vmap(jax.random.uniform)(hunters)
        return jnp.concatenate([drawn[:3], jnp.zeros(3), drawn[3:]])

    hunters = directions(jnp.concatenate([melee_keys[:, 0], ranged_keys[:, 0]]), 4)
    wander = jnp.concatenate([hunters[:3], directions(passive_keys, 8), hunters[3:]])
    return wander, uniforms(1), uniforms(2)


def _chest(key: jax.Array) -> jax.Array:
    _, subs = _subkeys(key, 14)
    uniform = jax.vmap(jax.random.uniform)(subs)

    def integer(index, low, high):
        return jax.random.randint(subs[index], (), low, high)

    def weighted(index, chances):
        return jax.random.choice(subs[index], jnp.arange(len(chances)), p=jnp.asarray(chances))

    ore = weighted(3, ORE_CHANCES)
    ore_amounts = jnp.stack([integer(4, 1, most + 1) for most in ORE_MOST])
    return chest_contents(
        torches=integer(1, 4, 8) * (uniform[0] < 0.6),
        ore=ore,
        ore_amount=ore_amounts[ore] * (uniform[2] < 0.6),
        potion=integer(6, 0, 6),
        potion_amount=integer(7, 1, 3) * (uniform[5] < 0.5),
        arrows=integer(9, 1, 5) * (uniform[8] < 0.25),
        pickaxe=(weighted(12, TOOL_CHANCES) + 1) * ((uniform[10] < 0.2) & (integer(11, 0, 2) == 0)),
        sword=(weighted(13, TOOL_CHANCES) + 1) * ((uniform[10] < 0.2) & (integer(11, 0, 2) == 1)),
    )


def chest_contents(*, torches, ore, ore_amount, potion, potion_amount, arrows, pickaxe, sword) -> jax.Array:
    """The inventory vector of a chest; `ore` and `potion` select the kind."""
    slots = jnp.arange(ITEMS)
    vector = jnp.zeros(ITEMS, jnp.int32)
    for name, amount in (("torches", torches), ("arrows", arrows), ("pickaxe", pickaxe), ("sword", sword)):
        vector = jnp.where(slots == SLOT[name], jnp.expand_dims(amount, -1), vector)
    ore_slot = sum(jnp.where(ore == kind, slot, 0) for kind, slot in enumerate(ORES))
    vector = jnp.where(slots == jnp.expand_dims(ore_slot, -1), jnp.expand_dims(ore_amount, -1), vector)
    potion_slot = jnp.expand_dims(POTIONS.start + potion, -1)
    return jnp.where(slots == potion_slot, jnp.expand_dims(potion_amount, -1), vector)


WORDS = (1, 13, 2, CREATURES, CREATURES, CREATURES, 3, 3, 2)  # random words per field, in the order below


def bulk_draws(key: jax.Array, batch: tuple[int, ...] = ()) -> Draws:
    """The fields of `upstream_draws` from one call of the generator, optionally for a batch of environments."""
    words = jax.random.bits(key, (*batch, sum(WORDS)), jnp.uint32)
    sapling, chest, choice, wander, axis, mood, spawn, cell, state_rng = jnp.split(words, np.cumsum(WORDS)[:-1], -1)
    directions = np.full(CREATURES, 4, np.uint32)
    directions[PASSIVE] = 8
    return Draws(
        sapling=_uniform(sapling[..., 0]),
        chest=_bulk_chest(chest),
        spell=_uniform(choice[..., 0]),
        armour=_uniform(choice[..., 1]),
        wander=1 + _below(wander, directions),
        axis=_uniform(axis),
        mood=_uniform(mood),
        spawn=_uniform(spawn),
        cell=HashChoice(cell),
        state_rng=state_rng,
    )


def _uniform(words: jax.Array) -> jax.Array:
    return (words >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def _below(words: jax.Array, bound) -> jax.Array:
    """Integers in [0, bound), bound at most 256: the high part of a 24-bit product."""
    return (((words >> 8) * jnp.asarray(bound, jnp.uint32)) >> 24).astype(jnp.int32)


def _bulk_chest(words: jax.Array) -> jax.Array:
    def uniform(index):
        return _uniform(words[..., index])

    def integer(index, low, high):
        return low + _below(words[..., index], high - low)

    def weighted(index, chances):
        bounds = np.cumsum(chances.astype(np.float64))[:-1].astype(np.float32)
        return sum((uniform(index) >= bound).astype(jnp.int32) for bound in bounds)

    ore = weighted(3, ORE_CHANCES)
    most = sum(jnp.where(ore == kind, int(number), 0) for kind, number in enumerate(ORE_MOST))
    finds_tool, tool = uniform(10) < 0.2, integer(11, 0, 2)
    level = 1 + weighted(12, TOOL_CHANCES)
    return chest_contents(
        torches=integer(1, 4, 8) * (uniform(0) < 0.6),
        ore=ore,
        ore_amount=(1 + _below(words[..., 4], most)) * (uniform(2) < 0.6),
        potion=integer(6, 0, 6),
        potion_amount=integer(7, 1, 3) * (uniform(5) < 0.5),
        arrows=integer(9, 1, 5) * (uniform(8) < 0.25),
        pickaxe=level * (finds_tool & (tool == 0)),
        sword=level * (finds_tool & (tool == 1)),
    )
