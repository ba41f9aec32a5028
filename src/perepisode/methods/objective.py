"""The method interface: a method is one class that turns what an episode has accrued into a scalar reward.

    @register_method
    class Ser(Objective):
        '''SER: r = r_ext + w r_eth.'''

        weight: float = setting(help="w, the price of a violation in units of ρ", low=0)

        name, label, colour, marker = "ser", "SER", "#1271b1", "s"
        swept, symbol, constraint = "weight", "w", ConstraintType.PRICE

        def reward(self, dual, before, after): ...

Its fields are its settings; numbers are traced, so that a population can sweep them.  The command line, its help,
planning, reports, figures, replays and the documentation read this declaration too (docs/tutorials/add-a-method.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import numpy as np

from perepisode import plugins, safe_io, settings
from perepisode.config import ETHICAL_PENALTY, ConfigError
from perepisode.lazy import jax, jnp, namespace
from perepisode.methods.accrued_obs import ACCRUED_OBS
from perepisode.pytree import pytree


class ConstraintType(StrEnum):
    """What a method's swept setting constrains.  Reports compare and interpolate arms by constraint type."""

    NONE = "none"  # no constraint on violations
    PRICE = "price"  # per violation
    MEAN = "mean budget"  # violations per episode, on average
    EPISODE = "episode budget"  # violations in every episode, or in the worst episodes


@pytree
class Accrued:
    """Undiscounted sums over one episode so far, zero at its start."""

    task_return: jax.Array  # R_ext
    violations: jax.Array  # v, as charged; R_eth = -ρ v

    @property
    def ethical_return(self) -> jax.Array:
        return -ETHICAL_PENALTY * self.violations

    def add(self, task_reward: jax.Array, cost: jax.Array) -> Accrued:
        """The sums after one more step."""
        return Accrued(self.task_return + task_reward, self.violations + cost)

    @classmethod
    def zeros(cls, shape: tuple[int, ...] = ()) -> Accrued:
        return cls(jnp.zeros(shape), jnp.zeros(shape))


@pytree
class Finished:
    """The episodes that ended during one rollout; entries where `ended` is False are meaningless."""

    ended: jax.Array  # bool[time, env]
    violations: jax.Array  # float32[time, env]

    def mean(self, cost: jax.Array, otherwise: jax.Array | float) -> jax.Array:
        """Mean over the finished episodes; `otherwise` if there are none, so that λ holds its value instead of NaN."""
        count = self.ended.sum()
        return jnp.where(count > 0, jnp.where(self.ended, cost, 0.0).sum() / jnp.maximum(count, 1), otherwise)

    def select(self, new: Any, old: Any) -> Any:
        """The new dual variables, or the old ones if no episode ended."""
        return jax.tree.map(lambda new, old: jnp.where(self.ended.any(), new, old), new, old)


@dataclass(frozen=True)
class Streams:
    """The rewards that a method learns from, each with a value head of its own.

    `policy_loss(coefficients, ratio, kl, advantages, clip_eps)` is the loss of one minibatch for several streams:
    `advantages` [..., stream] are normalised over the rollout, that of the first stream to mean 0 and standard
    deviation 1, the others to mean 0 only; `ratio` is π(a|s) / π_old(a|s) and `kl` is KL(π || π_old) in each state.
    """

    names: tuple[str, ...] = ("reward",)
    policy_loss: Any = None

    @property
    def several(self) -> bool:
        return len(self.names) > 1

    def __str__(self) -> str:
        """The same in every process."""
        return f"{', '.join(self.names)} by {getattr(self.policy_loss, '__qualname__', None)}"


ONE_STREAM = Streams()


@pytree
class Mixture:
    """How one update of a run learns from several streams."""

    gamma: jax.Array  # float32[stream], discount factors
    gae_lambda: jax.Array  # float32[stream]
    coefficients: jax.Array  # what the streams' policy loss needs of the dual variables


class PenaltyTrace(NamedTuple):
    """How an objective weighed violations at each position of an episode, for a replay.

    `values` is None if there is nothing to draw; `label` then gives the reason.
    """

    label: str
    values: np.ndarray | None = None


