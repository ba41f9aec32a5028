"""Choosing the pairs that a rater is asked about: those whose answer teaches most, spread over return and violations.

`active` draws candidates, half of their episodes from the whole plane of return and violations and half as they occur
in the table, and asks about one at random, the more likely the more an ensemble of utilities disagrees about the answer
while each of them is certain: the mutual information between answer and utility (BALD, Houlsby et al. 2011).  The
ensemble is drawn from the posterior of the fit to the labels so far.
`random` draws two episodes of the table.  Either way a share of the pairs repeats an earlier one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from perepisode.config import ConfigError, check_choice
from perepisode.preferences import bradley_terry
from perepisode.preferences.bradley_terry import CATEGORIES, Answers, Features
from perepisode.preferences.labels import Label, digest, rows, violations_column

STRATEGIES = ("active", "random")
CANDIDATES, ENSEMBLE = 500, 64
PRIOR_STD = 1.0
POWER = 3  # of the information; the largest of all alone would be the oddest pair, again and again (Kirsch et al. 2023)
RETURN_CELLS = 8
REPEAT_AFTER = 5  # labels between a pair and its repeat, so that the rater does not remember it


@dataclass(frozen=True)
class EpisodePair:
    """Positions of two rows in the chooser's table, as they appear on the page; and the label that they repeat."""

    left_row_index: int
    right_row_index: int
    repeat_of: str | None = None


class PairChooser:
    """The next pair is a function of the table, the seed, the rater and the labels so far, and of nothing else."""

    def __init__(
        self,
        table: pd.DataFrame,
        dilemma: str,
        seed: int,
        strategy: Literal["active", "random"] = "active",
        repeat_share: float = 0.1,
    ):
        check_choice("strategy", strategy, STRATEGIES)
        self.seed, self.strategy, self.repeat_share = seed, strategy, repeat_share
        self.dilemma = dilemma
        self.returns = table["return"].to_numpy(float)
        self.violations = table[violations_column(table, dilemma)].to_numpy(float)
        self.digests = [digest(row) for row in rows(table)]
        self.rows = {name: row for row, name in reversed(list(enumerate(self.digests)))}
        if len(self.rows) < 2:
            raise ConfigError("the episodes table has fewer than two different episodes; evaluate more agents")
        self.features = Features.of(self.returns, self.violations)
        self.cells = _cells(self.returns, self.violations)

    def next(self, labels: Sequence[Label], rater: str = "") -> EpisodePair:
        """The pair to ask `rater` about, given all labels so far."""
        labels = [one for one in labels if one.left.dilemma == self.dilemma]
        asked = sum(label.rater == rater for label in labels)
        random = np.random.default_rng([self.seed, zlib.crc32(rater.encode()), asked])
        if random.random() < self.repeat_share and (repeat := self._repeat(random, labels, rater)):
            return repeat
        known = {label.pair for label in labels if label.rater == rater}
        candidates = self._candidates(random, known)
        chosen = 0
        if self.strategy == "active":
            weights = np.maximum(self._information(random, candidates, labels, rater), 1e-9) ** POWER
            chosen = random.choice(len(candidates), p=weights / weights.sum())
        left, right = random.permutation(candidates[chosen])
        return EpisodePair(int(left), int(right))

    def _repeat(self, random: np.random.Generator, labels: Sequence[Label], rater: str) -> EpisodePair | None:
        """An earlier pair in random order: the rater's own, to measure consistency, or another's, for agreement."""
        own = [label for label in labels if label.rater == rater]
        repeated = {label.repeat_of for label in own}
        seen = {label.pair for label in own}
        others = [label for label in labels if label.rater != rater and label.pair not in seen]
        groups = [
            [
                label
                for label in group
                if label.answer != "skip" and label.repeat_of is None and label.id not in repeated
                if label.left.digest in self.rows and label.right.digest in self.rows
            ]
            for group in (own[:-REPEAT_AFTER], others)
        ]
        groups = [group for group in groups if group]
        if not groups:
            return None
        group = groups[random.integers(len(groups))]
        label = group[random.integers(len(group))]
        left, right = random.permutation([self.rows[label.left.digest], self.rows[label.right.digest]])
        return EpisodePair(int(left), int(right), label.id)

    def _candidates(self, random: np.random.Generator, known: set[tuple[str, str]]) -> np.ndarray:
        """Pairs of rows whose episodes differ and were not shown to this rater, [candidate, 2]."""
        size = (CANDIDATES, 2)
        pairs = random.integers(len(self.returns), size=size)
        if self.strategy == "active":
            spread = np.array([[self._anywhere(random) for _ in range(2)] for _ in range(CANDIDATES)])
            pairs = np.where(random.random(size) < 0.5, pairs, spread)
        new = [self._pair(pair) not in known and self.digests[pair[0]] != self.digests[pair[1]] for pair in pairs]
        if not any(new):
            raise ConfigError("every pair that was drawn is already labelled; evaluate more agents for more episodes")
        return pairs[new]

    def _anywhere(self, random: np.random.Generator) -> int:
        """A row from anywhere in the plane: every number of violations is equally likely, then every occupied cell."""
        cells = self.cells[random.integers(len(self.cells))]
        cell = cells[random.integers(len(cells))]
        return cell[random.integers(len(cell))]

    def _pair(self, rows: np.ndarray) -> tuple[str, str]:
        first, second = sorted((self.digests[rows[0]], self.digests[rows[1]]))
        return first, second

    def _information(
        self, random: np.random.Generator, candidates: np.ndarray, labels: Sequence[Label], rater: str
    ) -> np.ndarray:
        """Mutual information of answer and utility, in nats, times the chance that the rater does not reject both.

        Rejected pairs leave their order open, and a normal posterior forgets how surely they would be rejected again.
        """
        fitted = bradley_terry.fit(self.features, Answers.of(labels), monotone=False, prior_std=PRIOR_STD)
        offered = {label.answer for label in labels if label.rater == rater}
        accepting = self._probabilities(candidates, fitted.samples(random, ENSEMBLE).T, offered - {"both_unacceptable"})
        rejects = self._probabilities(candidates, fitted.parameters, offered)[:, -1]
        return (1 - rejects) * (_entropy(accepting.mean(axis=2)) - _entropy(accepting).mean(axis=1))

    def _probabilities(self, candidates: np.ndarray, parameters: np.ndarray, offered: set[str]) -> np.ndarray:
        """Of every answer, [candidate, category(, sample)]; left and right are always offered."""
        categories = np.array([category in offered | {"left", "right"} for category in CATEGORIES])
        offered_to_all = np.tile(categories, (len(candidates), 1))
        none = np.zeros(len(candidates), int)  # neither an answer nor a number of a pair is needed
        asked = Answers(self.returns[candidates], self.violations[candidates], none, offered_to_all, none)
        return np.exp(bradley_terry.log_probabilities(self.features, parameters, asked))


def _cells(returns: np.ndarray, violations: np.ndarray) -> list[list[np.ndarray]]:
    """The rows with each violation count, or range of costs, in each range of returns that occurs with it."""
    values = bradley_terry.thinned(violations, bradley_terry.COUNT_STEPS + 1)
    strips = np.searchsorted(values, violations, side="right")
    edges = np.linspace(returns.min(), returns.max(), RETURN_CELLS + 1)[1:-1]
    columns = np.searchsorted(edges, returns, side="right")
    return [
        [np.flatnonzero((strips == strip) & (columns == column)) for column in np.unique(columns[strips == strip])]
        for strip in np.unique(strips)
    ]


def _entropy(p: np.ndarray) -> np.ndarray:
    """In nats, over the categories."""
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
