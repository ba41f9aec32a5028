"""Sample settings of any method, for tests of every registered method: a new one needs no entry in a list."""

import json
import math
from typing import Any

from perepisode import settings
from perepisode.methods import METHODS

UTILITY = {
    "inputs_mean": [0.0, 0.0], "inputs_std": [1.0, 1.0], "offset": 0.0, "scale": 1.0,
    "layers": [{"kernel": [[1.0], [1.0]], "bias": [0.0]}],
}  # fmt: skip
FILES = {"a file's digest": json.dumps(UTILITY).encode()}


def sample_settings(name: str) -> dict[str, Any]:
    """A valid value for every setting that a method requires."""
    method = METHODS[name]
    required = {key: declared for key, declared in settings.of(method).items() if declared.required}
    swept = {method.swept: method.swept_values[0]} if method.swept_values else {}
    return {key: swept.get(key, _sample(declared)) for key, declared in required.items()}


def _sample(declared: settings.Setting) -> Any:
    if declared.file:
        return next(iter(FILES))
    if declared.choices:
        return next(iter(declared.choices))
    if declared.type is bool:
        return True
    low, high = max(declared.low, declared.above), declared.high
    inside = (low + high) / 2 if math.isfinite(low) and math.isfinite(high) else math.ceil(low) + 1
    return 1 if low < 1 <= high else inside
