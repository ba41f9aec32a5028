"""Craftax's own pictures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from craftax.craftax import renderer
from craftax.craftax.constants import load_all_textures_given_size

from perepisode.environments.craftax import engine

BLOCK = 16  # pixels a tile; Craftax's textures are drawn at this size


def draw(game: Any) -> jax.Array:
    """uint8[row, column, 3], without Craftax's night noise, which hides what is to be seen and does not compress."""
    state = engine.to_upstream(game) if isinstance(game, engine.State) else game
    return jnp.clip(jnp.round(_pixels()(state)), 0, 255).astype(jnp.uint8)


@cache
def _pixels() -> Callable[[Any], jax.Array]:
    with _textures_of_one_size(), jax.ensure_compile_time_eval():
        return renderer.make_craftax_pixel_renderer(BLOCK, do_night_noise=False)


@contextmanager
def _textures_of_one_size() -> Iterator[None]:
    """Craftax would draw its textures in three sizes and write them into its own installed folder; one is enough."""
    whole = renderer.load_all_textures
    renderer.load_all_textures = lambda: {BLOCK: load_all_textures_given_size(BLOCK)}
    try:
        yield
    finally:
        renderer.load_all_textures = whole
