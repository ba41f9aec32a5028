"""Trained agents: those bundled with the package, exported files and run folders.

    agent = agents.load("no_killing/esr-k1")        # or the path of an exported file or a run folder
    carry = agent.initial_carry()                   # at the start of every episode
    action, carry = agent.act(carry, state, key)    # samples from the policy; `state` is a state of `agent.env`
    carry = agent.update(carry, outcome)            # adds the step's reward and cost, which some agents observe

No device starts until an agent is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perepisode.zoo import AgentFile, AgentSource, bundled, find, find_one, names

if TYPE_CHECKING:
    from perepisode.evaluation.policy import Policy

__all__ = ["AgentFile", "AgentSource", "bundled", "find", "find_one", "load", "names"]


def load(name: str | Path) -> Policy:
    """The agent of this name, file or run folder, ready to act."""
    from perepisode.evaluation.policy import Policy

    return Policy.of(find_one(name))
