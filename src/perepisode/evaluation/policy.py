"""A trained policy for a single environment, to use in your own loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp

from perepisode.config import EvalConfig
from perepisode.environments.base import Environment, Key, Outcome, State
from perepisode.evaluation.rollout import Agent, assemble
from perepisode.methods import Accrued, Objective
from perepisode.pytree import pytree
from perepisode.runs import Run
from perepisode.training import network, ppo
from perepisode.training.population import CostSpec
from perepisode.zoo import AgentSource


@pytree
class Carry:
    """What an agent carries through an episode."""

    hidden_state: jax.Array  # float32[1, hidden]
    is_first: jax.Array  # bool[1]: the next observation is the episode's first
    accrued: Accrued  # return and cost so far, as in training


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained agent and the environment it was trained in."""

    run: Run
    env: Environment
    objective: Objective
    cost_spec: CostSpec
    params: network.Params

    @classmethod
    def of(cls, source: AgentSource) -> Policy:
        agent = Agent.of(source)
        program, members, params = assemble([agent], EvalConfig(num_envs=1))
        objective, cost_spec, params = jax.tree.map(lambda x: x[0], (members.objectives[0], members.cost_spec, params))
        return cls(agent.run, program.env, objective, cost_spec, params)

    def initial_carry(self) -> Carry:
        """The carry before the first step of an episode."""
        return Carry(jnp.zeros((1, self.run.ppo.hidden_size)), jnp.ones(1, bool), Accrued.zeros())

    def act(self, carry: Carry, state: State, key: Key) -> tuple[jax.Array, Carry]:
        """Sample an action → action, carry."""
        return _act(self.env, self.run.ppo.precision, self.objective, self.params, carry, state, key)

    def update(self, carry: Carry, outcome: Outcome) -> Carry:
        """The carry after a step: adds its task reward and cost to what some agents observe, ESR's among them."""
        return replace(carry, accrued=carry.accrued.add(outcome.task_reward, self.cost_spec(outcome)))


@partial(jax.jit, static_argnums=(0, 1))
def _act(env, precision, objective, params, carry: Carry, state, key):
    features = objective.features(carry.accrued, sum(network.env_input_sizes(env)))
    observation, features = jax.tree.map(lambda x: x[None], (env.observe(state), features))
    logits, _, hidden_state = network.step(
        params, env, carry.hidden_state, carry.is_first, observation, features, precision
    )
    return ppo.sample(key, logits[0]), replace(carry, hidden_state=hidden_state, is_first=jnp.zeros(1, bool))
