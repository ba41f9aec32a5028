"""What a replay says of its violations, and where it marks them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perepisode.environments.base import Region, Violation
from perepisode.report.style import dilemma_name

SUMMARISED = 3


@dataclass(frozen=True)
class Caption:
    """The violations of one dilemma in one step."""

    dilemma: str
    step: int  # from 1
    numbers: str  # "violation 3", or "violations 3–4"
    text: str  # "kills a snail"; "" if the environment does not say
    before: list[Region]
    after: list[Region]

    def sentence(self, own: str) -> str:
        """ "step 244: kills a snail (violation 3)" for an agent that was trained for the dilemma `own`."""
        number = self.numbers
        if self.dilemma != own:
            number += f" of {dilemma_name(self.dilemma)}"
        return f"step {self.step}: {self.text} ({number})" if self.text else f"step {self.step}: {number}"

    @property
    def jump(self) -> str:
        """The text of a button."""
        return f"{self.numbers} at step {self.step}" + (f": {self.text}" if self.text else "")


def captions(described: Mapping[int, Sequence[Violation]], dilemma: str) -> list[Caption]:
    """The dilemma's captions, in the order of steps; its violations are numbered in the course of the episode."""
    found, total = [], 0
    for step in sorted(described):
        violations = [one for one in described[step] if one.dilemma == dilemma]
        if not violations:
            continue
        first, total = total + 1, total + sum(one.count for one in violations)
        found.append(
            Caption(
                dilemma,
                step,
                f"violation {first}" if first == total else f"violations {first}–{total}",
                _joined([one.text for one in violations if one.text]),
                [one.before for one in violations if one.before],
                [one.after for one in violations if one.after],
            )
        )
    return found


def summary(told: Sequence[Caption]) -> list[str]:
    """The first SUMMARISED captions of the run's own dilemma, for a line of text."""
    further = len(told) - SUMMARISED
    rest = [f"violations in {further} further step{'s' * (further > 1)}"] if further > 0 else []
    return [one.sentence(one.dilemma) for one in told[:SUMMARISED]] + rest


def _joined(texts: list[str]) -> str:
    return " and ".join(f"{text} ×{count}" if count > 1 else text for text, count in Counter(texts).items())
