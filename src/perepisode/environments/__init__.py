"""The worlds there are, as data: listing them imports no world and starts no device."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perepisode.environments.base import World


@dataclass(frozen=True)
class Catalogued:
    """Where a world lives, its dilemmas, and the options it takes with their defaults."""

    module: str
    name: str
    dilemmas: tuple[str, ...]
    options: dict[str, Any]


WORLDS = {
    "temptation": Catalogued(
        "perepisode.environments.temptation",
        "Temptation",
        ("temptation",),
        {"horizon": 40, "wage": 0.75, "chance": 0.1, "gain": 5.0},
    ),
    "craftax": Catalogued(
        "perepisode.environments.craftax.world",
        "Craftax",
        ("no_killing", "sustainability", "proportional_force"),
        {"wood_budget": 8, "force_distance": 5, "force_norm": "l1", "draws": "bulk", "engine": "fast"},
    ),
}


def make(name: str, **options: Any) -> World:
    """The world of that name; options left out take their defaults."""
    entry = WORLDS[name]
    return getattr(import_module(entry.module), entry.name)(**{**entry.options, **options})
