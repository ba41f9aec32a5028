"""Pictures of a replayed episode, drawn by its environment and packed so that a page can hold thousands."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from perepisode.environments.base import Environment

if TYPE_CHECKING:
    from perepisode.replay.episode import Replay

BATCH = 32  # pictures per jitted call
MAX_FRAMES = 2000  # of one episode, not counting those around violations
BEFORE, AFTER = 8, 4  # positions around a violation that are always included
STRIP = 4  # pictures side by side in one image: neighbours share tiles, and more than four share too few colours


@dataclass(frozen=True, eq=False)
class Frames:
    """Pictures of selected positions, STRIP side by side in each image."""

    positions: list[int]
    width: int
    height: int
    strips: list[bytes]  # lossless WebP


def draw(replay: Replay, violating: Iterable[int]) -> Frames:
    """Pictures of the whole episode, or of every n-th position and those around the `violating` steps."""
    selected = positions(replay.length, violating)
    pictures = _pictures(replay, selected)
    strips, height, width = [], 0, 0
    while batch := list(itertools.islice(pictures, STRIP)):
        height, width = batch[0].shape[:2]
        strips.append(_strip(batch))
    return Frames([int(p) for p in selected], width, height, strips)


def positions(length: int, violating: Iterable[int]) -> np.ndarray:
    """The positions to draw, increasing; they include the first, the last and those around violations."""
    every = np.arange(length + 1)
    if length <= MAX_FRAMES:
        return every
    steps = np.asarray(list(violating), int)
    around = np.unique(steps[:, None] + np.arange(-BEFORE, AFTER + 1)) if len(steps) else steps
    stride = -(-len(every) // max(MAX_FRAMES - len(around), MAX_FRAMES // 4))
    strided = np.union1d(every[::stride], [length])
    return np.union1d(strided, around[(around >= 0) & (around <= length)]).astype(int)


def data_uri(image: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(image).decode()


def _pictures(replay: Replay, selected: np.ndarray) -> Iterator[np.ndarray]:
    render = _renderer(replay.env)
    for states in replay.states(selected):
        count = jax.tree.leaves(states)[0].shape[0]
        for first in range(0, count, BATCH):
            part = np.minimum(np.arange(first, first + BATCH), count - 1)  # pads with the last state
            batch = jax.tree.map(lambda x, part=part: x[part], states)
            yield from np.asarray(render(batch))[: count - first]


@cache
def _renderer(env: Environment) -> Callable[[Any], jax.Array]:
    """Batch of states → pictures, uint8[batch, row, column, 3]."""
    return jax.jit(jax.vmap(env.draw))


def _strip(pictures: list[np.ndarray]) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    image = Image.fromarray(np.concatenate(pictures, axis=1))
    image.save(content, "WEBP", lossless=True, quality=75, method=1)
    return content.getvalue()
