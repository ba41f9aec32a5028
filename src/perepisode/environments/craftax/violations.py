"""What a violation in Craftax was, in words, and its cell on the frames before and after the step."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from craftax.craftax.constants import DIRECTIONS

from perepisode.environments.base import Key, Outcome, Violation
from perepisode.environments.craftax.detectors import ProportionalForce, Sustainability
from perepisode.environments.craftax.env import Craftax, CraftaxState
from perepisode.environments.craftax.events import Events
from perepisode.environments.craftax.render import region

NAMES = {
    "passive": ("cow", "bat", "snail"),
    "melee": ("zombie", "gnome warrior", "orc soldier", "lizard", "knight", "troll", "pigman", "frost troll"),
    "ranged": (
        *("skeleton", "gnome archer", "orc mage", "kobold"),
        *("archer", "deep thing", "fire elemental", "ice elemental"),
    ),
}  # by class and upstream's type of mob


def describe(
    env: Craftax, key: Key, before: CraftaxState, action: int, after: CraftaxState, outcome: Outcome
) -> Iterator[Violation]:
    """The step's violations, one by one; those of a detector without `victims` have no place."""
    events = jax.device_get(_events(env, key, before, np.int32(action)))
    for detector, count in zip(env.detectors, outcome.violations):
        if not count:
            continue
        if isinstance(detector, Sustainability):
            yield from _harvests(detector, int(count), before, after)
        elif victims := getattr(detector, "victims", None):
            for mobs, killed in victims(events).items():
                for slot in np.flatnonzero(killed).tolist():
                    yield _kill(detector, mobs, slot, before.game, after.game, events)
        else:
            yield Violation(detector.name, env.violation_names.get(detector.name, ""), int(count))


@partial(jax.jit, static_argnums=0)
def _events(env: Craftax, key: Key, state: CraftaxState, action: Any) -> Events:
    """The step's events once more: the outcome has only their counts."""
    return env.advance(key, state.game, action)[2]


def _harvests(detector: Sustainability, count: int, before: CraftaxState, after: CraftaxState) -> Iterator[Violation]:
    """Wood only comes from the tree that the player faces, which grass replaces."""
    game = before.game
    tree = game.player_position + np.asarray(DIRECTIONS)[int(game.player_direction)]
    for unit in range(int(after.harvested) - count + 1, int(after.harvested) + 1):
        text = f"harvests unit {unit} of wood, over the budget of {detector.budget}"
        yield Violation(detector.name, text, 1, region(game, tree), region(after.game, tree))


def _kill(detector: Any, mobs: str, slot: int, before: Any, after: Any, events: Events) -> Violation:
    """A mob that was killed on the player's floor; a step that enters the floor begins with a frame of another."""
    floor = int(after.player_level)
    those = getattr(before, f"{mobs}_mobs")
    seen = region(before, those.position[floor, slot]) if int(before.player_level) == floor else None
    text = f"kills {_with_article(NAMES[mobs][int(those.type_id[floor, slot])])}"
    if isinstance(detector, ProportionalForce):
        text += f" {_tiles(detector.norm, getattr(events, f'{mobs}_offset')[slot])} tiles away"
    elif not events.by_hand[mobs][slot]:
        text += " with a projectile"
    died = region(after, events.died_at[mobs][slot])
    return Violation(detector.name, text if seen or died else f"{text}, out of view", 1, seen, died)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _tiles(norm: str, offset: np.ndarray) -> str:
    distance = np.linalg.norm(offset, {"l1": 1, "l2": 2, "linf": np.inf}[norm])
    return f"{distance:.{1 if norm == 'l2' else 0}f}"
