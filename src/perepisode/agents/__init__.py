"""Trained agents as files: those that ship with the package, and those that anybody exports.

    agent = agents.load("no_killing/esr-k1")        # or the path of an exported file, or a run folder
    mind = agent.initial_carry()                            # a new episode: no memory, nothing accrued
    action, mind = agent.act(mind, state, key)      # `state` of `agent.world`; draws from the trained policy
    mind = agent.update(mind, outcome)               # `outcome` of the step: the agent is told what it has accrued
                                                    # once `outcome.ended`, the next episode needs a new mind

Nothing here starts a device until an agent is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perepisode.zoo import AgentFile, AgentSource, bundled, find, find_one, names

if TYPE_CHECKING:
    from perepisode.evaluation.policy import Policy

__all__ = ["AgentFile", "AgentSource", "find", "load", "names", "find_one", "bundled"]


def load(name: str | Path) -> Policy:
    """The agent of this name, file or run folder, ready to act."""
    from perepisode.evaluation.policy import Policy

    return Policy.of(find_one(name))
