"""Train RL agents under a limit on harm, and judge them one episode at a time."""

__version__ = "0.1.0"
