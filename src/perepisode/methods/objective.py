"""What a method is: one class that turns what an episode has accrued into one scalar reward, and says how it is called.

    @register_method
    class Ser(Objective):
        '''SER: r = r_ext + w r_eth.'''

        weight: float = setting(help="w, the price of a violation in units of ρ", low=0)

        name, label, colour, marker = "ser", "SER", "#1271b1", "s"
        swept, symbol, family = "weight", "w", ConstraintType.PRICE

        def reward(self, dual, before, after): ...

Its fields are its settings; numbers are traced, so that a population can sweep them.  The command line, its help,
planning, reports, figures, replays and the documentation read all else from here too (docs/tutorials/add-a-method.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import numpy as np

from perepisode import plugins, safe_io, settings
from perepisode.config import ETHICAL_PENALTY, ConfigError
from perepisode.lazy import jax, jnp, namespace
from perepisode.methods.accrued_obs import ACCRUED_OBS
from perepisode.pytree import pytree


class ConstraintType(StrEnum):
    """What a method's setting states: with whom it is compared, and how a report reads between two of its arms."""

    NONE = "none"  # nothing about violations
    PRICE = "price"  # of each violation
    MEAN = "mean budget"  # violations an episode, on average
    EPISODE = "episode budget"  # violations in each episode, or in the worst of them


@pytree
class Accrued:
    """What one episode has added up so far; undiscounted, zero at its start."""

    task_return: jax.Array  # R_ext
    violations: jax.Array  # v, as charged; R_eth = -ρ v

    @property
    def ethical_return(self) -> jax.Array:
        return -ETHICAL_PENALTY * self.violations

    def plus(self, task_reward: jax.Array, charge: jax.Array) -> Accrued:
        """After one more step."""
        return Accrued(self.task_return + task_reward, self.violations + charge)

    @classmethod
    def nothing(cls, shape: tuple[int, ...] = ()) -> Accrued:
        return cls(jnp.zeros(shape), jnp.zeros(shape))


@pytree
class Finished:
    """The episodes that ended in one policy update's window; entries where `ended` is False mean nothing."""

    ended: jax.Array  # bool[time, env]
    violations: jax.Array  # float32[time, env]

    def mean(self, cost: jax.Array, otherwise: jax.Array | float) -> jax.Array:
        """Mean over the finished episodes; `otherwise` when there are none (λ is held, never NaN)."""
        count = self.ended.sum()
        return jnp.where(count > 0, jnp.where(self.ended, cost, 0.0).sum() / jnp.maximum(count, 1), otherwise)

    def moved(self, new: Any, old: Any) -> Any:
        """The new dual variables, or the old ones where no episode ended."""
        return jax.tree.map(lambda new, old: jnp.where(self.ended.any(), new, old), new, old)


class PenaltyTrace(NamedTuple):
    """How an objective weighed violations while an episode went on: a line over its positions, for a replay.

    `values` is None where there is nothing to draw; `label` then says why.
    """

    label: str
    values: np.ndarray | None = None


