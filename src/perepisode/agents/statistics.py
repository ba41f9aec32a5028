"""What an agent does, an episode at a time, in the few numbers that travel with it."""

from typing import Any

import numpy as np
import pandas as pd

from perepisode import metrics
from perepisode.config import ConfigError


def of(table: pd.DataFrame, run: str) -> dict[str, Any]:
    """Statistics of one run's episodes by the unbiased protocol, with where the table says they come from."""
    own = table.loc[(table["run"] == run) & table["in_first"]]
    if own.empty:
        raise ConfigError(f"the episodes table has no episode of run {run}; judge it with `perepisode evaluate`")
    if own.duplicated(["env_index", "episode_index"]).any():
        raise ConfigError(f"the episodes table holds the same episodes of run {run} twice; give one that has them once")
    counts = own["violations"].to_numpy()
    if (counts % 1).any():
        raise ConfigError(
            "violations in the episodes table are not whole numbers; give the table that `evaluate` wrote"
        )
    counts = counts.astype(int)
    origin = next((one for one in table.attrs.get("provenance", ()) if "protocol" in one), {})
    found = {
        **{key: origin[key] for key in ("protocol", "device", "versions") if key in origin},
        "episodes": len(own),
        "return": metrics.mean(own["return"]),
        "return_std": metrics.std(own["return"]),
        "length": metrics.mean(own["length"]),
        "violations": metrics.mean(counts),
        "p_any": metrics.p_any(counts),
        "p_over_1": metrics.p_over(counts, 1),
        "cvar": metrics.cvar(counts),
        "worst": metrics.worst(counts),
        "distribution": np.bincount(counts).tolist(),  # episodes with 0, 1, 2, … violations
    }
    seen = f"violations_{own['dilemma'].iloc[0]}_paper"
    if seen in own:
        found["seen_by_paper_detector"] = metrics.mean(own[seen])
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in found.items()}
