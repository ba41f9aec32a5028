"""Comparisons against scipy, brute force, values by hand and the paper's printed numbers."""

import numpy as np
import pytest
from scipy import stats

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval


def test_the_papers_welch_values_follow_from_its_printed_intervals():
    esr, lagrangian, ser = Interval(1.04, 0.07, 3), Interval(1.14, 0.03, 3), Interval(2.20, 0.20, 3)
    assert compare.welch_from_summary(lagrangian, esr).t == pytest.approx(5.65, abs=0.01)
    assert compare.welch_from_summary(ser, esr).t == pytest.approx(23.56, abs=0.01)


def test_welch_equals_scipy():
    a, b = [1.0, 1.2, 1.5], [2.0, 2.1, 2.6, 2.2]
    ours, theirs = compare.welch(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert (ours.t, ours.p, ours.df) == pytest.approx((theirs.statistic, theirs.pvalue, theirs.df))
    assert ours.difference == pytest.approx(np.mean(a) - np.mean(b))
    summary = compare.welch_from_summary(compare.t_interval(a), compare.t_interval(b))
    assert summary == pytest.approx(ours)


def test_welch_without_spread_or_with_one_seed_invents_nothing():
    assert compare.welch([1, 1, 1], [2, 2, 2]).t == -np.inf
    assert np.isnan(compare.welch([1, 1, 1], [2, 2, 2]).p)
    assert compare.welch([1, 1], [1, 1])[:2] == (0.0, 1.0)
    assert np.isnan(compare.welch([1], [2, 3]).t)


def test_the_interval_of_a_difference_equals_scipy():
    a, b = [1.0, 1.2, 1.5], [2.0, 2.1, 2.6, 2.2]
    ours, theirs = compare.difference(a, b), stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (ours.mean - ours.half, ours.mean + ours.half) == pytest.approx((theirs.low, theirs.high))
    assert np.isnan(compare.difference([1.0], b).half)
    assert compare.difference([1, 1], [3, 3])[:2] == (-2.0, 0.0)


def test_holm_by_hand():
    assert compare.holm([0.04, 0.01, float("nan"), 0.03]) == pytest.approx([0.06, 0.03, np.nan, 0.06], nan_ok=True)
    assert compare.holm([0.5, 0.6]) == [1.0, 1.0]
    assert compare.holm([]) == []


def test_t_interval_equals_scipy_and_is_absent_for_one_seed():
    values = [37.0, 36.8, 37.4]
    low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    interval = compare.t_interval(values)
    assert (interval.mean - interval.half, interval.mean + interval.half) == pytest.approx((low, high))
    assert np.isnan(compare.t_interval([3.0]).half)


def test_gap_adds_variances_as_the_paper_does():
    gap = compare.gap(Interval(37.05, 0.78, 3), Interval(34.15, 0.72, 3))
    assert gap.mean == pytest.approx(2.90)
    assert gap.half == pytest.approx(np.sqrt(0.78**2 + 0.72**2))


def test_bootstrap_covers_between_seed_spread():
    generator = np.random.default_rng(1)
    alike = [generator.poisson(1.0, 400) for _ in range(3)]
    apart = [generator.poisson(level, 400) for level in (0.5, 1.0, 1.5)]
    narrow = compare.hierarchical_bootstrap(alike, 1.0, 400)  # alpha = 1: the mean of all episodes
    wide = compare.hierarchical_bootstrap(apart, 1.0, 400)
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])
    assert narrow[0] < np.mean(alike) < narrow[1]


def test_bootstrap_of_one_seed_equals_the_plain_bootstrap():
    counts = np.random.default_rng(2).poisson(1.0, 300)
    low, high = compare.hierarchical_bootstrap([counts], 1.0, 2000)
    plain = stats.bootstrap((counts,), np.mean, n_resamples=2000, method="percentile", random_state=0)
    assert (low, high) == pytest.approx(tuple(plain.confidence_interval), abs=0.015)


@pytest.mark.parametrize("law", ["counts", "costs"])
def test_bootstrap_of_a_tail_equals_the_plain_bootstrap(law):
    generator = np.random.default_rng(3)
    sample = generator.poisson(1.0, 1500) if law == "counts" else generator.lognormal(2.0, 1.0, 1500)
    low, high = compare.hierarchical_bootstrap([sample], 0.1, 2000)
    drawn = generator.choice(sample, (2000, 1500))
    plain = np.quantile(np.sort(drawn, axis=1)[:, -150:].mean(axis=1), [0.025, 0.975])
    assert (low, high) == pytest.approx(tuple(plain), abs=0.1 * (plain[1] - plain[0]))


def test_pairing_nearest_and_interpolated():
    returns = [30.9, 32.9, 35.3, 37.1]
    assert compare.nearest(returns, 34.2) == 2
    low, high, weight = compare.bracket(returns, 34.1)
    assert (low, high) == (1, 2)
    assert weight == pytest.approx(0.5)
    assert compare.bracket(returns, 33.5)[2] == pytest.approx(0.25)  # a quarter of the way from 32.9 to 35.3
    assert compare.bracket(returns, 30.0) is None
    assert compare.bracket(returns, 38.0) is None
    assert compare.bracket(returns, 32.9)[2] == 0.0


