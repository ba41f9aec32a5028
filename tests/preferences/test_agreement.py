"""Agreement against published examples, and between simulated raters whose agreement is known."""

from dataclasses import replace

import numpy as np
import pytest

from perepisode.preferences import agreement, raters
from perepisode.preferences.agreement import cohen_kappa, krippendorff_alpha
from tests.preferences.made_up import judged, label, plane

# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", data of four observers with missing values
FOUR_OBSERVERS = """1 2 3 3 2 1 4 1 2 . . .
                    1 2 3 3 2 2 4 1 2 5 . 3
                    . 3 3 3 2 3 4 2 2 5 1 .
                    1 2 3 3 2 4 4 1 2 5 1 ."""
# Three coders, 15 units, of which some have one value only
THREE_CODERS = """. . . . . 3 4 1 2 1 1 3 3 . 3
                  1 . 2 1 3 3 4 3 . . . . . . .
                  . . 2 1 3 4 4 . 2 1 1 3 3 . 4"""


def units(text: str) -> np.ndarray:
    return np.array([line.split() for line in text.splitlines()]).T


@pytest.mark.parametrize(("text", "alpha"), [(FOUR_OBSERVERS, 0.743), (THREE_CODERS, 0.691)])
def test_alpha_of_the_published_examples(text, alpha):
    values = np.where(units(text) == ".", "", units(text))
    assert krippendorff_alpha(values) == pytest.approx(alpha, abs=5e-4)


def test_kappa_by_hand():
    """Observed 35/50; expected 0.5 × 0.6 + 0.5 × 0.4 = 0.5; κ = 0.2 / 0.5."""
    first = np.repeat(["left", "left", "right", "right"], [20, 5, 10, 15])
    second = np.repeat(["left", "right", "left", "right"], [20, 5, 10, 15])
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    assert np.isnan(cohen_kappa(first[:5], first[:5]))


def test_repeats_are_compared_whatever_the_order_on_the_page():
    a, b = (30, 0), (31, 2)
    labels = [
        label(a, b, "left"),
        label(b, a, "right", number=1, repeat_of="Ann-0"),  # the same episode again
        label(b, a, "left", number=2, repeat_of="Ann-0"),  # the other one
        label(a, b, "skip", number=3, repeat_of="Ann-0"),
        label(a, b, "right", "Bo", repeat_of="Ann-0"),  # another rater's answer is no repeat
    ]
    found = agreement.within(labels)
    assert found.pairs == 2
    assert found.equal_share == 0.5


def test_of_each_rater_the_first_answer_counts_between_raters():
    a, b = (30, 0), (31, 2)
    labels = [label(a, b, "left"), label(b, a, "left", number=1), label(b, a, "right", "Bo"), label(a, b, "skip", "Cy")]
    found = agreement.between(labels)
    assert (found.pairs, found.equal_share) == (1, 1.0)
    assert agreement.between(labels[:2]).pairs == 0


@pytest.mark.parametrize("p", [0.0, 0.2])
def test_noisy_raters_agree_as_often_as_their_noise_allows(p):
    """Without ties, two answers to a pair agree with probability (1 - p)² + p²; balanced, κ is 1 - 4p(1 - p)."""
    returns, violations = plane(2000)
    rater = raters.Noisy(raters.LENIENT, p)
    first = judged(rater, returns + np.arange(2000) * 1e-6, violations, 1500)
    random = np.random.default_rng(5)
    again = [
        replace(one, answer=rater(one.left, one.right, random), id=f"again-{one.id}", repeat_of=one.id) for one in first
    ]
    found, share, kappa = agreement.within([*first, *again]), (1 - p) ** 2 + p**2, 1 - 4 * p * (1 - p)
    assert found.pairs == 1500
    assert found.equal_share == pytest.approx(share, abs=0.04)
    assert found.low <= kappa <= found.high
    normal = 2 * 1.96 * 2 * np.sqrt(share * (1 - share) / 1500)  # width of κ's interval: κ is 2 share - 1
    assert found.high - found.low == pytest.approx(normal, rel=0.15)
