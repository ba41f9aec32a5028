"""Distil a preference rule into a utility: pool of episodes → labelled pairs → Bradley–Terry fit (Eq. 6)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from perepisode.config import ETHICAL_PENALTY, ConfigError
from perepisode.evaluation.episodes import read
from perepisode.lazy import jax, jnp, optax
from perepisode.methods.esr_distilled import POOL, Distilled, to_json
from perepisode.runs import versions, write_atomically

FEW_VIOLATING = 0.02  # below this share of violating episodes, the pool hardly shows violations


def distill(
    episodes: Sequence[Path],
    dilemma: str,
    out: Path,
    tolerance: float = 0.5,
    pairs: int = 20_000,
    seed: int = 0,
    log: Callable[[str], None] = print,
) -> Path:
    """Fit u_θ to the pool in these episodes tables and write it as JSON."""
    returns, counts = pool(episodes, dilemma)
    warning = pool_warning(counts)
    if warning:
        log(f"warning: {warning}")
    random = np.random.default_rng(seed)
    winners, losers = labelled_pairs(random, returns, counts, pairs, tolerance)
    held_out = len(winners) // 10
    utility = fit(random, winners[held_out:], losers[held_out:], returns)
    agrees = np.asarray(utility(*winners[:held_out].T)) > np.asarray(utility(*losers[:held_out].T))
    metadata = {
        "dilemma": dilemma,
        "tolerance": tolerance,
        "episodes": len(returns),
        "violating_episodes": int((counts > 0).sum()),
        "worst_episode": int(counts.max()),
        "held_out_agreement": float(agrees.mean()),
        "warning": warning,
        "versions": versions(),
    }
    log(
        f"distilled {len(returns)} episodes ({metadata['violating_episodes']} violating, worst "
        f"{metadata['worst_episode']}); agrees with the rule on {100 * agrees.mean():.1f} % of held-out pairs"
    )
    write_atomically(Path(out), json.dumps({"dilemma": dilemma, **to_json(utility), "about": metadata}))
    return Path(out)


def pool(episodes: Sequence[Path], dilemma: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns and violation counts of the pool: unconstrained agents of any dilemma, ERM and SER agents of this one.

    ERM is a fixed penalty with enforcement, SER stands for scalarised expected returns (docs/concepts/methods.md).
    """
    table = read([Path(path) for path in episodes], without=("actions",))
    column = f"violations_{dilemma}"
    if column not in table:
        raise ConfigError(f"the episodes table has no column {column}; evaluate runs in an environment of that dilemma")
    own = table["method"].isin(POOL) & ((table["dilemma"] == dilemma) | (table["method"] == "unconstrained"))
    if (table.loc[own, "gamma"] != 1).any():
        own &= table["gamma"] != 1
    table = table.loc[own]
    if table.empty:
        raise ConfigError(f"the pool has no episode of {', '.join(POOL)} for {dilemma}; evaluate such runs first")
    return table["return"].to_numpy(float), table[column].to_numpy(float)


def pool_warning(counts: np.ndarray) -> str | None:
    """Why this pool cannot order violations, as in the paper's Proportional Force failure; None if it can."""
    violating, worst = int((counts > 0).sum()), int(counts.max())
    if violating >= FEW_VIOLATING * len(counts) and worst > 1:
        return None
    return (
        f"only {violating} of {len(counts)} pool episodes violate (worst: {worst}), so worse episodes are not ordered "
        "and the fitted utility may prefer them; use a stated utility (--method esr) instead"
    )


def preferred(r_a, v_a, r_b, v_b, tolerance: float):
    """+1 if a is better, -1 if b is better, 0 for a tie.

    An episode within tolerance beats one beyond it.  Within tolerance, the higher return is better; beyond it, fewer
    violations are better, then the higher return.
    """
    in_a, in_b = v_a <= tolerance, v_b <= tolerance
    by_return = np.sign(r_a - r_b)
    by_violations = np.where(v_a == v_b, by_return, np.sign(v_b - v_a))
    return np.where(in_a & in_b, by_return, np.where(in_a == in_b, by_violations, np.where(in_a, 1, -1)))


