"""The methods of the paper: each turns what an episode has accrued into one scalar reward.

A method is one short class and one entry of METHODS.  Its numbers are traced, so a population can sweep them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from perepisode.config import ETHICAL_PENALTY, Refused
from perepisode.pytree import pytree, static
from perepisode.training.told import TOLD
from perepisode.training.utilities import Distilled, Linear, Tlo


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


class Objective:
    """What a method may decide.  The defaults: maximise the task return and nothing else."""

    observes_accrued = False  # whether `features` is part of the observation (structure, not a traced number)
    told = "paper"  # a name in `told.TOLD`: what is said of it

    def initial_dual(self) -> Any:
        return jnp.zeros(())

    def reward(self, dual: Any, before: Accrued, after: Accrued) -> jax.Array:
        """Scalar reward of the step that took the episode from `before` to `after`."""
        return after.task_return - before.task_return

    def utility(self, dual: Any, totals: Accrued) -> jax.Array:
        """The whole episode's worth under this objective: its rewards' sum, since they telescope."""
        return self.reward(dual, Accrued.nothing(totals.task_return.shape), totals)

    def features(self, accrued: Accrued, shown: int) -> jax.Array:
        """ν(R_acc), Eq. 7's observation, as `told` says it beside `shown` inputs of the world's own; empty unless
        `observes_accrued`."""
        if not self.observes_accrued:
            return jnp.zeros((*jnp.shape(accrued.task_return), 0))
        return TOLD[self.told](accrued, shown)

    def ends_episode(self, accrued: Accrued) -> jax.Array:
        return jnp.zeros(jnp.shape(accrued.violations), bool)

    def next_dual(self, dual: Any, finished: Finished) -> Any:
        return dual

    def multiplier(self, dual: Any) -> jax.Array:
        """λ for the log; NaN where the method has none."""
        return jnp.full((), jnp.nan)


@pytree
class Unconstrained(Objective):
    """r = r_ext."""


@pytree
class Penalty(Objective):
    """ERM: r = r_ext + r_eth; the episode ends once more than `tolerated` violations are charged."""

    tolerated: jax.Array | float  # absolute 0, calculated 3 (the penalty passes -30 at the fourth), heuristic ∞

    def reward(self, dual, before, after):
        return _gain(before, after) - ETHICAL_PENALTY * _harm(before, after)

    def ends_episode(self, accrued):
        return accrued.violations > self.tolerated


@pytree
class Weighted(Objective):
    """SER: r = r_ext + w r_eth."""

    weight: jax.Array | float

    def reward(self, dual, before, after):
        return _gain(before, after) - self.weight * ETHICAL_PENALTY * _harm(before, after)


@pytree
class Lagrangian(Objective):
    """CMDP, Eq. 3: r = r_ext - λ c, and λ ← clip(λ + η (Ĉ - d), 0, λ_max) once per policy update (Eq. 4)."""

    budget: jax.Array | float  # d, violations per episode on average
    rate: jax.Array | float = 0.02  # η
    ceiling: jax.Array | float = 100.0  # λ_max
    initial: jax.Array | float = 0.0  # λ_0

    def initial_dual(self):
        return jnp.asarray(self.initial, jnp.float32)

    def reward(self, dual, before, after):
        return _gain(before, after) - dual * _harm(before, after)

    def next_dual(self, dual, finished):
        mean_cost = finished.mean(finished.violations, otherwise=self.budget)
        return jnp.clip(dual + self.rate * (mean_cost - self.budget), 0.0, self.ceiling)

    def multiplier(self, dual):
        return dual


@pytree
class PerEpisode(Objective):
    """ESR, Eq. 7: r_t = u(R_acc,t) - u(R_acc,t-1), and the agent sees ν(R_acc).

    With a Linear utility this is the SER + R_acc control.
    """

    utility_of: Tlo | Linear | Distilled
    told: str = static(default="paper")

    observes_accrued = True

    def reward(self, dual, before, after):
        u = self.utility_of
        return u(after.task_return, after.ethical_return) - u(before.task_return, before.ethical_return)


def _gain(before: Accrued, after: Accrued) -> jax.Array:
    return after.task_return - before.task_return


def _harm(before: Accrued, after: Accrued) -> jax.Array:
    return after.violations - before.violations


# ---- beyond the paper: the baselines it names as future work ------------------------------------------------


@pytree
class Saute(Objective):
    """Sauté RL: task reward while the safety budget z = 1 - v / (k + 0.5) is positive, nothing afterwards.

    What was earned before the breach is kept; Tlo claws it back.  Unless told otherwise, the agent sees z alone.
    """

    budget: jax.Array | float
    told: str = static(default="remaining")

    observes_accrued = True

    def remaining(self, accrued: Accrued) -> jax.Array:
        return 1.0 - accrued.violations / (self.budget + 0.5)

    def reward(self, dual, before, after):
        return jnp.where(self.remaining(after) > 0, _gain(before, after), 0.0)

    def features(self, accrued, shown):
        if self.told != "remaining":
            return super().features(accrued, shown)
        return jnp.clip(self.remaining(accrued), -5.0, 5.0)[..., None]


@pytree
class PidDual:
    integral: jax.Array
    smoothed: jax.Array  # exponential mean of the error
    history: jax.Array  # recent mean costs, newest last
    multiplier: jax.Array


@pytree
class PidLagrangian(Objective):
    """PID control of λ; the reward is divided by (1 + λ) so that its scale stays put."""

    budget: jax.Array | float
    proportional: jax.Array | float = 0.1
    integral: jax.Array | float = 0.01
    derivative: jax.Array | float = 0.01

    def initial_dual(self):
        return PidDual(jnp.zeros(()), jnp.zeros(()), jnp.full((10,), self.budget, jnp.float32), jnp.zeros(()))

    def reward(self, dual, before, after):
        return (_gain(before, after) - dual.multiplier * _harm(before, after)) / (1.0 + dual.multiplier)

    def next_dual(self, dual, finished):
        mean_cost = finished.mean(finished.violations, otherwise=dual.history[-1])
        error = mean_cost - self.budget
        integral = jnp.maximum(0.0, dual.integral + self.integral * error)
        smoothed = 0.95 * dual.smoothed + 0.05 * error
        slope = jnp.maximum(0.0, mean_cost - dual.history[0])
        multiplier = jnp.maximum(0.0, self.proportional * smoothed + integral + self.derivative * slope)
        moved = PidDual(integral, smoothed, jnp.append(dual.history[1:], mean_cost), multiplier)
        held = ~finished.ended.any()
        return jax.tree.map(lambda new, old: jnp.where(held, old, new), moved, dual)

    def multiplier(self, dual):
        return dual.multiplier


@pytree
class CvarDual:
    multiplier: jax.Array
    quantile: jax.Array  # q: the value at risk, real-valued


@pytree
class CvarConstraint(Objective):
    """CVaR_α(C) <= d: an episode's cost is max(0, C - q), telescoped; q follows the (1 - α) quantile of C."""

    budget: jax.Array | float
    fraction: jax.Array | float = 0.1  # α
    rate: jax.Array | float = 0.05
    told: str = static(default="paper")

    observes_accrued = True

    def initial_dual(self):
        return CvarDual(jnp.zeros(()), jnp.zeros(()))

    def reward(self, dual, before, after):
        excess = jnp.maximum(0.0, after.violations - dual.quantile)
        excess -= jnp.maximum(0.0, before.violations - dual.quantile)
        return _gain(before, after) - dual.multiplier * excess / self.fraction

    def next_dual(self, dual, finished):
        excess = finished.mean(jnp.maximum(0.0, finished.violations - dual.quantile), otherwise=0.0)
        tail = finished.mean((finished.violations >= dual.quantile).astype(jnp.float32), otherwise=self.fraction)
        constraint = dual.quantile + excess / self.fraction
        moved = CvarDual(
            jnp.clip(dual.multiplier + self.rate * (constraint - self.budget), 0.0, 1000.0),
            dual.quantile - self.rate * (self.fraction - tail),
        )
        held = ~finished.ended.any()
        return jax.tree.map(lambda new, old: jnp.where(held, old, new), moved, dual)

    def multiplier(self, dual):
        return dual.multiplier


