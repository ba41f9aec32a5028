import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perepisode.methods.esr import Esr
from perepisode.methods.esr_distilled import Distilled
from perepisode.methods.ser_racc import SerRacc


def test_tlo_by_hand():
    strict = Esr(budget=0).u
    # one violation: gate = 1 / (1 + e^6) = 0.0024726, so 30 * 0.0024726 - 10
    assert float(strict(30.0, -10.0)) == pytest.approx(30 * 0.0024726231566 - 10, abs=1e-5)
    assert float(strict(30.0, 0.0)) == pytest.approx(30 * 0.9975273768, abs=1e-5)
    budget = Esr(budget=1).u
    assert float(budget(34.0, -10.0)) == pytest.approx(34 * 0.9975273768 - 1, abs=1e-4)
    assert float(budget(34.0, -20.0)) == pytest.approx(34 * 0.0024726231566 - 2, abs=1e-4)


@given(st.floats(0, 6), st.floats(0, 20), st.floats(1, 30))
def test_tlo_is_zero_at_the_origin(budget, rho_u, sharpness):
    assert float(Esr(budget, rho_u, sharpness).u(0.0, 0.0)) == 0.0


def test_a_positive_ethical_return_is_not_a_violation():
    assert float(Esr(0).u(20.0, 5.0)) == pytest.approx(float(Esr(0).u(20.0, 0.0)))


def test_linear():
    assert float(SerRacc(0.3).u(20.0, -10.0)) == pytest.approx(17.0)


def test_distilled_against_numpy():
    random = np.random.default_rng(0)
    kernels = tuple(random.normal(size=s).astype("f4") for s in ((2, 4), (4, 3), (3, 1)))
    biases = tuple(random.normal(size=s).astype("f4") for s in (4, 3, 1))
    utility = Distilled(np.array([20.0, -5.0]), np.array([4.0, 8.0]), kernels, biases, offset=0.3, scale=2.0)
    x = (np.array([25.0, -10.0]) - utility.mean) / utility.std
    for kernel, bias in zip(kernels[:-1], biases[:-1]):
        x = np.tanh(x @ kernel + bias)
    expected = ((x @ kernels[-1] + biases[-1])[0] - 0.3) * 2.0
    assert float(utility(25.0, -10.0)) == pytest.approx(expected, rel=1e-5)
    assert utility(np.full((2, 3), 25.0), np.full((2, 3), -10.0)).shape == (2, 3)
