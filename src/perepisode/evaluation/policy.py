"""A trained policy for a single environment, to use in your own loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from perepisode.algorithms import LearningAgent
from perepisode.algorithms.network import env_input_sizes
from perepisode.config import EvalConfig
from perepisode.environments.base import Environment, Key, Outcome, State
from perepisode.evaluation.rollout import Agent, assemble
from perepisode.methods import Accrued, Objective
from perepisode.pytree import pytree
from perepisode.runs import Run
from perepisode.training.population import CostSpec
from perepisode.zoo import AgentSource


@pytree
class Carry:
    """What an agent carries through an episode."""

    hidden_state: Any  # of the agent, [1, ...]
    is_first: jax.Array  # bool[1]: the next observation is the episode's first
    accrued: Accrued  # return and cost so far, as in training


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained agent and the environment it was trained in."""

    run: Run
    agent: LearningAgent
    objective: Objective
    cost_spec: CostSpec
    params: Any  # as the agent's `act` reads them

    @classmethod
    def of(cls, source: AgentSource) -> Policy:
        agent = Agent.of(source)
        program, members, params = assemble([agent], EvalConfig(num_envs=1))
        objective, cost_spec, params = jax.tree.map(lambda x: x[0], (members.objectives[0], members.cost_spec, params))
        return cls(agent.run, program.agent, objective, cost_spec, program.agent.policy(params))

    @property
    def env(self) -> Environment:
        return self.agent.env

    def initial_carry(self) -> Carry:
        """The carry before the first step of an episode."""
        return Carry(self.agent.init_hidden_state(1), jnp.ones(1, bool), Accrued.zeros())

    def act(self, carry: Carry, state: State, key: Key) -> tuple[jax.Array, Carry]:
        """Sample an action → action, carry."""
        return _act(self.agent, self.objective, self.params, carry, state, key)

    def update(self, carry: Carry, outcome: Outcome) -> Carry:
        """The carry after a step: adds its task reward and cost to what some agents observe, ESR's among them."""
        return replace(carry, accrued=carry.accrued.add(outcome.task_reward, self.cost_spec(outcome)))


@partial(jax.jit, static_argnums=0)
def _act(agent: LearningAgent, objective, policy, carry: Carry, state, key):
    features = objective.features(carry.accrued, sum(env_input_sizes(agent.env)))
    observation, features = jax.tree.map(lambda x: x[None], (agent.env.observe(state), features))
    choice = agent.act(policy, carry.hidden_state, carry.is_first, observation, features, key[None])
    return choice.action[0], replace(carry, hidden_state=choice.hidden_state, is_first=jnp.zeros(1, bool))
