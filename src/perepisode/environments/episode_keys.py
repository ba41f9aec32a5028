"""Keys of episodes without JAX: `reset_pool.episode_key` in NumPy, for reading and checking tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def episode_keys(reset_keys: ArrayLike, episode_ids: ArrayLike) -> np.ndarray:
    """uint32[..., 2]: the key of episode n of each reset key, which is `jax.random.fold_in(key, n)`."""
    keys, ids = np.asarray(reset_keys, np.uint32), np.asarray(episode_ids, np.uint32)
    first, second = np.broadcast_arrays(keys[..., 0], keys[..., 1])
    return np.stack(_threefry2x32(first, second, np.zeros_like(ids), ids), axis=-1)


def hexadecimal(keys: np.ndarray) -> list[str]:
    """Keys, uint32[row, 2], as an episodes table has them: 16 digits each."""
    return [bytes(row).hex() for row in keys.astype(">u4")]


def _threefry2x32(key0: np.ndarray, key1: np.ndarray, count0: np.ndarray, count1: np.ndarray) -> list[np.ndarray]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011)."""
    schedule = (key0, key1, key0 ^ key1 ^ _PARITY)
    words = [count0 + key0, count1 + key1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            words[0] = words[0] + words[1]
            words[1] = (words[1] << np.uint32(rotation) | words[1] >> np.uint32(32 - rotation)) ^ words[0]
        words[0] = words[0] + schedule[(group + 1) % 3]
        words[1] = words[1] + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return words
