"""A policy in four megabytes: whole numbers from -127 to 127 with one scale a row, and only what playing needs.

A kernel's row holds the weights of one input.  Row r is kept as round(w / s_r) with s_r = max |w| / 127, so no weight
is off by more than s_r / 2.  Biases stay float32.  Left out are the critic, which acting does not ask, and the rows of
inputs that training never met: they hold what they were drawn with, and are read back as zero, so that a sight never
met in training adds nothing.
"""

from collections.abc import Mapping

import numpy as np

METHOD = "int8 by row, rint(w / s) with s = max|w| / 127; biases float32; critic and inputs never met left out"
LEVELS = 127
MAX_ROWS = 1_000_000  # of one kernel: a file that claims more is not an agent's

Weights = Mapping[str, np.ndarray]


def quantize(weights: Weights, initial: Weights) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """The tensors of an agent file, and how many rows each kernel has that not all rows are kept of.

    `initial` are the weights that training began with, by the same names.
    """
    tensors, sizes = {}, {}
    for name in sorted(weights):  # in one order, so that a policy has one file
        value = np.asarray(weights[name], np.float32)
        if name.startswith("critic."):
            continue
        if value.ndim == 1:
            tensors[name] = value
            continue
        if name.startswith("embedding."):
            rows = np.flatnonzero(_moved(value, np.asarray(initial[name], np.float32)))
            tensors[f"{name}.rows"], sizes[name] = rows.astype(np.int32), len(value)
            value = value[rows]
        tensors[name], tensors[f"{name}.scale"] = _to_levels(value)
    return tensors, sizes


def dequantize(tensors: Weights, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The weights again, float32; ValueError with the reason where the tensors do not belong together."""
    weights = {}
    for name, value in tensors.items():
        if name.endswith((".rows", ".scale")):
            continue
        if value.ndim == 1 and value.dtype == np.float32:
            weights[name] = value
            continue
        if value.dtype != np.int8 or value.ndim != 2:
            raise ValueError(f"{name} is {value.dtype} of shape {value.shape}, not rows of int8")
        scale = tensors.get(f"{name}.scale")
        if scale is None or scale.shape != value.shape[:1] or scale.dtype != np.float32:
            raise ValueError(f"{name} has no scale for each of its {len(value)} rows")
        kernel = value.astype(np.float32) * scale[:, None]
        weights[name] = _spread(name, kernel, tensors, sizes) if name in sizes else kernel
    if not all(np.isfinite(value).all() for value in weights.values()):
        raise ValueError("some weights are not finite")
    return {**weights, **_no_critic(weights)}


def _moved(value: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Rows that training changed by more than half precision shows: policies travel in half precision."""
    if value.shape != initial.shape:
        raise ValueError(f"weights of shape {value.shape} did not begin as {initial.shape}")
    changed = np.abs(value - initial) > 2 * np.spacing(np.abs(initial).astype(np.float16)).astype(np.float32)
    return np.asarray(changed.any(axis=1))


def _to_levels(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(kernel).max(axis=1)
    scale = np.where(largest > 0, largest / LEVELS, 1.0).astype(np.float32)
    return np.rint(kernel / scale[:, None]).astype(np.int8), scale


def _spread(name: str, kernel: np.ndarray, tensors: Weights, sizes: Mapping[str, int]) -> np.ndarray:
    rows, size = tensors.get(f"{name}.rows"), sizes[name]
    if rows is None or rows.shape != kernel.shape[:1] or not isinstance(size, int) or not 0 < size <= MAX_ROWS:
        raise ValueError(f"{name} does not say which of its rows are kept")
    if len(rows) and (rows[0] < 0 or rows[-1] >= size or (np.diff(rows) <= 0).any()):
        raise ValueError(f"{name} keeps rows that are not among its {size}")
    full = np.zeros((size, kernel.shape[1]), np.float32)
    full[rows] = kernel
    return full


def _no_critic(weights: Weights) -> dict[str, np.ndarray]:
    """A critic of zeros: the network has a place for one, and acting does not look there."""
    if "embedding_bias" not in weights:
        raise ValueError("it holds no embedding_bias")
    hidden = len(weights["embedding_bias"])
    shapes = ((hidden, hidden), (hidden, hidden), (hidden, 1))
    kernels = {f"critic.{i}.0": np.zeros(shape, np.float32) for i, shape in enumerate(shapes)}
    return {**kernels, **{f"critic.{i}.1": np.zeros(shape[1], np.float32) for i, shape in enumerate(shapes)}}
