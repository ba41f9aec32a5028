"""ESR (expected scalarised returns) with a utility distilled from ordered episodes by evaluation/distill.py (Eq. 6)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from perepisode import safe_io
from perepisode.config import ConfigError
from perepisode.lazy import jax, namespace
from perepisode.methods import accrued_obs
from perepisode.methods.esr import PerEpisode
from perepisode.methods.objective import ConstraintType, PenaltyTrace, register_method
from perepisode.pytree import pytree
from perepisode.settings import setting

REMEDY = "create one with `perepisode distill`"
LARGEST_NUMBER = 1e30
POOL = ("unconstrained", "erm", "ser")  # methods whose episodes the paper learns its utilities from


@pytree
class Distilled:
    """u_θ of Eq. 6: an MLP on standardised returns, shifted to u(0, 0) = 0 and scaled to game-return units."""

    mean: jax.Array | np.ndarray  # float32[2]
    std: jax.Array | np.ndarray  # float32[2]
    kernels: tuple[jax.Array | np.ndarray, ...]
    biases: tuple[jax.Array | np.ndarray, ...]
    offset: jax.Array | float = 0.0
    scale: jax.Array | float = 1.0

    def __call__(self, r_ext, r_eth):
        return (self.raw(r_ext, r_eth) - self.offset) * self.scale

    def raw(self, r_ext, r_eth):
        """The network's output before shift and scale."""
        xp = namespace(r_ext, r_eth, self.mean, *self.kernels)
        hidden = (xp.stack(xp.broadcast_arrays(r_ext, r_eth), axis=-1) - self.mean) / self.std
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1]):
            hidden = xp.tanh(hidden @ kernel + bias)
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
    """Parse a utility file as written by `to_json`; ConfigError gives the reason if it is not one."""
    return from_json(safe_io.parse_json(content, "the utility", REMEDY), "the utility")


def from_json(plain: dict, where: str) -> Distilled:
    """The inverse of `to_json`; `where` names the source in error messages."""
    mean, std, layers, offset, scale = parts(plain, where)
    kernels, biases = (tuple(np.asarray(x, np.float32) for x in some) for some in zip(*layers))
    return Distilled(np.asarray(mean, np.float32), np.asarray(std, np.float32), kernels, biases, offset, scale)


def parts(plain: dict, where: str) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]], float, float]:
    """Mean and std of the inputs, (kernel, bias) of every layer, offset and scale; all finite, with matching shapes."""
    try:
        mean, std = (np.asarray(plain[name], np.float64) for name in ("inputs_mean", "inputs_std"))
        layers = [(np.asarray(x["kernel"], np.float64), np.asarray(x["bias"], np.float64)) for x in plain["layers"]]
        offset, scale = float(plain["offset"]), float(plain["scale"])
    except KeyError as error:
        raise ConfigError(f"{where} is not a distilled utility: it has no {error}; {REMEDY}") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where} is not a distilled utility ({safe_io.first_line(error)}); {REMEDY}") from None
    sizes = [2, *(len(bias) if bias.ndim == 1 else -1 for _, bias in layers)]
    fits = all(kernel.shape == size for (kernel, _), size in zip(layers, pairwise(sizes)))
    if mean.shape != (2,) or std.shape != (2,) or not layers or sizes[-1] != 1 or not fits:
        raise ConfigError(f"{where} is not a distilled utility: the shapes of its layers do not match; {REMEDY}")
    numbers = [mean, std, np.array([offset, scale]), *(x for layer in layers for x in layer)]
    if not all((np.abs(x) < LARGEST_NUMBER).all() for x in numbers) or not (std > 0).all():
        raise ConfigError(f"{where} is not a distilled utility: some of its numbers are out of range; {REMEDY}")
    return mean, std, layers, offset, scale


@register_method
class EsrDistilled(PerEpisode):
    """u = u_θ.  A run identifies its utility by the digest of the file."""

    utility: Distilled = setting(help="a utility file written by `perepisode distill`", file=read)
    accrued_obs: str = accrued_obs.setting("paper")

    name, label, colour, marker = "esr_distilled", "ESR distilled", "#69bf4f", "d"
    constraint, variant_of = ConstraintType.EPISODE, "esr"
    explanation = "ESR (expected scalarised returns) with a utility learned from ranked episodes."

    def u(self, r_ext, r_eth):
        return self.utility(r_ext, r_eth)

    def penalty_trace(self, accrued, multiplier):
        return PenaltyTrace("Distilled utility so far", np.asarray(self.u(accrued.task_return, accrued.ethical_return)))
