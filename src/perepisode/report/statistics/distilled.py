"""Evaluate a distilled utility with NumPy, so that a report initialises no accelerator."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from perepisode import safe_io
from perepisode.config import ETHICAL_PENALTY
from perepisode.methods import esr_distilled

Utility = Callable[[ArrayLike, float], np.ndarray]


def read(path: str | Path) -> tuple[str, Utility, float]:
    """Read a distilled utility's JSON file: (name, u(R_ext, v), largest R_ext worth drawing)."""
    stored = safe_io.read_json(path, esr_distilled.REMEDY)
    mean, std, layers, offset, scale = esr_distilled.parts(stored, str(path))
    top = float(mean[0] + 2.5 * std[0])
    name = str(stored.get("dilemma") or Path(path).stem)
    return name, _network(mean, std, layers, offset, scale), max(top, 1.0)


def _network(mean: np.ndarray, std: np.ndarray, layers: list, offset: float, scale: float) -> Utility:
    """u = (mlp((x - mean) / std) - offset) scale, tanh between layers, x = [R_ext, -ρ v]."""

    def utility(r_ext: ArrayLike, violations: float) -> np.ndarray:
        returns = np.atleast_1d(np.asarray(r_ext, np.float64))
        hidden = (np.stack([returns, np.full_like(returns, -ETHICAL_PENALTY * violations)], axis=-1) - mean) / std
        for kernel, bias in layers[:-1]:
            hidden = np.tanh(hidden @ kernel + bias)
        kernel, bias = layers[-1]
        return ((hidden @ kernel + bias)[:, 0] - offset) * scale

    return utility
