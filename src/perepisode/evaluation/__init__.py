"""Rollouts of trained agents with detectors only, the episodes table, and the distilled utility."""
