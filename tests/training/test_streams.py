"""Several reward streams and the methods with a cost critic, against NumPy oracles, SciPy and hand arithmetic."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from perepisode import algorithms
from perepisode.agents.export import export
from perepisode.algorithms import AGENTS, network
from perepisode.algorithms.base import Batch
from perepisode.algorithms.distributions import Categorical, DiagonalGaussian
from perepisode.algorithms.on_policy import Targets, targets_of_streams
from perepisode.algorithms.ppo_gru import Behaviour
from perepisode.algorithms.ppo_mlp import PPOMlp
from perepisode.config import ConfigError
from perepisode.environments.action_space import Box
from perepisode.environments.base import EndCause
from perepisode.environments.temptation import Temptation
from perepisode.evaluation.rollout import evaluate
from perepisode.methods import METHODS, Accrued, Finished, Mixture
from perepisode.replay.episode import differences, replay
from perepisode.runs import Run
from perepisode.study.packing import pack
from perepisode.training import population, update
from perepisode.training.train import TrainingOptions, agent_of, prepare, run_chunk, train, weights
from tests import oracles
from tests.resuming import straight_and_resumed

METHODS_WITH_COST_CRITIC = ("ppo_lag", "ppo_pid", "focops", "p3o", "crpo")
STEPS, ENVS = 9, 4
pytestmark = pytest.mark.xdist_group("streams")


def config_of(agent="ppo_mlp", **changes):
    sizes = {"num_envs": 16, "num_steps": 16, "num_minibatches": 2, "hidden_size": 8, **changes}
    return replace(algorithms.default_config(Temptation, agent), **sizes)


def small(method="ppo_lag", agent="ppo_mlp", seed=3, updates=4, **changes):
    config = config_of(agent, **changes)
    return Run("temptation", "temptation", method, {"budget": 1}, seed, 0.95, config.steps_per_update * updates,
               agent=agent, config=config)  # fmt: skip


# ---- advantages and targets ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rollout():
    random = np.random.default_rng(0)
    value, reward = random.normal(size=(2, STEPS, ENVS, 2))
    reward[..., 1] = random.integers(0, 2, (STEPS, ENVS))
    done, last = random.random((STEPS, ENVS)) < 0.3, random.normal(size=(ENVS, 2))
    batch = Batch(None, None, None, None, None, *map(jnp.asarray, (value, reward, done)))
    return batch, jnp.asarray(last)


def test_advantages_and_targets_of_ppo_lag_against_loops(rollout):
    """Each stream has its own γ and λ; A_r is standardised and A_c centred before they are combined."""
    batch, last = rollout
    method = METHODS["ppo_lag"].build(budget=1, cost_gamma=0.7, cost_gae_lambda=0.4)
    multiplier = 1.5
    mixture = method.mixture(jnp.float32(multiplier), jnp.float32(0.99), 0.8)
    targets = targets_of_streams(batch, last, mixture)
    value, reward, done, last = (np.asarray(x, float) for x in (batch.value, batch.reward, batch.done, last))
    of_rewards = oracles.gae_by_loop(reward[..., 0], value[..., 0], done, last[:, 0], 0.99, 0.8)
    of_costs = oracles.gae_by_loop(reward[..., 1], value[..., 1], done, last[:, 1], 0.7, 0.4)
    np.testing.assert_allclose(targets.value, np.stack([of_rewards, of_costs], -1) + value, atol=1e-5)
    of_rewards = (of_rewards - of_rewards.mean()) / of_rewards.std()
    combined = (of_rewards - multiplier * (of_costs - of_costs.mean())) / (1 + multiplier)
    found = (mixture.coefficients * targets.advantage).sum(-1)
    np.testing.assert_allclose(found, combined, atol=1e-5)
    assert abs(combined.std() - 1) > 0.1  # it would be 1 if the combination were normalised


def test_the_stream_of_costs_is_the_violations_and_the_other_the_task_reward():
    before, after = Accrued(jnp.float32(3.0), jnp.float32(1.0)), Accrued(jnp.float32(4.5), jnp.float32(3.0))
    for name in METHODS_WITH_COST_CRITIC:
        method = METHODS[name].build(budget=1)
        np.testing.assert_allclose(method.rewards(method.init_dual(), before, after), [1.5, 2.0])


# ---- policy losses, by hand ----------------------------------------------------------------------------------

RATIO = np.array([0.5, 1.0, 1.5, 1.1])
KL = np.array([0.01, 0.02, 0.03, 0.0])
ADVANTAGES = np.array([[1.0, 0.5], [-1.0, 0.0], [2.0, -1.0], [0.0, 0.5]])


def policy_loss(name, dual, **settings):
    method = METHODS[name].build(budget=1, **settings)
    coefficients = method.mixture(dual, jnp.float32(0.9), 0.9).coefficients
    arrays = (jnp.asarray(x, jnp.float32) for x in (RATIO, KL, ADVANTAGES))
    return float(method.streams.policy_loss(coefficients, *arrays, 0.2))


def test_ppo_lag_by_hand():
    """λ = 1: A = (A_r - A_c) / 2 = 0.25, -0.5, 1.5, -0.25, and clipped ratios between 0.8 and 1.2."""
    terms = [0.5 * 0.25, -0.5, 1.2 * 1.5, -1.1 * 0.25]
    assert policy_loss("ppo_lag", jnp.float32(1.0)) == pytest.approx(-np.mean(terms))


def test_focops_by_hand():
    """λ = 1, β = 2, δ = 0.02: the third state lies outside the trust region."""
    terms = [0.01 - 0.5 * 0.25 / 2, 0.02 + 0.5 / 2, 0.0, 0.0 + 1.1 * 0.25 / 2]
    found = policy_loss("focops", jnp.float32(1.0), temperature=2.0, trust_region=0.02)
    assert found == pytest.approx(np.mean(terms))


@pytest.mark.parametrize(("excess", "penalty"), [(0.5, 3 * (0.5 - 0.175)), (0.1, 0.0)])
def test_p3o_by_hand(excess, penalty):
    """mean(ratio · A_c) = (0.25 + 0 - 1.5 + 0.55) / 4 = -0.175."""
    surrogate = -np.mean([0.5, -1.0, 1.2 * 2.0, 0.0])
    assert policy_loss("p3o", jnp.float32(excess), kappa=3.0) == pytest.approx(surrogate + penalty)


@pytest.mark.parametrize(("excess", "weights"), [(-0.5, [1, 0]), (0.1, [1, 0]), (0.11, [0, -1])])
def test_crpo_maximises_rewards_or_minimises_costs(excess, weights):
    method = METHODS["crpo"].build(budget=1, tolerance=0.1)
    np.testing.assert_array_equal(method.coefficients(jnp.float32(excess)), weights)


@pytest.mark.parametrize("name", ["p3o", "crpo"])
def test_the_excess_of_the_mean_is_held_while_no_episode_ends(name):
    method = METHODS[name].build(budget=1)
    counts = jnp.array([[3.0, 0.0], [1.0, 7.0]])
    ended = Finished(jnp.array([[True, True], [True, False]]), counts)
    assert float(method.next_dual(jnp.float32(9.0), ended)) == pytest.approx(4 / 3 - 1)
    assert float(method.next_dual(jnp.float32(9.0), Finished(jnp.zeros((2, 2), bool), counts))) == 9.0


def test_kl_of_both_distributions_against_scipy():
    random = np.random.default_rng(1)
    logits, old = random.normal(size=(2, 5, 3))
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (logits, old))
    found = Categorical(3).kl(jnp.asarray(logits), (), jnp.asarray(old), ())
    np.testing.assert_allclose(found, stats.entropy(p, q, axis=-1), rtol=1e-4)
    (mean, old_mean), (log_std, old_log_std) = (0.3, -0.8), (-0.4, 0.2)
    new, before = stats.norm(mean, np.exp(log_std)), stats.norm(old_mean, np.exp(old_log_std))
    by_integral = integrate.quad(lambda x: new.pdf(x) * (new.logpdf(x) - before.logpdf(x)), -12, 12)[0]
    two = [jnp.full(2, x) for x in (mean, log_std, old_mean, old_log_std)]
    gaussian = DiagonalGaussian(Box((-1.0, -1.0), (1.0, 1.0)))
    assert float(gaussian.kl(*two)) == pytest.approx(2 * by_integral, rel=1e-5)


# ---- the network and the learner -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ppo_gru", "ppo_mlp"])
def test_each_stream_has_a_head_of_its_own(name):
    """Against plain NumPy; and further heads change neither the policy nor the first head."""
    one = AGENTS[name](Temptation(), config_of(name, precision="fp32"))
    agent = replace(one, streams=METHODS["ppo_lag"].streams)
    params = agent.init(5, 0)
    embedded = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    outputs, values = network._heads(params, embedded, "fp32")
    heads = (params.critic, *params.more_critics)
    by_hand = np.stack([oracles.mlp(head, embedded.astype(float))[:, 0] for head in heads], -1)
    np.testing.assert_allclose(values, by_hand, atol=1e-4)
    np.testing.assert_allclose(outputs, oracles.mlp(params.actor, embedded.astype(float)), atol=1e-4)
    for same, also in zip(jax.tree.leaves(one.init(5, 0)), jax.tree.leaves(replace(params, more_critics=()))):
        np.testing.assert_array_equal(same, also)
    assert not np.array_equal(params.critic[0][0], params.more_critics[0][0][0])


def recorded(agent="ppo_gru", method="ppo_lag", **changes):
    """An agent and its rollout after one update: `stored` and values are those of the policy that acted."""
    run = small(method, agent, precision="fp32", **changes)
    program, members = prepare([run])
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [3]))
    state = run_chunk(program, 1, members, state, 1)[0]
    _, batch, record, last = jax.jit(partial(update.rollout, program))(members, state)
    own = jax.tree.map(lambda x: x[:, 0], batch)
    hidden, params = jax.tree.map(lambda x: x[0], (state.runner.hidden_state, state.params))
    return program.agent, params, hidden, own, record, last[0]


@pytest.mark.parametrize("name", ["ppo_gru", "ppo_mlp"])
def test_the_learner_computes_what_the_rollout_did(name):
    agent, params, hidden, batch, _, _ = recorded(name)
    assert batch.reward.shape == batch.value.shape == (16, 16, 2)
    targets = Targets(jnp.zeros_like(batch.value), batch.value)
    _, seen = agent.loss(params, hidden, batch, targets, coefficients=jnp.array([1.0, 0.0]))
    assert float(seen["value_loss"]) < 1e-9
    assert abs(float(seen["kl"])) < 1e-6
    assert isinstance(batch.stored, Behaviour)


def test_the_value_loss_is_the_sum_over_streams():
    agent, params, hidden, batch, _, _ = recorded()
    off = batch.value + jnp.array([0.1, 0.3])
    _, seen = agent.loss(params, hidden, batch, Targets(off, off), coefficients=jnp.array([1.0, 0.0]))
    assert float(seen["value_loss"]) == pytest.approx(0.5 * (0.1**2 + 0.3**2), rel=1e-3)


def test_the_rewards_of_a_rollout_are_its_returns_and_counts():
    _, _, _, batch, record, _ = recorded()
    done, reward = np.asarray(batch.done), np.asarray(batch.reward)
    begun = np.asarray(batch.is_first).argmax(0)  # the first step of an episode that the rollout has from its start
    for env in range(16):
        ends = np.flatnonzero(done[:, env])
        ends = ends[ends >= begun[env]]
        if np.asarray(batch.is_first)[:, env].any() and len(ends):
            sums = reward[begun[env] : ends[0] + 1, env].sum(0)
            totals = record.totals.accrued
            accrued = [float(x[ends[0], 0, env]) for x in (totals.task_return, totals.violations)]
            np.testing.assert_allclose(sums, accrued, rtol=1e-5)


class Watching(PPOMlp):
    """Reports the mixture that `learn` is given."""

    def learn(self, *arguments, mixture, **keywords):
        params, opt_state, seen = super().learn(*arguments, mixture=mixture, **keywords)
        return params, opt_state, {**seen, "mixture": mixture}


def test_the_multiplier_moves_before_the_update_that_uses_it():
    run = small(num_steps=64)  # episodes of 40 steps end
    program, members = prepare([run])
    agent = Watching(program.agent.env, program.agent.config, program.agent.streams)
    program = replace(program, agent=agent)
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [3]))
    record = jax.jit(partial(update.rollout, program))(members, state)[2]
    counts = np.asarray(record.totals.accrued.violations)[np.asarray(record.ended)]
    multiplier = max(0.0, 0.001 + 0.035 * (counts.mean() - 1.0))
    _, seen = jax.jit(partial(update.update, program))(members, state)
    expected = np.array([1.0, -multiplier]) / (1 + multiplier)
    assert multiplier > 0.01
    np.testing.assert_allclose(seen["mixture"].coefficients[0], expected, rtol=1e-5)
    np.testing.assert_allclose(seen["mixture"].gamma[0], [0.95, 0.99])
    np.testing.assert_allclose(seen["mixture"].gae_lambda[0], [run.config.gae_lambda, 0.95])


def test_bootstrapping_at_a_timeout_uses_each_streams_discount():
    run = small(num_steps=64, bootstrap_on_truncation=True)
    env = Temptation()
    plain = prepare([small(num_steps=64)])[0]
    program, members = prepare([run])
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [3]))
    with_value = jax.jit(partial(update.rollout, program))(members, state)
    without = jax.jit(partial(update.rollout, plain))(members, state)
    added = np.asarray(with_value[1].reward - without[1].reward)[:, 0]
    truncated = np.asarray(with_value[2].end_cause)[:, 0] == EndCause.TIMEOUT
    assert env.horizon == 40
    assert truncated.any()
    assert (added[~truncated] == 0).all()
    # the same network values the state with other discounts: the ratio of both streams' additions is that of γ
    longer = replace(members, objectives=tuple(replace(o, cost_gamma=o.cost_gamma * 0.5) for o in members.objectives))
    halved = jax.jit(partial(update.rollout, program))(longer, state)[1].reward - without[1].reward
    halved = np.asarray(halved)[:, 0]
    np.testing.assert_allclose(halved[truncated][:, 0], added[truncated][:, 0], atol=1e-5)
    np.testing.assert_allclose(halved[truncated][:, 1], added[truncated][:, 1] / 2, atol=1e-5)


# ---- runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two runs of each method, trained together; (run, folder) each."""
    out = tmp_path_factory.mktemp("runs")
    runs = [small(name, seed=seed) for name in METHODS_WITH_COST_CRITIC for seed in (3, 4)]
    return {
        folder.read().id: (folder.read(), folder)
        for part in pack(runs, 16)
        for folder in train(part, TrainingOptions(out, chunk=4, log=lambda *_: None))
    }


