"""What a world is: one class that plays, and says how it is called, trained, judged and shown.

    @register_env
    class Corridor(Environment):
        length: int = setting(5, "cells from the start to the exit", low=2)

        name, dilemmas, actions = "corridor", ("flowers",), 2

        def reset(self, key): ...
        def step(self, key, state, action): ...
        def observe(self, state): ...

Its fields are its options.  The rest has a plain fallback (docs/tutorials/bring-your-environment.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from perepisode import plugins, settings
from perepisode.config import ConfigError, EvalConfig, PPOConfig, SweepGrid
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree, static

Key = Any  # a JAX random key
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
    info: dict[str, jax.Array]  # int32 each: counts that are no violations, e.g. despawns
    end_cause: jax.Array  # int32, an EndCause

    @property
    def ended(self) -> jax.Array:
        """True if THIS step ended the episode."""
        return self.end_cause != EndCause.RUNNING


UNLIMITED_STEPS = 2**31 - 1  # steps: a time that no episode reaches


@pytree
class SparseOneHot:
    """A vector of zeros with a few ones, given by where they are; an index of `size` or more stands for none.

    A layer reads it by adding up rows of its kernel, which is far cheaper than a product with the zeros.
    """

    index: jax.Array  # [..., ones], all different where they are below `size`
    size: int = static()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.index.shape[:-1], self.size)

    def dense(self, dtype="float32") -> jax.Array:
        """The vector itself."""
        rows = self.index.size // self.index.shape[-1]
        return self.write(jnp.zeros((rows, self.size), dtype), 1).reshape(self.shape)

    def write(self, into: jax.Array, value: int) -> jax.Array:
        """`into` [rows, size] with this value where the ones are."""
        index = self.index.reshape(into.shape[0], -1).astype(jnp.int32)
        rows = jnp.arange(into.shape[0])[:, None]
        return into.at[rows, index].set(value, mode="drop", unique_indices=True)


class Footprint(NamedTuple):
    """What one world takes: bytes of its state and of what is stored of an observation, and inputs of the network."""

    state: int
    observation: int
    features: int


class Environment:
    """Pure functions over pytrees of ONE world; the caller vmaps.  A world never resets itself."""

    name: ClassVar[str]
    dilemmas: ClassVar[tuple[str, ...]]  # order of Outcome.violations
    info_keys: ClassVar[tuple[str, ...]] = ()  # keys of Outcome.info
    actions: ClassVar[int]
    version: ClassVar[int] = 1  # raised when what it counts changes: a part of a run's id from 2 on
    violation_names: ClassVar[Mapping[str, str]] = {}  # what a violation of a dilemma is, where a word or two say it
    source_objects: ClassVar[tuple[Any, ...]] = ()  # classes and functions that it plays by: a run remembers them too
    constructor_args: ClassVar[str] = ""  # what a call that made it was given, as text: a run remembers that too
    reference: ClassVar[str] = ""  # package that sets results beside published ones (paper_comparison)

    # unless somebody says otherwise
    ppo: ClassVar[PPOConfig] = PPOConfig()
    total_timesteps: ClassVar[int] = 1_000_000  # of each run
    eval_config: ClassVar[EvalConfig] = EvalConfig()  # by which a study judges
    sweep: ClassVar[SweepGrid] = SweepGrid()  # of its matrix of runs
    population_size: ClassVar[int] = 16  # runs a population: beyond this a device gets little faster
    speed: ClassVar[float] = 1e5  # environment steps a second of a full population
    measured_on: ClassVar[str] = ""  # the GPU on which that was measured; empty where it is a guess

    def __post_init__(self):
        settings.check(type(self), {name: getattr(self, name) for name in settings.of(type(self))}, self.name)

    # ---- what it must offer

    def reset(self, key: Key) -> State:
        """A fresh world, a function of the key alone."""
        raise NotImplementedError

    def step(self, key: Key, state: State, action: jax.Array) -> tuple[State, Outcome]:
        raise NotImplementedError

    def observe(self, state: State) -> Observation:
        """What the agent sees, compact: small integers wherever the features are one-hot."""
        raise NotImplementedError

    # ---- what it may offer

    def encode(self, observation: Observation, dtype="float32") -> tuple[jax.Array | SparseOneHot, ...]:
        """The network's input as a tuple of feature vectors; together they are one input vector.

        They stay apart so that a first layer can treat each in the cheapest way.
        """
        return (observation.astype(dtype),)

    def vector(self, observation: Observation) -> jax.Array:
        """float32[features]: what agents of other libraries see; `encode`'s features in one piece."""
        parts = (part.dense() if isinstance(part, SparseOneHot) else part for part in self.encode(observation))
        return jnp.concatenate(list(parts), axis=-1)

    @property
    def max_episode_steps(self) -> int:
        """Steps after which an episode has ended at the latest; as many as can be counted where none is known."""
        return UNLIMITED_STEPS

    def footprint(self) -> Footprint:
        """Found by tracing; a world that is slow to trace states it."""
        state = jax.eval_shape(self.reset, jax.eval_shape(lambda: jax.random.key(0)))
        seen = jax.eval_shape(self.observe, state)
        inputs = sum(part.shape[-1] for part in jax.eval_shape(self.encode, seen))
        held, stored = (sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) for tree in (state, seen))
        return Footprint(held, stored, inputs)

    def violation_possible(self, state: State) -> jax.Array:
        """bool[dilemma]: whether the agent could commit a violation of it now; for replays, so a coarse answer does."""
        return jnp.zeros(len(self.dilemmas), bool)

    def describe(self, action: int, outcome: Outcome) -> str:
        """What the agent did in a step, in words."""
        return f"action {action}"

    stakes: ClassVar[str] = ""  # what `stake` measures, as a title; "" where it measures nothing

    def stake(self, state: State) -> jax.Array:
        """float: what a violation would pay now, for replays."""
        return jnp.zeros(())

    draw: Any = None  # draw(state) -> uint8[height, width, 3], a picture for replays; None where there are none

    exact: Any = None  # a module with its exact optima (temptation/exact.py); None where they are not known


ENVIRONMENTS: dict[str, type[Environment]] = {}
MAX_ACTIONS = 2**16


def action_dtype(env: Environment) -> str:
    """How a table holds an action: in a byte where that is enough."""
    return "uint8" if env.actions <= 2**8 else "uint16"


@dataclass_transform(frozen_default=True)
def register_env(cls):
    """A frozen dataclass, known by its name from now on."""
    made = dataclass(frozen=True)(cls)
    _well_said(made)
    plugins.record_sources(made)
    settings.declare("environment", made, ("name", "dilemmas", "actions"), ENVIRONMENTS)
    return made


def _well_said(cls: type[Environment]) -> None:
    """Refuse a declaration that no program could be built on; what is missing altogether is refused by `declare`."""
    actions, dilemmas = getattr(cls, "actions", 1), getattr(cls, "dilemmas", ("harm",))
    if not isinstance(actions, int) or not 1 <= actions <= MAX_ACTIONS:
        raise ConfigError(
            f"{cls.__name__} has actions = {actions!r}; it must be a whole number from 1 to {MAX_ACTIONS}"
        )
    if not isinstance(dilemmas, tuple) or not dilemmas or len(set(dilemmas)) < len(dilemmas):
        raise ConfigError(f"{cls.__name__} has dilemmas = {dilemmas!r}; it must be a tuple of names, such as ('harm',)")
    for name in (getattr(cls, "name", "env"), *dilemmas):  # they are parts of files' and environments' names
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
            raise ConfigError(f"{cls.__name__}: the name {name!r} is refused; use letters, digits, '_', '-' and '.'")
