"""Craftax's own pictures of a replayed episode, packed so that a page can hold thousands of them."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from perepisode.replay.episode import Replay

BLOCK = 16  # pixels a tile; Craftax's textures are drawn at this size
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
    render = _renderer()
    for states in replay.states(chosen):
        games = states.game
        count = jax.tree.leaves(games)[0].shape[0]
        for first in range(0, count, BATCH):
            part = np.minimum(np.arange(first, first + BATCH), count - 1)  # the last batch repeats its last world
            batch = jax.tree.map(lambda x, part=part: x[part], games)
            yield from np.asarray(render(batch))[: count - first]


@cache
def _renderer() -> Callable[[Any], jax.Array]:
    """Batch of games → pictures, uint8[batch, row, column, 3].

    Without Craftax's night noise, which hides what is to be seen here and does not compress.
    """
    from craftax.craftax import renderer

    from perepisode.environments.craftax import engine

    with _textures_of_one_size(renderer):
        pixels = renderer.make_craftax_pixel_renderer(BLOCK, do_night_noise=False)

    def one(game):
        state = engine.to_upstream(game) if isinstance(game, engine.State) else game
        return jnp.clip(jnp.round(pixels(state)), 0, 255).astype(jnp.uint8)

    return jax.jit(jax.vmap(one))


@contextmanager
def _textures_of_one_size(renderer: Any) -> Iterator[None]:
    """Craftax would draw its textures in three sizes and write them into its own installed folder; one is enough."""
    from craftax.craftax.constants import load_all_textures_given_size

    whole = renderer.load_all_textures
    renderer.load_all_textures = lambda: {BLOCK: load_all_textures_given_size(BLOCK)}
    try:
        yield
    finally:
        renderer.load_all_textures = whole


def _strip(pictures: list[np.ndarray]) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    image = Image.fromarray(np.concatenate(pictures, axis=1))
    image.save(content, "WEBP", lossless=True, quality=75, method=1)
    return content.getvalue()
