"""Choosing the pairs that a rater is asked about: those whose answer teaches most, spread over return and violations.

`active` draws candidates uniformly over the cells of the plane of return and violations, and asks the one about whose
answer an ensemble of utilities disagrees most while each of them is certain: the mutual information between the answer
and the utility (BALD, Houlsby et al. 2011).  The ensemble is drawn from the posterior of the fit to the labels so far.
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
from perepisode.preferences.bradley_terry import Answers, Features
from perepisode.preferences.labels import Label, digest, violations_column

STRATEGIES = ("active", "random")
CANDIDATES, ENSEMBLE = 500, 64
PRIOR_STD = 3.0
RETURN_CELLS = 8
REPEAT_AFTER = 5  # labels between a pair and its repeat, so that the rater does not remember it


@dataclass(frozen=True)
class Pair:
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
        rows = table.to_dict("records")
        self.digests = [digest({str(name): value for name, value in row.items()}) for row in rows]
        self.rows = {name: row for row, name in reversed(list(enumerate(self.digests)))}
        if len(self.rows) < 2:
            raise ConfigError("the episodes table has fewer than two different episodes; evaluate more agents")
        self.features = Features.of(self.returns, self.violations)
        self.inputs = self.features(self.returns, self.violations)
        self.cells = _cells(self.returns, self.violations)

    def next(self, labels: Sequence[Label], rater: str = "") -> Pair:
        """The pair to ask `rater` about, given all labels so far."""
        labels = [one for one in labels if one.left.dilemma == self.dilemma]
        asked = sum(label.rater == rater for label in labels)
        random = np.random.default_rng([self.seed, zlib.crc32(rater.encode()), asked])
        if random.random() < self.repeat_share and (repeat := self._repeat(random, labels, rater)):
            return repeat
        known = {label.pair for label in labels if label.rater == rater}
        candidates = self._candidates(random, known)
        best = 0 if self.strategy == "random" else int(np.argmax(self._information(random, candidates, labels)))
        left, right = random.permutation(candidates[best])
        return Pair(int(left), int(right))

    def _repeat(self, random: np.random.Generator, labels: Sequence[Label], rater: str) -> Pair | None:
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
        return Pair(int(left), int(right), label.id)

    def _candidates(self, random: np.random.Generator, known: set[tuple[str, str]]) -> np.ndarray:
        """Pairs of rows whose episodes differ and were not shown to this rater, [candidate, 2]."""
        size = (CANDIDATES, 2)
        if self.strategy == "random":
            pairs = random.integers(len(self.returns), size=size)
        else:
            cells = random.integers(len(self.cells), size=size)
            places = random.random(size)
            pairs = np.array(
                [[self.cells[c][int(p * len(self.cells[c]))] for c, p in zip(*x)] for x in zip(cells, places)]
            )
        new = [self._pair(pair) not in known and self.digests[pair[0]] != self.digests[pair[1]] for pair in pairs]
        if not any(new):
            raise ConfigError("every pair that was drawn is already labelled; evaluate more agents for more episodes")
        return pairs[new]

    def _pair(self, rows: np.ndarray) -> tuple[str, str]:
        first, second = sorted((self.digests[rows[0]], self.digests[rows[1]]))
        return first, second

    def _information(self, random: np.random.Generator, candidates: np.ndarray, labels: Sequence[Label]) -> np.ndarray:
        """Mutual information of answer (left or right) and utility, in nats, per candidate."""
        fitted = bradley_terry.fit(self.features, Answers.of(labels), monotone=False, prior_std=PRIOR_STD)
        weights = fitted.samples(random, ENSEMBLE)[:, :-2]
        margins = (self.inputs[candidates[:, 0]] - self.inputs[candidates[:, 1]]) @ weights.T
        p = 1.0 / (1.0 + np.exp(-np.clip(margins, -500, 500)))
        return _entropy(p.mean(axis=1)) - _entropy(p).mean(axis=1)


def _cells(returns: np.ndarray, violations: np.ndarray) -> list[np.ndarray]:
    """The rows in each occupied cell of the plane: a range of returns, and a violation count or a range of them."""
    values = bradley_terry.thinned(np.unique(violations), bradley_terry.COUNT_STEPS + 1)
    counts = np.searchsorted(values, violations, side="right")
    edges = np.linspace(returns.min(), returns.max(), RETURN_CELLS + 1)[1:-1]
    cell = counts * RETURN_CELLS + np.searchsorted(edges, returns, side="right")
    return [np.flatnonzero(cell == number) for number in np.unique(cell)]


def _entropy(p: np.ndarray) -> np.ndarray:
    """Of a binary answer, in nats."""
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return -p * np.log(p) - (1 - p) * np.log(1 - p)
