"""The methods: one file each, found by name in METHODS.

    unconstrained, erm, ser, lagrangian, esr, esr_distilled, ser_racc    the paper's methods
    saute, pid_lagrangian, cvar, chance                                  baselines it leaves to future work
    objective      the interface: what a method declares and may override
    accrued_obs    observations of what the episode has accrued

A file in this folder is a method and needs no registration elsewhere; a method of your own is loaded as
`--method file.py:Class` (docs/tutorials/add-a-method.md).
"""

from importlib import import_module
from pkgutil import iter_modules

from perepisode.methods.objective import METHODS, Accrued, ConstraintType, Finished, Objective, PenaltyTrace

__all__ = ["METHODS", "PAPER", "Accrued", "ConstraintType", "Finished", "Objective", "PenaltyTrace"]

PAPER = ("unconstrained", "erm", "ser", "lagrangian", "esr", "esr_distilled", "ser_racc")
FIRST = (*PAPER, "saute", "pid_lagrangian", "cvar", "chance")  # the order in lists and legends; others follow by name

for _name in (*FIRST, *(module.name for module in iter_modules(__path__) if module.name not in FIRST)):
    import_module(f"{__name__}.{_name}")
