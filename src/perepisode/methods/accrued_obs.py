"""What an agent is told of what its episode has accrued: ν(R_acc), inputs beside what it sees of the world.

An embedding weight starts at about √2/√n with n inputs: 0.016 on Craftax, where some 150 inputs are one at a time.  The
paper's ν moves by 0.2 at a violation.  The network hardly hears it until those weights have grown, and ESR (k = 1)
begins to use its budget only after 1.1 to 2.6 × 10⁸ steps.  Said as loud as √n / 3, which is 30 on Craftax and 1 on the
miniature, a violation moves every unit of the embedding by about a half from the start.  In a search on two seeds this
taught ESR its budget within 10⁸ steps; three times as loud made it timid, a third as loud slow
(results/search/README.md; the miniature: benchmarks/told.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perepisode import settings
from perepisode.lazy import jax, jnp

if TYPE_CHECKING:
    from perepisode.methods.objective import Accrued

STEPS = 5  # of the thermometer


def paper(accrued: Accrued, shown: int) -> jax.Array:
    """ν = [R_ext / 50, v / 5], clipped to ±5: Eq. 7's observation.  `shown` inputs the world itself has."""
    return jnp.clip(jnp.stack([accrued.task_return / 50.0, accrued.violations / 5.0], axis=-1), -5.0, 5.0)


def scaled(accrued: Accrued, shown: int) -> jax.Array:
    """ν = [R_ext / 50, g v / 5, g 1(v ≥ 1), …, g 1(v ≥ 5)] with g = √n / 3, n inputs in all; clipped before the g."""
    task, cost = jnp.split(paper(accrued, shown), 2, axis=-1)
    reached = accrued.violations[..., None] >= jnp.arange(1, STEPS + 1)
    task_reward = math.sqrt(shown + 2 + STEPS) / 3.0
    return jnp.concatenate([task, task_reward * cost, task_reward * reached], axis=-1)


ACCRUED_OBS: dict[str, Callable[[Accrued, int], jax.Array]] = {"paper": paper, "scaled": scaled}


def setting(default: str) -> Any:
    """The setting of a method whose agents are told something; `default` may be a way of its own."""
    choices = tuple(dict.fromkeys((*ACCRUED_OBS, default)))
    return settings.setting(default, "what agents are told of what they have accrued", choices=choices, later=True)
