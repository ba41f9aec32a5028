"""One agent, one episode: the trained policy for whoever brings the loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from perepisode.config import Protocol
from perepisode.environments.base import Key, Outcome, State, World
from perepisode.evaluation.rollout import Agent, assemble
from perepisode.methods import Accrued, Objective
from perepisode.pytree import pytree
from perepisode.runs import Run
from perepisode.trained import Trained
from perepisode.training import network, ppo
from perepisode.training.population import Charging


@pytree
class Mind:
    """What an agent carries through an episode."""

    memory: jax.Array  # float32[1, hidden]
    starts: jax.Array  # bool[1]: nothing seen yet
    accrued: Accrued  # as it was charged in training


@dataclass(frozen=True, eq=False)
class Player:
    """A trained agent and the world it was trained in."""

    run: Run
    world: World
    objective: Objective
    charging: Charging
    params: network.Params

    @classmethod
    def of(cls, trained: Trained) -> Player:
        agent = Agent.of(trained)
        program, members, params = assemble([agent], Protocol(envs=1))
        own = jax.tree.map(lambda x: x[0], (members.objectives[0], members.charging, params))
        return cls(agent.run, program.world, *own)

    def begin(self) -> Mind:
        """Before the first step of an episode."""
        return Mind(jnp.zeros((1, self.run.learner.hidden)), jnp.ones(1, bool), Accrued.nothing())

    def act(self, mind: Mind, state: State, key: Key) -> tuple[jax.Array, Mind]:
        """An action drawn from the policy, and the mind after it."""
        return _act(self.world, self.run.learner.precision, self.objective, self.params, mind, state, key)

    def after(self, mind: Mind, outcome: Outcome) -> Mind:
        """The mind once the step's outcome is known: ESR's agents, among others, are told what they have accrued."""
        return Mind(mind.memory, mind.starts, mind.accrued.plus(outcome.task_reward, self.charging(outcome)))


@partial(jax.jit, static_argnums=(0, 1))
def _act(world, precision, objective, params, mind: Mind, state, key):
    told = objective.features(mind.accrued, sum(network.shown_sizes(world)))
    observation, told = jax.tree.map(lambda x: x[None], (world.observe(state), told))
    logits, _, memory = network.step(params, world, mind.memory, mind.starts, observation, told, precision)
    return ppo.sample(key, logits[0]), Mind(memory, jnp.zeros(1, bool), mind.accrued)
