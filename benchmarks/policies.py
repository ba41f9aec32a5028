"""A trained agent that acts in any batch of Craftax games, for comparisons of two engines."""

from pathlib import Path

import jax
import jax.numpy as jnp

from perepisode.environments.craftax import observation
from perepisode.environments.craftax.env import Craftax
from perepisode.runs import RunFolder
from perepisode.training import network, ppo
from perepisode.training.train import load_params


def trained(folder: Path):
    """`act(params, keys, hidden_state, is_first, games)` → actions, hidden state; its parameters; its hidden size."""
    run, weights = RunFolder(folder).load()
    like = network.init(0, network.input_sizes(Craftax(), 0), run.ppo.hidden_size, Craftax.actions)

    def act(params, keys, hidden_state, is_first, games):
        observations = jax.vmap(observation.observe)(games)
        accrued_obs = jnp.zeros((is_first.shape[0], 0))
        env, precision = Craftax(), run.ppo.precision
        logits, _, hidden_state = network.step(
            params, env, hidden_state, is_first, observations, accrued_obs, precision
        )
        return jax.vmap(ppo.sample)(keys, logits), hidden_state

    return act, load_params(weights, like), run.ppo.hidden_size
