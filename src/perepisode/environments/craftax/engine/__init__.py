"""Craftax's rules rewritten for accelerators: the same game bit for bit in a tenth of the time."""

from perepisode.environments.craftax.engine.draws import bulk_draws, upstream_draws
from perepisode.environments.craftax.engine.state import State, from_upstream, generate, lit_only, to_upstream
from perepisode.environments.craftax.engine.step import step

__all__ = ["State", "bulk_draws", "from_upstream", "generate", "lit_only", "step", "to_upstream", "upstream_draws"]
