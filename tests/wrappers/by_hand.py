"""Scripted episodes and the utility of Eq. 5 by hand: nothing of the package is imported here."""

import math

# Of every episode the rewards, the costs and how it ends; environment i plays them from the i-th on, over and over.
EPISODES = [
    ([1.0, 2.0, -0.5, 4.0, 1.5], [0.0, 1.0, 0.5, 0.0, 2.0], "terminated"),
    ([-3.0, 1.0, -2.5], [1.0, 0.0, 1.0], "truncated"),  # a return below zero
    ([5.0], [0.25], "terminated"),  # over in one step
    ([0.5, 30.0], [3.0, 0.0], "both"),
    ([2.0, 2.0, -5.0, 2.5], [0.0, 0.0, 0.0, 2.0], "truncated"),  # below zero and back
]


def utility(total: float, cost: float, budget: float, unit: float, rho_u: float, sharpness: float = 12.0) -> float:
    violations = cost / unit
    share = 1.0 / (1.0 + math.exp(-sharpness * (budget / unit + 0.5 - violations)))
    return (share * total if total > 0 else total) - rho_u * violations


def totals(number: int) -> tuple[float, float]:
    rewards, costs, _ = EPISODES[number % len(EPISODES)]
    return sum(rewards), sum(costs)


SETTINGS = [
    {"budget": 1, "unit": 1.0, "rho_u": 0.1},
    {"budget": 2, "unit": 0.5, "rho_u": 1.0},
    {"budget": 0, "unit": 1.0, "rho_u": 10.0},
    {"budget": 2.5, "unit": 2.0, "rho_u": 0.0},
]
