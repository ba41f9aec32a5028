"""Trained agents as files: those that ship with the package, and those that anybody exports.

    agent = agents.load("no_killing/esr-k1")        # or the path of an exported file, or a run folder
    mind = agent.begin()                            # a new episode: no memory, nothing accrued
    action, mind = agent.act(mind, state, key)      # `state` of `agent.world`; draws from the trained policy
    mind = agent.after(mind, outcome)               # `outcome` of the step: the agent is told what it has accrued
                                                    # once `outcome.ended`, the next episode needs a new mind

Nothing here starts a device until an agent is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perepisode.trained import AgentFile, Trained, find, names, one, shipped

if TYPE_CHECKING:
    from perepisode.evaluation.player import Player

__all__ = ["AgentFile", "Trained", "find", "load", "names", "one", "shipped"]


def load(name: str | Path) -> Player:
    """The agent of this name, file or run folder, ready to act."""
    from perepisode.evaluation.player import Player

    return Player.of(one(name))
