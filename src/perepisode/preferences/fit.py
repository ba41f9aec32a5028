"""`perepisode distill --labels`: from a labels file to a utility, its uncertainty, its support and a picture of them.

The fit is that of bradley_terry.py.  Its prior is chosen by cross-validation, its uncertainty is that of an ensemble of
fits to resampled pairs, and a utility that prefers more violations where labels support it is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from perepisode.config import ETHICAL_PENALTY, ConfigError
from perepisode.evaluation import episodes as episodes_table
from perepisode.methods.esr_distilled import Distilled, to_json
from perepisode.preferences import agreement, bradley_terry
from perepisode.preferences import labels as labels_file
from perepisode.preferences.bradley_terry import Answers, Features, Fit
from perepisode.preferences.labels import Label
from perepisode.preferences.support import Inversion, LabelSupport, inversions
from perepisode.report.formatting import number, percent
from perepisode.runs import versions, write_atomically

PRIOR_STDS = (0.3, 1.0, 3.0, 10.0)
FOLDS = 5
ENSEMBLE = 30
FEWEST = 10  # labels that decide for one side
LISTED = 50  # inversions in the utility's file, the largest first


@dataclass(frozen=True, eq=False)
class Preferences:
    """A utility fitted to labels, with all that is known about it."""

    labels: Sequence[Label]
    answers: Answers
    fit: Fit
    utility: Distilled  # u(0, 0) = 0, in units of return
    ensemble: np.ndarray  # weights of the fits to resampled pairs, [fit, feature]
    prior_std: float
    monotone: bool
    held_out: np.ndarray  # bool[label]: decided as the rater did by a fit to other pairs
    held_out_log_likelihood: float  # per label

    def u(self, returns: np.ndarray, violations: np.ndarray) -> np.ndarray:
        return np.asarray(self.utility(returns, -ETHICAL_PENALTY * np.asarray(violations, float)), float)

    def of_ensemble(self, returns: np.ndarray, violations: np.ndarray) -> np.ndarray:
        """u of every fit to resampled pairs in the units of `utility`, [fit, …].

        Preferences determine a utility up to a constant, so each has the mean of `utility` over the judged episodes.
        """
        features, judged = self.fit.features, (self.answers.returns.ravel(), self.answers.violations.ravel())
        values = (features(returns, violations) - features(*judged).mean(axis=0)) @ self.ensemble.T
        return np.moveaxis(values, -1, 0) * float(self.utility.scale) + self.u(*judged).mean()

    @cached_property
    def support(self) -> LabelSupport:
        return LabelSupport.of(self.labels)

    @cached_property
    def inversions(self) -> list[Inversion]:
        return inversions(self.u, self.support)

    def share_of_ensemble(self, one: Inversion) -> float:
        """Share of the fits to resampled pairs with the same inversion at the same return."""
        more, fewer = self.of_ensemble(np.full(2, one.at_return), np.array([one.more, one.fewer])).T
        return float((more > fewer).mean())

    @property
    def acceptable_from(self) -> float | None:
        """The utility from which the raters accept an episode; None if they never rejected both of a pair."""
        if not self.answers.offered[:, bradley_terry.CATEGORIES.index("both_unacceptable")].any():
            return None
        return float((self.fit.parameters[-1] - self.utility.offset) * self.utility.scale)

    def about(self) -> dict:
        """What a utility file records about its fit."""
        accuracy, low, high = self.accuracy()
        first = self.labels[0].left
        return {
            "dilemma": first.dilemma,
            "environment": first.environment,
            "labels": len(self.labels),
            "pairs": len({label.pair for label in self.labels}),
            "raters": dict(Counter(label.rater for label in self.labels)),
            "answers": dict(Counter(label.answer for label in self.labels)),
            "monotone": self.monotone,
            "prior_std": self.prior_std,
            "tie_parameter": float(np.exp(self.fit.parameters[-2])),
            "acceptable_from": self.acceptable_from,
            "held_out": {
                "accuracy": accuracy, "low": low, "high": high, "labels": len(self.held_out),
                "log_likelihood": self.held_out_log_likelihood, "folds": FOLDS,
            },
            "agreement_within_raters": agreement.within(self.labels).to_json(),
            "agreement_between_raters": agreement.between(self.labels).to_json(),
            "support": self.support.intervals(),
            "inversions": [
                {**asdict(one), "share_of_ensemble": self.share_of_ensemble(one)} for one in self.inversions[:LISTED]
            ],
            "ensemble": len(self.ensemble),
            "versions": versions(),
        }  # fmt: skip

    def accuracy(self) -> tuple[float, float, float]:
        """Held-out accuracy on the labels that decide for one side, with Wilson's 95 % interval."""
        right, n = int(self.held_out.sum()), len(self.held_out)
        interval = binomtest(right, n).proportion_ci(method="wilson")
        return right / n, float(interval.low), float(interval.high)


