"""A trained agent that acts in any batch of Craftax games, for comparisons of two engines."""

from pathlib import Path

import jax
import jax.numpy as jnp

from perepisode.environments.craftax import observation
from perepisode.runs import RunFolder
from perepisode.training.train import agent_of, load_params


def trained(folder: Path):
    """`act(params, keys, hidden_state, is_first, games)` → actions, hidden state; its parameters; its hidden size."""
    run, weights = RunFolder(folder).load()
    agent = agent_of(run)

    def act(params, keys, hidden_state, is_first, games):
        observations = jax.vmap(observation.observe)(games)
        accrued_obs = jnp.zeros((is_first.shape[0], 0))
        choice = agent.act(params, hidden_state, is_first, observations, accrued_obs, keys)
        return choice.action, choice.hidden_state

    return act, load_params(weights, agent.init(0, 0)), run.config.hidden_size