def labelled_pairs(random, returns, counts, number: int, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Winners and losers [pair, (R_ext, R_eth)]: two thirds from the rule, one third from the monotonicity prior."""
    a, b = random.integers(len(returns), size=(2, 2 * number // 3))
    by_rule = [np.stack([returns[i], counts[i]], axis=1) for i in (a, b)]
    order = preferred(returns[a], counts[a], returns[b], counts[b], tolerance)
    size = number // 6
    low, high = min(0.0, returns.min()), returns.max()
    lower, upper = np.sort(random.uniform(low, high, (2, size)), axis=0)
    same_count = random.choice(np.unique(counts), size)
    fewer, more = np.sort(random.integers(0, int(counts.max()) + 1, (2, size)), axis=0)
    same_return = random.uniform(low, high, size)
    winners = [
        np.where(order[:, None] > 0, *by_rule),
        np.stack([upper, same_count], axis=1),
        np.stack([same_return, fewer], axis=1),
    ]
    losers = [
        np.where(order[:, None] > 0, *by_rule[::-1]),
        np.stack([lower, same_count], axis=1),
        np.stack([same_return, more], axis=1),
    ]
    kept = np.concatenate([order != 0, upper > lower, fewer < more])
    shuffled = random.permutation(np.flatnonzero(kept))
    to_returns = np.array([1.0, -ETHICAL_PENALTY])
    return np.concatenate(winners)[shuffled] * to_returns, np.concatenate(losers)[shuffled] * to_returns


def bradley_terry(utility: Distilled, winners: jax.Array, losers: jax.Array) -> jax.Array:
    """Eq. 6: -E[log σ(u(G_w) - u(G_l))]."""
    margin = utility.raw(winners[:, 0], winners[:, 1]) - utility.raw(losers[:, 0], losers[:, 1])
    return jax.nn.softplus(-margin).mean()


def fit(random, winners: np.ndarray, losers: np.ndarray, returns: np.ndarray, steps: int = 2000) -> Distilled:
    """Minimise Eq. 6 with Adam, then shift to u(0, 0) = 0 and scale to unit slope in the return of clean episodes."""
    inputs = np.concatenate([winners, losers])
    std = np.where(inputs.std(axis=0) > 0, inputs.std(axis=0), ETHICAL_PENALTY)
    start = _initial(random, inputs.mean(axis=0), std)
    weights = (start.kernels, start.biases)
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, steps))

    def loss(weights, winners, losers):
        return bradley_terry(Distilled(start.mean, start.std, *weights), winners, losers)

    def step(carry, rows):
        weights, opt_state = carry
        gradient = jax.grad(loss)(weights, better[rows], worse[rows])
        updates, opt_state = optimiser.update(gradient, opt_state)
        return (optax.apply_updates(weights, updates), opt_state), None

    better, worse = jnp.asarray(winners, jnp.float32), jnp.asarray(losers, jnp.float32)
    rows = jnp.asarray(random.integers(len(winners), size=(steps, min(256, len(winners)))))
    run = jax.jit(partial(jax.lax.scan, step))
    (weights, _), _ = run((weights, optimiser.init(weights)), rows)
    return _in_game_units(Distilled(start.mean, start.std, *weights), returns)


def _in_game_units(utility: Distilled, returns: np.ndarray) -> Distilled:
    low, high = np.quantile(returns, [0.05, 0.95])
    slope = float(utility.raw(high, 0.0) - utility.raw(low, 0.0)) / max(high - low, 1e-9)
    if not slope > 0:
        raise ConfigError("the fitted utility does not increase with the return of clean episodes; use a larger pool")
    offset = float(utility.raw(0.0, 0.0))
    return Distilled(utility.mean, utility.std, utility.kernels, utility.biases, offset, 1.0 / slope)


def _initial(random, mean: np.ndarray, std: np.ndarray, width: int = 64) -> Distilled:
    sizes = (2, width, width, 1)
    kernels = tuple(jnp.asarray(random.normal(size=(a, b)) / a**0.5, jnp.float32) for a, b in itertools.pairwise(sizes))
    biases = tuple(jnp.zeros(b) for b in sizes[1:])
    return Distilled(jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32), kernels, biases)
