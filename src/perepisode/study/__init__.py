"""The matrix of runs: plan it, run it on one machine or on SLURM, and resume it."""
