"""Every agent: probe environments, the rollout against the learner, resuming, exports, and what fits an environment."""

from dataclasses import dataclass, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode import algorithms
from perepisode.agents.export import export
from perepisode.algorithms import AGENTS, fitting
from perepisode.algorithms.on_policy import Targets
from perepisode.algorithms.pqn_gru import explore
from perepisode.environments.base import EndCause, Environment, Footprint, Outcome
from perepisode.environments.temptation import Temptation
from perepisode.evaluation.rollout import evaluate
from perepisode.replay.episode import differences, replay
from perepisode.runs import Run
from perepisode.training import population, update
from perepisode.training.train import TrainingOptions, run_chunk, train
from tests.resuming import straight_and_resumed

NAMES = ("ppo_gru", "ppo_mlp", "pqn_gru")
pytestmark = [pytest.mark.parametrize("name", NAMES), pytest.mark.xdist_group("agents")]
GAMMA = 0.5


@dataclass(frozen=True)
class Probe(Environment):
    """One or two steps; the reward depends on what the kind says."""

    kind: str = "constant"
    name, dilemmas, actions = "probe", ("harm",), 2

    def reset(self, key):
        return jnp.where(jax.random.bernoulli(key), 1.0, -1.0) * jnp.ones(1), jnp.int32(0)

    def step(self, key, state, action):
        (seen,), time = state
        chosen = 2.0 * action - 1.0
        last = jnp.bool_(True) if self.kind != "delayed" else time == 1
        reward = {"constant": 1.0, "observed": seen, "delayed": jnp.where(last, 1.0, 0.0), "action": chosen}.get(
            self.kind, seen * chosen
        )
        cause = jnp.where(last, EndCause.DEATH, EndCause.RUNNING).astype(jnp.int32)
        none = jnp.zeros(1, jnp.int32)
        return (state[0], time + 1), Outcome(jnp.float32(reward), none, none, {}, cause)

    def observe(self, state):
        """The sign, unless it is irrelevant, and the time."""
        sign = state[0] if self.kind in ("observed", "both") else jnp.zeros(1)
        return jnp.concatenate([sign, state[1][None].astype(jnp.float32)])


def config_of(name, **changes):
    config = algorithms.default_config(Temptation, name)
    return replace(config, num_envs=32, num_steps=8, num_minibatches=2, hidden_size=16, learning_rate=5e-3, **changes)


@cache
def learned(name, kind, updates=200):
    """The agent after training, and its population."""
    agent = AGENTS[name](Probe(kind), config_of(name))
    run = Run("temptation", "temptation", "unconstrained", {}, 5, GAMMA, agent=name, config=agent.config)
    members = population.gather([run])
    program = update.Program(agent, 32, updates, 32)
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [5]))
    state, _ = run_chunk(program, updates, members, state, updates)
    return agent, jax.tree.map(lambda x: x[0], state.params)


def choice_at(agent, params, observations):
    """The agent's choice at these observations, each an episode's first."""
    n = len(observations)
    first, keys = jnp.ones(n, bool), jax.random.split(jax.random.key(1), n)
    hidden = agent.init_hidden_state(n)
    return agent.act(agent.policy(params), hidden, first, jnp.asarray(observations), jnp.zeros((n, 0)), keys)


@pytest.mark.parametrize(
    ("kind", "observations", "values"),
    [
        ("constant", [[0.0, 0.0]], [1.0]),
        ("observed", [[-1.0, 0.0]], [-1.0]),
        ("observed", [[1.0, 0.0]], [1.0]),
        ("delayed", [[0.0, 0.0], [0.0, 1.0]], [GAMMA, 1.0]),
    ],
)
def test_values_of_probe_environments(name, kind, observations, values):
    """Along one episode, with the hidden state carried from step to step."""
    agent, params = learned(name, kind)
    hidden, found = agent.init_hidden_state(1), []
    for time, observation in enumerate(observations):
        first, key = jnp.array([time == 0]), jax.random.split(jax.random.key(1), 1)
        choice = agent.act(agent.policy(params), hidden, first, jnp.array([observation]), jnp.zeros((1, 0)), key)
        hidden = choice.hidden_state
        found.append(float(choice.value[0]))
    np.testing.assert_allclose(found, values, atol=0.1)


@pytest.mark.parametrize(("kind", "wanted"), [("action", [1, 1]), ("both", [0, 1])])
def test_actions_in_probe_environments(name, kind, wanted):
    agent, params = learned(name, kind)
    signs = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 200, axis=0) * (kind == "both")
    actions = np.asarray(choice_at(agent, params, signs).action)
    assert (actions == np.repeat(wanted, 200)).mean() > 0.97


def rolled_out(name, **changes):
    agent = AGENTS[name](Temptation(horizon=5), config_of(name, **changes))
    run = Run("temptation", "temptation", "unconstrained", {}, 5, GAMMA, agent=name, config=agent.config)
    members, program = population.gather([run]), update.Program(agent, 32, 4, 32)
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [5]))
    state = run_chunk(program, 1, members, state, 1)[0]  # so that the hidden state is not zero
    _, batch, _, last = jax.jit(partial(update.rollout, program))(members, state)
    own = jax.tree.map(lambda x: x[:, 0], batch)
    hidden, params = jax.tree.map(lambda x: x[0], (state.runner.hidden_state, state.params))
    return agent, params, hidden, own, last[0]


