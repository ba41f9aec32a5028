"""The timeline of an episode: small drawings that share one axis, position 0 to `length` from left to right."""

from dataclasses import dataclass

import jax
import numpy as np

from perepisode.methods import PenaltyTrace
from perepisode.replay.episode import Replay
from perepisode.report.formatting import number

TOP = 100.0  # height of a drawing in its own units; the page scales it
MAX_BARS = 150  # steps up to which a bar is as wide as its step


@dataclass(frozen=True)
class Mark:
    """An SVG path; the page's style sheet colours it by its class."""

    css_class: str  # line, bar, loss, offer, taken, zero, violation
    path: str


@dataclass(frozen=True)
class BarLabel:
    """A text above a mark, with its position in per cent."""

    left: float
    bottom: float
    text: str


@dataclass(frozen=True)
class Track:
    """One drawing of the timeline."""

    name: str  # the player's value to show next to the title
    title: str
    marks: list[Mark]
    low: str
    high: str
    labels: tuple[BarLabel, ...] = ()
    note: str = ""
    tall: bool = False


def tracks(replay: Replay, counts: np.ndarray, penalty: PenaltyTrace | None = None) -> list[Track]:
    """Return so far, reward per step, violations so far (from `counts` [step]) and, if given, the penalty."""
    violations = Mark("violation", _verticals(np.flatnonzero(counts) + 0.5))
    total = np.concatenate([[0], np.cumsum(counts)])
    shown = [
        _line("accrued", "Task return so far, R_acc", replay.accrued, violations),
        _bars(replay.rewards, violations),
        _line("violations", "Violations so far", total, violations, digits=0),
    ]
    if penalty is None:
        return shown
    if penalty.values is None:
        return [*shown, Track("", penalty.label, [], "", "")]
    return [*shown, _line("penalty", penalty.label, penalty.values, violations)]


def stakes(replay: Replay, counts: np.ndarray) -> Track:
    """The reward of a violation at each step, if the environment defines it: bars, filled where one was committed."""
    states = list(replay.states(range(replay.length)))
    pays = np.concatenate([np.asarray(jax.vmap(replay.env.stake)(batch)) for batch in states])
    steps, high = _where(pays > 0), max(float(pays.max(initial=0.0)), 0.1)
    scale = _Scale(0.0, high)
    bars = [(step, scale(0.0), scale(pays[step])) for step in steps]
    offers = "".join(_box(*bar) for bar in bars if not counts[bar[0]])
    taken = "".join(_box(*bar) for bar in bars if counts[bar[0]])
    crowded = len(steps) > min(14, replay.length / 2)
    labels = () if crowded else tuple(
        BarLabel(100 * (step + 0.5) / replay.length, 100 - top, number(pays[step], 1)) for step, _, top in bars
    )  # fmt: skip
    committed = int((counts[steps] > 0).sum())
    note = f"The reward of a violation, possible in {len(steps)} steps and committed in the {committed} filled ones."
    marks = [Mark("offer", offers), Mark("taken", taken), Mark("zero", f"M0 {scale(0.0):.2f}H{replay.length}")]
    return Track("action", replay.env.stakes, marks, "0", number(high, 1), labels, note, tall=True)


class _Scale:
    """Maps values to heights: `high` near the top, `low` near the bottom."""

    def __init__(self, low: float, high: float, margin: float = 8.0):
        self.low, self.span, self.margin = low, (high - low) or 1.0, margin

    def __call__(self, value: float) -> float:
        return TOP - self.margin - (TOP - 2 * self.margin) * (float(value) - self.low) / self.span


def _line(name: str, title: str, values: np.ndarray, violations: Mark, digits: int = 2) -> Track:
    """A step function; the value changes in the middle of the step that changes it."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    scale = _Scale(low, high)
    points = [f"M0 {scale(values[0]):.2f}"]
    for position in np.flatnonzero(np.diff(values)) + 1:
        points.append(f"H{position - 0.5:g}V{scale(values[position]):.2f}")
    marks = [violations, Mark("line", "".join(points) + f"H{len(values) - 1}")]
    return Track(name, title, marks, number(low, digits), number(high, digits))


def _bars(rewards: np.ndarray, violations: Mark) -> Track:
    low, high = min(0.0, float(rewards.min())), max(0.0, float(rewards.max()))
    scale = _Scale(low, high)
    draw = _box if len(rewards) <= MAX_BARS else _stroke
    gains = "".join(draw(step, scale(0.0), scale(rewards[step])) for step in _where(rewards > 0))
    losses = "".join(draw(step, scale(0.0), scale(rewards[step])) for step in _where(rewards < 0))
    marks = [violations, Mark("bar", gains), Mark("loss", losses), Mark("zero", f"M0 {scale(0.0):.2f}H{len(rewards)}")]
    return Track("reward", "Task reward per step", marks, number(low), number(high))


def _box(step: int, bottom: float, top: float) -> str:
    return f"M{step + 0.15:g} {bottom:.2f}V{top:.2f}h0.7V{bottom:.2f}z"


def _stroke(step: int, bottom: float, top: float) -> str:
    return f"M{step + 0.5:g} {bottom:.2f}V{top:.2f}"


def _where(mask: np.ndarray) -> list[int]:
    return [int(step) for step in np.flatnonzero(mask)]


def _verticals(positions: np.ndarray) -> str:
    return "".join(f"M{position:g} 0V{TOP:g}" for position in positions)
