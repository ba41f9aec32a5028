"""Every result that the paper prints, as data: where it stands, what it is, and how to measure it again.

`measure` names what `replicated` measures; `method` and `arm` say of which agent.  None: an episodes table
cannot tell.
"""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    where: str
    dilemma: str
    method: str
    arm: str
    measure: str | None
    value: float
    ci: float = float("nan")
    what: str = ""


STEPS = 1e9
ENVIRONMENT = "craftax"
NK, SU, PF = "no_killing", "sustainability", "proportional_force"
MATCHED, COST, MEANS, TAILS = "Table: matched tails", "Table: cost", "Mean return", "Distributions"
SWEEP, ABLATION, SETUP, SLICES = "Budget sweep", "Ablations", "Setup", "Distilled utility"

NUMBERS = (
    Printed(MATCHED, NK, "esr", "k=1", "return", 34.2),
    Printed(MATCHED, NK, "esr", "k=1", "p_any", 0.56),
    Printed(MATCHED, NK, "esr", "k=1", "std", 0.50),
    Printed(MATCHED, NK, "esr", "k=1", "cvar", 1.04, 0.07),
    Printed(MATCHED, NK, "lagrangian", "d=0.5", "return", 34.3),
    Printed(MATCHED, NK, "lagrangian", "d=0.5", "p_any", 0.48),
    Printed(MATCHED, NK, "lagrangian", "d=0.5", "std", 0.53),
    Printed(MATCHED, NK, "lagrangian", "d=0.5", "cvar", 1.14, 0.03),
    Printed(MATCHED, NK, "ser", "w=0.1", "return", 35.3),
    Printed(MATCHED, NK, "ser", "w=0.1", "p_any", 0.76),
    Printed(MATCHED, NK, "ser", "w=0.1", "std", 0.66),
    Printed(MATCHED, NK, "ser", "w=0.1", "cvar", 2.20, 0.20),
    Printed(COST, NK, "unconstrained", "", "return", 37.05, 0.78),
    Printed(COST, NK, "unconstrained", "", "rate", 7.3e-3),
    Printed(COST, NK, "unconstrained", "", "p_any", 0.95),
    Printed(COST, NK, "erm", "heuristic", "return", 31.8),
    Printed(COST, NK, "erm", "heuristic", "rate", 2.3e-5),
    Printed(COST, NK, "erm", "heuristic", "p_any", 0.01),
    Printed(COST, NK, "erm", "heuristic", "gap", 5.2),
    Printed(COST, NK, "ser", "w=0.1", "rate", 3.0e-3),
    Printed(COST, NK, "ser", "w=0.1", "gap", 1.8),
    Printed(COST, NK, "lagrangian", "d=0.5", "rate", 1.6e-3),
    Printed(COST, NK, "lagrangian", "d=0.5", "gap", 2.72, 1.70),
    Printed(COST, NK, "esr", "k=0", "return", 30.9),
    Printed(COST, NK, "esr", "k=0", "rate", 6.4e-6),
    Printed(COST, NK, "esr", "k=0", "p_any", 0.00),
    Printed(COST, NK, "esr", "k=0", "gap", 6.2),
    Printed(COST, NK, "esr", "k=1", "rate", 1.7e-3),
    Printed(COST, NK, "esr", "k=1", "gap", 2.90, 1.06),
    Printed(MEANS, SU, "unconstrained", "", "mean", 5.0, what="wood harvested over budget an episode (about)"),
    Printed(MEANS, NK, "erm", "", "lowest_return", 31.5),
    Printed(MEANS, NK, "erm", "", "highest_return", 31.9),
    Printed(MEANS, NK, "ser", "w=10", "return", 30.9, what="return at the strictest weights (30.9 to 31.0)"),
    Printed(MEANS, NK, "ser", "w=3", "return", 31.0, what="return at the strictest weights (30.9 to 31.0)"),
    Printed(MEANS, NK, "esr_distilled", "", "return", 31.1),
    Printed(MEANS, NK, "esr", "k=0", "share_of_unconstrained", 0.84),
    Printed(MEANS, NK, "", "", "lowest_return", 30.0, what="lowest return of any method (final returns 30 to 37)"),
    Printed(MEANS, NK, "", "", "highest_return", 37.0, what="highest return of any method"),
    Printed(MEANS, NK, "", "", "hypervolume_without", 0.0249),
    Printed(MEANS, NK, "", "", "hypervolume_with", 0.0264),
    Printed(MEANS, NK, "", "", "hypervolume_gain", 0.06),
    Printed(TAILS, NK, "esr", "k=1", "over_1", 0.004),
    Printed(TAILS, NK, "lagrangian", "d=0.5", "over_1", 0.013),
    Printed(TAILS, NK, "ser", "w=0.1", "over_1", 0.138),
    Printed(TAILS, NK, "esr", "k=1", "at_2", 0.004),
    Printed(TAILS, NK, "esr", "k=1", "from_3", 0.0),
    Printed(TAILS, NK, "ser", "w=0.1", "at_2", 0.121),
    Printed(TAILS, NK, "ser", "w=0.1", "from_3", 0.017),
    Printed(TAILS, NK, "lagrangian", "d=0.5", "worst", 3),
    Printed(TAILS, NK, "lagrangian", "d=0.5", "welch", 5.5),
    Printed(TAILS, NK, "ser", "w=0.1", "welch", 23),
    Printed(TAILS, NK, "ser_racc", "w=0.3", "return", 32.5),
    Printed(TAILS, NK, "ser_racc", "w=0.3", "cvar", 1.12),
    Printed(TAILS, NK, "ser", "w=0.3", "return", 32.9),
    Printed(TAILS, NK, "ser", "w=0.3", "cvar", 1.18),
    Printed(SWEEP, NK, "esr", "k=1", "return", 34.15),
    Printed(SWEEP, NK, "esr", "k=2", "return", 34.00),
    Printed(SWEEP, NK, "esr", "k=4", "return", 33.24),
    Printed(SWEEP, NK, "esr", "k=2", "cvar", 1.50),
    Printed(SWEEP, NK, "esr", "k=4", "cvar", 2.10),
    Printed(TAILS, SU, "esr", "k=1", "return", 34.5),
    Printed(TAILS, SU, "esr", "k=1", "cvar", 1.14),
    Printed(TAILS, SU, "esr", "k=1", "over_1", 0.10),
    Printed(TAILS, SU, "lagrangian", "nearest", "cvar", 3.73),
    Printed(TAILS, SU, "lagrangian", "nearest", "over_1", 0.55),
    Printed(COST, PF, "unconstrained", "", "rate", 1.4e-5),
    Printed(ABLATION, PF, "esr_distilled", "", "return", 35.2, 4.5),
    Printed(ABLATION, PF, "esr", "k=0", "return", 36.7, 1.1),
    Printed(ABLATION, NK, "esr", "k=0", "gamma_cost", 3.0, what="return lost at γ = 1 (about)"),
    Printed(ABLATION, NK, "", "", None, 3.5, what="largest bias of γ = 0.99 (3 to 4)"),
    Printed(ABLATION, NK, "", "", None, 0.3, what="spread of the corner return when retrained"),
    Printed(TAILS, NK, "", "", None, 2.5, what="marginal return of a violation"),
    Printed(TAILS, SU, "", "", None, 1.1, what="marginal return of a violation"),
    Printed(SLICES, PF, "", "", "utility_40_3", -21.9, what="u at R_ext = 40, three violations"),
    Printed(SLICES, PF, "", "", "utility_40_1", -26.2, what="u at R_ext = 40, one violation"),
    Printed(SLICES, NK, "", "", None, 11, what="most violations in an episode of the pool"),
    Printed(SLICES, SU, "", "", None, 26, what="most violations in an episode of the pool"),
    Printed(SLICES, PF, "", "", None, 1, what="most violations in an episode of the pool"),
    Printed(SETUP, "", "", "", "runs", 183),
    Printed(SETUP, "", "", "", "seeds", 3),
    Printed(SETUP, NK, "esr", "k=1", "episodes", 2400),
    Printed(SETUP, "", "", "", "steps", STEPS),
    Printed(SETUP, "", "", "", None, 92_000, what="training steps a second (H100)"),
    Printed(SETUP, "", "", "", None, 3, what="hours for one training run"),
)
