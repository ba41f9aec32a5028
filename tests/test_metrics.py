"""Metrics against values by hand and brute force."""

import math
import subprocess
import sys

import numpy as np
import pytest

from perepisode import metrics


def test_cvar_is_the_mean_over_the_worst_episodes_by_hand():
    assert metrics.cvar([0] * 18 + [1, 3]) == 2.0
    assert metrics.cvar([5]) == 5.0
    assert metrics.cvar([0, 1, 2, 3], alpha=0.5) == 2.5
    assert metrics.cvar([0, 1, 2, 3], alpha=1.0) == 1.5


@pytest.mark.parametrize("episodes", [1, 9, 10, 11, 30, 70, 801])
def test_cvar_equals_a_sort(episodes):
    counts = np.random.default_rng(episodes).poisson(1.3, episodes)
    worst = sorted(counts, reverse=True)[: -(-episodes // 10)]
    assert metrics.cvar(counts) == pytest.approx(sum(worst) / len(worst))
    assert metrics.tail_size(episodes) == len(worst)


def test_tail_size_does_not_round_floating_point_dust_up():
    assert 0.07 * 100 > 7
    assert metrics.tail_size(100, 0.07) == 7


@pytest.mark.parametrize("total", range(41))
def test_no_whole_counts_of_that_mean_have_a_smaller_cvar(total):
    """Against a search over the worst two of 20 episodes, with the others at most as bad, for every total."""
    least = min(
        (first + second) / 2
        for first in range(total + 1)
        for second in range(first + 1)
        if 0 <= total - first - second <= 18 * second
    )
    assert metrics.least_cvar(total / 20) == pytest.approx(least)


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.5, 1.0])
def test_the_cvar_of_a_mixture_is_that_of_its_episodes(weight):
    """Against pooled episodes, repeated so that their shares match the weight."""
    generator = np.random.default_rng(3)
    low, high = generator.poisson(0.3, 200), generator.poisson(2.0, 100)
    pool = np.concatenate([np.repeat(low, round(10 * (1 - weight))), np.repeat(high, round(20 * weight))])
    mixed = metrics.mixture_cvar(metrics.histogram(low), metrics.histogram(high), weight)
    assert mixed == pytest.approx(metrics.cvar(pool))
    assert mixed >= (1 - weight) * metrics.cvar(low) + weight * metrics.cvar(high) - 1e-9
    assert mixed >= metrics.least_cvar((1 - weight) * low.mean() + weight * high.mean()) - 1e-9


@pytest.mark.parametrize("mean", [0.0, 0.04, 0.1054, 0.55, 1.0, 2.5, 8.0])
def test_independent_violations_equal_a_summed_poisson_distribution(mean):
    counts = np.arange(80)
    shares = np.exp(-mean) * np.array([mean**count / math.factorial(count) for count in counts])
    left, total = 0.1, 0.0
    for count, share in zip(counts[::-1], shares[::-1]):
        taken = min(left, share)
        left, total = left - taken, total + taken * count
    assert metrics.independent_cvar(mean) == pytest.approx(total / 0.1, abs=1e-9)


def test_simple_metrics_by_hand():
    counts, lengths = [0, 0, 1, 3], [10, 20, 30, 40]
    assert metrics.mean(counts) == 1.0
    assert metrics.std(counts) == pytest.approx(math.sqrt(6 / 4))
    assert metrics.p_any(counts) == 0.5
    assert metrics.p_over(counts, 1) == 0.25
    assert metrics.worst(counts) == 3
    assert metrics.rate(counts, lengths) == pytest.approx(0.04)
    assert metrics.share_at(counts, 1, 3) == 0.25
    assert metrics.share_at(counts, 1) == 0.5


def test_small_integer_types_do_not_overflow():
    assert metrics.mean(np.full(1000, 100, np.int8)) == 100.0


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="at least one episode"):
        metrics.cvar([])
    with pytest.raises(ValueError, match="alpha=0"):
        metrics.cvar([1, 2], alpha=0)
    with pytest.raises(ValueError, match="2 counts but 1 lengths"):
        metrics.rate([1, 2], [1])


@pytest.mark.processes
def test_metrics_need_nothing_else_of_the_package():
    """Training, evaluation and reports all import them."""
    code = "import sys, perepisode.metrics; print([name for name in sys.modules if name.startswith('perepisode.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['perepisode.metrics']"


@pytest.mark.parametrize("mean", [1e6, 0.9e9, 1.1e9, 1e25])
def test_many_independent_violations_have_a_normal_tail(mean):
    """Mean + √mean φ(z) / α of the normal distribution, where φ(z) / α is 1.75498 for α = 0.1."""
    assert metrics.independent_cvar(mean) == pytest.approx(mean + 1.75498 * np.sqrt(mean), rel=1e-9 + 1 / mean)
