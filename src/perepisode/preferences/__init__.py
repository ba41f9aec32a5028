"""Preferences from people: pairs of recorded episodes, a rater's answers, and the utility that explains them.

labels     the labels file: append-only JSON Lines, each label with its two episodes by run, keys and digest
"""
