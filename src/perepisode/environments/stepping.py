"""The step of an environment, as training, evaluation, wrappers and replays compute it.

A compiler contracts a product and a sum into one instruction, which rounds once instead of twice, where it sees fit:
within a step, and with the sum of rewards after it.  Two programs may choose differently.  Continuous dynamics amplify
the last bit, so an episode of one program would not be reproduced by the other.
"""

from __future__ import annotations

from typing import Any

from perepisode.environments.action_space import Box
from perepisode.environments.base import Environment, Key, Outcome, State
from perepisode.lazy import jax, jnp


def step(env: Environment, key: Key, state: State, action: Any) -> tuple[State, Outcome]:
    """`env.step` of one environment.  With continuous actions on a CPU it is compiled apart from its surroundings, so
    that every program rounds alike."""
    if not isinstance(env.actions, Box) or jax.default_backend() != "cpu":
        return env.step(key, state, action)

    def skip(key, state, action):
        outcome = jax.eval_shape(env.step, key, state, action)[1]
        return state, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), outcome)

    # a second branch, never taken, keeps XLA from fusing the first into its surroundings
    which = jax.lax.optimization_barrier(jnp.int8(0))
    return jax.lax.switch(which, (env.step, skip), key, state, action)
