"""Safe reinforcement learning (RL) with per-episode limits: train agents, evaluate them by their worst episodes.

The Python API (docs/how-to/python.md) is imported lazily, so `import perepisode` itself is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perepisode import agents, metrics
    from perepisode.api import evaluate, make, train, watch
    from perepisode.environments.action_space import Box
    from perepisode.environments.base import EndCause, Environment, Outcome, register_env
    from perepisode.methods.objective import Objective, register_method
    from perepisode.report import compare, report

__version__ = "0.2.0"
__all__ = [
    "Box", "EndCause", "Environment", "Objective", "Outcome", "agents", "compare", "evaluate", "make", "metrics",
    "register_env", "register_method", "report", "train", "watch",
]  # fmt: skip

_LOCATIONS = {
    "make": "api:make",
    "Environment": "environments.base:Environment",
    "register_env": "environments.base:register_env",
    "Objective": "methods.objective:Objective",
    "register_method": "methods.objective:register_method",
    "Outcome": "environments.base:Outcome",
    "EndCause": "environments.base:EndCause",
    "Box": "environments.action_space:Box",
    "train": "api:train",
    "evaluate": "api:evaluate",
    "watch": "api:watch",
    "compare": "report:compare",
    "report": "report",  # a callable module
    "agents": "agents",
    "metrics": "metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'perepisode' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, _, attribute = _LOCATIONS[name].partition(":")
    imported = import_module(f"perepisode.{module}")
    return getattr(imported, attribute) if attribute else imported


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
