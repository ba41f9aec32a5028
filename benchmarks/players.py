"""A trained agent as a player of any batch of Craftax games, for the comparisons of two engines."""

from pathlib import Path

import jax
import jax.numpy as jnp

from perepisode.environments.craftax import observation
from perepisode.environments.craftax.env import Craftax
from perepisode.runs import RunFolder
from perepisode.training import network, ppo
from perepisode.training.train import load_params


def trained(folder: Path):
    """act(params, keys, memory, starts, games) → actions and memory; its parameters; its memory's width."""
    run, weights = RunFolder(folder).load()
    like = network.init(0, network.input_sizes(Craftax(), 0), run.ppo.hidden_size, Craftax.actions)

    def act(params, keys, memory, starts, games):
        seen = jax.vmap(observation.observe)(games)
        none = jnp.zeros((starts.shape[0], 0))
        logits, _, memory = network.step(params, Craftax(), memory, starts, seen, none, run.ppo.precision)
        return jax.vmap(ppo.sample)(keys, logits), memory

    return act, load_params(weights, like), run.ppo.hidden_size
