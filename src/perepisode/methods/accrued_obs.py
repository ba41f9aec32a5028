"""Accrued observations: ν(R_acc), network inputs that describe what the episode has accrued so far.

An embedding weight starts at about √2/√n with n inputs: 0.016 on Craftax, where about 150 inputs are one at a time.
A violation moves the paper's ν by 0.2, which hardly reaches the network until those weights have grown: ESR (expected
scalarised returns) with k = 1 starts to use its budget only between 1.1 and 3 × 10⁸ steps.  Scaled by √n / 3, which is
30 on Craftax and 1 on temptation, a violation moves every unit of the embedding by about a half from the start.  In a
search over two seeds this taught ESR its budget within 10⁸ steps; a scale three times larger made it overly cautious,
one three times smaller slowed learning (results/search/README.md; on temptation: benchmarks/accrued_obs.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perepisode import settings
from perepisode.lazy import jax, jnp

if TYPE_CHECKING:
    from perepisode.methods.objective import Accrued

STEPS = 5  # thermometer code of the violations: one input each for v ≥ 1, …, v ≥ STEPS


def paper(accrued: Accrued, env_inputs: int) -> jax.Array:
    """ν = [R_ext / 50, v / 5], clipped to ±5: Eq. 7.  `env_inputs` is the size of the environment's observation."""
    return jnp.clip(jnp.stack([accrued.task_return / 50.0, accrued.violations / 5.0], axis=-1), -5.0, 5.0)


def scaled(accrued: Accrued, env_inputs: int) -> jax.Array:
    """ν = [R_ext / 50, g v / 5, g 1(v ≥ 1), …, g 1(v ≥ 5)], g = √n / 3 with n inputs in total; clipped first."""
    task_return, violations = jnp.split(paper(accrued, env_inputs), 2, axis=-1)
    reached = accrued.violations[..., None] >= jnp.arange(1, STEPS + 1)
    scale = math.sqrt(env_inputs + 2 + STEPS) / 3.0
    return jnp.concatenate([task_return, scale * violations, scale * reached], axis=-1)


ACCRUED_OBS: dict[str, Callable[[Accrued, int], jax.Array]] = {"paper": paper, "scaled": scaled}


def setting(default: str) -> Any:
    """The `accrued_obs` setting of a method; `default` may name an observation that the method defines itself."""
    choices = tuple(dict.fromkeys((*ACCRUED_OBS, default)))
    return settings.setting(
        default, "observation of accrued return and violations", choices=choices, omit_default_from_id=True
    )
