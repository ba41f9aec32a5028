"""PPO against slow NumPy."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.algorithms import AGENTS, network, on_policy
from perepisode.algorithms.base import Batch
from perepisode.algorithms.distributions import Categorical
from perepisode.environments.base import SparseOneHot
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from tests import oracles

ENV = Temptation()
STEPS, ENVS, HIDDEN, EXTRA = 7, 5, 8, 2


@pytest.fixture(scope="module")
def agent():
    params = network.init(3, network.input_sizes(ENV, EXTRA), HIDDEN, Categorical(ENV.actions))
    random = np.random.default_rng(0)
    # larger logits than at initialisation, so that ratios leave the clip range
    scaled = tuple((k * (50.0 if i == 2 else 1.0), b + 0.1) for i, (k, b) in enumerate(params.actor))
    params = jax.tree.map(jnp.asarray, replace(params, actor=scaled))
    vectors = (random.normal(size=(STEPS, ENVS, 3)), random.normal(size=(STEPS, ENVS, EXTRA)))
    hidden_state = random.normal(size=(ENVS, HIDDEN))
    is_first = random.random((STEPS, ENVS)) < 0.3
    return params, [v.astype("f4") for v in vectors], hidden_state.astype("f4"), is_first


def test_gae_against_the_loop():
    random = np.random.default_rng(1)
    rewards, values = random.normal(size=(2, 20, 6))
    done, last = random.random((20, 6)) < 0.2, random.normal(size=6)
    for gamma, lam in ((0.99, 0.8), (1.0, 1.0), (0.9, 0.0)):
        expected = oracles.gae_by_loop(rewards, values, done, last, gamma, lam)
        found = on_policy.gae(*map(jnp.float32, (rewards, values)), jnp.asarray(done), jnp.float32(last), gamma, lam)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_policy_against_the_loop_with_the_hidden_state_cleared_at_starts(agent):
    params, vectors, hidden_state, is_first = agent
    logits, values = network.sequence(params, ENV, hidden_state, is_first, *vectors, "fp32")
    expected_logits, expected_values = oracles.policy_by_loop(params, vectors, hidden_state, is_first)
    np.testing.assert_allclose(logits, expected_logits, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(values, expected_values, rtol=1e-3, atol=1e-4)
    cleared = np.ones_like(is_first)
    zeroed, _ = network.sequence(params, ENV, hidden_state, cleared, *vectors, "fp32")
    other, _ = network.sequence(params, ENV, hidden_state + 1.0, cleared, *vectors, "fp32")
    np.testing.assert_array_equal(zeroed, other)


def test_one_step_at_a_time_equals_the_sequence(agent):
    params, vectors, hidden_state, is_first = agent
    logits, values = network.sequence(params, ENV, hidden_state, is_first, *vectors, "fp32")
    for t in range(STEPS):
        one = network.step(params, ENV, hidden_state, is_first[t], *(v[t] for v in vectors), "fp32")
        np.testing.assert_allclose(one[0], logits[t], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(one[1], values[t], rtol=1e-4, atol=1e-5)
        hidden_state = one[2]


def test_bf16_is_near_fp32(agent):
    params, vectors, hidden_state, is_first = agent
    exact, _ = network.sequence(params, ENV, hidden_state, is_first, *vectors, "fp32")
    rough, _ = network.sequence(params, ENV, hidden_state, is_first, *vectors, "bf16")
    assert 0 < np.linalg.norm(rough - exact) / np.linalg.norm(exact) < 2e-2


def test_loss_against_the_loop(agent):
    params, vectors, hidden_state, is_first = agent
    random = np.random.default_rng(4)
    batch = {
        "action": random.integers(0, 2, (STEPS, ENVS)),
        "log_prob": np.log(random.uniform(0.2, 0.9, (STEPS, ENVS))),
        "value": random.normal(size=(STEPS, ENVS)),
    }
    advantage, target = random.normal(size=(2, STEPS, ENVS))
    logits, values = oracles.policy_by_loop(params, vectors, hidden_state, is_first)
    expected = oracles.ppo_loss(logits, values, batch, advantage, target, 0.2, 0.5, 0.01)
    config = replace(TEMPTATION_PPO, clip_eps=0.2, vf_coef=0.5, ent_coef=0.01)
    zeros = np.zeros((STEPS, ENVS), "f4")
    as_batch = Batch(
        *vectors, is_first, batch["action"], *(np.float32(batch[k]) for k in ("log_prob", "value")), zeros, zeros
    )
    targets = on_policy.Targets(np.float32(advantage), np.float32(target))
    found, seen = AGENTS["ppo_gru"](ENV, config).loss(params, hidden_state, as_batch, targets)
    assert float(found) == pytest.approx(expected, rel=1e-4)
    assert 0 < float(seen["clip_fraction"]) < 1


def test_gradient_is_clipped_by_global_norm():
    """Not elementwise: the direction must survive."""
    optimizer = on_policy.optimizer(replace(TEMPTATION_PPO, max_grad_norm=1.0))
    gradient = {"a": jnp.array([3.0, 4.0]), "b": jnp.array([12.0])}
    cut, _ = optimizer_clip(optimizer, gradient)
    np.testing.assert_allclose(cut["a"], np.array([3.0, 4.0]) / 13.0, rtol=1e-6)
    np.testing.assert_allclose(cut["b"], np.array([12.0]) / 13.0, rtol=1e-6)


def optimizer_clip(optimizer, gradient):
    """The clipped gradient, recovered from Adam's first moment after one step: (1 - β1) times it."""
    _, state = optimizer.update(gradient, optimizer.init(gradient))
    return jax.tree.map(lambda m: m / 0.1, state[1].mu), state


