"""What an episode has accrued, as a trainer receives it: one scalar reward and three inputs.

The reward is a method's own (`perepisode.methods`).  For ESR (expected scalarised returns) with budget k it is

    r_t = u(R_t, C_t) - u(R_{t-1}, C_{t-1}),   u(R, C) = σ(s (k + 1/2 - v)) max(R, 0) + min(R, 0) - ρ_u v

where R and C are the return and the cost of the episode so far, v = C / unit and k = budget / unit, so that the
rewards of an episode sum to u of its totals.  `unit` is the smallest excess that counts as a breach: 99.8 % of the
return counts at C = budget, half of it at budget + unit / 2, and 0.2 % at budget + unit.  With unit = 1 and R >= 0 this
is Eq. 5 of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perepisode import plugins, safe_io, settings
from perepisode.config import ConfigError
from perepisode.lazy import namespace
from perepisode.methods import METHODS, Accrued, Objective
from perepisode.methods.esr import Esr, SignedEsr
from perepisode.methods.esr_distilled import REMEDY

RHO_U = 0.1
"""Default ρ_u, in units of reward.  ESR uses its budget only if a violation within it earns clearly more than ρ_u:
with ρ_u near what a violation earns the best agent has none, and training finds that agent first."""
MOST = 1.5  # budgets: beyond, all costs look alike, so that large ones do not dominate running statistics
KEY = "accrued"  # of the three inputs, in observations that are dictionaries
INPUTS = 3
LOW, HIGH = np.array([-np.inf, 0.0, 0.0], np.float32), np.array([np.inf, MOST, 1.0], np.float32)


@dataclass(frozen=True)
class Accounting:
    """A method as a function of what an episode has accrued, for NumPy and for JAX."""

    objective: Objective
    unit: float  # cost of one violation
    return_scale: float  # returns are divided by it in the observation
    cost_scale: float  # violations are

    def step(self, accrued: Accrued, reward: Any, cost: Any) -> tuple[Accrued, Any]:
        """What is accrued after a step with this task reward and cost, and what the trainer is paid for it."""
        after = accrued.add(reward, cost / self.unit)
        return after, self.objective.reward(None, accrued, after)

    def features(self, accrued: Accrued) -> Any:
        """[R / return_scale, C / budget (at most 1.5), share of the return that still counts], as a last axis."""
        xp = namespace(accrued.task_return, accrued.violations)
        used = xp.minimum(accrued.violations / self.cost_scale, MOST)
        inputs = accrued.task_return / self.return_scale, used, self.objective.gate(accrued.violations)
        return xp.stack(inputs, axis=-1).astype(np.float32)


def build(
    method: str | type[Objective] | Objective,
    budget: float | None,
    unit: float,
    return_scale: float,
    given: Mapping[str, Any],
) -> Accounting:
    """The accounting of a method; `given` are its other settings."""
    for name, value in (("unit", unit), ("return_scale", return_scale)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ConfigError(f"{name}={value!r} must be a number above 0")
    objective = method if isinstance(method, Objective) else _objective(method, budget, unit, dict(given))
    _check_stateless(objective)
    k = getattr(objective, "budget", None)
    return Accounting(objective, float(unit), float(return_scale), 5.0 if k is None else max(float(k), 1.0))


def _objective(method: str | type[Objective], budget: float | None, unit: float, given: dict[str, Any]) -> Objective:
    cls = METHODS[plugins.resolve("method", method, METHODS)]
    known = settings.of(cls)
    if "budget" in known:
        settings.check(cls, {"budget": budget}, cls.name)  # as it was given: messages name the user's number
        given["budget"] = budget if budget is None or unit == 1 else budget / unit
    elif budget is not None:
        raise ConfigError(f"method={cls.name!r} has no budget, but budget={budget}; give budget=None")
    files = {given[name]: _content(given[name]) for name, one in known.items() if one.file and name in given}
    if cls is Esr:
        given, cls = {"rho_u": RHO_U, **given}, SignedEsr
    settings.check(cls, given, f"method={cls.name!r}")
    return cls.build(files, **given)


def _content(path: str) -> bytes:
    return safe_io.read_bytes(path, REMEDY)


def _check_stateless(objective: Objective) -> None:
    """A wrapper knows one episode: it can neither adapt a multiplier over many nor change when an episode ends."""
    cls = type(objective)
    if cls.next_dual is not Objective.next_dual:
        raise ConfigError(
            f"method={cls.name!r} adapts a multiplier during training, which a wrapper cannot; use `perepisode train`"
        )
    if cls.ends_episode is not Objective.ends_episode:
        raise ConfigError(f"method={cls.name!r} ends episodes, which a wrapper does not; use `perepisode train`")
