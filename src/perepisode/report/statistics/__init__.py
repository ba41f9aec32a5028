"""The numbers of a report: operating points, pairing, frontiers, curves, and what the paper prints."""
