"""A world's own pictures of a replayed episode, packed so that a page can hold thousands of them."""

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

BATCH = 32  # pictures in one jitted call
MOST = 2000  # pictures of one episode, apart from those around violations
BEFORE, AFTER = 8, 4  # positions around a violation that are always shown
STRIP = 4  # pictures side by side in one image: neighbours share tiles; more of them would share fewer colours


@dataclass(frozen=True, eq=False)
class Frames:
    """Pictures of some positions, STRIP side by side in each image."""

    positions: list[int]
    width: int
    height: int
    strips: list[bytes]  # lossless WebP


def draw(replay: Replay, violating: Iterable[int]) -> Frames:
    """Pictures of the whole episode, or of every n-th position and those around the `violating` steps."""
    chosen = positions(replay.length, violating)
    pictures = _pictures(replay, chosen)
    strips, height, width = [], 0, 0
    while some := list(itertools.islice(pictures, STRIP)):
        height, width = some[0].shape[:2]
        strips.append(_strip(some))
    return Frames([int(p) for p in chosen], width, height, strips)


def positions(length: int, violating: Iterable[int]) -> np.ndarray:
    """The positions to be shown, rising; the first, the last and those around violations are always among them."""
    every = np.arange(length + 1)
    if length <= MOST:
        return every
    steps = np.asarray(list(violating), int)
    around = np.unique(steps[:, None] + np.arange(-BEFORE, AFTER + 1)) if len(steps) else steps
    stride = -(-len(every) // max(MOST - len(around), MOST // 4))
    chosen = np.union1d(every[::stride], [length])
    return np.union1d(chosen, around[(around >= 0) & (around <= length)]).astype(int)


def embedded(image: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(image).decode()


def _pictures(replay: Replay, chosen: np.ndarray) -> Iterator[np.ndarray]:
    render = _renderer(replay.env)
    for states in replay.states(chosen):
        count = jax.tree.leaves(states)[0].shape[0]
        for first in range(0, count, BATCH):
            part = np.minimum(np.arange(first, first + BATCH), count - 1)  # the last batch repeats its last world
            batch = jax.tree.map(lambda x, part=part: x[part], states)
            yield from np.asarray(render(batch))[: count - first]


@cache
def _renderer(env: Environment) -> Callable[[Any], jax.Array]:
    """Batch of worlds → pictures, uint8[batch, row, column, 3]."""
    return jax.jit(jax.vmap(env.draw))


def _strip(pictures: list[np.ndarray]) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    image = Image.fromarray(np.concatenate(pictures, axis=1))
    image.save(content, "WEBP", lossless=True, quality=75, method=1)
    return content.getvalue()
