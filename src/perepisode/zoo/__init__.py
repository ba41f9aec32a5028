"""Trained agents on disk: run folders, files that travel, and those that ship with the package (box/)."""

from perepisode.zoo.agent_file import AgentFile
from perepisode.zoo.registry import AgentSource, bundled, find, find_one, names

__all__ = ["AgentFile", "AgentSource", "find", "names", "find_one", "bundled"]
