"""Int8 quantisation of a policy, per row, to about four megabytes.

A row of a kernel holds the weights of one input.  Row r is stored as round(w / s_r) with s_r = max |w| / 127, so no
weight changes by more than s_r / 2.  Biases stay float32.  Parameters that acting does not use, such as a critic, are
omitted.  So are the rows of inputs that never occurred in training: they still have their initial values, and are
restored as zero, so that an unseen input has no effect.
"""

from collections.abc import Mapping, Sequence

import numpy as np

METHOD = "int8 per row, rint(w / s) with s = max|w| / 127; biases float32; without the critic and unseen inputs"
LEVELS = 127
MAX_ROWS = 1_000_000  # of one kernel; protects against a file that claims more

Weights = Mapping[str, np.ndarray]


def quantize(
    weights: Weights, initial: Weights, omitted: Sequence[str], inputs: str
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """The tensors of an agent file, and the number of rows of each kernel that is stored in part.

    `initial` are the weights before training, under the same names; `omitted` and `inputs` name the parameters that
    acting does not use and the kernels of the inputs.
    """
    tensors, sizes = {}, {}
    for name in sorted(weights):  # a fixed order makes the file reproducible
        value = np.asarray(weights[name], np.float32)
        if (parameter := name.partition(".")[0]) in omitted:
            continue
        if value.ndim == 1:
            tensors[name] = value
            continue
        if parameter == inputs:
            rows = np.flatnonzero(_trained_rows(value, np.asarray(initial[name], np.float32)))
            tensors[f"{name}.rows"], sizes[name] = rows.astype(np.int32), len(value)
            value = value[rows]
        tensors[name], tensors[f"{name}.scale"] = _quantize_rows(value)
    return tensors, sizes


def dequantize(tensors: Weights, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The weights as float32; ValueError with the reason if the tensors are inconsistent."""
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
            raise ValueError(f"{name} does not have a scale for each of its {len(value)} rows")
        kernel = value.astype(np.float32) * scale[:, None]
        weights[name] = _restore_rows(name, kernel, tensors, sizes) if name in sizes else kernel
    if not all(np.isfinite(value).all() for value in weights.values()):
        raise ValueError("some weights are not finite")
    return weights


def _trained_rows(value: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Mask of the rows that training changed beyond rounding to half precision, in which policies may be stored."""
    if value.shape != initial.shape:
        raise ValueError(f"weights of shape {value.shape} do not match initial weights of shape {initial.shape}")
    changed = np.abs(value - initial) > 2 * np.spacing(np.abs(initial).astype(np.float16)).astype(np.float32)
    return np.asarray(changed.any(axis=1))


def _quantize_rows(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(kernel).max(axis=1)
    scale = np.where(largest > 0, largest / LEVELS, 1.0).astype(np.float32)
    return np.rint(kernel / scale[:, None]).astype(np.int8), scale


def _restore_rows(name: str, kernel: np.ndarray, tensors: Weights, sizes: Mapping[str, int]) -> np.ndarray:
    rows, size = tensors.get(f"{name}.rows"), sizes[name]
    if rows is None or rows.shape != kernel.shape[:1] or not isinstance(size, int) or not 0 < size <= MAX_ROWS:
        raise ValueError(f"{name} does not state which of its rows are stored")
    if len(rows) and (rows[0] < 0 or rows[-1] >= size or (np.diff(rows) <= 0).any()):
        raise ValueError(f"{name} stores rows that are not among its {size}")
    full = np.zeros((size, kernel.shape[1]), np.float32)
    full[rows] = kernel
    return full