def test_methods_with_one_policy_loss_share_a_program():
    runs = [small(name) for name in (*METHODS_WITH_COST_CRITIC, "lagrangian", "esr")]
    packs = [[run.method for run in part] for part in pack(runs, 16)]
    assert sorted(map(sorted, packs)) == [["crpo", "ppo_lag", "ppo_pid"], ["esr", "lagrangian"], ["focops"], ["p3o"]]
    with pytest.raises(ConfigError, match="ppo_lag and esr learn from different reward streams"):
        train([small(), small("esr")], TrainingOptions("unused"))


def test_a_run_alone_is_the_run_in_a_population(trained, tmp_path):
    for run, folder in trained.values():
        if run.seed == 3 and run.method in ("ppo_lag", "p3o"):
            (alone,) = train([run], TrainingOptions(tmp_path, chunk=4, log=lambda *_: None))
            one, other = alone.load()[1], folder.load()[1]
            assert any(name.startswith("more_critics") for name in one)
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("name", ["ppo_pid", "p3o"])
def test_resuming_is_equal_to_the_bit(name, tmp_path):
    run = small(name, num_steps=64)
    straight, resumed = straight_and_resumed(run, tmp_path)
    kept = [(x.params, x.opt_state, x.duals) for x in (resumed, straight)]
    for one, other in zip(*map(jax.tree.leaves, kept), strict=True):
        np.testing.assert_array_equal(one, other)
    initial = prepare([run])[1].init_duals()
    changed = [not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (straight.duals, initial)))]
    assert any(changed)


