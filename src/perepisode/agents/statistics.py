"""Statistics of an agent's episodes that its file carries."""

from typing import Any

import numpy as np
import pandas as pd

from perepisode import metrics
from perepisode.config import ConfigError


def summarize(table: pd.DataFrame, run: str) -> dict[str, Any]:
    """Statistics of one run's episodes under the unbiased protocol, with the provenance of the table."""
    episodes = table.loc[(table["run"] == run) & table["in_first"]]
    if episodes.empty:
        raise ConfigError(f"the episodes table has no episode of run {run}; evaluate it with `perepisode evaluate`")
    if episodes.duplicated(["env_index", "episode_index"]).any():
        raise ConfigError(f"the episodes table has episodes of run {run} twice; give a table without duplicates")
    counts = episodes["violations"].to_numpy()
    if (counts % 1).any():
        raise ConfigError("violations in the episodes table are not whole numbers; give the table of `evaluate`")
    counts = counts.astype(int)
    provenance = next((origin for origin in table.attrs.get("provenance", ()) if "protocol" in origin), {})
    summary = {
        **{key: provenance[key] for key in ("protocol", "device", "versions") if key in provenance},
        "episodes": len(episodes),
        "return": metrics.mean(episodes["return"]),
        "return_std": metrics.std(episodes["return"]),
        "length": metrics.mean(episodes["length"]),
        "violations": metrics.mean(counts),
        "p_any": metrics.p_any(counts),
        "p_over_1": metrics.p_over(counts, 1),
        "cvar": metrics.cvar(counts),
        "worst": metrics.worst(counts),
        "distribution": np.bincount(counts).tolist(),  # episodes with 0, 1, 2, … violations
    }
    by_paper = f"violations_{episodes['dilemma'].iloc[0]}_paper"
    if by_paper in episodes:
        summary["seen_by_paper_detector"] = metrics.mean(episodes[by_paper])
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in summary.items()}
