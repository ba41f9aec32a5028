"""ResetPool worlds for finished episodes: made in batches, handed out in order, each used once.

The n-th episode of a run lives in a world that is a function of the run's key and n alone.  Batch size and the order
in which batches are made therefore change nothing but speed, and any episode can be replayed from its number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perepisode.environments.base import Environment
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

SMALL = 256  # elements of an array of one world


def episode_key(run_key: jax.Array, episode_id: jax.Array) -> jax.Array:
    """Key of the run's episode number `serial`; all its randomness comes from here."""
    return jax.random.fold_in(run_key, episode_id)


def reset_key(episode: jax.Array) -> jax.Array:
    return jax.random.fold_in(episode, 0)


def step_key(episode: jax.Array, time: jax.Array) -> jax.Array:
    """Key of the world's step at `time` (0 for the first)."""
    return jax.random.fold_in(episode, 2 * time + 1)


def action_key(episode: jax.Array, time: jax.Array) -> jax.Array:
    """Key of the policy's choice at `time`."""
    return jax.random.fold_in(episode, 2 * time + 2)


@pytree
class ResetPool:
    """A batch of unused worlds for each run of a population, [run, slot, ...]."""

    worlds: object
    first: jax.Array  # int32[run]: serial of slot 0
    handed: jax.Array  # int32[run]: serial of the next world to be handed out


def make(env: Environment, run_keys: jax.Array, first: jax.Array, size: int) -> ResetPool:
    """Worlds `first`, `first` + 1, … of every run."""
    episode_ids = first[:, None] + jnp.arange(size)

    def one(run_key, episode_id):
        return env.reset(reset_key(episode_key(run_key, episode_id)))

    worlds = jax.vmap(jax.vmap(one, in_axes=(None, 0)))(run_keys, episode_ids)
    return ResetPool(worlds, first, first)


def empty_pool(env: Environment, run_keys: jax.Array, envs: int, size: int) -> tuple[object, ResetPool]:
    """Places for `envs` worlds of every run, and for `size` fresh ones, all still to be made.

    Making a world is the largest thing to compile.  `assign_resets` does it for the first episodes as for all others, so
    that it is compiled in no other program.
    """
    shapes = jax.eval_shape(env.reset, jax.random.key(0))
    runs = run_keys.shape[0]

    def places(count):
        return jax.tree.map(lambda leaf: _blank((runs, count, *leaf.shape), leaf.dtype), shapes)

    nothing = jnp.zeros(runs, jnp.int32)
    return places(envs), ResetPool(places(size), first=nothing - size, handed=nothing)


def _blank(shape, dtype) -> jax.Array:
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), shape)
    return jnp.zeros(shape, dtype)


def assign_resets(
    env: Environment, run_keys: jax.Array, pool: ResetPool, states: object, episode_ids: jax.Array, ended: jax.Array
) -> tuple[ResetPool, object, jax.Array]:
    """Put the next fresh world wherever `ended` [run, env]; make more when they run out.

    Worlds are moved a few at a time into the finished episodes' places instead of rewriting every world's state.
    """
    envs = ended.shape[1]
    size = jax.tree.leaves(pool.worlds)[0].shape[1]
    batch = min(size, max(16, envs // 64))

    def some_wait(carry):
        return carry[3].any()

    serve = jax.vmap(lambda *one: _serve_run(batch, *one))

    def make_and_serve(carry):
        pool, *rest = carry
        used_up = (rest[-1].any(axis=1) & (pool.handed - pool.first >= size)).any()
        pool = jax.lax.cond(used_up, lambda f: make(env, run_keys, f.handed, size), lambda f: f, pool)
        return serve(pool, *rest)

    carry = (pool, states, episode_ids, ended)
    if jax.default_backend() == "gpu":
        # nearly always enough, and a GPU stands still wherever the host looks at a condition
        carry = serve(*carry)
    pool, states, episode_ids, _ = jax.lax.while_loop(some_wait, make_and_serve, carry)
    return pool, states, episode_ids


def _serve_run(batch: int, pool: ResetPool, states, episode_ids, waiting):
    """Hand at most `batch` worlds of one run to its first waiting places."""
    envs = waiting.shape[0]
    size = jax.tree.leaves(pool.worlds)[0].shape[0]
    used = pool.handed - pool.first
    count = jnp.minimum(jnp.minimum(waiting.sum(), batch), size - used)
    turn = jnp.cumsum(waiting) - 1  # of each place among those that wait
    served = waiting & (turn < count)
    slot = jnp.clip(used + turn, 0, size - 1)
    lane = jnp.arange(batch)
    # places beyond the count lie outside the array, where a scatter drops them
    places = jnp.where(lane < count, jnp.nonzero(waiting, size=batch, fill_value=envs)[0], envs)
    slots = jnp.minimum(used + lane, size - 1)
    states = scatter_states(states, pool.worlds, served, places, slot, slots)
    episode_ids = jnp.where(served, pool.handed + turn, episode_ids)
    return replace(pool, handed=pool.handed + count), states, episode_ids, waiting & ~served


def scatter_states(states, worlds, served: jax.Array, places: jax.Array, slot: Any = slice(None), slots: Any = None):
    """The states with a fresh world in every place that is `served`, which `places` lists; other numbers in it lie
    outside.  `slot` and `slots` say which world is for each place, and for each of `places`: its own if left out.

    Large arrays are moved place by place.  Small ones, and there are many, all at once: on a GPU that is one kernel for
    many of them instead of one for each.
    """

    def move(state, new):
        if state[0].size > SMALL:
            return state.at[places].set(new[places if slots is None else slots], mode="drop")
        return jnp.where(served.reshape(-1, *[1] * (state.ndim - 1)), new[slot], state)

    return jax.tree.map(move, states, worlds)
