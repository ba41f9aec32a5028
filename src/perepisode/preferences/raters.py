"""Simulated raters with known preferences, for tests, for the tutorial and for the curve of how many labels are needed.

A rater maps two episodes and a random generator to an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from perepisode.evaluation.distill import preferred
from perepisode.preferences.labels import Episode, Label, reference
from perepisode.preferences.pairs import PairChooser

Rater = Callable[[Episode, Episode, np.random.Generator], str]


@dataclass(frozen=True)
class Rule:
    """The paper's rule: within `tolerance` the higher return, beyond it fewer violations, then the higher return.

    If both episodes have more than `unacceptable` violations, the rater rejects both.
    """

    tolerance: float = 0.5
    unacceptable: float = np.inf

    def __call__(self, a: Episode, b: Episode, random: np.random.Generator) -> str:
        if min(a.violations, b.violations) > self.unacceptable:
            return "both_unacceptable"
        order = preferred(a.return_, a.violations, b.return_, b.violations, self.tolerance)
        return {1: "left", -1: "right", 0: "equal"}[int(order)]


@dataclass(frozen=True)
class Noisy:
    """Another rater, but a left or right is flipped with probability p."""

    rater: Rater
    p: float = 0.1

    def __call__(self, a: Episode, b: Episode, random: np.random.Generator) -> str:
        answer = self.rater(a, b, random)
        flipped = random.random() < self.p
        return {"left": "right", "right": "left"}.get(answer, answer) if flipped else answer


PAPER, LENIENT, RETURN_ONLY = Rule(0.5), Rule(2.5), Rule(np.inf)
RATERS: dict[str, Rater] = {
    "paper": PAPER,
    "noisy": Noisy(PAPER),
    "lenient": LENIENT,  # tolerates two violations
    "strict": Rule(0.5, unacceptable=1.5),  # rejects two episodes with two violations or more each
    "return_only": RETURN_ONLY,
}


def simulate(
    table: pd.DataFrame, chooser: PairChooser, rater: Rater, number: int, name: str = "simulated", seed: int = 0,
    labels: Sequence[Label] = (),
) -> list[Label]:  # fmt: skip
    """The labels so far and `number` more by this rater, about the pairs that the chooser asks about."""
    random = np.random.default_rng(seed)
    answered = list(labels)
    for index in range(number):
        pair = chooser.next(answered, name)
        left, right = (
            reference(table.iloc[row].to_dict(), chooser.dilemma) for row in (pair.left_row_index, pair.right_row_index)
        )
        label = Label(name, left, right, rater(left, right, random), pair.repeat_of)
        answered.append(replace(label, id=f"{name}-{len(labels) + index}"))
    return answered
