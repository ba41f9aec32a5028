"""Pictures of Temptation: a gauge with what the offer would pay, above a bar with the time that has passed."""

from __future__ import annotations

from perepisode.lazy import jax, jnp

HEIGHT, WIDTH = 96, 160
PAPER, EMPTY, OFFER, TIME = (250, 250, 248), (226, 226, 222), (196, 62, 62), (74, 104, 150)
GAUGE, BAR = (10, 74, 60, 100), (82, 90, 10, 150)  # top, bottom, left, right in pixels


def draw(elapsed: jax.Array, present: jax.Array, gain: jax.Array) -> jax.Array:
    """uint8[HEIGHT, WIDTH, 3] from the share of the time that has passed and the share of the largest gain."""
    rows, columns = jnp.arange(HEIGHT)[:, None], jnp.arange(WIDTH)[None, :]

    def inside(top, bottom, left, right):
        return (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)

    top, bottom, left, right = GAUGE
    offer = inside(bottom - present * gain * (bottom - top), bottom, left, right)
    begin, end = BAR[2:]
    time = inside(*BAR[:3], begin + elapsed * (end - begin))
    picture = jnp.broadcast_to(jnp.array(PAPER), (HEIGHT, WIDTH, 3))
    for shape, colour in ((inside(*GAUGE) | inside(*BAR), EMPTY), (offer, OFFER), (time, TIME)):
        picture = jnp.where(shape[..., None], jnp.array(colour), picture)
    return picture.astype(jnp.uint8)
