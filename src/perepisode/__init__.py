"""Train RL agents under a limit on harm, and judge them one episode at a time.

What is offered here (docs/python.md) is imported when it is first asked for: `import perepisode` itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perepisode import agents, metrics
    from perepisode.commands import evaluate, make, train, watch
    from perepisode.environments.base import EndCause, Outcome, World
    from perepisode.environments.base import world as register
    from perepisode.report import report

__version__ = "0.1.0"
__all__ = [
    "EndCause", "Outcome", "World", "agents", "evaluate", "make", "metrics", "register", "report", "train", "watch",
]  # fmt: skip

_WHERE = {
    "make": "commands:make",
    "register": "environments.base:world",
    "World": "environments.base:World",
    "Outcome": "environments.base:Outcome",
    "EndCause": "environments.base:EndCause",
    "train": "commands:train",
    "evaluate": "commands:evaluate",
    "watch": "commands:watch",
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
