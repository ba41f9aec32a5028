"""Where labels support a utility, and where a utility that they support prefers more violations to fewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from perepisode.preferences.bradley_terry import are_counts, thinned
from perepisode.preferences.labels import Label
from perepisode.report.formatting import number

NEAR = 0.1  # of the range of judged returns, of a count of violations, and of the range of judged costs
NEAR_COUNT = 0.5  # at least; less than one violation: only episodes with the same count
ENOUGH = 3  # judged episodes near a point
NEGLIGIBLE = 0.01  # of the range of judged returns: an excess below it is rounding
EXAMINED, SPREAD = 40, 13  # numbers of violations at which a utility is examined: of those judged, and between them
RETURNS = 61

Utility = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of return and violations


@dataclass(frozen=True, eq=False)
class LabelSupport:
    """The judged episodes and what is near them.

    A point (R, v) is supported if at least three judged episodes are near it and one of these was compared with an
    episode of another number of violations.  Near means a return within a tenth of the range of judged returns and the
    same count, or from ten on a count within a tenth of it; costs that are no counts may differ by a tenth of their
    range.  A fit has no evidence elsewhere: what it says there follows from its features and its prior alone.
    """

    returns: np.ndarray  # float[episode]
    violations: np.ndarray  # float[episode]
    across: np.ndarray  # bool[episode], compared with an episode of another number of violations

    @classmethod
    def of(cls, labels: Sequence[Label]) -> LabelSupport:
        judged = [label for label in labels if label.answer != "skip"]
        episodes = {one.digest: one for label in judged for one in (label.left, label.right)}
        across = {
            one.digest
            for label in judged
            if label.left.violations != label.right.violations
            for one in (label.left, label.right)
        }
        return cls(
            np.array([one.return_ for one in episodes.values()], float),
            np.array([one.violations for one in episodes.values()], float),
            np.array([digest in across for digest in episodes], bool),
        )

    def __call__(self, returns: np.ndarray, violations: np.ndarray) -> np.ndarray:
        returns, violations = np.broadcast_arrays(returns, violations)
        near = np.abs(returns[..., None] - self.returns) <= self.near_return
        near &= np.abs(violations[..., None] - self.violations) <= self._near_violations(violations)[..., None]
        return (near.sum(axis=-1) >= ENOUGH) & (near & self.across).any(axis=-1)

    @property
    def near_return(self) -> float:
        return NEAR * float(np.ptp(self.returns))

    def _near_violations(self, violations: np.ndarray) -> np.ndarray:
        near_counts = np.maximum(NEAR_COUNT, NEAR * violations)
        return near_counts if are_counts(self.violations) else NEAR * np.ptp(self.violations) + 0 * violations

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns, a little beyond those judged, and violations: those judged, some between them and two beyond."""
        low, high, worst = self.returns.min(), self.returns.max(), self.violations.max()
        margin = NEAR * (high - low)
        spread, beyond = np.linspace(0, worst, SPREAD), [1.1 * worst, 1.2 * worst]
        if are_counts(self.violations):
            spread, beyond = spread.round(), [worst + 1, worst + 2]
        values = np.unique([*thinned(self.violations, EXAMINED), *spread, *beyond])
        return np.linspace(low - margin, high + margin, RETURNS), values

    def intervals(self) -> list[dict[str, float]]:
        """The supported returns at each number of violations of the grid, from the lowest to the highest."""
        returns, values = self.grid()
        held = self(returns, values[:, None])
        found = [(value, returns[row]) for value, row in zip(values, held) if row.any()]
        return [{"violations": float(v), "from": float(r[0]), "to": float(r[-1])} for v, r in found]


@dataclass(frozen=True)
class Inversion:
    """More violations are preferred to fewer at the same return; the place where the excess is largest."""

    fewer: float
    more: float
    at_return: float
    low: float  # returns between which this is so
    high: float
    excess: float  # u(more) - u(fewer) in units of return
    supported: bool

    def __str__(self) -> str:
        return (
            f"u({self.more:g}) > u({self.fewer:g}) by {number(self.excess, 1)} at return {number(self.at_return, 1)} "
            f"(inverted from return {number(self.low, 1)} to {number(self.high, 1)})"
        )


def inversions(utility: Utility, support: LabelSupport) -> list[Inversion]:
    """Every pair of violation counts that the utility puts in the wrong order, the largest excess first.

    A pair of counts is listed apart for returns at which both are supported, and for all others.
    """
    returns, values = support.grid()
    u = np.asarray(utility(*np.meshgrid(returns, values)))
    held = support(returns, values[:, None])
    smallest, found = NEGLIGIBLE * float(np.ptp(support.returns)), []
    for low, high in ((i, j) for j in range(len(values)) for i in range(j)):
        excess, both = u[high] - u[low], held[low] & held[high]
        for supported, rows in ((True, both), (False, ~both)):
            where = np.flatnonzero((excess > smallest) & rows)
            if len(where):
                worst = where[np.argmax(excess[where])]
                at = (values[low], values[high], returns[worst], returns[where[0]], returns[where[-1]], excess[worst])
                fewer, more, at_return, begin, end, by = map(float, at)
                found.append(Inversion(fewer, more, at_return, begin, end, by, supported))
    return sorted(found, key=lambda one: -one.excess)
