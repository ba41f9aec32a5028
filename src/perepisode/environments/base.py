"""The environment interface: one class with the dynamics, the dilemmas, and defaults for training and evaluation.

    @register_env
    class Corridor(Environment):
        length: int = setting(5, "cells from the start to the exit", low=2)

        name, dilemmas, actions = "corridor", ("flowers",), 2

        def reset(self, key): ...
        def step(self, key, state, action): ...
        def observe(self, state): ...

Its fields are its options.  Everything else has a default (docs/tutorials/bring-your-environment.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from perepisode import plugins, settings
from perepisode.config import ConfigError, EvalConfig, PPOConfig, SweepGrid
from perepisode.environments import action_space
from perepisode.environments.action_space import Box
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree, static

Key = Any  # a JAX random key
State = Any
Observation = Any


class EndCause(IntEnum):
    """Why an episode ended.  `ENFORCED` comes from an objective during training, never from an environment."""

    RUNNING = 0
    DEATH = 1
    TIMEOUT = 2
    WON = 3
    ENFORCED = 4


@pytree
class Outcome:
    """The result of one step of one environment, independent of any objective."""

    task_reward: jax.Array  # float32, the native reward
    violations: jax.Array  # int32[dilemma], exact
    paper_violations: jax.Array  # int32[dilemma], as counted by the paper's state difference
    info: dict[str, jax.Array]  # int32 each: counts other than violations, e.g. despawns
    end_cause: jax.Array  # int32, an EndCause

    @property
    def ended(self) -> jax.Array:
        """True if THIS step ended the episode."""
        return self.end_cause != EndCause.RUNNING


UNLIMITED_STEPS = 2**31 - 1  # `max_episode_steps` of an environment without a time limit


@pytree
class SparseOneHot:
    """A vector of zeros and a few ones, stored as the indices of the ones; an index of `size` or more means none.

    A layer sums the indexed rows of its kernel, which is far cheaper than a dense product.
    """

    index: jax.Array  # [..., ones], distinct where below `size`
    size: int = static()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.index.shape[:-1], self.size)

    def dense(self, dtype="float32") -> jax.Array:
        """The dense vector."""
        rows = self.index.size // self.index.shape[-1]
        return self.write(jnp.zeros((rows, self.size), dtype), 1).reshape(self.shape)

    def write(self, into: jax.Array, value: int) -> jax.Array:
        """`into` [rows, size] with this value at the ones."""
        index = self.index.reshape(into.shape[0], -1).astype(jnp.int32)
        rows = jnp.arange(into.shape[0])[:, None]
        return into.at[rows, index].set(value, mode="drop", unique_indices=True)


class Region(NamedTuple):
    """A rectangle on the frame that `draw` returns, in its pixels."""

    left: float
    top: float
    width: float
    height: float


class Violation(NamedTuple):
    """What a replay says of a violation: what happened in words, and where it is on the frames around its step."""

    dilemma: str
    text: str  # of the agent, such as "kills a snail"; "" if there is nothing to add to the dilemma
    count: int = 1  # violations that the text is about
    before: Region | None = None  # on the frame before the step
    after: Region | None = None  # on the frame after it


class Footprint(NamedTuple):
    """Size of one environment: bytes of its state, bytes of a stored observation, and network inputs."""

    state: int
    observation: int
    features: int


class Environment:
    """Pure functions over pytrees of ONE environment; the caller vmaps.  There is no automatic reset."""

    name: ClassVar[str]
    dilemmas: ClassVar[tuple[str, ...]]  # order of Outcome.violations
    info_keys: ClassVar[tuple[str, ...]] = ()  # keys of Outcome.info
    actions: ClassVar[int | Box]  # a number of discrete actions, or a Box of real numbers
    version: ClassVar[int] = 1  # increment it when counts change; part of a run's id from 2 on
    violation_names: ClassVar[Mapping[str, str]] = {}  # short description of each dilemma's violations
    source_objects: ClassVar[tuple[Any, ...]] = ()  # further classes and functions whose source files a run records
    display_functions: ClassVar[tuple[Any, ...]] = ()  # functions that no count depends on: not part of this source
    observation_bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)  # of the features of `vector`, if known
    constructor_args: ClassVar[str] = ""  # description of a factory's arguments, recorded by a run
    reference: ClassVar[str] = ""  # package that compares results with published ones (paper_comparison)

    # defaults of training and evaluation
    agent: ClassVar[str] = ""  # a name in `algorithms.AGENTS`; by default one that fits (algorithms/fitting.py)
    ppo: ClassVar[PPOConfig | None] = None  # hyperparameters of PPO
    agent_settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # of other agents, by name
    total_timesteps: ClassVar[int] = 1_000_000  # per run
    eval_config: ClassVar[EvalConfig] = EvalConfig()  # protocol of a study
    sweep: ClassVar[SweepGrid] = SweepGrid()  # grid of a study
    population_size: ClassVar[int] = 16  # runs per population; more gain little throughput
    speed: ClassVar[float] = 1e5  # environment steps per second of a full population
    measured_on: ClassVar[str] = ""  # the GPU on which `speed` was measured; empty for a guess

    def __post_init__(self):
        settings.check(type(self), {name: getattr(self, name) for name in settings.of(type(self))}, self.name)

    # ---- required

    def reset(self, key: Key) -> State:
        """The initial state, a function of the key alone."""
        raise NotImplementedError

    def step(self, key: Key, state: State, action: jax.Array) -> tuple[State, Outcome]:
        raise NotImplementedError

    def observe(self, state: State) -> Observation:
        """The observation in compact form: small integers for one-hot features."""
        raise NotImplementedError

    # ---- optional

    def encode(self, observation: Observation, dtype="float32") -> tuple[jax.Array | SparseOneHot, ...]:
        """The network input as a tuple of feature vectors, concatenated in this order.

        Separate vectors allow the first layer to use the cheapest product for each.
        """
        return (observation.astype(dtype),)

    def vector(self, observation: Observation) -> jax.Array:
        """float32[features]: the concatenated features of `encode`, as other libraries observe them."""
        parts = (part.dense() if isinstance(part, SparseOneHot) else part for part in self.encode(observation))
        return jnp.concatenate(list(parts), axis=-1)

    @property
    def max_episode_steps(self) -> int:
        """The time limit of an episode in steps; UNLIMITED_STEPS if there is none."""
        return UNLIMITED_STEPS

    def footprint(self) -> Footprint:
        """Determined by tracing; environments that are slow to trace override it."""
        state = jax.eval_shape(self.reset, jax.eval_shape(lambda: jax.random.key(0)))
        seen = jax.eval_shape(self.observe, state)
        inputs = sum(part.shape[-1] for part in jax.eval_shape(self.encode, seen))
        state_bytes, stored = (sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) for tree in (state, seen))
        return Footprint(state_bytes, stored, inputs)

    def violation_possible(self, state: State) -> jax.Array:
        """bool[dilemma]: whether a violation is possible now.  Used by replays only, so an approximation is enough."""
        return jnp.zeros(len(self.dilemmas), bool)

    def describe(self, action: Any, outcome: Outcome) -> str:
        """A short description of the agent's step, for replays; the action is an int, or float32[size] of a Box."""
        return action_space.describe(action)

    def describe_violations(
        self, key: Key, before: State, action: Any, after: State, outcome: Outcome
    ) -> Sequence[Violation]:
        """What happened in a step with violations, for replays: in words, and where if there is a frame.

        Called outside of JAX with the arguments and results of one `step`, as NumPy arrays.  The counts must add up to
        the outcome's.
        """
        counts = zip(self.dilemmas, outcome.violations)
        return [Violation(name, self.violation_names.get(name, ""), int(count)) for name, count in counts if count]

    stakes: ClassVar[str] = ""  # title of `stake`; "" if it is unused

    def stake(self, state: State) -> jax.Array:
        """float: task reward that a violation would earn now, for replays."""
        return jnp.zeros(())

    draw: Any = None  # draw(state) -> uint8[height, width, 3], a frame of a replay; None if not rendered

    exact: Any = None  # a module with exact optima (temptation/exact.py); None if unknown


ENVIRONMENTS: dict[str, type[Environment]] = {}


@dataclass_transform(frozen_default=True)
def register_env(cls):
    """Make the class a frozen dataclass and register it by its name."""
    env_class = dataclass(frozen=True)(cls)
    _check_declaration(env_class)
    plugins.record_sources(env_class)
    settings.declare("environment", env_class, ("name", "dilemmas", "actions"), ENVIRONMENTS)
    return env_class


def _check_declaration(cls: type[Environment]) -> None:
    """Raise ConfigError for invalid attributes; `settings.declare` reports missing ones."""
    dilemmas = getattr(cls, "dilemmas", ("harm",))
    action_space.check(cls.__name__, getattr(cls, "actions", 1))
    if not isinstance(dilemmas, tuple) or not dilemmas or len(set(dilemmas)) < len(dilemmas):
        raise ConfigError(f"{cls.__name__} has dilemmas = {dilemmas!r}; it must be a tuple of names, such as ('harm',)")
    for name in (getattr(cls, "name", "env"), *dilemmas):  # they become parts of file names and environment ids
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
            raise ConfigError(f"{cls.__name__}: invalid name {name!r}; use letters, digits, '_', '-' and '.'")