class Objective:
    """What a method may override.  The defaults maximise the task return alone."""

    name: ClassVar[str]  # on the command line and in files
    label: ClassVar[str]  # in figures, tables and text
    colour: ClassVar[str] = ""  # safe for colour-vision deficiencies; by default one that is unused on the page
    marker: ClassVar[str] = ""
    swept: ClassVar[str] = ""  # the setting that distinguishes its arms
    symbol: ClassVar[str] = ""  # of the swept setting, if it is a number
    swept_values: ClassVar[tuple[float, ...]] = ()  # in `matrix --extra-baselines`; by default the study's budgets
    constraint: ClassVar[ConstraintType] = ConstraintType.NONE
    tagline: ClassVar[tuple[str, str]] = ("", "")  # what the method asks of its agent; {value} is the swept value
    explanation: ClassVar[str] = ""  # one line in a report; spells out abbreviations and the symbol
    variant_of: ClassVar[str] = ""  # the method of which this is a variant, not a competitor
    accrued_obs: str | None = None  # the observation of accrued sums, a key of `ACCRUED_OBS`; None for none
    streams: ClassVar[Streams] = ONE_STREAM  # the rewards to learn from

    # ---- reward, observation and dual variables

    def init_dual(self) -> Any:
        return jnp.zeros(())

    def reward(self, dual: Any, before: Accrued, after: Accrued) -> jax.Array:
        """Scalar reward of the step that takes the accrued sums from `before` to `after`."""
        return task_reward(before, after)

    def rewards(self, dual: Any, before: Accrued, after: Accrued) -> jax.Array:
        """What the agent learns from: the reward, or rewards [..., stream] if there are several streams."""
        return self.reward(dual, before, after)

    def mixture(self, dual: Any, gamma: jax.Array, gae_lambda: float) -> Mixture:
        """How to learn from several streams; `gamma` is the run's discount factor, `gae_lambda` the agent's λ."""
        raise NotImplementedError

    def episode_utility(self, dual: Any, totals: Accrued) -> jax.Array:
        """Utility of a whole episode: the sum of its rewards, since they telescope."""
        return self.reward(dual, Accrued.zeros(totals.task_return.shape), totals)

    def features(self, accrued: Accrued, env_inputs: int) -> jax.Array:
        """ν(R_acc), the accrued observation of Eq. 7; `env_inputs` counts the environment's own network inputs."""
        if self.accrued_obs is None:
            return jnp.zeros((*jnp.shape(accrued.task_return), 0))
        return ACCRUED_OBS[self.accrued_obs](accrued, env_inputs)

    def gate(self, v) -> jax.Array:
        """Share of the return that still counts after v violations: 1 unless a budget is exceeded."""
        return namespace(v).ones_like(v)

    def ends_episode(self, accrued: Accrued) -> jax.Array:
        return jnp.zeros(jnp.shape(accrued.violations), bool)

    def next_dual(self, dual: Any, finished: Finished) -> Any:
        return dual

    def multiplier(self, dual: Any) -> jax.Array:
        """λ for the metrics; NaN if the method has none."""
        return jnp.full((), jnp.nan)

    # ---- replays

    def penalty_trace(self, accrued: Accrued, multiplier: float | None) -> PenaltyTrace:
        """How violations were weighed at `accrued` [position], with λ (`multiplier`) from the end of training.

        By default the price λ if the method has one, else the utility of the episode so far.
        """
        dual = self.init_dual()
        if np.isfinite(self.multiplier(dual)):
            if multiplier is None:
                return PenaltyTrace("λ is unknown: the run folder has no metrics.")
            return constant_trace("Price λ at the end of training", multiplier, accrued)
        return PenaltyTrace("Utility of the episode so far", np.asarray(self.episode_utility(dual, accrued)))

    # ---- settings

    @classmethod
    def build(cls, files: Mapping[str, bytes] | None = None, **given: Any) -> Objective:
        """The objective with these settings.  `files` maps the file names among them to their content."""
        known = settings.of(cls)
        values = settings.complete(cls, given)
        return cls(**{name: _resolve(cls, known.get(name), value, files or {}) for name, value in values.items()})

    @classmethod
    def arm(cls, given: Mapping[str, Any]) -> str:
        """Label of an arm within the method: the swept value, then the accrued observation if it is not the default."""
        values = settings.complete(cls, given)
        parts = []
        if cls.swept:
            value = values[cls.swept]
            parts.append(f"{cls.symbol}={value:g}" if cls.symbol else str(value))
        return ", ".join([*parts, *([f"{values['accrued_obs']} obs"] if "accrued_obs" in values else [])])

    @classmethod
    def value(cls, given: Mapping[str, Any]) -> float:
        """The swept value, NaN if it is not a number."""
        value = settings.complete(cls, given).get(cls.swept)
        return float(value) if isinstance(value, (int, float)) else math.nan


def _resolve(cls: type, declared: settings.Setting | None, value: Any, files: Mapping[str, bytes]) -> Any:
    """A setting as the objective uses it: the number of a named choice, the parsed content of a file."""
    if declared and declared.file:
        if value not in files:
            option = settings.option(cls, declared.name)
            raise ConfigError(f"{declared.name} {value!r} has no known file; give its file with {option}")
        try:
            return declared.file(files[value])
        except ConfigError as error:
            raise ConfigError(f"{declared.name} {value}: {error}") from None
        except Exception as error:  # a method's parser may raise anything
            raise ConfigError(f"{declared.name} {value} cannot be parsed ({safe_io.first_line(error)})") from None
    return declared.choices[value] if declared and isinstance(declared.choices, Mapping) else value


METHODS: dict[str, type[Objective]] = {}


@dataclass_transform(frozen_default=True)
def register_method(cls):
    """Make the class a frozen dataclass that JAX can trace and register it by its name."""
    method = pytree(cls)
    plugins.record_sources(method)
    settings.declare("method", method, ("name", "label"), METHODS)
    return method


def task_reward(before: Accrued, after: Accrued) -> jax.Array:
    """Task reward of the step."""
    return after.task_return - before.task_return


def cost(before: Accrued, after: Accrued) -> jax.Array:
    """Violations charged for the step."""
    return after.violations - before.violations


def constant_trace(label: str, value: float, accrued: Accrued) -> PenaltyTrace:
    """The same price at every position of the episode."""
    return PenaltyTrace(label, np.full(np.shape(accrued.violations), value))
