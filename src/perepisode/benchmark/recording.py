"""The environments of a protocol for agents of other libraries, with a recorder around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perepisode.benchmark.protocol import find
from perepisode.interop.gymnasium import NEXT_STEP, VectorEnv
from perepisode.interop.recorder import record as record_episodes


def record(
    protocol: str,
    path: str | Path,
    *,
    method: str,
    seed: int,
    total_timesteps: float,
    trained_on: str,
    autoreset_mode: Any = NEXT_STEP,
    **columns: Any,
) -> Any:
    """The environments of a protocol as a Gymnasium vector that records its table at `path` when it is closed.

    Reset it once, with `seed=protocol.seed`, and step it while it is not `complete`.  `seed` and `total_timesteps` are
    those of the agent's training, `trained_on` is the id of the protocol whose environment, settings and dilemma it was
    trained with; further columns, such as `arm` and `gamma`, are as in `perepisode.interop.recorder.record`.
    """
    fixed = find(protocol)
    envs = VectorEnv(
        fixed.env,
        fixed.num_envs,
        fixed.dilemma,
        autoreset_mode=autoreset_mode,
        max_episode_steps=fixed.max_episode_steps,
        **fixed.env_settings,
    )
    own = {"total_timesteps": total_timesteps, "trained_on": trained_on, **columns}
    return record_episodes(envs, path, method=method, seed=seed, episodes_per_env=fixed.episodes_per_env, **own)
