"""The task reward alone."""

from perepisode.methods.objective import Objective, PenaltyTrace, register_method


@register_method
class Unconstrained(Objective):
    """r = r_ext."""

    name, label, colour, marker = "unconstrained", "Unconstrained", "#4c4b45", "o"
    explanation = "maximises the task return and ignores violations."

    def penalty_trace(self, accrued, multiplier):
        return PenaltyTrace("No price: this objective ignores violations.")
