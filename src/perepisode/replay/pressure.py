"""How a run's objective weighed violations while an episode went on: a gate, a price, or a utility."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpy as np

from perepisode.config import ETHICAL_PENALTY
from perepisode.replay.source import Chosen
from perepisode.report.words import number
from perepisode.training import distill
from perepisode.training.objectives import (
    METHODS,
    Accrued,
    CvarConstraint,
    Lagrangian,
    Objective,
    Penalty,
    PerEpisode,
    PidLagrangian,
    Saute,
    Weighted,
)
from perepisode.training.utilities import Distilled, Linear, Tlo


@dataclass(frozen=True, eq=False)
class Pressure:
    """A line over the episode's positions; `values` is None where there is nothing to draw, and `label` says why."""

    label: str
    values: np.ndarray | None = None


def pressure(chosen: Chosen, accrued: Accrued) -> Pressure:
    """What the run's objective made of `accrued` [position]; the objective is read from the run or from the row."""
    objective = _objective(chosen)
    if objective is None:
        return Pressure("The run's objective is not known here.")
    return _weigh(objective, accrued, _last_multiplier(chosen))


@singledispatch
def _weigh(objective: Any, accrued: Accrued, multiplier: float | None) -> Pressure:
    return Pressure("No price: this objective does not look at violations.")


@_weigh.register
def _(objective: PerEpisode, accrued: Accrued, multiplier: float | None) -> Pressure:
    return _utility(objective.utility_of, accrued)


@_weigh.register
def _(objective: Weighted, accrued: Accrued, multiplier: float | None) -> Pressure:
    return _price("Price of a violation, w ρ", float(objective.weight) * ETHICAL_PENALTY, accrued)


@_weigh.register
def _(objective: Penalty, accrued: Accrued, multiplier: float | None) -> Pressure:
    return _price("Price of a violation, ρ", ETHICAL_PENALTY, accrued)


@_weigh.register
def _(objective: Saute, accrued: Accrued, multiplier: float | None) -> Pressure:
    return Pressure("Safety budget left, 1 − v / (k + 0.5)", np.asarray(objective.remaining(accrued)))


@_weigh.register(Lagrangian)
@_weigh.register(PidLagrangian)
@_weigh.register(CvarConstraint)
def _(objective: Objective, accrued: Accrued, multiplier: float | None) -> Pressure:
    if multiplier is None:
        return Pressure("λ is not known: the run's folder has no metrics.")
    return _price("Price λ at the end of training", multiplier, accrued)


@singledispatch
def _utility(utility: Any, accrued: Accrued) -> Pressure:
    raise TypeError(f"no drawing for the utility {type(utility).__name__}")


@_utility.register
def _(utility: Tlo, accrued: Accrued) -> Pressure:
    s, tolerance = number(float(utility.sharpness), 0), number(float(utility.tolerance), 1)
    return Pressure(f"Gate σ({s} ({tolerance} − v)): share of the return that counts", np.asarray(
        utility.gate(jnp.asarray(accrued.violations))
    ))  # fmt: skip


@_utility.register
def _(utility: Linear, accrued: Accrued) -> Pressure:
    return _price("Price of a violation, w ρ", float(utility.weight) * ETHICAL_PENALTY, accrued)


@_utility.register
def _(utility: Distilled, accrued: Accrued) -> Pressure:
    return Pressure("Distilled utility so far", np.asarray(utility(accrued.task_return, accrued.ethical_return)))


def _price(label: str, price: float, accrued: Accrued) -> Pressure:
    return Pressure(label, np.full(np.shape(accrued.violations), price))


def _objective(chosen: Chosen) -> Objective | None:
    """From the run's settings; without its folder, from the arm in the row as far as that tells them."""
    method = METHODS.get(chosen.row["method"])
    if method is None:
        return None
    try:
        return method.build(**_settings(chosen, method))
    except (TypeError, ValueError, KeyError):  # a row from another version may name settings unknown here
        return None


def _settings(chosen: Chosen, method: Any) -> dict[str, Any]:
    if chosen.run is None:
        value = chosen.row["value"]
        return {method.swept: chosen.row["arm"] if np.isnan(value) else value} if method.swept else {}
    settings = dict(chosen.run.settings)
    if "utility" in settings and chosen.trained:
        plain = chosen.trained.utility or {}
        settings["utility"] = distill.from_json(plain, f"the utility of {chosen.trained.path}")
    return settings


def _last_multiplier(chosen: Chosen) -> float | None:
    """λ in the last complete row of the run's metrics."""
    if chosen.trained is None or not chosen.trained.metrics.exists():
        return None
    for line in reversed(chosen.trained.metrics.read_text().splitlines()):
        try:
            return json.loads(line).get("lambda")
        except json.JSONDecodeError:
            continue  # a line cut by a kill
    return None
