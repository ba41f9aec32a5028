"""Effects of one Craftax step on mobs and wood, read between the phases of the step.

Phases of a step: A before `do_action` (after the floor change), B after it, C after `update_mobs` and before
`spawn_mobs`.  All slots belong to the player's floor in phase A; mobs on other floors cannot die.
"""

from __future__ import annotations

from perepisode.lazy import jax
from perepisode.pytree import pytree


@pytree
class Events:
    """The deaths of one step: `killed_*` is exact, `paper_*` is mask cleared and health <= 0 over the whole step.

    Only replays read `died_at` and `by_hand`; a compiled step without them does not compute them.
    """

    killed_passive: jax.Array  # bool[3]: melee (A & ~B) or projectile (B & ~C & health <= 0)
    killed_melee: jax.Array  # bool[3]
    killed_ranged: jax.Array  # bool[2]
    paper_passive: jax.Array  # bool[3]
    paper_melee: jax.Array  # bool[3]
    paper_ranged: jax.Array  # bool[2]
    melee_offset: jax.Array  # int32[3, 2]: mob position minus player position, both in phase A
    ranged_offset: jax.Array  # int32[2, 2]
    died_at: dict[str, jax.Array]  # by class, int32[slot, 2]: where a killed mob was when it died
    by_hand: dict[str, jax.Array]  # by class, bool[slot]: killed by the player's blow, not by a projectile
    despawned: jax.Array  # int32: mobs of all three classes gone with health > 0 (B & ~C)
    wood_harvested: jax.Array  # int32, max(0, change of wood): exact, wood only rises by harvesting