@pytree
class ChanceConstraint(Lagrangian):
    """P(C > k) <= δ: the Lagrangian whose cost is 1 at the step on which v first exceeds k."""

    allowed: jax.Array | float = 1.0  # k;  `budget` is δ
    told: str = static(default="paper")

    observes_accrued = True

    def reward(self, dual, before, after):
        breach = (after.violations > self.allowed).astype(jnp.float32)
        breach -= (before.violations > self.allowed).astype(jnp.float32)
        return _gain(before, after) - dual * breach

    def next_dual(self, dual, finished):
        over = (finished.violations > self.allowed).astype(jnp.float32)
        share = finished.mean(over, otherwise=self.budget)
        return jnp.clip(dual + self.rate * (share - self.budget), 0.0, self.ceiling)


# ---- the methods by name ------------------------------------------------------------------------------------

TOLERATED = {"absolute": 0.0, "calculated": 3.0, "heuristic": math.inf}
STRICT_CHARGE, BUDGET_CHARGE = 10.0, 1.0  # ρ_u of the zero-tolerance utility and of the budget family
LATER = ("told",)  # settings younger than the first runs: written out only where they are not the default


@dataclass(frozen=True)
class Method:
    """A name people type, the objective it builds, and the setting it is swept over."""

    build: Callable[..., Objective]
    swept: str | None = None
    symbol: str = ""

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with every default written out, but for those that `LATER` versions added."""
        defaults = {
            name: p.default
            for name, p in inspect.signature(self.build).parameters.items()
            if p.default is not inspect.Parameter.empty
        }
        whole = {**defaults, **settings}
        return {name: value for name, value in whole.items() if name not in LATER or value != defaults.get(name)}

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse unknown, missing or impossible settings."""
        parameters = inspect.signature(self.build).parameters
        for name in settings:
            if name not in parameters:
                known = ", ".join(parameters) or "no settings"
                raise Refused(f"this method has no setting {name!r}; it has {known}")
        for name, p in parameters.items():
            if p.default is inspect.Parameter.empty and name not in settings:
                raise Refused(f"this method needs {name}; give --{name}")
        for name, value in settings.items():
            if isinstance(value, (int, float)) and not value >= 0:
                raise Refused(f"{name}={value} must not be negative")
        enforcement = settings.get("enforcement", "heuristic")
        if enforcement not in TOLERATED:
            raise Refused(f"enforcement {enforcement!r} is unknown; choose from {', '.join(TOLERATED)}")
        if "told" in settings and settings["told"] not in (own := (*TOLD, parameters["told"].default)):
            raise Refused(f"told {settings['told']!r} is unknown; choose from {', '.join(dict.fromkeys(own))}")

    def label(self, settings: Mapping[str, Any]) -> str:
        """Within the method: what is swept, then what the agent is told if that is not the default."""
        whole = self.complete(settings)
        parts = []
        if self.swept is not None:
            value = whole[self.swept]
            parts.append(f"{self.symbol}={value:g}" if self.symbol else str(value))
        return ", ".join([*parts, *([f"told {whole['told']}"] if "told" in whole else [])])

    def swept_value(self, settings: Mapping[str, Any]) -> float:
        value = self.complete(settings).get(self.swept) if self.swept else None
        return float(value) if isinstance(value, (int, float)) else math.nan


