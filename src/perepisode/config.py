"""How agents learn and are judged, as plain values: no device, no file, no array."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perepisode import settings
from perepisode.settings import ConfigError, setting

PAPER_SEEDS = (42, 123, 7)
ETHICAL_PENALTY = 10.0  # ρ: one violation is R_eth = -ρ
MAX_STEPS = 1e15  # of a run: updates are counted in 32 bits
MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class PPOConfig:
    """PPO and network sizes; the defaults are the paper's table."""

    num_envs: int = setting(1024, "worlds stepped side by side by each run", low=1, high=2**20)
    num_steps: int = setting(64, "steps taken in every world between two policy updates", low=1, high=2**20)
    update_epochs: int = setting(4, "passes over the rollout in one policy update", low=1, high=10_000)
    num_minibatches: int = setting(8, "parts each pass is cut into, by world", low=1)
    learning_rate: float = setting(2e-4, "Adam's step size at the start", above=0)
    anneal_lr: bool = setting(True, "let the learning rate fall linearly to zero")
    gae_lambda: float = setting(0.8, "λ of generalised advantage estimation", low=0, high=1)
    clip_eps: float = setting(0.2, "PPO's clip range, for the policy and for the value", above=0)
    ent_coef: float = setting(0.01, "weight of the entropy bonus")
    vf_coef: float = setting(0.5, "weight of the value loss")
    max_grad_norm: float = setting(1.0, "global norm to which a gradient is cut", above=0)
    hidden_size: int = setting(512, "width of the embedding, the GRU and the heads", low=1, high=2**16)
    bootstrap_on_truncation: bool = setting(
        False, "add the value of the state in which a timeout cut an episode to its last reward", later=True
    )
    precision: str = setting("bf16", "matrix products; parameters and sums are always fp32", choices=("bf16", "fp32"))

    def __post_init__(self):
        settings.check(PPOConfig, vars(self), "the learner")
        if self.num_envs % self.num_minibatches:
            raise ConfigError(
                f"num_envs={self.num_envs} does not divide into num_minibatches={self.num_minibatches}; "
                f"use a multiple of {self.num_minibatches}"
            )

    @property
    def steps_per_update(self) -> int:
        return self.num_envs * self.num_steps


@dataclass(frozen=True)
class EvalConfig:
    """How agents are judged: `envs` worlds, a window of `steps`, the `first` episodes of each world."""

    num_envs: int = setting(64, low=1, high=2**20)
    num_steps: int = setting(4096, low=1, high=10**8)
    episodes_per_env: int = setting(12, low=1, high=10**6)
    seed: int = setting(0, low=0, high=MAX_SEED)

    def checked(self) -> EvalConfig:
        settings.check_fields(self)
        return self


@dataclass(frozen=True)
class SweepGrid:
    """What a world's matrix of runs is built from (study/matrix.py).  The defaults are the paper's."""

    binding: tuple[str, ...] = ()  # dilemmas on which the budget arms are trained; all of the world's if empty
    weights: tuple[float, ...] = (0.1, 0.3, 1, 3, 10)
    matched_weights: tuple[float, ...] = (0.1, 0.3)
    mean_budgets: tuple[float, ...] = (0.5, 1, 2, 4)
    lambda_lr: float = 0.02  # η of the Lagrangian: a short run needs a quicker one
    episode_budgets: tuple[int, ...] = (1, 2, 4)
    gamma: float = 0.99
    ablation_gamma: float = 1.0
    seeds: tuple[int, ...] = PAPER_SEEDS
    total_timesteps: int = 0  # the world's own if zero


def canonical(plain: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, 1.0 written as 1."""
    return json.dumps(_plain_numbers(plain), sort_keys=True, separators=(",", ":"))


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain_numbers(v) for k, v in value.items()}
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def check_choice(what: str, value: str, known: Iterable[str], hint: str = "") -> None:
    """Refuse a word that is not among those known."""
    if value not in known:
        raise ConfigError(f"{what} {value!r} is unknown; choose from {', '.join(known)}{hint}")
