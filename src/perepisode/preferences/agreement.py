"""Agreement of raters with themselves (Cohen's κ) and with each other (Krippendorff's α), with bootstrap intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from perepisode.preferences.labels import Label

RESAMPLES = 2000
FEWEST = 5  # pairs: below, an interval would mean nothing


@dataclass(frozen=True)
class Agreement:
    """A coefficient with its 95 % interval; 1: perfect, 0: chance.  NaN where it is undefined or has too few pairs."""

    coefficient: float
    low: float
    high: float
    pairs: int
    equal_share: float  # share of the compared answers that are the same

    def to_json(self) -> dict[str, float | int | None]:
        return {name: None if value != value else value for name, value in vars(self).items()}


def within(labels: Sequence[Label]) -> Agreement:
    """Cohen's κ between the first answer to a pair and the same rater's answer to its repeat."""
    by_id = {label.id: label for label in labels}
    repeats = [(by_id[label.repeat_of], label) for label in labels if label.repeat_of in by_id]
    answers = [
        (answer_in_order(first), answer_in_order(again))
        for first, again in repeats
        if first.rater == again.rater and first.pair == again.pair and "skip" not in (first.answer, again.answer)
    ]
    return _with_interval(np.array(answers, str).reshape(-1, 2), lambda rows: cohen_kappa(rows[:, 0], rows[:, 1]))


def between(labels: Sequence[Label]) -> Agreement:
    """Krippendorff's α, nominal, over the pairs that several raters judged; of each rater the first answer counts."""
    raters = list(dict.fromkeys(label.rater for label in labels))
    first: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for label in labels:
        if label.answer != "skip":
            first[label.pair].setdefault(label.rater, answer_in_order(label))
    rows = [[found.get(rater, "") for rater in raters] for found in first.values() if len(found) > 1]
    return _with_interval(np.array(rows, str).reshape(len(rows), len(raters)), krippendorff_alpha)


def answer_in_order(label: Label) -> str:
    """The answer whatever the order on the page: `left` is the pair's episode with the smaller digest."""
    if label.left.digest == label.pair[0]:
        return label.answer
    return {"left": "right", "right": "left"}.get(label.answer, label.answer)


def cohen_kappa(first: np.ndarray, second: np.ndarray) -> float:
    """κ = (p_o - p_e) / (1 - p_e); NaN if both always give one and the same answer (Cohen 1960)."""
    categories = np.unique([first, second])
    observed = (first == second).mean()
    expected = sum((first == c).mean() * (second == c).mean() for c in categories)
    return float((observed - expected) / (1 - expected)) if expected < 1 else float("nan")


def krippendorff_alpha(values: np.ndarray) -> float:
    """α = 1 - D_o / D_e of nominal values [unit, rater]; "" is missing.  NaN if all values are equal.

    Krippendorff (2011), "Computing Krippendorff's alpha-reliability".
    """
    categories = np.unique(values[values != ""])
    counts = (values[:, :, None] == categories).sum(axis=1)  # [unit, category]
    counts = counts[counts.sum(axis=1) > 1]
    sizes = counts.sum(axis=1)
    disagreeing = ((sizes**2 - (counts**2).sum(axis=1)) / (sizes - 1)).sum()  # ordered pairs, per coincidence matrix
    totals = counts.sum(axis=0)
    expected = (totals.sum() ** 2 - (totals**2).sum()) / (totals.sum() - 1)
    return float(1 - disagreeing / expected) if expected else float("nan")


def _with_interval(rows: np.ndarray, coefficient: Callable[[np.ndarray], float]) -> Agreement:
    """Percentile bootstrap over pairs, the unit that is sampled.

    A resample in which the coefficient is undefined (all answers are alike) counts as perfect agreement.
    """
    if not len(rows):
        return Agreement(np.nan, np.nan, np.nan, 0, np.nan)
    alike = float(np.mean([len(set(row[row != ""])) == 1 for row in rows]))
    value = coefficient(rows)
    if len(rows) < FEWEST or value != value:
        return Agreement(value, np.nan, np.nan, len(rows), alike)
    random = np.random.default_rng(0)
    resampled = [coefficient(rows[random.integers(len(rows), size=len(rows))]) for _ in range(RESAMPLES)]
    low, high = np.quantile(np.nan_to_num(resampled, nan=1.0), [0.025, 0.975])
    return Agreement(value, float(low), float(high), len(rows), alike)