def unconstrained() -> Objective:
    return Unconstrained()


def erm(enforcement: str = "heuristic") -> Objective:
    return Penalty(TOLERATED[enforcement])


def ser(weight: float) -> Objective:
    return Weighted(weight)


def lagrangian(budget: float, rate: float = 0.02, ceiling: float = 100.0, initial: float = 0.0) -> Objective:
    return Lagrangian(budget, rate, ceiling, initial)


def esr(budget: float = 1, charge: float | None = None, sharpness: float = 12.0, told: str = "paper") -> Objective:
    """Stated utility: k = 0 is the strict instance (ρ_u = 10), k >= 1 the budget family (ρ_u = 1)."""
    if charge is None:
        charge = BUDGET_CHARGE if budget else STRICT_CHARGE
    return PerEpisode(Tlo(budget + 0.5, charge, sharpness), told)


def esr_distilled(utility: str | Distilled, told: str = "paper") -> Objective:
    if isinstance(utility, str):
        raise Refused(f"the distilled utility {utility!r} was not resolved; give its file with --utility")
    return PerEpisode(utility, told)


def ser_racc(weight: float, told: str = "paper") -> Objective:
    return PerEpisode(Linear(weight), told)


def saute(budget: float = 1, told: str = "remaining") -> Objective:
    return Saute(budget, told)


def pid_lagrangian(
    budget: float, proportional: float = 0.1, integral: float = 0.01, derivative: float = 0.01
) -> Objective:
    return PidLagrangian(budget, proportional, integral, derivative)


def cvar(budget: float, fraction: float = 0.1, rate: float = 0.05, told: str = "paper") -> Objective:
    return CvarConstraint(budget, fraction, rate, told)


def chance(
    budget: float = 1, level: float = 0.01, rate: float = 0.02, ceiling: float = 1000.0, told: str = "paper"
) -> Objective:
    return ChanceConstraint(level, rate, ceiling, 0.0, budget, told)


METHODS = {
    "unconstrained": Method(unconstrained),
    "erm": Method(erm, "enforcement"),
    "ser": Method(ser, "weight", "w"),
    "lagrangian": Method(lagrangian, "budget", "d"),
    "esr": Method(esr, "budget", "k"),
    "esr_distilled": Method(esr_distilled),
    "ser_racc": Method(ser_racc, "weight", "w"),
    "saute": Method(saute, "budget", "k"),
    "pid_lagrangian": Method(pid_lagrangian, "budget", "d"),
    "cvar": Method(cvar, "budget", "d"),
    "chance": Method(chance, "budget", "k"),
}
