"""Statistics of whole episodes, to compare two engines by distribution where they use different random numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from perepisode.environments.base import Environment
from perepisode.environments.craftax.engine.tables import Achievement
from perepisode.environments.reset_pool import action_key, assign_resets, empty_pool, episode_key, step_key
from perepisode.pytree import pytree

BINS = 48
# name → lower edges of its bins: evenly spaced, or geometrically for quantities without a natural bound
EDGES = {
    "length": np.unique(np.geomspace(1, 20_000, BINS + 8).astype(int))[:BINS],
    "return": np.arange(BINS) - 0.5,
    "cows and the like killed": np.arange(BINS),
    "enemies killed": np.arange(BINS),
    "births": np.unique(np.geomspace(1, 8_000, BINS + 8).astype(int))[:BINS],
    "despawns": np.unique(np.geomspace(1, 8_000, BINS + 8).astype(int))[:BINS],
    "wood": np.arange(BINS),
}
MOBS = ("passive_mobs", "melee_mobs", "ranged_mobs")


@pytree
class Tally:
    """Sums over finished episodes."""

    episodes: jax.Array
    histograms: jax.Array  # int32[quantity, bin]
    unlocked: jax.Array  # int32[achievement]


@pytree
class Play:
    """Running episodes, [env], and the tally of the finished ones."""

    env_states: Any
    episode_ids: jax.Array
    reset_pool: Any
    hidden_state: Any  # of the agent
    is_first: jax.Array
    so_far: jax.Array  # float32[env, quantity]: sums of the running episode
    ended: jax.Array  # int32[env]: episodes finished
    tally: Tally


def start(env: Environment, key: jax.Array, envs: int, hidden_state: Any, reset_pool_size: int = 256) -> Play:
    env_states, reset_pool = empty_pool(env, key[None], envs, reset_pool_size)
    zero, episode_ids = jnp.int32(0), jnp.zeros((1, envs), jnp.int32)
    tally = Tally(zero, jnp.zeros((len(EDGES), BINS), jnp.int32), jnp.zeros(len(Achievement), jnp.int32))
    return Play(
        env_states,
        episode_ids,
        reset_pool,
        hidden_state,
        jnp.ones(envs, bool),
        jnp.zeros((envs, len(EDGES))),
        jnp.zeros(envs, int),
        tally,
    )


def advance(env: Environment, act: Callable, first: int, key: jax.Array, params: Any, play: Play) -> Play:
    """One step of every environment.  Only the `first` episodes of each count: all would favour short ones."""
    reset_pool, env_states, episode_ids = assign_resets(
        env, key[None], play.reset_pool, play.env_states, play.episode_ids, play.is_first[None]
    )
    episodes = jax.vmap(partial(episode_key, key))(episode_ids[0])
    time = play.so_far[:, 0].astype(jnp.int32)
    before = jax.tree.map(lambda x: x[0], env_states)
    actions, hidden_state = act(
        params, jax.vmap(action_key)(episodes, time), play.hidden_state, play.is_first, before.game
    )
    after, outcome = jax.vmap(env.step)(jax.vmap(step_key)(episodes, time), before, actions)
    gone = sum(outcome.info[name] for name in ("passive_kills", "hostile_kills", "despawns"))
    births = _living(after.game) - _living(before.game) + gone
    seen = (
        jnp.ones_like(gone), outcome.task_reward, outcome.info["passive_kills"], outcome.info["hostile_kills"],
        births, outcome.info["despawns"], outcome.info["wood"],
    )  # fmt: skip
    so_far = play.so_far + jnp.stack([x.astype(jnp.float32) for x in seen], axis=-1)
    counted = outcome.ended & (play.ended < first)
    return Play(
        env_states=jax.tree.map(lambda x: x[None], after),
        episode_ids=episode_ids,
        reset_pool=reset_pool,
        hidden_state=hidden_state,
        is_first=outcome.ended,
        so_far=jnp.where(outcome.ended[:, None], 0.0, so_far),
        ended=play.ended + outcome.ended,
        tally=_add(play.tally, counted, so_far, after.game.achievements),
    )


def _living(game) -> jax.Array:
    return reduce(jnp.add, (getattr(game, name).mask.sum(axis=(-1, -2)) for name in MOBS))


def _add(tally: Tally, counted, so_far, achievements) -> Tally:
    edges = [jnp.asarray(e, jnp.float32) for e in EDGES.values()]
    bins = jnp.stack([jnp.searchsorted(e, so_far[:, i], side="right") for i, e in enumerate(edges)])
    bins = jnp.clip(bins - 1, 0, BINS - 1)  # values below the first edge share its bin
    rows = jnp.arange(len(EDGES))[:, None]
    return Tally(
        episodes=tally.episodes + counted.sum(),
        histograms=tally.histograms.at[rows, bins].add(counted[None].astype(jnp.int32)),
        unlocked=tally.unlocked + (achievements & counted[:, None]).sum(0),
    )


def collect(env, act, params, hidden_state, key, envs: int, first: int, chunk: int = 128, limit: int = 60_000) -> Tally:
    """Step until every environment has finished its `first` episodes."""

    @partial(jax.jit, donate_argnums=2)
    def run(key, params, play):
        return jax.lax.fori_loop(0, chunk, lambda _, p: advance(env, act, first, key, params, p), play)

    play = jax.jit(partial(start, env, envs=envs))(key, hidden_state=hidden_state)
    for _ in range(0, limit, chunk):
        play = run(key, params, play)
        if int(play.ended.min()) >= first:
            return jax.tree.map(np.asarray, play.tally)
    raise RuntimeError(f"some environments did not finish {first} episodes in {limit} steps")


def at_random(params, keys, hidden_state, is_first, games):
    """A policy for `collect`: random actions."""
    return jax.vmap(lambda key: jax.random.randint(key, (), 0, 43))(keys), hidden_state


def differences(left: Tally, right: Tally) -> dict[str, float]:
    """For each quantity, the p-value of the hypothesis that both engines have the same distribution."""
    found = {name: _chi_square(a, b) for name, a, b in zip(EDGES, left.histograms, right.histograms)}
    for kind in Achievement:
        counts = np.array([[t.unlocked[kind], t.episodes - t.unlocked[kind]] for t in (left, right)])
        if counts.min(axis=1).sum() and counts.sum(axis=0).min() >= 10:
            found[kind.name] = _p(stats.fisher_exact(counts))
    return found


def _chi_square(left: np.ndarray, right: np.ndarray, least: int = 20) -> float:
    """Chi-square test; neighbouring bins are merged until each has enough episodes."""
    groups, total = [], np.zeros(2)
    for pair in np.stack([left, right], axis=1):
        total = total + pair
        if total.sum() >= least:
            groups.append(total)
            total = np.zeros(2)
    if groups:
        groups[-1] = groups[-1] + total
    return _p(stats.chi2_contingency(np.array(groups))) if len(groups) > 1 else 1.0


def _p(result: Any) -> float:
    return float(result.pvalue)
