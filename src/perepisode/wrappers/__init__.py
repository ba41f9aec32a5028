"""A budget of cost for every episode, for any trainer: one wrapper around an environment whose info has a cost.

    from perepisode.wrappers import EpisodeBudget              # Gymnasium; VectorEpisodeBudget for vectors of it
    from perepisode.wrappers.gymnax import EpisodeBudget       # gymnax, and what has its interface
    from perepisode.wrappers.brax import EpisodeBudget         # Brax, CRAX, MuJoCo Playground

    accounting   reward and observation, computed from what an episode has accrued; the same for every library

Gymnasium's needs no JAX.  The reward is that of `perepisode.methods`: ESR (expected scalarised returns) unless another
method is named.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perepisode.wrappers.gymnasium import EpisodeBudget, VectorEpisodeBudget

__all__ = ["EpisodeBudget", "VectorEpisodeBudget"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("perepisode.wrappers.gymnasium"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
