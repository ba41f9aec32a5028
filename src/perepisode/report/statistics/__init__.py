"""The numbers of a report: operating points, matched comparisons, frontiers, tails and training curves."""
