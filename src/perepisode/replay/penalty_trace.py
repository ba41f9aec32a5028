"""The penalty that a run's objective applies in the course of an episode."""

import numpy as np

from perepisode import safe_io
from perepisode.methods import METHODS, Accrued, Objective, PenaltyTrace
from perepisode.replay.selection import SelectedEpisode


def penalty_trace(episode: SelectedEpisode, accrued: Accrued) -> PenaltyTrace:
    """The penalty at every position, given the accrued return and cost [position]."""
    objective = _objective(episode)
    if objective is None:
        return PenaltyTrace("The run's objective is unknown.")
    return objective.penalty_trace(accrued, _last_multiplier(episode))


def _objective(episode: SelectedEpisode) -> Objective | None:
    """From the run's settings, or from the row's arm if the run was not found."""
    method = METHODS.get(episode.row["method"])
    if method is None:
        return None
    try:
        if episode.run is not None:
            return episode.run.objective(episode.source and episode.run.files_from(episode.source))
        arm, value = episode.row["arm"], episode.row["value"]
        return method.build(**({method.swept: arm if np.isnan(value) else value} if method.swept else {}))
    except (TypeError, ValueError, KeyError):  # the row's arm may not be a current setting
        return None


def _last_multiplier(episode: SelectedEpisode) -> float | None:
    """λ in the last complete row of the run's metrics."""
    last = episode.source and safe_io.last_row(episode.source.metrics)
    multiplier = safe_io.as_float((last or {}).get("lambda"))
    return multiplier if multiplier == multiplier else None
