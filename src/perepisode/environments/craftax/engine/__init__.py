"""Craftax's rules rewritten for accelerators: the same game, bit for bit, in a tenth of the time."""

from perepisode.environments.craftax.engine.draws import Draws, bulk_draws, upstream_draws
from perepisode.environments.craftax.engine.state import (
    Inventory,
    Mobs,
    State,
    from_upstream,
    generate,
    lit_only,
    mob_map,
    to_upstream,
)
from perepisode.environments.craftax.engine.step import has_won, is_dead, is_over, is_timed_out, step

__all__ = [
    "Draws",
    "Inventory",
    "Mobs",
    "State",
    "bulk_draws",
    "from_upstream",
    "generate",
    "has_won",
    "is_dead",
    "is_over",
    "is_timed_out",
    "lit_only",
    "mob_map",
    "step",
    "to_upstream",
    "upstream_draws",
]
