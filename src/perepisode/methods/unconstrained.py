"""The agent that is told of no dilemma: what the task alone pays."""

from perepisode.methods.objective import Objective, Pressure, method


@method
class Unconstrained(Objective):
    """r = r_ext."""

    name, label, colour, marker = "unconstrained", "Unconstrained", "#4c4b45", "o"

    def pressure(self, accrued, multiplier):
        return Pressure("No price: this objective does not look at violations.")
