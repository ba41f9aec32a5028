"""What a world must offer, and what one step of it reports."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from perepisode.pytree import pytree, static

Key = jax.Array
State = Any
Observation = Any


class EndCause(IntEnum):
    """Why an episode ended.  `ENFORCED` comes from an objective during training, never from a world."""

    RUNNING = 0
    DEATH = 1
    TIMEOUT = 2
    WON = 3
    ENFORCED = 4


@pytree
class Outcome:
    """What happened in one step of one world, before any objective has its say."""

    task_reward: jax.Array  # float32, the native reward
    violations: jax.Array  # int32[dilemma], exact
    paper_violations: jax.Array  # int32[dilemma], what the paper's state difference sees
    audit: dict[str, jax.Array]  # int32 each: counts that are no violations, e.g. despawns
    end_cause: jax.Array  # int32, an EndCause

    @property
    def ended(self) -> jax.Array:
        """True if THIS step ended the episode."""
        return self.end_cause != EndCause.RUNNING


@pytree
class Hot:
    """A vector of zeros with a few ones, given by where they are; an index of `size` or more stands for none.

    A layer reads it by adding up rows of its kernel, which is far cheaper than a product with the zeros.
    """

    index: jax.Array  # [..., ones], all different where they are below `size`
    size: int = static()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.index.shape[:-1], self.size)

    def dense(self, dtype=jnp.float32) -> jax.Array:
        """The vector itself."""
        index = self.index.reshape(-1, self.index.shape[-1]).astype(jnp.int32)
        rows = jnp.arange(index.shape[0])[:, None]
        zeros = jnp.zeros((index.shape[0], self.size), dtype)
        return zeros.at[rows, index].set(1, mode="drop", unique_indices=True).reshape(self.shape)


class World(Protocol):
    """Pure functions over pytrees of ONE world; the caller vmaps.  A world never resets itself."""

    name: str
    dilemmas: tuple[str, ...]  # order of Outcome.violations
    audits: tuple[str, ...]  # keys of Outcome.audit
    actions: int

    def reset(self, key: Key) -> State:
        """A fresh world, a function of the key alone."""
        ...

    def step(self, key: Key, state: State, action: jax.Array) -> tuple[State, Outcome]: ...

    def observe(self, state: State) -> Observation:
        """What the agent sees, compact: small integers wherever the features are one-hot."""
        ...

    def within_reach(self, state: State) -> jax.Array:
        """bool[dilemma]: whether the agent could commit a violation of it now; for replays, so a coarse answer does."""
        ...

    def encode(self, observation: Observation, dtype=jnp.float32) -> tuple[jax.Array | Hot, ...]:
        """The network's input as a tuple of feature vectors; together they are one input vector.

        They stay apart so that a first layer can treat each in the cheapest way.
        """
        ...