def test_sampling_follows_the_probabilities():
    logits = jnp.log(jnp.array([0.1, 0.6, 0.3]))
    actions = jax.vmap(lambda key: Categorical(3).draw(key, logits))(jax.random.split(jax.random.key(0), 20_000))
    shares = np.bincount(actions, minlength=3) / 20_000
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3], atol=0.012)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_sparse_rows_equal_the_dense_product(precision):
    random = np.random.default_rng(5)
    index = np.stack([random.permutation(12)[:3] for _ in range(8)]).reshape(2, 4, 3)  # 10 and 11 mean none
    kernel, grad = random.normal(size=(10, 6)).astype("f4"), random.normal(size=(2, 4, 6)).astype("f4")
    dense = np.zeros((2, 4, 12), "f4")
    np.put_along_axis(dense, index, 1.0, axis=-1)
    dense = dense[..., :10]
    np.testing.assert_array_equal(SparseOneHot(jnp.asarray(index), 10).dense(), dense)
    blank = jnp.zeros((8, 10), network.dtype_of(precision))
    found, back = jax.vjp(partial(network._rows_of, precision, jnp.asarray(index)), jnp.asarray(kernel), blank)
    tolerance = 1e-5 if precision == "fp32" else 3e-2
    np.testing.assert_allclose(found, dense @ kernel, rtol=tolerance, atol=tolerance)
    kernel_grad, blank = back(jnp.asarray(grad))
    np.testing.assert_allclose(kernel_grad, np.einsum("tbi,tbo->io", dense, grad), atol=2 * tolerance)
    np.testing.assert_array_equal(blank, 0)  # erased again: the next minibatch writes its ones into it


def test_one_update_against_the_loop(agent):
    """`done` and `is_first` differ: an end belongs to the step that caused it."""
    params, vectors, hidden_state, is_first = agent
    random = np.random.default_rng(6)
    reward, value = random.normal(size=(2, STEPS, ENVS)).astype("f4")
    done, last = random.random((STEPS, ENVS)) < 0.3, random.normal(size=ENVS).astype("f4")
    assert (done != is_first).any()
    config = replace(
        TEMPTATION_PPO,
        num_envs=ENVS,
        num_steps=STEPS,
        num_minibatches=1,
        update_epochs=1,
        hidden_size=HIDDEN,
        max_grad_norm=1e9,
        learning_rate=0.01,
    )
    batch = Batch(*vectors, is_first, random.integers(0, 2, (STEPS, ENVS)), value * 0.1 - 1.0, value, reward, done)
    agent, opt_state = AGENTS["ppo_gru"](ENV, config), on_policy.optimizer(config).init(params)
    batch, hidden_state = jax.tree.map(jnp.asarray, (batch, hidden_state))
    found, *_ = agent.learn(params, opt_state, hidden_state, batch, last, 0.9, jax.random.key(0), 0.0)
    advantage = oracles.gae_by_loop(reward, value, done, last, 0.9, config.gae_lambda).astype("f4")
    targets = on_policy.Targets(advantage, advantage + value)
    gradient = jax.grad(lambda p: agent.loss(p, hidden_state, batch, targets)[0])(params)
    # Adam's first step is the gradient divided by its magnitude
    expected = jax.tree.map(lambda p, g: p - 0.01 * g / (jnp.abs(g) + 1e-5), params, gradient)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(one, other, atol=2e-4)
