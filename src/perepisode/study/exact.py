"""Exact optima of an environment that provides them, as the report draws them: linear prices, and ESR at each budget.

ESR stands for expected scalarised returns.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from perepisode.environments import Environment, make
from perepisode.environments.temptation import Temptation
from perepisode.methods.esr import BUDGET_RHO_U, STRICT_RHO_U, Esr
from perepisode.runs import write_atomically

BUDGETS = (0, 1, 2, 4)


def optima(env: Environment) -> list[dict[str, Any]]:
    """ESR optima first, then the linear frontier, then the linear prices whose return equals that of an ESR optimum."""
    solver = env.exact
    # beyond its budget an episode earns nothing and pays for every violation, so no optimum has k + 2 violations
    solutions = [(k, solver.esr_optimum(env, stated_utility(k), most=k + 2)) for k in BUDGETS]
    items = [_item(f"k={k}", Esr.name, exact, k) for k, exact in solutions]
    for price in (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5):
        items.append(_item(f"price {price:g}", "linear", solver.linear_price(env, price), 1))
    for k, exact in solutions[1:]:
        price = solver.price_for_mean_return(env, exact.mean_return)
        items.append(_item(f"price {price:.2f}, matched to k={k}", "linear", solver.linear_price(env, price), k))
    return items


def stated_utility(budget: int):
    """u(R_ext, v) = σ(s (k + 0.5 - v)) R_ext - ρ_u v in plain NumPy, independent of the utility used in training."""
    rho_u = BUDGET_RHO_U if budget else STRICT_RHO_U

    def utility(task_return: np.ndarray, count: np.ndarray) -> np.ndarray:
        gate = 1.0 / (1.0 + np.exp(-Esr.sharpness * (budget + 0.5 - count)))
        return gate * task_return - rho_u * count

    return utility


def _item(label: str, kind: str, exact, budget: int) -> dict[str, Any]:
    return {
        "label": label,
        "kind": kind,
        "return": exact.mean_return,
        "mean_violations": exact.mean_count,
        "cvar": exact.cvar(),
        "p_over": exact.p_over(budget),
        "distribution": [round(float(p), 9) for p in exact.counts],
    }


def write(path: Path, env: str) -> Path:
    """Write exact.json unless it exists: the dynamic programme takes a while."""
    if not path.exists():
        write_atomically(path, json.dumps(optima(make(env)), indent=1))
    return path


def linear_return_at(mean_count: float) -> float:
    """Return of the miniature's optimal linear agent with this mean number of violations per episode."""
    env = Temptation()
    return env.exact.linear_price(env, env.exact.price_for_mean_count(env, mean_count)).mean_return


def linear_cvar_at(task_return: float) -> float:
    """Exact CVaR (conditional value at risk) of the miniature's optimal linear agent with this return."""
    env = Temptation()
    return env.exact.linear_price(env, env.exact.price_for_mean_return(env, task_return)).cvar()
