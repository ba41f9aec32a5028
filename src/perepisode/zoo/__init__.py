"""The model zoo: trained agents as run folders, as exported files, and bundled with the package (bundled/)."""

from perepisode.zoo.agent_file import AgentFile, HubFolder
from perepisode.zoo.registry import AgentSource, bundled, find, find_one, names

__all__ = ["AgentFile", "AgentSource", "HubFolder", "bundled", "find", "find_one", "names"]
