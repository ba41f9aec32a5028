"""Benchmarks with a fixed protocol: everything but the agent is fixed, and every result can be recomputed.

    envs = benchmark.record("temptation", "ppo-1.parquet", method="PPO", seed=1, ...)
    results = benchmark.evaluate("temptation", ["ppo-1.parquet"])
    benchmark.verify(results[0])

`perepisode benchmark` does the last two on the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perepisode.benchmark.protocol import PROTOCOLS, BenchmarkProtocol, find
    from perepisode.benchmark.recording import record
    from perepisode.benchmark.submissions import evaluate
    from perepisode.benchmark.verification import verify

__all__ = ["PROTOCOLS", "BenchmarkProtocol", "evaluate", "find", "record", "verify"]
_HOMES: dict[str, str] = {
    "PROTOCOLS": "protocol",
    "BenchmarkProtocol": "protocol",
    "find": "protocol",
    "evaluate": "submissions",
    "record": "recording",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: `record` needs Gymnasium, and the command line needs none of them to print its help."""
    if name not in _HOMES:
        raise AttributeError(f"module 'perepisode.benchmark' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"perepisode.benchmark.{_HOMES[name]}"), name)
