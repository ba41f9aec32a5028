"""ESR with a utility that was distilled from an ordering of episodes (Eq. 6; evaluation/distill.py fits it)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def load(path: Path) -> Distilled:
    """A utility that was distilled; plain JSON, refused with a reason when it is not one."""
    try:
        return from_json(json.loads(Path(path).read_text()), str(path))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is no distilled utility ({error}); make one with `perepisode distill`") from None


def from_json(plain: dict, where: str) -> Distilled:
    """What `to_json` wrote; `where` it was found."""
    try:
        return Distilled(
            jnp.asarray(plain["inputs_mean"], jnp.float32),
            jnp.asarray(plain["inputs_std"], jnp.float32),
            tuple(jnp.asarray(layer["kernel"], jnp.float32) for layer in plain["layers"]),
            tuple(jnp.asarray(layer["bias"], jnp.float32) for layer in plain["layers"]),
            plain["offset"],
            plain["scale"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{where} is no distilled utility ({error}); make one with `perepisode distill`") from None


def named_by(settings: Mapping[str, Any], stored: dict | None, where: object) -> dict[str, Distilled]:
    """The utility that a run's settings name, by that name, from the plain values stored with the run."""
    label = settings.get("utility")
    return {} if label is None or stored is None else {label: from_json(stored, f"the utility of {where}")}


@method
class EsrDistilled(PerEpisode):
    """u = u_θ.  A run names its utility by the digest of its file."""

    utility: Distilled = setting(help="the file that `perepisode distill` wrote", file=load)
    told: str = told.setting("paper")

    name, label, colour, marker = "esr_distilled", "ESR distilled", "#5fae3c", "d"
    family, kin = Family.EPISODE, "esr"

    def __post_init__(self):
        if isinstance(self.utility, str):
            raise Refused(f"the distilled utility {self.utility!r} is not known here; give its file with --utility")

    def u(self, r_ext, r_eth):
        return self.utility(r_ext, r_eth)

    def pressure(self, accrued, multiplier):
        return Pressure("Distilled utility so far", np.asarray(self.u(accrued.task_return, accrued.ethical_return)))
