"""One agent, one episode: the trained policy for whoever brings the loop."""

from __future__ import annotations

from dataclasses import dataclass
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
    is_first: jax.Array  # bool[1]: nothing seen yet
    accrued: Accrued  # as it was charged in training


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained agent and the world it was trained in."""

    run: Run
    env: Environment
    objective: Objective
    cost_spec: CostSpec
    params: network.Params

    @classmethod
    def of(cls, trained: AgentSource) -> Policy:
        agent = Agent.of(trained)
        program, members, params = assemble([agent], EvalConfig(num_envs=1))
        own = jax.tree.map(lambda x: x[0], (members.objectives[0], members.cost_spec, params))
        return cls(agent.run, program.env, *own)

    def initial_carry(self) -> Carry:
        """Before the first step of an episode."""
        return Carry(jnp.zeros((1, self.run.ppo.hidden_size)), jnp.ones(1, bool), Accrued.zeros())

    def act(self, carry: Carry, state: State, key: Key) -> tuple[jax.Array, Carry]:
        """An action drawn from the policy, and the mind after it."""
        return _act(self.env, self.run.ppo.precision, self.objective, self.params, carry, state, key)

    def update(self, carry: Carry, outcome: Outcome) -> Carry:
        """The mind once the step's outcome is known: ESR's agents, among others, are told what they have accrued."""
        return Carry(
            carry.hidden_state, carry.is_first, carry.accrued.add(outcome.task_reward, self.cost_spec(outcome))
        )


@partial(jax.jit, static_argnums=(0, 1))
def _act(env, precision, objective, params, carry: Carry, state, key):
    told = objective.features(carry.accrued, sum(network.env_input_sizes(env)))
    observation, told = jax.tree.map(lambda x: x[None], (env.observe(state), told))
    logits, _, hidden_state = network.step(
        params, env, carry.hidden_state, carry.is_first, observation, told, precision
    )
    return ppo.sample(key, logits[0]), Carry(hidden_state, jnp.zeros(1, bool), carry.accrued)
