"""A distilled utility evaluated with NumPy, so that a report starts no device."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from perepisode.config import ETHICAL_PENALTY

Utility = Callable[[ArrayLike, float], np.ndarray]


def read(path: str | Path) -> tuple[str, Utility, float]:
    """(name, u(R_ext, v), largest R_ext worth drawing) of a distilled utility's JSON file."""
    path = Path(path)
    try:
        stored = json.loads(path.read_text())
        utility = _network(stored)
        top = float(stored["inputs_mean"][0]) + 2.5 * float(stored["inputs_std"][0])
    except (OSError, json.JSONDecodeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"{path} is not a distilled utility ({error!r}); give the JSON that distilling wrote"
        ) from error
    return str(stored.get("dilemma") or path.stem), utility, max(top, 1.0)


def _network(stored: dict) -> Utility:
    """u = (mlp((x - mean) / std) - offset) scale, tanh between layers, x = [R_ext, -ρ v]."""
    mean, std = (np.asarray(stored[name], np.float64) for name in ("inputs_mean", "inputs_std"))
    layers = [tuple(np.asarray(layer[name], np.float64) for name in ("kernel", "bias")) for layer in stored["layers"]]
    offset, scale = float(stored["offset"]), float(stored["scale"])

    def utility(r_ext: ArrayLike, violations: float) -> np.ndarray:
        gained = np.atleast_1d(np.asarray(r_ext, np.float64))
        hidden = (np.stack([gained, np.full_like(gained, -ETHICAL_PENALTY * violations)], axis=-1) - mean) / std
        for kernel, bias in layers[:-1]:
            hidden = np.tanh(hidden @ kernel + bias)
        kernel, bias = layers[-1]
        return ((hidden @ kernel + bias)[:, 0] - offset) * scale

    return utility
