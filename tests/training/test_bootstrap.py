"""Bootstrapping at timeouts: against slow NumPy, by hand for every end cause, and without effect when off."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.algorithms import AGENTS
from perepisode.algorithms.on_policy import gae
from perepisode.config import ConfigError, PPOConfig
from perepisode.environments.base import EndCause, Outcome
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.pytree import pytree
from perepisode.runs import Run
from perepisode.study import listing, matrix
from perepisode.training import population, update
from perepisode.training.train import TrainingOptions, check, prepare, run_chunk, train
from tests import oracles

OFF = replace(TEMPTATION_PPO, num_envs=4, num_steps=12, update_epochs=1, num_minibatches=2, hidden_size=8)
ON = replace(OFF, bootstrap_on_truncation=True)
SHORT = {"horizon": 5, "wage": 5.0, "offer_prob": 0.5}  # frequent offers and large accrued returns


def run_of(method, config, gamma=0.9, env=None, updates=4, **settings):
    steps = config.steps_per_update * updates
    return Run("temptation", "temptation", method, settings, 42, gamma, steps, env_settings=env or {}, config=config)


def begun(program, members):
    params = update.initial_params(program, members, range(len(members.gamma)))
    return jax.jit(partial(update.init, program))(members, params)


def rolled_out(program, members, state):
    """Batch and last values, [run, time, env] and [run, env]."""
    _, batch, _, last = jax.jit(partial(update.rollout, program))(members, state)
    return jax.tree.map(lambda x: np.asarray(x).swapaxes(0, 1), batch), np.asarray(last)


def replayed(program, members, state, actions):
    """The same steps without an agent: rewards and end causes [time, run, env], and the agent's input after each step
    had the episode continued."""
    episode_state, reset_pool = state.runner.episode_state, state.runner.reset_pool
    rows = []
    for action in np.swapaxes(actions, 0, 1):
        episode_state, reset_pool = population.reset_ended(program.env, members, episode_state, reset_pool)
        before = episode_state.accrued
        episode_state, record = population.advance(program.env, members, episode_state, jnp.asarray(action))
        accrued = record.totals.accrued
        reward = population.rewards(members, state.duals, before, accrued)
        observation = jax.vmap(jax.vmap(program.env.observe))(episode_state.env_state)
        features = np.stack([accrued.task_return / 50.0, accrued.violations / 5.0], axis=-1)  # ν of the paper
        rows.append((reward, record.end_cause, np.concatenate([observation, features], axis=-1)))
    return map(np.array, zip(*rows))


def value_at(params, inputs):
    """The critic's value at the last of an episode's inputs, from a zero hidden state."""
    hidden_state = np.zeros(params.gru_hidden[0].shape[0])
    kernel = np.concatenate([np.asarray(k, float) for k in params.embedding])
    for x in inputs:
        embedded = np.maximum(0.0, x @ kernel + np.asarray(params.embedding_bias, float))
        hidden_state = oracles.gru_cell(params, embedded, hidden_state)
    return oracles.mlp(params.critic, hidden_state)[0]


def test_rewards_and_advantages_against_the_loop():
    """Every episode ends by timeout; two objectives with accrued observations, each with its own γ."""
    runs = [run_of("esr", ON, 0.9, SHORT, budget=1), run_of("ser_racc", ON, 0.6, SHORT, weight=0.1)]
    program, members = prepare(runs)
    state = begun(program, members)
    batch, last = rolled_out(program, members, state)
    rewards, causes, terminal = replayed(program, members, state, batch.action)
    assert sorted(np.unique(causes)) == [EndCause.RUNNING, EndCause.TIMEOUT]
    assert terminal[..., -1].max() > 0  # some agent commits a violation
    for run, gamma in enumerate((0.9, 0.6)):
        params = jax.tree.map(lambda x, i=run: x[i], state.params)
        expected = np.array(rewards[:, run], float)
        for t, env in np.argwhere(causes[:, run] == EndCause.TIMEOUT):
            since = t + 1 - SHORT["horizon"]
            own = np.concatenate([batch.observation[run, :, env], batch.features[run, :, env]], axis=-1)
            value = value_at(params, [*own[since : t + 1], terminal[t, run, env]])
            expected[t, env] += gamma * value
        np.testing.assert_allclose(batch.reward[run], expected, rtol=1e-4, atol=1e-4)
        sizes = batch.value[run], batch.done[run], last[run], gamma, OFF.gae_lambda
        advantages = oracles.gae_by_loop(expected, *sizes)
        np.testing.assert_allclose(gae(batch.reward[run], *sizes), advantages, rtol=1e-3, atol=1e-3)


@pytree
class ForkState:
    time: jax.Array  # int32, steps taken


@dataclass(frozen=True)
class Fork:
    """Each step pays 1 with a constant observation.  Actions 5, 6 and 7 die, win and violate; others continue."""

    horizon: int = 3
    actions: int = 8

    name = "fork"
    dilemmas = ("harm",)
    info_keys = ()

    def reset(self, key):
        return ForkState(jnp.zeros((), jnp.int32))

    def step(self, key, state, action):
        after = ForkState(state.time + 1)
        cause = jnp.select(
            [action == 5, action == 6, after.time >= self.horizon],
            [jnp.int32(cause) for cause in (EndCause.DEATH, EndCause.WON, EndCause.TIMEOUT)],
            jnp.int32(EndCause.RUNNING),
        )
        harm = (action == 7).astype(jnp.int32)[None]
        return after, Outcome(jnp.ones(()), harm, harm, {}, cause)

    def observe(self, state):
        return jnp.ones(1)

    def encode(self, observation, dtype=jnp.float32):
        return (observation.astype(dtype),)

    def violation_possible(self, state):
        return jnp.ones(1, bool)


def test_only_timeouts_are_bootstrapped():
    """These critics value every state at 10, and γ is 0.9: a step pays 1, a violation costs 10 and ends the episode,
    and a timeout adds 9, so that it looks like a step within an episode."""
    config = replace(ON, num_envs=32)
    program = update.Program(AGENTS["ppo_gru"](Fork(), config), config.num_envs, 1, 16)
    members = population.gather([run_of("erm", config, enforcement="absolute")])
    state = begun(program, members)
    *layers, (kernel, bias) = state.params.critic
    state = replace(state, params=replace(state.params, critic=(*layers, (0.0 * kernel, bias + 10.0))))
    batch, last = rolled_out(program, members, state)
    _, causes, _ = replayed(program, members, state, batch.action)
    causes, harm = causes[:, 0], batch.action[0] == 7
    assert set(np.unique(causes)) == set(EndCause)
    by_hand = {EndCause.RUNNING: 1, EndCause.DEATH: 1, EndCause.WON: 1, EndCause.ENFORCED: -9, EndCause.TIMEOUT: 10}
    surprise = {EndCause.RUNNING: 0, EndCause.DEATH: -9, EndCause.WON: -9, EndCause.ENFORCED: -19, EndCause.TIMEOUT: 0}
    advantage = gae(batch.reward[0], batch.value[0], batch.done[0], last[0], 0.9, 0.0)
    for cause in EndCause:
        there = (causes == cause) & (harm == (cause == EndCause.ENFORCED))
        np.testing.assert_allclose(batch.reward[0][there], by_hand[cause], atol=1e-4, err_msg=cause.name)
        np.testing.assert_allclose(np.asarray(advantage)[there], surprise[cause], atol=1e-4, err_msg=cause.name)
    np.testing.assert_array_equal(batch.done[0], causes != EndCause.RUNNING)


@pytest.mark.parametrize(("bootstrap", "value"), [(True, 5.0), (False, 1.0)])
def test_the_learned_value_is_that_of_an_episode_without_time_limit(bootstrap, value):
    """1 per step, γ = 0.8, no deaths: the value at the last step is 1 / (1 - γ) with bootstrapping and 1 without."""
    config = replace(
        OFF, num_envs=16, num_steps=16, update_epochs=4, learning_rate=3e-3, bootstrap_on_truncation=bootstrap
    )
    program = update.Program(AGENTS["ppo_gru"](Fork(horizon=8, actions=2), config), config.num_envs, 200, 16)
    members = population.gather([run_of("unconstrained", config, 0.8)])
    state, _ = run_chunk(program, 200, members, begun(program, members), 200)
    batch, _ = rolled_out(program, members, state)
    assert batch.value[0][batch.done[0]].mean() == pytest.approx(value, rel=0.03)


def test_off_traces_no_bootstrapping(monkeypatch):

    def trace(config):
        program, members = prepare([run_of("esr", config, env=SHORT, budget=1)])
        return jax.eval_shape(partial(update.update, program), members, begun(program, members))

    def refuse(*_):
        raise AssertionError("bootstrapped")

    monkeypatch.setattr(update, "bootstrap_truncations", refuse)
    trace(OFF)
    with pytest.raises(AssertionError, match="bootstrapped"):
        trace(ON)


def test_off_trains_the_same_policy_as_before_the_option_existed(tmp_path):
    """A run.json without the entry equals one with false bit for bit; one with true differs."""
    plain = run_of("esr", OFF, env=SHORT, budget=1).to_json()
    found = []
    for entry in ({}, {"bootstrap_on_truncation": False}, {"bootstrap_on_truncation": True}):
        run = Run.from_json({**plain, "ppo": {**plain["ppo"], **entry}})
        (folder,) = train([run], TrainingOptions(tmp_path / str(len(found)), chunk=4))
        again, _ = folder.load()
        assert again == run
        found.append((run.id, (folder.path / "policy.safetensors").read_bytes()))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]
    assert found[0][1] != found[2][1]


def test_the_default_is_off_and_keeps_every_run_id():
    """The digests cover every id and folder of `perepisode matrix --format json` before the option existed."""
    for env, digest in (("craftax", "2a8ad2a5cc0af26c"), ("temptation", "8b28341d0411cb97")):
        rows = json.loads(listing.as_json(matrix.families(matrix.of(env))))
        listed = json.dumps([[row["id"], row["folder"]] for row in rows])
        assert hashlib.sha256(listed.encode()).hexdigest()[:16] == digest
    assert not PPOConfig().bootstrap_on_truncation


def test_on_is_another_run():
    off, on = (run_of("esr", config, budget=1) for config in (OFF, ON))
    assert "bootstrap_on_truncation" not in off.to_json()["ppo"]
    again = Run.from_json(on.to_json())
    assert (again.config, again.id) == (ON, on.id)
    assert on.id != off.id
    with pytest.raises(ConfigError, match="share config"):
        check([off, on])
