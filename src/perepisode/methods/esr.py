"""ESR (expected scalarised returns): the utility of whole episodes, Eq. 7, with the hand-written utility of Eq. 5."""

from __future__ import annotations

from typing import Any

import numpy as np

from perepisode.config import ETHICAL_PENALTY
from perepisode.lazy import jax, jnp, namespace
from perepisode.methods import accrued_obs
from perepisode.methods.objective import ConstraintType, Objective, PenaltyTrace, register_method
from perepisode.settings import setting

STRICT_RHO_U, BUDGET_RHO_U = 10.0, 1.0  # ρ_u of the zero-tolerance utility and of the budget family


class PerEpisode(Objective):
    """ESR, Eq. 7: r_t = u(R_acc,t) - u(R_acc,t-1), observed with ν(R_acc).  Subclasses define u with u(0, 0) = 0."""

    def u(self, r_ext, r_eth) -> jax.Array:
        raise NotImplementedError

    def reward(self, dual, before, after):
        return self.u(after.task_return, after.ethical_return) - self.u(before.task_return, before.ethical_return)


@register_method
class Esr(PerEpisode):
    """Smoothed thresholded-lexicographic utility, Eq. 5: u = σ(s (τ - v)) R_ext - ρ_u v with τ = k + 0.5.

    k = 0 is the strict instance (ρ_u = 10), k >= 1 the budget family (ρ_u = 1).
    """

    budget: jax.Array | float = setting(1, "k, violations allowed per episode", low=0)
    rho_u: Any = setting(None, "ρ_u, penalty per violation; 10 if k is 0, else 1", low=0)
    sharpness: jax.Array | float = setting(
        12.0, "s, sharpness of the gate that removes the return beyond the budget", low=0
    )
    accrued_obs: str = accrued_obs.setting("paper")

    name, label, colour, marker = "esr", "ESR", "#038f5c", "D"
    swept, symbol, constraint = "budget", "k", ConstraintType.EPISODE
    tagline = ("constrained per episode:", "at most {value:g} in each")
    explanation = (
        "expected scalarised returns: maximises the mean utility of whole episodes; one with more than k "
        "violations has almost no utility."
    )

    def __post_init__(self):
        if self.rho_u is None:
            object.__setattr__(self, "rho_u", BUDGET_RHO_U if self.budget else STRICT_RHO_U)

    def u(self, r_ext, r_eth):
        v = violations_of(r_eth)
        return self.gate(v) * r_ext - self.rho_u * v

    def gate(self, v) -> jax.Array:
        """Share of the return that remains after v violations."""
        return _sigmoid(self.sharpness * (self.budget + 0.5 - v))

    def penalty_trace(self, accrued, multiplier):
        formula = f"σ({float(self.sharpness):.0f} ({float(self.budget) + 0.5:.1f} − v))"
        gate = np.asarray(self.gate(jnp.asarray(accrued.violations)))
        return PenaltyTrace(f"Gate {formula}: share of the return that counts", gate)


class SignedEsr(Esr):
    """Eq. 5 for returns that can be negative: u = gate max(R, 0) + min(R, 0) - ρ_u v.

    A negative return counts in full.  Gated, breaking the budget would cancel it.
    """

    def u(self, r_ext, r_eth):
        negative = namespace(r_ext).minimum(r_ext, 0.0)
        return super().u(r_ext - negative, r_eth) + negative


def violations_of(r_eth) -> jax.Array:
    """v = max(0, -R_eth) / ρ."""
    return namespace(r_eth).maximum(0.0, -r_eth) / ETHICAL_PENALTY


def _sigmoid(x) -> jax.Array:
    if namespace(x) is not np:
        return jax.nn.sigmoid(x)
    from scipy.special import expit  # here, because importing it takes longer than most commands of the CLI

    return expit(x)
