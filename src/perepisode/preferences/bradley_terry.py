"""The Bradley–Terry fit: a logit model of raters' answers whose utility is a network with a fitted last layer.

A rater who compares episodes a and b answers with probabilities proportional to

    left, right          exp u(a), exp u(b)                     Bradley and Terry (1952), Eq. 6 of the paper
    equal                ν exp((u(a) + u(b)) / 2)               Davidson (1970)
    both unacceptable    exp α                                  "none of these": α is the acceptance level

u(R, v) = w · φ(R, v) with fixed features φ, two layers of tanh units.  The negative log-likelihood with a Gaussian
prior on (w, log ν, α) is convex: there is one fit, whatever the random numbers.  Every feature increases in the return
and decreases in the violations, hence so does u if w ≥ 0.

Plain NumPy in float64, because choosing the next pair must not wait for a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perepisode.config import ETHICAL_PENALTY
from perepisode.methods.esr_distilled import Distilled
from perepisode.preferences.labels import Label

CATEGORIES = ("left", "right", "equal", "both_unacceptable")
RETURN_STEPS, COUNT_STEPS = 8, 12  # at most
LOWEST_COUNTS = 6  # which are never merged, whatever the worst episode: they are what budgets are about
R_SHARPNESS, V_SHARPNESS = 1.0, 2.0  # of a step, tanh(±2) = ±0.96 halfway to the next: counts are told apart
AND_SHARPNESS = 1.5
MAX_ITERATIONS = 100
PRIOR_STD_NU, PRIOR_STD_ALPHA = 3.0, 30.0


@dataclass(frozen=True, eq=False)
class Features:
    """φ: steps and a wide slope in each input, and steps in both at once; all increase in R_ext and in R_eth."""

    mean: np.ndarray  # float[2], of (R_ext, R_eth)
    std: np.ndarray  # float[2]
    kernels: tuple[np.ndarray, np.ndarray]
    biases: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, returns: np.ndarray, violations: np.ndarray) -> Features:
        """Steps at equal distances in the return, and between the violations that occur, or some of them."""
        r_steps, r_widths = _steps(np.unique(np.linspace(returns.min(), returns.max(), RETURN_STEPS + 1)))
        v_steps, v_widths = _steps(thinned(violations, COUNT_STEPS + 1))
        mean = np.array([returns.mean(), -ETHICAL_PENALTY * violations.mean()])
        std = np.array([np.ptp(returns) or 1.0, ETHICAL_PENALTY * (np.ptp(violations) or 1.0)]) / 2
        r, e = (
            (np.append(steps, centre), np.append(slopes, 1 / spread))
            for steps, slopes, centre, spread in (
                (r_steps, R_SHARPNESS / r_widths, mean[0], 2 * std[0]),
                (-ETHICAL_PENALTY * v_steps, V_SHARPNESS / (ETHICAL_PENALTY * v_widths), mean[1], 2 * std[1]),
            )
        )
        inputs = np.concatenate([np.stack([r[1] * std[0], 0 * r[1]]), np.stack([0 * e[1], e[1] * std[1]])], axis=1)
        bias = np.concatenate([(mean[0] - r[0]) * r[1], (mean[1] - e[0]) * e[1]])
        return cls(mean, std, *_with_steps_in_both(inputs, bias, len(r_steps), len(v_steps)))

    def __call__(self, returns: np.ndarray, violations: np.ndarray) -> np.ndarray:
        """[…, feature]"""
        hidden = (np.stack(np.broadcast_arrays(returns, -ETHICAL_PENALTY * violations), axis=-1) - self.mean) / self.std
        for kernel, bias in zip(self.kernels, self.biases):
            hidden = np.tanh(hidden @ kernel + bias)
        return hidden

    @property
    def number(self) -> int:
        return len(self.biases[-1])

    def utility(self, weights: np.ndarray) -> Distilled:
        kernels, biases = (*self.kernels, weights[:, None]), (*self.biases, np.zeros(1))
        mean, std = _float32(self.mean, self.std)
        return Distilled(mean, std, _float32(*kernels), _float32(*biases))


def _float32(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(array, np.float32) for array in arrays)


def _steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Midpoints between neighbouring values, and half the distance between them."""
    return (values[1:] + values[:-1]) / 2, np.diff(values) / 2


def are_counts(violations: np.ndarray) -> bool:
    """Whether violations are counted, rather than costs summed."""
    return bool((violations == np.round(violations)).all())


def thinned(violations: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the different numbers of violations: the lowest counts, and others at equal steps in rank."""
    values = np.unique(violations)
    lowest = LOWEST_COUNTS if are_counts(values) else 0
    return np.append(values[:lowest], spread(values[lowest:], most - lowest))


def spread(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many of these values, at equal steps in rank."""
    return values[np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int)]


def _with_steps_in_both(inputs: np.ndarray, bias: np.ndarray, r_steps: int, v_steps: int):
    """A second layer that passes every unit on, and adds `both` and `either` of each step in R_ext and in R_eth."""
    units = inputs.shape[1]
    on_r, on_e = np.meshgrid(np.arange(r_steps), r_steps + 1 + np.arange(v_steps), indexing="ij")
    pairs = np.zeros((units, on_r.size))
    pairs[on_r.ravel(), np.arange(on_r.size)] = pairs[on_e.ravel(), np.arange(on_r.size)] = AND_SHARPNESS
    kernel = np.concatenate([np.eye(units), pairs, pairs], axis=1)
    shift = np.full(on_r.size, AND_SHARPNESS)
    return (inputs, kernel), (bias, np.concatenate([np.zeros(units), -shift, shift]))


