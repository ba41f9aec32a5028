"""Agents with continuous actions: the Gaussian against SciPy, the loss against slow NumPy, and probe environments."""

from dataclasses import dataclass, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from perepisode.algorithms import AGENTS, network, on_policy
from perepisode.algorithms.base import Batch
from perepisode.algorithms.distributions import Categorical, DiagonalGaussian, Sampled, distribution
from perepisode.environments.action_space import Box
from perepisode.environments.base import EndCause, Environment, Outcome
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.runs import Run
from perepisode.training import population, update
from perepisode.training.train import run_chunk
from tests import oracles
from tests.training.test_agents import choice_at

pytestmark = pytest.mark.xdist_group("agents")
NAMES = ("ppo_gru", "ppo_mlp")
BOX = Box((-2.0, 0.0, -np.inf), (2.0, 10.0, 3.0))
CONFIG = replace(
    TEMPTATION_PPO, num_envs=32, num_steps=8, num_minibatches=2, hidden_size=16, learning_rate=5e-3, ent_coef=0.0
)


# ---- the distribution


def test_the_distribution_follows_from_the_actions():
    assert distribution(4) == Categorical(4)
    assert distribution(BOX) == DiagonalGaussian(BOX)
    assert DiagonalGaussian(BOX).outputs == 3


@pytest.mark.parametrize("size", [1, 3])
def test_log_probability_and_entropy_against_scipy(size):
    random = np.random.default_rng(size)
    gaussian = DiagonalGaussian(Box((-1.0,) * size, (1.0,) * size))
    for _ in range(5):
        log_std = random.normal(size=size)
        means, samples = random.normal(size=(2, 4, 6, size), scale=2.0)
        normals = [stats.multivariate_normal(mean, np.diag(np.exp(2 * log_std))) for mean in means.reshape(-1, size)]
        expected = [normal.logpdf(x) for normal, x in zip(normals, samples.reshape(-1, size))]
        given = map(jnp.float32, (means, log_std, samples))
        found = gaussian.log_prob(*given)
        np.testing.assert_allclose(found, np.reshape(expected, (4, 6)), rtol=1e-4, atol=1e-4)
        entropy = gaussian.entropy(jnp.float32(means), jnp.float32(log_std))
        np.testing.assert_allclose(entropy, np.full((4, 6), normals[0].entropy()), rtol=1e-5)


def test_samples_are_independent_normals():
    """Kolmogorov–Smirnov for each number, and no correlation between them, with far more mass outside than inside."""
    mean, log_std = np.array([0.5, -1.0, 2.0]), np.log([0.5, 3.0, 1.0])
    keys = jax.random.split(jax.random.key(2), 20_000)
    means = jnp.broadcast_to(jnp.float32(mean), (20_000, 3))
    _, sampled = DiagonalGaussian(BOX).sample(keys, means, jnp.float32(log_std))
    standardised = (np.asarray(sampled.sample) - mean) / np.exp(log_std)
    assert min(stats.kstest(column, "norm").pvalue for column in standardised.T) > 0.01
    assert np.abs(np.corrcoef(standardised.T) - np.eye(3)).max() < 0.03


def test_an_action_is_the_sample_scaled_to_the_box_and_clipped():
    """By hand: between two bounds the sample counts in half widths from the centre, else as it is."""
    samples = [[0.5, -0.5, -7.0], [1.5, -3.0, 5.0], [-1.0, 1.0, 3.0]]
    actions = [[1.0, 2.5, -7.0], [2.0, 0.0, 3.0], [-2.0, 10.0, 3.0]]
    np.testing.assert_array_equal(DiagonalGaussian(BOX).to_box(jnp.float32(samples)), np.float32(actions))
    wide = DiagonalGaussian(Box((-3e38,), (3e38,)))  # neither the width nor the product may become infinite or NaN
    found = wide.to_box(jnp.float32([[0.5], [2.0], [-2.0], [0.0]]))
    np.testing.assert_allclose(found[:, 0], np.float32([1.5e38, 3e38, -3e38, 0.0]), rtol=1e-6)


def test_learning_gets_the_unclipped_sample_and_its_log_probability():
    gaussian = DiagonalGaussian(Box((-1.0,), (1.0,)))
    mean, log_std = jnp.full((500, 1), 0.9), jnp.zeros(1)
    action, stored = gaussian.sample(jax.random.split(jax.random.key(0), 500), mean, log_std)
    sample = np.asarray(stored.sample)
    assert 0.3 < (np.abs(sample) > 1).mean() < 0.7  # most are clipped
    np.testing.assert_array_equal(action, np.clip(sample, -1, 1))
    np.testing.assert_allclose(stored.log_prob, stats.norm.logpdf(sample[:, 0], 0.9), rtol=1e-4, atol=1e-4)
    assert gaussian.before(action, stored) == (stored.sample, stored.log_prob)


# ---- PPO


STEPS, ENVS, HIDDEN = 7, 5, 8


@dataclass(frozen=True)
class Probe(Environment):
    """One step that pays 1 - (distance from the best action)², with an observed sign or without."""

    observed: bool = False
    name, dilemmas, actions = "probe", ("harm",), Box((-2.0, 0.0), (2.0, 4.0))

    def reset(self, key):
        return jnp.where(jax.random.bernoulli(key), 1.0, -1.0) * jnp.ones(1)

    def best(self, sign):
        """Off centre in both numbers: 0.5 or -1, and 3."""
        return jnp.stack([jnp.where(sign > 0, 0.5, -1.0) if self.observed else 0.5, 3.0])

    def step(self, key, state, action):
        reward = 1.0 - ((action - self.best(state[0])) ** 2).sum()
        none = jnp.zeros(1, jnp.int32)
        return state, Outcome(reward, none, none, {}, jnp.int32(EndCause.DEATH))

    def observe(self, state):
        return state


