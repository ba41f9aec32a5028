"""Quantisation by hand: what is stored, the size of the error, and what is omitted."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perepisode.config import ConfigError
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.runs import Run
from perepisode.training.train import agent_of, load_params, weights
from perepisode.zoo.quantization import dequantize, quantize


def policy(embedding, actor=None):
    hidden = embedding.shape[1]
    return {
        "embedding.0": embedding,
        "embedding_bias": np.full(hidden, 0.123, np.float32),
        "actor.0.0": np.eye(hidden, dtype=np.float32) if actor is None else actor,
        "critic.0.0": np.full((hidden, hidden), 7.0, np.float32),
    }


NAMES = {"omitted": ("critic",), "inputs": "embedding"}


def there_and_back(weights, initial):
    return dequantize(*quantize(weights, initial, **NAMES))


def test_a_row_by_hand():
    """The largest weight becomes 127, half of it 63.5 → 64 (to even), a hundredth of it 1.27 → 1."""
    row = np.array([[-2.0, 1.0, 0.02]], np.float32)
    tensors, sizes = quantize(policy(row), policy(np.zeros_like(row)), **NAMES)
    assert tensors["embedding.0"].tolist() == [[-127, 64, 1]]
    assert tensors["embedding.0.scale"] == pytest.approx([2 / 127])
    assert sizes == {"embedding.0": 1}
    back = dequantize(tensors, sizes)
    assert back["embedding.0"] == pytest.approx(np.array([[-2.0, 128 / 127, 2 / 127]]))
    assert back["embedding_bias"] == pytest.approx(0.123)


@given(arrays(np.float32, (5, 4), elements=st.floats(-100, 100, width=32)))
def test_no_weight_changes_by_more_than_half_a_level_of_its_row(kernel):
    back = there_and_back(policy(np.ones((2, 4), np.float32), kernel), policy(np.zeros((2, 4), np.float32)))
    level = np.abs(kernel).max(axis=1, keepdims=True) / 127
    assert (np.abs(back["actor.0.0"] - kernel) <= 0.5 * level * (1 + 1e-5) + 1e-30).all()


def test_unseen_inputs_are_restored_as_zero_and_all_others_are_stored():
    random = np.random.default_rng(0)
    initial = random.normal(size=(6, 4)).astype(np.float32)
    trained = initial.copy()
    trained[1, 2] += 0.01
    trained[4] -= 0.01
    tensors, _ = quantize(policy(trained), policy(initial), **NAMES)
    assert tensors["embedding.0.rows"].tolist() == [1, 4]
    back = there_and_back(policy(trained), policy(initial))["embedding.0"]
    assert not back[[0, 2, 3, 5]].any()
    assert back[[1, 4]] == pytest.approx(trained[[1, 4]], abs=float(np.abs(trained).max()) / 254)


def test_rounding_to_half_precision_does_not_count_as_training():
    initial = np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)
    rounded = initial.astype(np.float16).astype(np.float32)
    assert quantize(policy(rounded), policy(initial), **NAMES)[0]["embedding.0.rows"].size == 0


def test_the_critic_is_omitted_and_restored_as_zeros():
    run = Run("temptation", "temptation", "unconstrained", config=TEMPTATION_PPO)
    agent = agent_of(run)
    params = agent.init(1, 0)
    trained = {name: value + 1 for name, value in weights(params).items()}
    tensors, sizes = quantize(trained, weights(params), agent.training_only, agent.input_kernels)
    assert not any(name.startswith("critic") for name in tensors)
    restored = load_params(dequantize(tensors, sizes), params, agent.training_only)
    assert [x.shape for x in jax.tree.leaves(restored.critic)] == [x.shape for x in jax.tree.leaves(params.critic)]
    assert not any(np.any(value) for value in jax.tree.leaves(restored.critic))
    assert np.any(restored.actor[0][0])
    with pytest.raises(ConfigError, match="it is missing"):
        load_params(dequantize(tensors, sizes), params)


WRONG = {
    "a scale is missing": lambda t, s: t.pop("actor.0.0.scale"),
    "one scale too few": lambda t, s: t.update({"actor.0.0.scale": t["actor.0.0.scale"][1:]}),
    "rows beyond the kernel": lambda t, s: s.update({"embedding.0": 1}),
    "rows in disorder": lambda t, s: t.update({"embedding.0.rows": t["embedding.0.rows"][::-1].copy()}),
    "a negative row": lambda t, s: t.update({"embedding.0.rows": t["embedding.0.rows"] - 1}),
    "a size that would fill the memory": lambda t, s: s.update({"embedding.0": 10**12}),
    "a size that is not a number": lambda t, s: s.update({"embedding.0": "2"}),
    "another type": lambda t, s: t.update({"actor.0.0": t["actor.0.0"].astype(np.int16)}),
    "not finite": lambda t, s: t.update({"actor.0.0.scale": np.full(4, np.nan, np.float32)}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_inconsistent_tensors_are_refused(wrong):
    tensors, sizes = quantize(policy(np.ones((2, 4), np.float32)), policy(np.zeros((2, 4), np.float32)), **NAMES)
    dequantize(tensors, sizes)
    WRONG[wrong](tensors, sizes)
    with pytest.raises(ValueError, match=r"\w+"):
        dequantize(tensors, sizes)
