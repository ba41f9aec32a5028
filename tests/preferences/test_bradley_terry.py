"""The fit: its likelihood by hand, its optimum against SciPy, and monotone utilities that stay so in their file."""

import numpy as np
import pytest
from scipy.optimize import minimize

from perepisode.methods import esr_distilled
from perepisode.preferences import bradley_terry, raters
from perepisode.preferences.bradley_terry import Answers, Features
from tests.preferences.made_up import judged, label, plane

ANSWERS = ("left", "right", "equal", "both_unacceptable")


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Of a rater who uses every answer and contradicts themselves."""
    returns, violations = plane()
    labels = judged(raters.Noisy(raters.Rule(1.5, unacceptable=2.5), 0.2), returns, violations, 60)
    return Answers.of(
        [*labels, label((30, 0), (30, 0, 1), "equal", number=99), label((30, 0), (31, 0), "equal", number=98)]
    )


@pytest.fixture(scope="module")
def features(answers) -> Features:
    return Features.of(answers.returns.ravel(), answers.violations.ravel())


def test_the_answers_as_arrays():
    labels = [
        label((30, 0), (31, 2), "right"),
        label((31, 2), (30, 0), "skip", number=1),
        label((31, 2), (30, 0), "both_unacceptable", "Bo", number=2),
        label((32, 1), (30, 0), "left", number=3),
    ]
    answers = Answers.of(labels)
    assert answers.returns.tolist() == [[30, 31], [31, 30], [32, 30]]
    assert answers.violations.tolist() == [[0, 2], [2, 0], [1, 0]]
    assert [ANSWERS[chosen] for chosen in answers.chosen] == ["right", "both_unacceptable", "left"]
    assert answers.offered.tolist() == [
        [True, True, False, False],
        [True, True, False, True],
        [True, True, False, False],
    ]
    assert answers.pairs.tolist() == [0, 0, 1]  # the same two episodes, whatever their order


def test_the_probabilities_by_hand(features, answers):
    random = np.random.default_rng(1)
    parameters = random.normal(size=features.number + 2)
    fit = bradley_terry.Fit(features, parameters, np.eye(len(parameters)))
    u = features(answers.returns, answers.violations) @ parameters[:-2]
    for row, (left, right) in enumerate(u):
        nu, alpha = np.exp(parameters[-2:])
        weights = np.array([np.exp(left), np.exp(right), nu * np.sqrt(np.exp(left) * np.exp(right)), alpha])
        expected = np.log(weights / weights.sum())
        np.testing.assert_allclose(fit.log_probabilities(answers)[row], expected, rtol=1e-6, atol=1e-9)


def test_eq6_is_the_case_of_two_answers():
    """Without ties the probability of `left` is σ(u(left) - u(right))."""
    answers = Answers.of([label((30, 0), (31, 2), "left")])
    features = Features.of(np.array([30.0, 31.0]), np.array([0.0, 2.0]))
    fit = bradley_terry.fit(features, answers, monotone=False)
    left, right = features(answers.returns, answers.violations)[0] @ fit.weights
    assert fit.log_probabilities(answers)[0, 0] == pytest.approx(-np.log1p(np.exp(right - left)))


@pytest.mark.parametrize("monotone", [False, True])
def test_the_optimum_against_scipy(features, answers, monotone):
    fitted = bradley_terry.fit(features, answers, monotone, prior_std=2.0)
    prior = np.append(np.full(features.number, 2.0), (bradley_terry.PRIOR_STD_NU, bradley_terry.PRIOR_STD_ALPHA))

    def negative_log_posterior(parameters):
        fit = bradley_terry.Fit(features, parameters, np.eye(1))
        log_p = fit.log_probabilities(answers)[np.arange(len(answers)), answers.chosen]
        return 0.5 * ((parameters / prior) ** 2).sum() - log_p.sum()

    def slope(parameters, step=1e-6):
        """Central differences."""
        moves = np.eye(len(parameters)) * step
        changes = [negative_log_posterior(parameters + m) - negative_log_posterior(parameters - m) for m in moves]
        return np.array(changes) / (2 * step)

    bounds = [(0 if monotone else None, None)] * features.number + [(None, None)] * 2
    found = minimize(negative_log_posterior, np.zeros(len(prior)), jac=slope, bounds=bounds, method="L-BFGS-B",
                     options={"ftol": 1e-13, "gtol": 1e-6, "maxiter": 3000})  # fmt: skip
    assert negative_log_posterior(fitted.parameters) == pytest.approx(found.fun, abs=1e-4)
    assert negative_log_posterior(fitted.parameters) <= found.fun + 1e-6
    np.testing.assert_allclose(fitted.parameters, found.x, atol=0.02)
    assert (fitted.weights < 0).any() == (not monotone)


def test_the_curvature_against_finite_differences(features, answers):
    fitted = bradley_terry.fit(features, answers, False)
    p = np.exp(fitted.log_probabilities(answers))
    random = np.random.default_rng(0)
    direction = random.normal(size=len(fitted.parameters))

    def value(t):
        moved = bradley_terry.Fit(features, fitted.parameters + t * direction, fitted.precision)
        prior = np.append(np.ones(features.number), (bradley_terry.PRIOR_STD_NU, bradley_terry.PRIOR_STD_ALPHA))
        log_p = moved.log_probabilities(answers)[np.arange(len(p)), answers.chosen]
        return 0.5 * ((moved.parameters / prior) ** 2).sum() - log_p.sum()

    step = 1e-3
    second = (value(step) - 2 * value(0) + value(-step)) / step**2
    assert direction @ fitted.precision @ direction == pytest.approx(second, rel=1e-3)
    samples = fitted.samples(random, 4000) - fitted.parameters
    covariance = np.linalg.inv(fitted.precision)
    assert (samples @ direction).std() == pytest.approx(np.sqrt(direction @ covariance @ direction), rel=0.05)


def test_every_feature_increases_in_the_return_and_decreases_in_the_violations(features):
    returns, violations = np.linspace(0, 90, 181), np.arange(12.0)
    values = features(*np.meshgrid(returns, violations, indexing="ij"))
    assert (np.diff(values, axis=0) >= -1e-12).all()
    assert (np.diff(values, axis=1) <= 1e-12).all()


def test_a_monotone_utility_stays_monotone_in_its_file(features, answers):
    """Also far outside of what was labelled, and when the labels themselves prefer violations."""
    perverse = Answers(
        answers.returns, answers.violations, 1 - np.minimum(answers.chosen, 1), answers.offered, answers.pairs
    )
    for labels in (answers, perverse):
        stored = esr_distilled.to_json(bradley_terry.fit(features, labels, monotone=True, prior_std=10.0).utility)
        read = esr_distilled.from_json(stored, "the file")
        u = read.raw(*np.meshgrid(np.linspace(-50, 150, 401), -10.0 * np.arange(20), indexing="ij"))
        assert (np.diff(u, axis=0) >= -1e-4).all()
        assert (np.diff(u, axis=1) <= 1e-4).all()


def test_both_unacceptable_lowers_both_episodes_and_sets_the_acceptance_level():
    """(31, 2) is never compared with anything else: only its rejection says that it is worse than the winners."""
    clean = [label((30 + i, 0, i), (29 + i, 0, i), "left", number=i) for i in range(10)]
    rejected = [label((31, 2, i), (31, 2, 50 + i), "both_unacceptable", number=20 + i) for i in range(10)]
    answers = Answers.of([*clean, *rejected])
    features = Features.of(answers.returns.ravel(), answers.violations.ravel())
    fitted = bradley_terry.fit(features, answers, monotone=False)
    u = features(np.array([34.0, 31.0, 31.0]), np.array([0.0, 0.0, 2.0])) @ fitted.weights
    assert u[0] > u[1] > u[2] + 1
    assert fitted.parameters[-1] > u[2] + 1
    assert fitted.parameters[-1] < u[0]


def test_equal_answers_bring_utilities_together():
    labels = [label((30, 0, i), (34, 2, i), answer, number=i) for i, answer in enumerate(["left"] * 6 + ["equal"] * 6)]
    features = Features.of(np.array([30.0, 34.0]), np.array([0.0, 2.0]))

    def margin(some):
        answers = Answers.of(some)
        left, right = (
            features(answers.returns[0], answers.violations[0]) @ bradley_terry.fit(features, answers, False).weights
        )
        return left - right

    assert 0 < margin(labels) < margin(labels[:6])
    assert margin([label((30, 0), (34, 2), "equal")]) == pytest.approx(0, abs=1e-6)