def test_the_loss_against_the_loop():
    """With samples outside the box, of which the ratio must be that of the sample and not of the clipped action."""
    env, random = Probe(), np.random.default_rng(3)
    gaussian = distribution(env.actions)
    params = network.init(3, network.input_sizes(env, 0), HIDDEN, gaussian)
    scaled = tuple((k * (50.0 if i == 2 else 1.0), b + 0.1) for i, (k, b) in enumerate(params.actor))
    params = jax.tree.map(jnp.asarray, replace(params, actor=scaled, log_std=np.float32([0.3, -0.4])))
    observation, hidden_state = random.normal(size=(STEPS, ENVS, 1)), random.normal(size=(ENVS, HIDDEN))
    is_first = random.random((STEPS, ENVS)) < 0.3
    means, values = oracles.policy_by_loop(params, [observation], hidden_state, is_first)
    sample = means + random.normal(size=means.shape)
    batch = {
        "action": sample,
        "log_prob": random.uniform(-4.0, -1.0, (STEPS, ENVS)),
        "value": random.normal(size=(STEPS, ENVS)),
    }
    advantage, target = random.normal(size=(2, STEPS, ENVS))
    expected = oracles.ppo_loss(means, values, batch, advantage, target, 0.2, 0.5, 0.01, log_std=params.log_std)
    action, zeros = gaussian.to_box(jnp.float32(sample)), np.zeros((STEPS, ENVS), "f4")
    half = np.float32(2.0)
    assert (np.abs((np.asarray(action) - [0.0, 2.0]) / half - sample) > 0.1).any(axis=-1).mean() > 0.3
    stored = Sampled(jnp.float32(sample), jnp.float32(batch["log_prob"]))
    no_features = np.zeros((STEPS, ENVS, 0), "f4")
    observation, hidden_state = np.float32(observation), np.float32(hidden_state)
    value = np.float32(batch["value"])
    as_batch = Batch(observation, no_features, is_first, action, stored, value, zeros, zeros)
    targets = on_policy.Targets(np.float32(advantage), np.float32(target))
    config = replace(TEMPTATION_PPO, clip_eps=0.2, vf_coef=0.5, ent_coef=0.01)
    found, seen = AGENTS["ppo_gru"](env, config).loss(params, hidden_state, as_batch, targets)
    assert float(found) == pytest.approx(expected, rel=1e-4)
    assert 0 < float(seen["clip_fraction"]) < 1


@cache
def learned(name, observed, updates=250):
    """The agent after training, its parameters and the last rollout."""
    agent = AGENTS[name](Probe(observed), CONFIG)
    run = Run("temptation", "temptation", "unconstrained", {}, 5, 0.5, agent=name, config=CONFIG)
    members, program = population.gather([run]), update.Program(agent, 32, updates, 32)
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [5]))
    state, _ = run_chunk(program, updates, members, state, updates)
    return agent, jax.tree.map(lambda x: x[0], state.params)


@pytest.mark.parametrize("name", NAMES)
def test_the_best_action_of_a_probe_environment(name):
    agent, params = learned(name, observed=False)
    choice = choice_at(agent, params, np.ones((200, 1)))
    np.testing.assert_allclose(choice.action.mean(axis=0), [0.5, 3.0], atol=0.1)
    assert (np.exp(params.log_std) < 0.3).all()  # of a half width; it starts at 1
    assert 0.7 < float(choice.value[0]) < 1.05  # the optimum is 1, less the variance of what is sampled


@pytest.mark.parametrize("name", NAMES)
def test_the_best_action_where_it_depends_on_the_observation(name):
    agent, params = learned(name, observed=True)
    for sign, wanted in ((1.0, [0.5, 3.0]), (-1.0, [-1.0, 3.0])):
        action = choice_at(agent, params, np.full((200, 1), sign)).action
        np.testing.assert_allclose(action.mean(axis=0), wanted, atol=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_the_learner_computes_what_the_rollout_did(name):
    """Before learning, the ratio is 1 for clipped actions too."""
    agent = AGENTS[name](Probe(), CONFIG)
    run = Run("temptation", "temptation", "unconstrained", {}, 5, 0.5, agent=name, config=CONFIG)
    members, program = population.gather([run]), update.Program(agent, 32, 4, 32)
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [5]))
    _, batch, _, _ = jax.jit(partial(update.rollout, program))(members, state)
    batch = jax.tree.map(lambda x: x[:, 0], batch)
    low, high = agent.env.actions.bounds
    assert ((batch.action == low) | (batch.action == high)).mean() > 0.2
    targets = on_policy.Targets(jnp.ones_like(batch.value), batch.value)
    params, hidden = jax.tree.map(lambda x: x[0], (state.params, state.runner.hidden_state))
    _, seen = agent.loss(params, hidden, batch, targets)
    assert float(seen["value_loss"]) < 1e-9
    assert abs(float(seen["kl"])) < 1e-6
    assert float(seen["clip_fraction"]) == 0
