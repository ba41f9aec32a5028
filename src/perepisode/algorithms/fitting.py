"""An agent that fits an environment which declares none: by its inputs, its actions and this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import Any

from perepisode import settings
from perepisode.config import PPOConfig
from perepisode.environments import action_space, check_env
from perepisode.environments.base import Environment

FEED_FORWARD_INPUTS = 512  # up to this many inputs, PPO-MLP learns several times faster than PPO-GRU
WIDTHS = {"cpu": (64, 128), "gpu": (64, 512)}  # smallest and largest hidden size


def agent_for(env: type[Environment], device: str) -> str:
    """Feed-forward for short observations, and on a CPU, where a recurrent network is slow; else the paper's."""
    return "ppo_mlp" if device == "cpu" or inputs(env) <= FEED_FORWARD_INPUTS else "ppo_gru"


def config_for(env: type[Environment], device: str) -> PPOConfig:
    """PPO whose hidden size is the power of two above twice the inputs and actions, within the device's bounds."""
    smallest, largest = WIDTHS[device]
    wide = 1 << (2 * (inputs(env) + action_space.outputs(env.actions)) - 1).bit_length()
    hidden_size = min(max(wide, smallest), largest)
    learning_rate = 2e-4 if hidden_size == 512 else 1e-3
    sizes: dict[str, Any] = {"hidden_size": hidden_size, "learning_rate": learning_rate, "gae_lambda": 0.95}
    if device == "cpu":
        sizes |= {"num_envs": 64, "num_minibatches": 4, "precision": "fp32"}
    return PPOConfig(**sizes)


@cache
def inputs(env: type[Environment]) -> int:
    """The number of the environment's network inputs with its default settings; 0 if a setting has no default."""
    if any(declared.required for declared in settings.of(env).values()):
        return 0
    return check_env.check(env()).footprint().features


def describe(env: type[Environment]) -> str:
    """What an agent is fitted to."""
    return f"{inputs(env)} inputs and {action_space.name(env.actions)} on a {device()}"


@cache
def device() -> str:
    """gpu or cpu, from the driver's own tool: JAX would take memory from the processes that train."""
    return "gpu" if gpu_memories() else "cpu"


def gpu_memories() -> list[int]:
    """Bytes of every GPU that JAX may use."""
    if os.environ.get("JAX_PLATFORMS", "").split(",")[0] == "cpu" or not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        return [int(float(line)) * 2**20 for line in answer.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
