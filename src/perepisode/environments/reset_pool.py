"""Reset states for finished episodes: generated in batches, assigned in order, each used once.

The n-th episode of a run starts in a state that is a function of the run's key and n alone.  Batch size and the order
in which batches are generated therefore affect only speed, and any episode can be replayed from its number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perepisode.environments.base import Environment
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

SMALL = 256  # arrays with at most this many elements per environment are rewritten for the whole batch


def episode_key(run_key: jax.Array, episode_id: jax.Array) -> jax.Array:
    """Key of the run's episode number `episode_id`, the source of all its randomness."""
    return jax.random.fold_in(run_key, episode_id)


def reset_key(episode: jax.Array) -> jax.Array:
    return jax.random.fold_in(episode, 0)


def step_key(episode: jax.Array, time: jax.Array) -> jax.Array:
    """Key of the environment step at `time` (0 for the first)."""
    return jax.random.fold_in(episode, 2 * time + 1)


def action_key(episode: jax.Array, time: jax.Array) -> jax.Array:
    """Key for sampling the action at `time`."""
    return jax.random.fold_in(episode, 2 * time + 2)


@pytree
class ResetPool:
    """A batch of unused reset states for each run of a population, [run, slot, ...]."""

    states: object
    first_id: jax.Array  # int32[run]: episode id of slot 0
    next_id: jax.Array  # int32[run]: episode id of the next state to assign


def make(env: Environment, run_keys: jax.Array, first_id: jax.Array, size: int) -> ResetPool:
    """Reset states of episodes `first_id`, `first_id` + 1, … of every run."""
    episode_ids = first_id[:, None] + jnp.arange(size)

    def reset(run_key, episode_id):
        return env.reset(reset_key(episode_key(run_key, episode_id)))

    states = jax.vmap(jax.vmap(reset, in_axes=(None, 0)))(run_keys, episode_ids)
    return ResetPool(states, first_id, first_id)


def empty_pool(env: Environment, run_keys: jax.Array, envs: int, size: int) -> tuple[object, ResetPool]:
    """Placeholder states for `envs` environments of every run, and an exhausted pool of `size` reset states.

    World generation dominates compilation time.  `assign_resets` generates the first episodes like all others, so no
    other program has to compile it.
    """
    shapes = jax.eval_shape(env.reset, jax.random.key(0))
    runs = run_keys.shape[0]

    def placeholders(count):
        return jax.tree.map(lambda leaf: _zeros((runs, count, *leaf.shape), leaf.dtype), shapes)

    zero = jnp.zeros(runs, jnp.int32)
    return placeholders(envs), ResetPool(placeholders(size), first_id=zero - size, next_id=zero)


def _zeros(shape, dtype) -> jax.Array:
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), shape)
    return jnp.zeros(shape, dtype)


def assign_resets(
    env: Environment, run_keys: jax.Array, pool: ResetPool, states: object, episode_ids: jax.Array, ended: jax.Array
) -> tuple[ResetPool, object, jax.Array]:
    """Assign the next reset state wherever `ended` [run, env]; refill the pool when it runs out.

    A few states at a time are scattered to the ended environments instead of rewriting every environment's state.
    """
    envs = ended.shape[1]
    size = jax.tree.leaves(pool.states)[0].shape[1]
    batch = min(size, max(16, envs // 64))

    def any_waiting(carry):
        return carry[3].any()

    assign = jax.vmap(lambda *run: _assign_run(batch, *run))

    def refill_and_assign(carry):
        pool, *rest = carry
        exhausted = (rest[-1].any(axis=1) & (pool.next_id - pool.first_id >= size)).any()
        pool = jax.lax.cond(exhausted, lambda pool: make(env, run_keys, pool.next_id, size), lambda pool: pool, pool)
        return assign(pool, *rest)

    carry = (pool, states, episode_ids, ended)
    if jax.default_backend() == "gpu":
        # almost always sufficient, and a GPU idles whenever the host evaluates the loop condition
        carry = assign(*carry)
    pool, states, episode_ids, _ = jax.lax.while_loop(any_waiting, refill_and_assign, carry)
    return pool, states, episode_ids


def _assign_run(batch: int, pool: ResetPool, states, episode_ids, waiting):
    """Assign at most `batch` reset states of one run to its first waiting environments."""
    envs = waiting.shape[0]
    size = jax.tree.leaves(pool.states)[0].shape[0]
    used = pool.next_id - pool.first_id
    count = jnp.minimum(jnp.minimum(waiting.sum(), batch), size - used)
    rank = jnp.cumsum(waiting) - 1  # of each environment among those that wait
    assigned = waiting & (rank < count)
    slot = jnp.clip(used + rank, 0, size - 1)
    lane = jnp.arange(batch)
    # indices beyond the count lie outside the array, where a scatter drops them
    env_indices = jnp.where(lane < count, jnp.nonzero(waiting, size=batch, fill_value=envs)[0], envs)
    slots = jnp.minimum(used + lane, size - 1)
    states = scatter_states(states, pool.states, assigned, env_indices, slot, slots)
    episode_ids = jnp.where(assigned, pool.next_id + rank, episode_ids)
    return replace(pool, next_id=pool.next_id + count), states, episode_ids, waiting & ~assigned


def scatter_states(
    states, new_states, assigned: jax.Array, env_indices: jax.Array, slot: Any = slice(None), slots: Any = None
):
    """The states with a new state in every environment that is `assigned`; `env_indices` lists those environments.

    Indices outside the array are dropped.  `slot` is the new state's index for each environment, `slots` for each of
    `env_indices`; by default a new state has the index of its environment.

    Large arrays are scattered by environment.  The many small ones are rewritten whole, because a GPU fuses several of
    them into one kernel.
    """

    def write(state, new):
        if state[0].size > SMALL:
            return state.at[env_indices].set(new[env_indices if slots is None else slots], mode="drop")
        return jnp.where(assigned.reshape(-1, *[1] * (state.ndim - 1)), new[slot], state)

    return jax.tree.map(write, states, new_states)