class Objective:
    """What a method may decide.  The defaults: maximise the task return and nothing else."""

    name: ClassVar[str]  # what people type
    label: ClassVar[str]  # in figures, tables and sentences
    colour: ClassVar[str] = ""  # safe for colour-vision deficiencies; one that is free on the page if left out
    marker: ClassVar[str] = ""
    swept: ClassVar[str] = ""  # the setting that tells its arms apart
    symbol: ClassVar[str] = ""  # of that setting, where it is a number
    constraint: ClassVar[ConstraintType] = ConstraintType.NONE
    tagline: ClassVar[tuple[str, str]] = ("", "")  # what it asks of its agent; {value} is what is swept
    variant_of: ClassVar[str] = ""  # the method of which this is a variant, and no rival
    accrued_obs: str | None = (
        None  # a name in `told.ACCRUED_OBS`: what the agent is told of what it has accrued, None for nothing
    )

    # ---- the mathematics

    def init_dual(self) -> Any:
        return jnp.zeros(())

    def reward(self, dual: Any, before: Accrued, after: Accrued) -> jax.Array:
        """Scalar reward of the step that took the episode from `before` to `after`."""
        return task_reward(before, after)

    def episode_utility(self, dual: Any, totals: Accrued) -> jax.Array:
        """The whole episode's under this objective: its rewards' sum, since they telescope."""
        return self.reward(dual, Accrued.nothing(totals.task_return.shape), totals)

    def features(self, accrued: Accrued, shown: int) -> jax.Array:
        """ν(R_acc), Eq. 7's observation, as `told` says it beside `shown` inputs of the world's own."""
        if self.accrued_obs is None:
            return jnp.zeros((*jnp.shape(accrued.task_return), 0))
        return ACCRUED_OBS[self.accrued_obs](accrued, shown)

    def gate(self, v) -> jax.Array:
        """Share of the return that still counts after v violations: 1 unless a budget is exceeded."""
        return namespace(v).ones_like(v)

    def ends_episode(self, accrued: Accrued) -> jax.Array:
        return jnp.zeros(jnp.shape(accrued.violations), bool)

    def next_dual(self, dual: Any, finished: Finished) -> Any:
        return dual

    def multiplier(self, dual: Any) -> jax.Array:
        """λ for the log; NaN where the method has none."""
        return jnp.full((), jnp.nan)

    # ---- a replay

    def penalty_trace(self, accrued: Accrued, multiplier: float | None) -> PenaltyTrace:
        """What it made of `accrued` [position], λ being what it was at the end of training.

        A method that says nothing else shows its λ if it has one, else the worth of the episode so far.
        """
        dual = self.init_dual()
        if np.isfinite(self.multiplier(dual)):
            if multiplier is None:
                return PenaltyTrace("λ is not known: the run's folder has no metrics.")
            return price("Price λ at the end of training", multiplier, accrued)
        return PenaltyTrace("Worth of the episode so far", np.asarray(self.episode_utility(dual, accrued)))

    # ---- its settings

    @classmethod
    def build(cls, files: Mapping[str, bytes] | None = None, **given: Any) -> Objective:
        """The objective of a run with these settings.  `files` holds the content of the files that they name."""
        known = settings.of(cls)
        whole = settings.complete(cls, given)
        return cls(**{name: _used(known.get(name), value, files or {}) for name, value in whole.items()})

    @classmethod
    def arm(cls, given: Mapping[str, Any]) -> str:
        """Label within the method: what is swept, then what the agent is told if that is not the default."""
        whole = settings.complete(cls, given)
        parts = []
        if cls.swept:
            value = whole[cls.swept]
            parts.append(f"{cls.symbol}={value:g}" if cls.symbol else str(value))
        return ", ".join([*parts, *([f"{whole['accrued_obs']} obs"] if "accrued_obs" in whole else [])])

    @classmethod
    def value(cls, given: Mapping[str, Any]) -> float:
        """The number it is swept over, NaN where it has none."""
        value = settings.complete(cls, given).get(cls.swept)
        return float(value) if isinstance(value, (int, float)) else math.nan


def _used(declared: settings.Setting | None, value: Any, files: Mapping[str, bytes]) -> Any:
    """A setting as the objective computes with it: a choice as its number, a file as what is read from it."""
    if declared and declared.file:
        if value not in files:
            raise ConfigError(
                f"{declared.name} {value!r} is not known here; give its file with --set {declared.name}=..."
            )
        try:
            return declared.file(files[value])
        except ConfigError as error:
            raise ConfigError(f"{declared.name} {value}: {error}") from None
        except Exception as error:  # whoever reads it has kinds of their own
            raise ConfigError(f"{declared.name} {value} is no such file ({safe_io.first_line(error)})") from None
    return declared.choices[value] if declared and isinstance(declared.choices, Mapping) else value


METHODS: dict[str, type[Objective]] = {}


@dataclass_transform(frozen_default=True)
def register_method(cls):
    """A frozen dataclass that JAX can trace, known by its name from now on."""
    made = pytree(cls)
    plugins.note(made)
    settings.declare("method", made, ("name", "label"), METHODS)
    return made


def task_reward(before: Accrued, after: Accrued) -> jax.Array:
    """Task reward of the step."""
    return after.task_return - before.task_return


def cost(before: Accrued, after: Accrued) -> jax.Array:
    """Violations charged in the step."""
    return after.violations - before.violations


def price(label: str, value: float, accrued: Accrued) -> PenaltyTrace:
    """The same price at every position of an episode."""
    return PenaltyTrace(label, np.full(np.shape(accrued.violations), value))
