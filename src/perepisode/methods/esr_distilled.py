"""ESR with a utility that was distilled from an ordering of episodes (Eq. 6; evaluation/distill.py fits it)."""

from __future__ import annotations

import json

import numpy as np

from perepisode.config import Refused
from perepisode.later import jax, jnp
from perepisode.methods import told
from perepisode.methods.esr import PerEpisode
from perepisode.methods.objective import Family, Pressure, method
from perepisode.pytree import pytree
from perepisode.settings import setting

POOL = ("unconstrained", "erm", "ser")  # whose episodes the paper's utilities are learned from


@pytree
class Distilled:
    """u_θ of Eq. 6: an MLP on standardised returns, shifted to u(0, 0) = 0 and scaled to game-return units."""

    mean: jax.Array  # float32[2]
    std: jax.Array  # float32[2]
    kernels: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    offset: jax.Array | float = 0.0
    scale: jax.Array | float = 1.0

    def __call__(self, r_ext, r_eth):
        return (self.raw(r_ext, r_eth) - self.offset) * self.scale

    def raw(self, r_ext, r_eth):
        """The network's own output, before shift and scale."""
        hidden = (jnp.stack(jnp.broadcast_arrays(r_ext, r_eth), axis=-1) - self.mean) / self.std
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1]):
            hidden = jnp.tanh(hidden @ kernel + bias)
        return (hidden @ self.kernels[-1] + self.biases[-1])[..., 0]


def to_json(utility: Distilled) -> dict:
    layers = [
        {"kernel": np.asarray(kernel).tolist(), "bias": np.asarray(bias).tolist()}
        for kernel, bias in zip(utility.kernels, utility.biases)
    ]
    return {
        "kind": "distilled",
        "inputs_mean": np.asarray(utility.mean).tolist(),
        "inputs_std": np.asarray(utility.std).tolist(),
        "layers": layers,
        "offset": float(utility.offset),
        "scale": float(utility.scale),
    }


def read(content: bytes) -> Distilled:
    """What `to_json` gave, as the content of a file; refused with a reason when it is something else."""
    try:
        plain = json.loads(content)
        return Distilled(
            jnp.asarray(plain["inputs_mean"], jnp.float32),
            jnp.asarray(plain["inputs_std"], jnp.float32),
            tuple(jnp.asarray(layer["kernel"], jnp.float32) for layer in plain["layers"]),
            tuple(jnp.asarray(layer["bias"], jnp.float32) for layer in plain["layers"]),
            plain["offset"],
            plain["scale"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"this is no distilled utility ({error}); make one with `perepisode distill`") from None


@method
class EsrDistilled(PerEpisode):
    """u = u_θ.  A run names its utility by the digest of its file."""

    utility: Distilled = setting(help="the file that `perepisode distill` wrote", file=read)
    told: str = told.setting("paper")

    name, label, colour, marker = "esr_distilled", "ESR distilled", "#5fae3c", "d"
    family, kin = Family.EPISODE, "esr"

    def u(self, r_ext, r_eth):
        return self.utility(r_ext, r_eth)

    def pressure(self, accrued, multiplier):
        return Pressure("Distilled utility so far", np.asarray(self.u(accrued.task_return, accrued.ethical_return)))
