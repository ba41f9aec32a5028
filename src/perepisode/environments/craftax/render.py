"""Frames drawn by Craftax's renderer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax import renderer
from craftax.craftax.constants import load_all_textures_given_size

from perepisode.environments.base import Region
from perepisode.environments.craftax import engine
from perepisode.environments.craftax.observation import VIEW

BLOCK = 16  # pixels per tile, the native size of Craftax's textures


def draw(game: Any) -> jax.Array:
    """uint8[row, column, 3], without Craftax's night noise, which hides the scene and compresses poorly."""
    state = engine.to_upstream(game) if isinstance(game, engine.State) else game
    return jnp.clip(jnp.round(_pixels()(state)), 0, 255).astype(jnp.uint8)


def region(game: Any, position: Any) -> Region | None:
    """The cell of the map at this row and column on the frame of `game`; None if it is outside of the view."""
    row, column = (int(here) for here in np.asarray(position) - np.asarray(game.player_position) + np.array(VIEW) // 2)
    if not (0 <= row < VIEW[0] and 0 <= column < VIEW[1]):
        return None
    return Region(column * BLOCK, row * BLOCK, BLOCK, BLOCK)


@cache
def _pixels() -> Callable[[Any], jax.Array]:
    with _textures_of_one_size(), jax.ensure_compile_time_eval():
        return renderer.make_craftax_pixel_renderer(BLOCK, do_night_noise=False)


@contextmanager
def _textures_of_one_size() -> Iterator[None]:
    """Load one texture size only: Craftax would load three and cache them in its installation folder."""
    original = renderer.load_all_textures
    renderer.load_all_textures = lambda: {BLOCK: load_all_textures_given_size(BLOCK)}
    try:
        yield
    finally:
        renderer.load_all_textures = original
