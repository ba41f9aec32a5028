"""The methods: one file each, found by name in METHODS.

    unconstrained, erm, ser, lagrangian, esr, esr_distilled, ser_racc    the paper's
    saute, pid_lagrangian, cvar, chance                                  baselines that it names as future work
    objective    what every method may decide and must declare
    told         what agents are told of what they have accrued

A file put here is a method, with no line elsewhere; one from outside is loaded by `find("module:Class")`.
"""

from importlib import import_module
from pkgutil import iter_modules

from perepisode.methods.objective import METHODS, Accrued, ConstraintType, Finished, Objective, PenaltyTrace

__all__ = ["METHODS", "PAPER", "Accrued", "ConstraintType", "Finished", "Objective", "PenaltyTrace"]

PAPER = ("unconstrained", "erm", "ser", "lagrangian", "esr", "esr_distilled", "ser_racc")
FIRST = (*PAPER, "saute", "pid_lagrangian", "cvar", "chance")  # the order of lists and legends; others follow by name

for _name in (*FIRST, *(module.name for module in iter_modules(__path__) if module.name not in FIRST)):
    import_module(f"{__name__}.{_name}")
