"""The gated recurrent unit (GRU): its derivative against autodiff, its interpreted kernels against the scan."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.algorithms import gru

RUNS, STEPS, ENVS, WIDTH = 2, 5, 128, 128


def inputs(seed, dtype, runs=()):
    random = np.random.default_rng(seed)

    def normal(*shape, scale=1.0):
        return jnp.asarray(scale * random.normal(size=(*runs, *shape)), jnp.float32)

    return (
        normal(STEPS, ENVS, 3 * WIDTH).astype(dtype),
        normal(ENVS, WIDTH, scale=0.5),
        jnp.asarray(random.random((*runs, STEPS, ENVS)) < 0.3),
        normal(3 * WIDTH, scale=0.3),
        normal(WIDTH, 3 * WIDTH, scale=WIDTH**-0.5).astype(dtype),
        normal(WIDTH, scale=0.3),
    )


def plain_gru(gates, hidden_state, is_first, input_bias, kernel, bias):
    def body(h, inputs):
        x, start = inputs
        x = x + input_bias
        h = jnp.where(start[:, None], 0.0, h)
        a = h @ kernel
        r = jax.nn.sigmoid((x + a)[:, :WIDTH])
        z = jax.nn.sigmoid((x + a)[:, WIDTH : 2 * WIDTH])
        n = jnp.tanh(x[:, 2 * WIDTH :] + r * (a[:, 2 * WIDTH :] + bias))
        h = (1 - z) * n + z * h
        return h, h

    return jax.lax.scan(body, hidden_state, (gates, is_first))[1]


def test_hidden_states_and_gradient_against_autodiff():
    gates, hidden_state, is_first, *rest = inputs(0, jnp.float32)
    weight = jnp.float32(np.random.default_rng(1).normal(size=(STEPS, ENVS, WIDTH)))

    def total(function, gates, hidden_state, *rest):
        return (function(gates, hidden_state, is_first, *rest) * weight).sum()

    def ours(*values):
        return gru.gru(*values, jnp.float32)

    found = jax.value_and_grad(partial(total, ours), argnums=range(5))(gates, hidden_state, *rest)
    expected = jax.value_and_grad(partial(total, plain_gru), argnums=range(5))(gates, hidden_state, *rest)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@pytest.fixture(scope="module")
def steps():
    """A population's inputs and the output of the scan."""
    given = inputs(2, jnp.bfloat16, (RUNS,))
    return given, jax.jit(jax.vmap(gru.scan_steps))(*given)


def test_fused_steps_equal_the_scan(steps):
    given, expected = steps
    found = jax.jit(jax.vmap(partial(gru.fused_steps, interpret=True)))(*given)
    for one, other in zip(found, expected, strict=True):
        _near(one, other)


@pytest.mark.parametrize("room", [0, 16, 64], ids="{} multiprocessors".format)
def test_fused_backward_steps_equal_the_scan(steps, room, monkeypatch):
    """With each of the tiles that a population of two uses for this number of multiprocessors."""
    monkeypatch.setattr(gru, "_room", lambda: room)
    monkeypatch.setattr(gru, "fused_steps_back", partial(gru.fused_steps_back, interpret=True))
    (_, hidden_state, is_first, _, kernel, _), (_, before, inside) = steps
    gradient = jnp.asarray(np.random.default_rng(3).normal(size=before.shape), jnp.bfloat16)
    given = (gradient, hidden_state, is_first, kernel, before, inside)
    found = jax.jit(jax.vmap(gru._one_run_back, (0, 0, 0, None, 0, 0)))(*given[:3], kernel[0], *given[4:])
    expected = jax.jit(jax.vmap(gru.scan_steps_back, (0, 0, 0, None, 0, 0)))(*given[:3], kernel[0], *given[4:])
    for one, other in zip(found, expected, strict=True):
        _near(one, other)


def test_backward_tiles_fill_the_chip():
    """Blocks of 1, 3, 8, 16 runs of 128 environments and 512 units: 8 × 16, 3 × 2 × 16, 8 × 2 × 8, twice that."""
    small, middle, large = gru.BACKWARD
    chosen = [gru.backward_tile(runs, 128, 512, 132) for runs in (1, 3, 8, 16)]
    assert chosen == [small, middle, large, large]
    assert gru.backward_tile(1, 128, 512, 127) == middle


def _near(left, right):
    """Equal up to the last bits of bf16, which depend on the summation order."""
    left, right = (np.asarray(x, np.float32) for x in (left, right))
    np.testing.assert_allclose(left, right, rtol=2**-7, atol=2**-7)
