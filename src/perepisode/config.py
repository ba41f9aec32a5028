"""What a run is, as plain values: no device, no file, no array.  A run's id is the hash of these values."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from perepisode.environments import WORLDS

PAPER_SEEDS = (42, 123, 7)
ETHICAL_PENALTY = 10.0  # ρ: one violation is R_eth = -ρ


class Refused(ValueError):
    """Wrong input, said in one line with the value and the remedy."""


@dataclass(frozen=True)
class Learner:
    """PPO and network sizes; the defaults are the paper's table."""

    envs: int = 1024
    """Worlds stepped side by side by each run."""
    rollout: int = 64
    """Steps taken in every world between two policy updates."""
    epochs: int = 4
    """Passes over the rollout in one policy update."""
    minibatches: int = 8
    """Parts each pass is cut into, by world."""
    learning_rate: float = 2e-4
    """Adam's step size at the start."""
    anneal: bool = True
    """Let the learning rate fall linearly to zero."""
    gae_lambda: float = 0.8
    """λ of generalised advantage estimation."""
    clip: float = 0.2
    """PPO's clip range, for the policy and for the value."""
    entropy: float = 0.01
    """Weight of the entropy bonus."""
    value: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 1.0
    """Global norm to which a gradient is cut."""
    hidden: int = 512
    """Width of the embedding, the GRU and the heads."""
    precision: str = "bf16"
    """Matrix products in `bf16` or `fp32`; parameters and sums are always fp32."""
    bootstrap: bool = False
    """Add γ times the value of the state in which a timeout cut an episode to its last reward.  Off, as in the paper,
    a timeout is an end like death."""

    def __post_init__(self):
        if self.precision not in ("bf16", "fp32"):
            raise Refused(f"precision={self.precision!r} is unknown; use bf16 or fp32")
        for name in ("envs", "rollout", "epochs", "minibatches", "hidden"):
            if getattr(self, name) < 1:
                raise Refused(f"{name}={getattr(self, name)} must be at least 1")
        if self.envs % self.minibatches:
            raise Refused(
                f"envs={self.envs} does not divide into minibatches={self.minibatches}; "
                f"use a multiple of {self.minibatches}"
            )
        for name in ("learning_rate", "clip", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise Refused(f"{name}={getattr(self, name)} must be above 0")
        if not 0 <= self.gae_lambda <= 1:
            raise Refused(f"gae_lambda={self.gae_lambda} must lie in [0, 1]")

    @property
    def steps_per_update(self) -> int:
        return self.envs * self.rollout


MINIATURE = Learner(
    envs=64,
    rollout=40,
    minibatches=4,
    learning_rate=8e-3,
    gae_lambda=0.95,
    entropy=0.1,
    hidden=16,
    precision="fp32",
)
"""For `temptation` on a laptop.  Small; λ near 1 because episodes are short; a large step size for a sharp edge at the
budget.  And a strong entropy bonus: a high price soon teaches "never", and only an agent that still tries learns
"only if it pays"; it costs little precision, because what is at stake in a choice is large against it.  Chosen on
SER(0.408) and ESR(k=1), six seeds each, the study's three among them; now and then a seed of SER + R_acc at 0.408
still stays at "never"."""


@dataclass(frozen=True)
class Protocol:
    """How agents are judged: `envs` worlds, a window of `steps`, the `first` episodes of each world."""

    envs: int = 64
    steps: int = 4096
    first: int = 12
    seed: int = 0

    def checked(self) -> Protocol:
        for name in ("envs", "steps", "first"):
            if getattr(self, name) < 1:
                raise Refused(f"{name}={getattr(self, name)} must be at least 1")
        return self


@dataclass(frozen=True)
class Run:
    """One agent to be trained: everything that decides its result, and nothing else."""

    env: str = "craftax"
    dilemma: str = "no_killing"
    method: str = "unconstrained"
    settings: Mapping[str, Any] = field(default_factory=dict)  # the method's own numbers, e.g. {"budget": 1}
    seed: int = 42
    gamma: float = 0.99
    steps: int = 1_000_000_000
    detector: str = "exact"  # which count the objective is charged with: exact, or the paper's state difference
    penalty: str = "step"  # charge a step once, as the paper does, or by its exact `count`
    world: Mapping[str, Any] = field(default_factory=dict)  # the world's own options
    learner: Learner = field(default_factory=Learner)

    @property
    def id(self) -> str:
        """Twelve hex digits of the canonical configuration's hash: the same on every machine."""
        return hashlib.sha256(canonical(self.to_json()).encode()).hexdigest()[:12]

    @property
    def arm(self) -> str:
        """Label within the method, as in the paper: `w=0.1`, `d=0.5`, `k=1`, `absolute`."""
        from perepisode.training.objectives import METHODS

        return METHODS[self.method].label(self.settings)

    @property
    def value(self) -> float:
        """The number the method is swept over, NaN where it has none."""
        from perepisode.training.objectives import METHODS

        return METHODS[self.method].swept_value(self.settings)

    @property
    def updates(self) -> int:
        return self.steps // self.learner.steps_per_update

    def to_json(self) -> dict[str, Any]:
        """Plain values with every default written out, so that a changed default is a changed run."""
        plain = asdict(replace(self, settings=dict(self.settings), world=dict(self.world)))
        from perepisode.training.objectives import METHODS

        plain["settings"] = METHODS[self.method].complete(self.settings)
        plain["world"] = {**WORLDS[self.env].options, **self.world}
        if not self.learner.bootstrap:  # younger than the first runs, whose ids must stay
            del plain["learner"]["bootstrap"]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Run:
        known = {f.name for f in fields(cls)}
        extra = set(plain) - known - {"id", "arm"}
        if extra:
            raise Refused(f"run has unknown entries {sorted(extra)}; this version knows {sorted(known)}")
        values = {k: v for k, v in plain.items() if k in known}
        return cls(**{**values, "learner": Learner(**values["learner"])})

    def checked(self) -> Run:
        """This run, or Refused with the value and the remedy."""
        from perepisode.training.objectives import METHODS

        _one_of("env", self.env, WORLDS)
        _one_of("dilemma", self.dilemma, WORLDS[self.env].dilemmas)
        _one_of("method", self.method, METHODS)
        _one_of("detector", self.detector, ("exact", "paper"))
        _one_of("penalty", self.penalty, ("step", "count"))
        METHODS[self.method].check(self.settings)
        unknown = set(self.world) - set(WORLDS[self.env].options)
        if unknown:
            raise Refused(
                f"{self.env} has no option {sorted(unknown)[0]!r}; it has {', '.join(WORLDS[self.env].options)}"
            )
        if not 0 < self.gamma <= 1:
            raise Refused(f"gamma={self.gamma} must lie in (0, 1]")
        if self.steps < self.learner.steps_per_update:
            raise Refused(
                f"steps={self.steps} is less than one rollout of {self.learner.envs} worlds x "
                f"{self.learner.rollout} steps; use at least {self.learner.steps_per_update}"
            )
        return self


def canonical(plain: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, 1.0 written as 1."""
    return json.dumps(_plain_numbers(plain), sort_keys=True, separators=(",", ":"))


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain_numbers(v) for k, v in value.items()}
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def _one_of(what: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise Refused(f"{what} {value!r} is unknown; choose from {', '.join(known)}")