def distill_labels(
    paths: Sequence[Path],
    out: Path,
    episodes: Sequence[Path] = (),
    dilemma: str | None = None,
    monotone: bool = False,
    allow_inversion: bool = False,
    log: Callable[[str], None] = print,
) -> Path:
    """Fit a utility to the labels and write it as JSON, with a picture beside it.

    With `episodes`, every labelled episode must be in these tables with the numbers that the rater saw.
    """
    from perepisode.preferences import picture

    labels = of_dilemma(labels_file.read(paths, log), dilemma)
    if episodes:
        labels_file.check(labels, episodes_table.read(episodes))
    preferences = fit(labels, monotone)
    log(summary(preferences))
    drawn = picture.write(preferences, Path(out).with_suffix(".svg"))
    log(f"wrote {drawn}")
    refused = [one for one in preferences.inversions if one.supported]
    if refused and not allow_inversion:
        share = percent(preferences.share_of_ensemble(refused[0]), digits=0)
        raise ConfigError(
            f"the fit prefers more violations where labels support it: {refused[0]}, in {share} of refits; label more "
            f"pairs there, or use --monotone or --allow-inversion"
        )
    for one in (refused or preferences.inversions)[:1]:
        where = "where labels support it" if refused else "where no label supports it (hatched in the picture)"
        log(f"warning: the utility prefers more violations {where}: {one}; use --monotone")
    plain = {"dilemma": labels[0].left.dilemma, **to_json(preferences.utility), "about": preferences.about()}
    write_atomically(Path(out), json.dumps(plain))
    return Path(out)


def of_dilemma(labels: Sequence[Label], dilemma: str | None) -> list[Label]:
    """The labels of one dilemma in one environment."""
    if not labels:
        raise ConfigError("there is no label yet; answer some pairs with `perepisode label`")
    kept = [label for label in labels if dilemma in (None, label.left.dilemma)]
    found = sorted({(label.left.environment, label.left.dilemma) for label in kept})
    if not found:
        named = sorted({label.left.dilemma for label in labels})
        raise ConfigError(f"no label is about {dilemma}; the file has {', '.join(named)}")
    if len(found) > 1:
        listed = ", ".join(f"{name} of {environment}" for environment, name in found)
        raise ConfigError(f"the labels are about {listed}; choose one with --dilemma, or give their files apart")
    return kept