@dataclass(frozen=True, eq=False)
class Answers:
    """Labels as arrays; skipped ones are left out."""

    returns: np.ndarray  # float[label, 2], of the left and the right episode
    violations: np.ndarray  # float[label, 2]
    chosen: np.ndarray  # int[label], index of CATEGORIES
    offered: np.ndarray  # bool[label, category]: a rater who never gave an answer is taken not to have had it
    pairs: np.ndarray  # int[label]: labels of the same two episodes share a number

    @classmethod
    def of(cls, labels: Sequence[Label]) -> Answers:
        judged = [label for label in labels if label.answer != "skip"]
        given = {(label.rater, label.answer) for label in judged}
        offered = [[c in CATEGORIES[:2] or (label.rater, c) in given for c in CATEGORIES] for label in judged]
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(label.pair for label in judged))}
        sides = [(label.left, label.right) for label in judged]
        return cls(
            np.array([[one.return_ for one in both] for both in sides], float).reshape(-1, 2),
            np.array([[one.violations for one in both] for both in sides], float).reshape(-1, 2),
            np.array([CATEGORIES.index(label.answer) for label in judged], int),
            np.array(offered, bool).reshape(-1, len(CATEGORIES)),
            np.array([numbers[label.pair] for label in judged], int),
        )

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, rows: np.ndarray) -> Answers:
        return Answers(*(getattr(self, name)[rows] for name in ("returns", "violations", "chosen", "offered", "pairs")))


@dataclass(frozen=True, eq=False)
class Fit:
    """The most probable parameters, (w, log ν, α), and the curvature of the negative log-posterior there."""

    features: Features
    parameters: np.ndarray
    precision: np.ndarray  # [parameter, parameter]

    @property
    def weights(self) -> np.ndarray:
        return self.parameters[:-2]

    @cached_property
    def utility(self) -> Distilled:
        return self.features.utility(self.weights)

    def log_probabilities(self, answers: Answers) -> np.ndarray:
        """[label, category]"""
        return log_probabilities(self.features, self.parameters, answers)

    def samples(self, random: np.random.Generator, number: int) -> np.ndarray:
        """Parameters from the normal approximation of the posterior (Laplace), [sample, parameter]."""
        factor = np.linalg.cholesky(self.precision)
        noise = random.standard_normal((len(self.parameters), number))
        return self.parameters + np.linalg.solve(factor.T, noise).T


def log_probabilities(features: Features, parameters: np.ndarray, answers: Answers) -> np.ndarray:
    """[label, category], or [label, category, sample] of parameters [parameter, sample]."""
    logits = _design(features, answers) @ parameters
    return _log_softmax(logits, answers.offered.reshape(answers.offered.shape + (1,) * (parameters.ndim - 1)))


def fit(features: Features, answers: Answers, monotone: bool, prior_std: float = 1.0) -> Fit:
    """The maximum of the posterior; with `monotone`, among w ≥ 0."""
    design, offered = _design(features, answers), answers.offered
    prior = np.append(np.full(features.number, prior_std), (PRIOR_STD_NU, PRIOR_STD_ALPHA)) ** -2.0
    given = np.eye(len(CATEGORIES))[answers.chosen]

    def value(parameters: np.ndarray) -> float:
        log_p = _log_softmax(design @ parameters, offered)
        return 0.5 * prior @ parameters**2 - log_p[np.arange(len(answers)), answers.chosen].sum()

    def derivatives(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = np.exp(_log_softmax(design @ parameters, offered))
        centred = design - np.einsum("nc,ncm->nm", p, design)[:, None]
        rows = (centred * np.sqrt(p)[..., None])[p > 1e-12]
        # einsum computes on one thread: a labelling server renders films meanwhile, and BLAS would wait for a free core
        hessian = np.diag(prior) + np.einsum("rm,rk->mk", rows, rows)
        return prior * parameters + np.tensordot(p - given, design, 2), hessian

    bounded = np.append(np.full(features.number, monotone), (False, False))
    found = _projected_newton(value, derivatives, np.zeros(len(prior)), bounded)
    return Fit(features, found, derivatives(found)[1])


def _projected_newton(
    value: Callable, derivatives: Callable, x: np.ndarray, bounded: np.ndarray, tolerance: float = 1e-6
) -> np.ndarray:
    """The minimum of a strictly convex function with x ≥ 0 where `bounded` (Bertsekas 1982)."""
    for _ in range(MAX_ITERATIONS):
        gradient, hessian = derivatives(x)
        free = ~(bounded & (x <= 0) & (gradient > 0))
        if np.abs(gradient[free]).max(initial=0.0) < tolerance:
            break
        step = np.zeros_like(x)
        step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        before, length = value(x), 1.0
        while True:
            new = np.where(bounded, np.maximum(x + length * step, 0.0), x + length * step)
            if value(new) <= before + 1e-4 * gradient @ (new - x) or length < 1e-10:
                break
            length /= 2
        x = new
    return x


def _design(features: Features, answers: Answers) -> np.ndarray:
    """What multiplies the parameters in each category's logit, [label, category, parameter]."""
    left, right = np.moveaxis(features(answers.returns, answers.violations), 1, 0)
    design = np.zeros((len(answers), len(CATEGORIES), features.number + 2))
    design[:, 0, :-2], design[:, 1, :-2], design[:, 2, :-2] = left, right, (left + right) / 2
    design[:, 2, -2] = design[:, 3, -1] = 1.0
    return design


def _log_softmax(logits: np.ndarray, offered: np.ndarray) -> np.ndarray:
    logits = np.where(offered, logits, -np.inf)
    top = logits.max(axis=1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
