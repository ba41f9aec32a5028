"""Training a population of runs in one program, with any agent (perepisode.algorithms)."""