def fit(labels: Sequence[Label], monotone: bool, ensemble: int = ENSEMBLE, seed: int = 0) -> Preferences:
    """The utility that explains these labels of one dilemma best."""
    answers = Answers.of(labels)
    decided = answers.chosen < 2
    if decided.sum() < FEWEST:
        raise ConfigError(
            f"{decided.sum()} labels decide for one episode of a pair; label at least {FEWEST} such pairs"
        )
    features = Features.of(answers.returns.ravel(), answers.violations.ravel())
    log_p = {std: _held_out(features, answers, monotone, std) for std in PRIOR_STDS}
    likelihood = {std: float(rows[np.arange(len(answers)), answers.chosen].mean()) for std, rows in log_p.items()}
    prior_std = max(likelihood, key=likelihood.__getitem__)
    agrees = log_p[prior_std][decided, :2].argmax(axis=1) == answers.chosen[decided]
    fitted = bradley_terry.fit(features, answers, monotone, prior_std)
    random = np.random.default_rng(seed)
    weights = [
        bradley_terry.fit(features, answers[rows], monotone, prior_std).weights
        for rows in _resampled(random, answers.pairs, ensemble)
    ]
    return Preferences(
        labels,
        answers,
        fitted,
        in_units_of_return(fitted.utility, answers),
        np.array(weights).reshape(ensemble, features.number),
        prior_std,
        monotone,
        agrees,
        likelihood[prior_std],
    )


def in_units_of_return(utility: Distilled, answers: Answers) -> Distilled:
    """Shifted to u(0, 0) = 0, and scaled so that a judged episode gains 1 per unit of return, on average."""
    returns, r_eth = answers.returns.ravel(), -ETHICAL_PENALTY * answers.violations.ravel()
    step = 0.1 * (np.ptp(returns) or 1.0)
    slope = float((utility.raw(returns + step, r_eth) - utility.raw(returns - step, r_eth)).mean()) / (2 * step)
    if not slope > 0:
        raise ConfigError("the fitted utility does not increase with the return; label more pairs, or use --monotone")
    return replace(utility, offset=float(utility.raw(0.0, 0.0)), scale=1.0 / slope)


def _held_out(features: Features, answers: Answers, monotone: bool, prior_std: float) -> np.ndarray:
    """Log-probabilities [label, category] by fits to the other folds; all labels of a pair are in one fold."""
    folds = np.random.default_rng(0).permutation(answers.pairs.max() + 1)[answers.pairs] % FOLDS
    log_p = np.empty(answers.offered.shape)
    for fold in range(FOLDS):
        own = folds == fold
        log_p[own] = bradley_terry.fit(features, answers[~own], monotone, prior_std).log_probabilities(answers[own])
    return log_p


def _resampled(random: np.random.Generator, pairs: np.ndarray, number: int) -> Iterator[np.ndarray]:
    """Rows of as many pairs drawn with replacement, each with all its labels."""
    rows_of = [np.flatnonzero(pairs == pair) for pair in range(pairs.max() + 1)]
    for _ in range(number):
        yield np.concatenate([rows_of[pair] for pair in random.integers(len(rows_of), size=len(rows_of))])


def summary(preferences: Preferences) -> str:
    """Labels, held-out accuracy and agreement, in a few lines."""
    labels = preferences.labels
    accuracy, low, high = preferences.accuracy()
    raters = len({label.rater for label in labels})
    counts = Counter(label.answer for label in labels)
    listed = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in labels_file.ANSWERS if counts[name])
    lines = [
        f"{len(labels)} labels of {raters} rater{'s' * (raters > 1)}: {listed}",
        f"held-out accuracy {percent(accuracy)} (95 % interval {percent(low)} to {percent(high)}, "
        f"{len(preferences.held_out)} decided labels, {FOLDS} folds)",
        *(
            f"{name}: {number(one.coefficient)} ({interval(one)}{one.pairs} pairs, "
            f"{percent(one.equal_share, digits=0)} the same answer)"
            for name, one in (
                ("agreement within raters, Cohen's κ", agreement.within(labels)),
                ("agreement between raters, Krippendorff's α", agreement.between(labels)),
            )
            if one.pairs
        ),
    ]
    if preferences.acceptable_from is not None:
        lines.append(f"an episode is acceptable from u = {number(preferences.acceptable_from, 1)}")
    return "\n".join(lines)


def interval(one: agreement.Agreement) -> str:
    return "" if one.low != one.low else f"95 % interval {number(one.low)} to {number(one.high)}, "
