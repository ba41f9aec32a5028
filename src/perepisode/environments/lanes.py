"""One environment computed as one of several equal ones.

A compiler may round floating-point numbers differently in a program for one environment than in a program for many:
it contracts a product and a sum into one instruction where it sees fit.  Chaotic dynamics amplify the last bit, so an
episode of one program is reproduced exactly by the other only if they round alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perepisode.lazy import jax, jnp

LANES = 8  # environments; on a CPU as many as one vector instruction computes


def in_lanes(function: Callable, lanes: int = LANES) -> Callable:
    """The function of one environment, computed for `lanes` equal ones if there are several."""
    if lanes == 1:
        return function

    def computed(*arguments: Any) -> Any:
        repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (lanes, *jnp.shape(x))), arguments)
        return jax.tree.map(lambda x: x[0], jax.vmap(function)(*jax.lax.optimization_barrier(repeated)))

    return computed