def test_exported_agents_are_evaluated_beside_others_and_replayed(trained, tmp_path):
    """One table of agents with and without a cost critic: acting needs none."""
    (other,) = train([small("lagrangian")], TrainingOptions(tmp_path, chunk=4, log=lambda *_: None))
    sizes = {"num_envs": 8, "num_steps": 80, "log": lambda *_: None}
    folders = [folder for run, folder in trained.values() if run.seed == 3]
    table = evaluate([folder.path for folder in (*folders, other)], tmp_path / "episodes.parquet", **sizes)
    episodes = pd.read_parquet(table)
    assert set(episodes["method"]) == {*METHODS_WITH_COST_CRITIC, "lagrangian"}
    folder = next(folder for run, folder in trained.values() if run.method == "focops")
    file = export(folder, table, tmp_path / "agent.safetensors")
    assert not [name for name in file.load()[1] if "critic" in name]
    again = pd.read_parquet(evaluate([file.path], tmp_path / "exported.parquet", **sizes))
    for row in again.head(3).to_dict("records"):
        assert not differences(row, replay(row, Temptation()))
    utility = episodes[episodes["method"] == "p3o"]
    np.testing.assert_allclose(utility["utility"], utility["return"], rtol=1e-5)


def test_agents_with_one_value_are_refused_in_one_line():
    with pytest.raises(ConfigError, match="ppo_lag learns a value of each of reward, cost, and pqn_gru has one value"):
        small(agent="pqn_gru").checked()


def test_a_policy_of_one_stream_has_the_parameters_that_it_had():
    names = set(weights(agent_of(small("lagrangian")).init(1, 0)))
    assert not [name for name in names if "more_critics" in name or "log_std" in name]


def test_a_mixture_is_a_pytree_per_run():
    runs = [small(seed=seed) for seed in (1, 2)]
    program, members = prepare(population.order(runs))
    found = update.mixtures(program, members, members.init_duals())
    assert isinstance(found, Mixture)
    assert found.coefficients.shape == found.gamma.shape == (2, 2)