def straight(low, high):
    """A value that mixes linearly, like a mean."""
    return lambda i, j, weight: (1 - weight) * low[i] + weight * high[j]


def test_interpolation_between_points_at_fixed_positions_is_linear_and_adds_variances():
    low, high = np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.3, 2.6, 2.3])
    read, steep = compare.interpolate([30.0] * 3, [34.0] * 4, 31.0, straight(low, high))
    assert read.mean == pytest.approx(0.75 * 1.1 + 0.25 * 2.3)
    assert steep == pytest.approx(1.2 / 4)
    # as a contrast of means: scipy's Welch test of 0.75 low against -0.25 high
    test = stats.ttest_ind(0.75 * low, -0.25 * high, equal_var=False)
    bounds = test.confidence_interval(0.95)
    assert (read.mean - read.half, read.mean + read.half) == pytest.approx((bounds.low, bounds.high))
    assert read.seeds - 1 == pytest.approx(test.df)


@pytest.mark.parametrize("runs", [3, 20])
@pytest.mark.parametrize("together", [0.3, -0.3])  # covariance of position and value over seeds
def test_interpolation_accounts_for_the_uncertainty_of_positions(together, runs):
    """Over many simulated studies, 95 % of the intervals contain the true value, 1.5 at 25."""
    generator, studies = np.random.default_rng(0), 2000
    spread = [[1.0, together], [together, 0.25]]
    low = generator.multivariate_normal([22.0, 0.5], spread, (studies, runs))
    high = generator.multivariate_normal([28.0, 2.5], spread, (studies, runs))
    reads = [compare.interpolate(a[:, 0], b[:, 0], 25.0, straight(a[:, 1], b[:, 1])).value for a, b in zip(low, high)]
    errors = np.array([read.mean for read in reads]) - 1.5
    assert np.mean(errors) == pytest.approx(0.0, abs=0.03)
    assert np.mean(np.abs(errors) <= [read.half for read in reads]) == pytest.approx(0.95, abs=0.02)
    if runs == 20:  # ignoring positions gives intervals too narrow if values fall with the position, else too wide
        naive = [np.hypot(*(0.5 * compare.t_interval(seeds[:, 1]).half for seeds in pair)) for pair in zip(low, high)]
        covered = np.mean(np.abs(errors) <= naive)
        assert covered < 0.85 if together < 0 else covered > 0.97


def test_the_uncertainty_of_a_curved_value_matches_simulated_studies():
    """CVaR of mixtures: the spread of the value over 300 simulated studies of 12 runs matches its intervals."""
    generator = np.random.default_rng(1)
    reads = []
    for _ in range(300):
        means = generator.gamma(30.0, 1 / 30, (2, 12)) * [[0.2], [1.5]]
        counts = [[metrics.histogram(generator.poisson(mean, 400)) for mean in side] for side in means]
        positions = [[np.average(one.values, weights=one.counts) for one in side] for side in counts]
        tail = lambda i, j, weight, counts=counts: metrics.mixture_cvar(counts[0][i], counts[1][j], weight)  # noqa: E731
        reads.append(compare.interpolate(*positions, 0.7, tail).value)
    spread = np.std([read.mean for read in reads])
    estimated = np.median([read.half / stats.t.ppf(0.975, read.seeds - 1) for read in reads])
    assert estimated == pytest.approx(spread, rel=0.15)


def test_interpolation_on_a_line_has_no_error_wherever_the_seeds_lie():
    low, high = np.array([20.0, 21.0, 25.0]), np.array([27.0, 28.0, 32.0])
    read = compare.interpolate(low, high, 26.0, straight(2 * low + 1, 2 * high + 1)).value
    assert (read.mean, read.half) == pytest.approx((53.0, 0.0), abs=1e-9)


def test_frontier_by_hand():
    points = [(37, 2.4), (35, 1.0), (34, 1.2), (31, 0.0), (30, 0.0), (35, 1.0)]
    assert compare.frontier(points).tolist() == [True, True, False, True, False, True]


@pytest.mark.parametrize("seed", range(5))
def test_hypervolume_equals_counting_cells(seed):
    points = np.random.default_rng(seed).integers(0, 20, size=(7, 2)).astype(float)
    reference = (3.0, 15.0)
    returns, counts = np.meshgrid(np.arange(3, 20) + 0.5, np.arange(0, 15) + 0.5, indexing="ij")
    covered = np.zeros(returns.shape, bool)
    for point_return, point_count in points:
        covered |= (returns < point_return) & (counts > point_count)
    assert compare.hypervolume(points, reference) == pytest.approx(covered.sum())


def test_missed_share():
    assert compare.missed_share([2, 0, 3], [1, 0, 3]) == pytest.approx(0.2)
    assert np.isnan(compare.missed_share([0, 0], [0, 0]))
