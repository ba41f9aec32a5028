"""Train RL agents under a limit on harm, and judge them one episode at a time.

What is offered here (docs/how-to/python.md) is imported when it is first asked for: `import perepisode` itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perepisode import agents, metrics
    from perepisode.api import evaluate, make, train, watch
    from perepisode.environments.base import EndCause, Environment, Outcome, register_env
    from perepisode.methods.objective import Objective, register_method
    from perepisode.report import report

__version__ = "0.2.0"
__all__ = [
    "EndCause", "Environment", "Objective", "Outcome", "agents", "evaluate", "make", "metrics", "register_env",
    "register_method", "report", "train", "watch",
]  # fmt: skip

_WHERE = {
    "make": "api:make",
    "Environment": "environments.base:Environment",
    "register_env": "environments.base:register_env",
    "Objective": "methods.objective:Objective",
    "register_method": "methods.objective:register_method",
    "Outcome": "environments.base:Outcome",
    "EndCause": "environments.base:EndCause",
    "train": "api:train",
    "evaluate": "api:evaluate",
    "watch": "api:watch",
    "report": "report",  # which can be called
    "agents": "agents",
    "metrics": "metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'perepisode' has no attribute {name!r}; it offers {', '.join(__all__)}")
    module, _, own = _WHERE[name].partition(":")
    found = import_module(f"perepisode.{module}")
    return getattr(found, own) if own else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
