"""How a run's objective weighed violations while an episode went on, drawn from what the method declares."""

import numpy as np

from perepisode import safe_io
from perepisode.methods import METHODS, Accrued, Objective, PenaltyTrace
from perepisode.replay.selection import SelectedEpisode


def pressure(chosen: SelectedEpisode, accrued: Accrued) -> PenaltyTrace:
    """What the run's objective made of `accrued` [position]; the objective is read from the run or from the row."""
    objective = _objective(chosen)
    if objective is None:
        return PenaltyTrace("The run's objective is not known here.")
    return objective.penalty_trace(accrued, _last_multiplier(chosen))


def _objective(chosen: SelectedEpisode) -> Objective | None:
    """From the run's settings; without its folder, from the arm in the row as far as that tells them."""
    method = METHODS.get(chosen.row["method"])
    if method is None:
        return None
    try:
        if chosen.run is not None:
            return chosen.run.objective(chosen.trained and chosen.run.files_from(chosen.trained))
        value = chosen.row["value"]
        return method.build(**({method.swept: chosen.row["arm"] if np.isnan(value) else value} if method.swept else {}))
    except (TypeError, ValueError, KeyError):  # a row from another version may name settings unknown here
        return None


def _last_multiplier(chosen: SelectedEpisode) -> float | None:
    """λ in the last complete row of the run's metrics."""
    last = chosen.trained and safe_io.last_row(chosen.trained.metrics)  # the last line may be cut short
    found = safe_io.as_float((last or {}).get("lambda"))
    return found if found == found else None
