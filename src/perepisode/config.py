"""Training, evaluation and sweep configuration as plain values: no device, no file, no array."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from perepisode import settings
from perepisode.settings import ConfigError, setting

PAPER_SEEDS = (42, 123, 7)
ETHICAL_PENALTY = 10.0  # ρ: one violation is R_eth = -ρ
MAX_STEPS = 1e15  # environment steps of a run: updates are counted in 32 bits
MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class PPOConfig:
    """Hyperparameters of PPO (proximal policy optimisation); the defaults are the paper's table."""

    section: ClassVar[str] = "ppo"  # in run.json and before settings, as in `ppo.ent_coef`

    num_envs: int = setting(1024, "number of parallel environments", low=1, high=2**20)
    num_steps: int = setting(64, "number of steps per environment in each rollout", low=1, high=2**20)
    update_epochs: int = setting(4, "number of epochs per policy update", low=1, high=10_000)
    num_minibatches: int = setting(8, "number of minibatches per epoch, split by environment", low=1)
    learning_rate: float = setting(2e-4, "initial learning rate of the Adam optimizer", above=0)
    anneal_lr: bool = setting(True, "anneal the learning rate linearly to zero")
    gae_lambda: float = setting(0.8, "λ of generalised advantage estimation (GAE)", low=0, high=1)
    clip_eps: float = setting(0.2, "clipping coefficient of the surrogate objective and of the value loss", above=0)
    ent_coef: float = setting(0.01, "coefficient of the entropy bonus")
    vf_coef: float = setting(0.5, "coefficient of the value loss")
    max_grad_norm: float = setting(1.0, "maximum norm for gradient clipping", above=0)
    hidden_size: int = setting(512, "width of the embedding, the GRU and the heads", low=1, high=2**16)
    bootstrap_on_truncation: bool = setting(
        False, "bootstrap the value where a timeout truncates an episode", omit_default_from_id=True
    )
    precision: str = setting("bf16", "precision of matrix products; all else is fp32", choices=("bf16", "fp32"))

    def __post_init__(self):
        settings.check(PPOConfig, vars(self), "PPO")
        check_minibatches(self)

    @property
    def steps_per_update(self) -> int:
        return self.num_envs * self.num_steps


def check_minibatches(config: Any) -> None:
    """Raise ConfigError unless the environments divide into the minibatches."""
    if config.num_envs % config.num_minibatches:
        raise ConfigError(
            f"num_envs={config.num_envs} does not divide into num_minibatches={config.num_minibatches}; "
            f"use a multiple of {config.num_minibatches}"
        )


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation in `num_envs` parallel environments, for two protocols.

    One counts the episodes that end within `num_steps`, the other the first `episodes_per_env` of every environment.
    """

    num_envs: int = setting(64, low=1, high=2**20)
    num_steps: int = setting(4096, low=1, high=10**8)
    episodes_per_env: int = setting(12, low=1, high=10**6)
    seed: int = setting(0, low=0, high=MAX_SEED)

    def checked(self) -> EvalConfig:
        settings.check_fields(self)
        return self


@dataclass(frozen=True)
class SweepGrid:
    """The grid from which an environment's matrix of runs is built (study/matrix.py).  The defaults are the paper's."""

    binding: tuple[str, ...] = ()  # dilemmas on which the budget arms train; all of the environment's if empty
    weights: tuple[float, ...] = (0.1, 0.3, 1, 3, 10)
    matched_weights: tuple[float, ...] = (0.1, 0.3)
    mean_budgets: tuple[float, ...] = (0.5, 1, 2, 4)
    lambda_lr: float = 0.02  # η of the Lagrangian; short runs need a larger one
    episode_budgets: tuple[int, ...] = (1, 2, 4)
    gamma: float = 0.99
    ablation_gamma: float = 1.0
    seeds: tuple[int, ...] = PAPER_SEEDS
    total_timesteps: int = 0  # the environment's default if zero


def canonical(plain: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, 1.0 written as 1."""
    return json.dumps(_plain_numbers(plain), sort_keys=True, separators=(",", ":"))


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain_numbers(v) for k, v in value.items()}
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def check_choice(what: str, value: str, known: Iterable[str], hint: str = "") -> None:
    """Raise ConfigError unless `value` is among the known names."""
    if value not in known:
        raise ConfigError(f"{what} {value!r} is unknown; choose from {', '.join(known)}{hint}")