def test_the_learner_computes_what_the_rollout_did(name):
    """Episodes of five steps start within a rollout of eight: before learning, nothing has changed."""
    greedy = {"start_e": 0.0, "end_e": 0.0} if name == "pqn_gru" else {}
    agent, params, hidden, batch, _ = rolled_out(name, **greedy)
    assert batch.is_first[1:].any()
    targets = Targets(jnp.ones_like(batch.value), batch.value)
    _, seen = agent.loss(params, hidden, batch, targets)
    assert float(seen["value_loss"]) < 1e-9
    if name != "pqn_gru":
        # by hand, for the sampled actions
        assert abs(float(seen["kl"])) < 1e-6
        lucky = replace(batch, stored=batch.stored - 0.1)  # the action has become more probable by a factor e^0.1
        assert float(agent.loss(params, hidden, lucky, targets)[1]["kl"]) == pytest.approx(np.exp(0.1) - 1.1, rel=1e-3)


def test_the_last_value_is_that_of_the_next_rollouts_first_step(name):
    """With the weights unchanged; a value of an earlier step would be another."""
    greedy = {"start_e": 0.0, "end_e": 0.0} if name == "pqn_gru" else {}
    agent = AGENTS[name](Temptation(horizon=5), config_of(name, **greedy))
    run = Run("temptation", "temptation", "unconstrained", {}, 5, GAMMA, agent=name, config=agent.config)
    members, program = population.gather([run]), update.Program(agent, 32, 4, 32)
    state = jax.jit(partial(update.init, program))(members, update.initial_params(program, members, [5]))
    rollout = jax.jit(partial(update.rollout, program))
    state, first, _, last = rollout(members, state)
    _, second, _, _ = rollout(members, state)
    goes_on = ~np.asarray(first.done[-1])
    assert goes_on.any()
    np.testing.assert_allclose(np.asarray(last)[goes_on], np.asarray(second.value[0])[goes_on], rtol=1e-5, atol=1e-7)
    assert not np.allclose(last, first.value[0], rtol=1e-3)


def test_exploration_falls_and_evaluation_does_not_explore(name):
    if name != "pqn_gru":
        pytest.skip("samples its actions")
    agent = AGENTS[name](Temptation(), config_of(name, start_e=1.0, end_e=0.1, exploration_fraction=0.5))
    params = agent.init(1, 0)
    epsilon = [float(agent.policy(params, jnp.float32(done))[1]) for done in (0.0, 0.25, 0.5, 1.0)]
    np.testing.assert_allclose(epsilon, [1.0, 0.55, 0.1, 0.1], rtol=1e-5)
    assert float(agent.policy(params)[1]) == 0.0
    q = jnp.array([0.0, 1.0, 0.5])
    keys = jax.random.split(jax.random.key(0), 6000)
    actions = jax.vmap(lambda key: explore(key, q, jnp.float32(0.6)))(keys)
    np.testing.assert_allclose(np.bincount(actions, minlength=3) / 6000, [0.2, 0.6, 0.2], atol=0.02)


def small(name, **changes):
    config = config_of(name, **changes)
    return Run("temptation", "temptation", "esr", {"budget": 1}, 3, 1.0, config.steps_per_update * 4, agent=name,
               config=config)  # fmt: skip


def test_resuming_is_equal_to_the_bit(name, tmp_path):
    straight, resumed = straight_and_resumed(small(name), tmp_path)
    for one, other in zip(jax.tree.leaves(resumed.params), jax.tree.leaves(straight.params), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_exported_agent_is_evaluated_and_replayed(name, tmp_path):
    (folder,) = train([small(name)], TrainingOptions(tmp_path / "runs", chunk=4, log=lambda *_: None))
    sizes = {"num_envs": 16, "num_steps": 80, "log": lambda *_: None}
    table = evaluate([folder.path], tmp_path / "runs" / "episodes.parquet", **sizes)
    file = export(folder, table, tmp_path / "agent.safetensors")
    again = pd.read_parquet(evaluate([file.path], tmp_path / "exported.parquet", **sizes))
    assert len(again) == len(pd.read_parquet(table)) > 0
    for row in again.head(3).to_dict("records"):
        assert not differences(row, replay(row, Temptation()))
    stored = {key.partition(".")[0] for key in file.load()[1]}
    assert not stored & set(AGENTS[name].training_only)


def test_what_fits_follows_from_inputs_actions_and_device(name):
    if name != "ppo_gru":
        pytest.skip("one agent is enough")
    short, long = (
        type("Env", (Probe,), {"footprint": lambda self, n=n: Footprint(0, 0, features=n)}) for n in (3, 4000)
    )
    assert [fitting.agent_for(env, "gpu") for env in (short, long)] == ["ppo_mlp", "ppo_gru"]
    assert [fitting.agent_for(env, "cpu") for env in (short, long)] == ["ppo_mlp", "ppo_mlp"]
    assert [fitting.config_for(env, "gpu").hidden_size for env in (short, long)] == [64, 512]
    assert [fitting.config_for(env, "cpu").hidden_size for env in (short, long)] == [64, 128]
    assert algorithms.default_config(Temptation, "ppo_mlp") == Temptation.ppo
    assert algorithms.default_agent(Temptation) == "ppo_gru"
