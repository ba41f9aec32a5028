"""Preferences from people: pairs of recorded episodes, a rater's answers, and the utility that explains them.

labels           the labels file: append-only JSON Lines, each label with its two episodes by run, keys and digest
pairs            which pair a rater is asked about next
bradley_terry    the logit model of answers, and its fit
fit              from labels to a utility file: cross-validation, ensemble, refusals
support          where labels support a utility, and where it prefers more violations
picture          the utility over the plane of return and violations, and slices
agreement        Cohen's κ and Krippendorff's α with intervals
raters           simulated raters with known preferences
label, server, session, films, worker    the labelling page: command, requests, state, replays, background thread
"""
