"""The methods: one file each, found by name in METHODS.

    unconstrained, erm, ser, lagrangian, esr, esr_distilled, ser_racc    the paper's methods
    saute, pid_lagrangian, cvar, chance                                  baselines it leaves to future work
    ppo_lag, ppo_pid, focops, p3o, crpo                                  baselines with a cost critic (cost_critic.py)
    objective      the interface: what a method declares and may override
    accrued_obs    observations of what the episode has accrued

A file in this folder is a method and needs no registration elsewhere; a method of your own is loaded as
`--method file.py:Class` (docs/tutorials/add-a-method.md).
"""

from importlib import import_module
from pkgutil import iter_modules

from perepisode.methods.objective import (
    METHODS,
    Accrued,
    ConstraintType,
    Finished,
    Mixture,
    Objective,
    PenaltyTrace,
    Streams,
)

__all__ = [
    "METHODS",
    "PAPER",
    "Accrued",
    "ConstraintType",
    "Finished",
    "Mixture",
    "Objective",
    "PenaltyTrace",
    "Streams",
]

PAPER = ("unconstrained", "erm", "ser", "lagrangian", "esr", "esr_distilled", "ser_racc")
BASELINES = ("saute", "pid_lagrangian", "cvar", "chance", "ppo_lag", "ppo_pid", "focops", "p3o", "crpo")
FIRST = (*PAPER, *BASELINES)  # the order in lists and legends; others follow by name

for _name in (*FIRST, *(module.name for module in iter_modules(__path__) if module.name not in FIRST)):
    import_module(f"{__name__}.{_name}")
