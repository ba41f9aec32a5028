"""Trained agents on disk: run folders, files that travel, and those that ship with the package (box/)."""

from perepisode.trained.files import AgentFile
from perepisode.trained.shelf import Trained, find, names, one, shipped

__all__ = ["AgentFile", "Trained", "find", "names", "one", "shipped"]
