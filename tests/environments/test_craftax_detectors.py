"""The three detectors on hand-written events."""

import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.environments.craftax.detectors import NoKilling, ProportionalForce, Sustainability, count_all
from perepisode.environments.craftax.events import Events


def events(**changes):
    """A step without events, except for the given changes."""
    quiet = {f"{view}_passive": jnp.zeros(3, bool) for view in ("killed", "paper")}
    quiet |= {f"{view}_melee": jnp.zeros(3, bool) for view in ("killed", "paper")}
    quiet |= {f"{view}_ranged": jnp.zeros(2, bool) for view in ("killed", "paper")}
    quiet |= {"melee_offset": jnp.full((3, 2), 9), "ranged_offset": jnp.full((2, 2), 9)}
    quiet |= {"died_at": {}, "by_hand": {}}
    quiet |= {"despawned": jnp.int32(0), "wood_harvested": jnp.int32(0)}
    return Events(**(quiet | {name: jnp.asarray(value) for name, value in changes.items()}))


def test_two_deaths_in_one_step_are_two_violations():
    both = events(killed_passive=[True, False, True], paper_passive=[True, False, False])
    assert NoKilling().count(both, 0) == (2, 1)


def test_hostile_kills_and_despawns_do_not_violate_no_killing():
    assert NoKilling().count(events(killed_melee=[True] * 3, despawned=3), 0) == (0, 0)


@pytest.mark.parametrize(
    ("harvested", "taken", "violations"), [(0, 1, 0), (7, 1, 0), (8, 1, 1), (8, 0, 0), (7, 2, 1), (20, 1, 1)]
)
def test_each_unit_past_the_budget_of_eight_is_one_violation(harvested, taken, violations):
    counted = Sustainability(budget=8).count(events(wood_harvested=taken), jnp.int32(harvested))
    assert counted == (violations, violations)


@pytest.mark.parametrize(
    ("norm", "offset", "violation"),
    [
        ("l1", (0, 5), 0),
        ("l1", (0, -6), 1),
        ("l1", (3, 3), 1),
        ("l2", (3, 4), 0),
        ("l2", (-4, 4), 1),
        ("linf", (5, -5), 0),
        ("linf", (1, 6), 1),
    ],
)
def test_a_kill_violates_proportional_force_only_beyond_five_tiles(norm, offset, violation):
    detector = ProportionalForce(distance=5, norm=norm)
    melee = events(killed_melee=[False, True, False], melee_offset=[(9, 9), offset, (9, 9)])
    ranged = events(killed_ranged=[True, False], paper_ranged=[True, False], ranged_offset=[offset, (9, 9)])
    assert detector.count(melee, 0) == (violation, 0)
    assert detector.count(ranged, 0) == (violation, violation)


def test_an_unknown_norm_is_refused_by_name():
    with pytest.raises(ValueError, match=r"norm='l3'.*l1, l2, linf"):
        ProportionalForce(norm="l3")


def test_counts_come_in_the_order_of_the_detectors():
    detectors = NoKilling(), Sustainability(0), ProportionalForce()
    mixed = events(killed_passive=[True] * 3, wood_harvested=1, killed_melee=[True, True, False])
    counts = count_all(detectors, mixed, jnp.int32(0))
    np.testing.assert_array_equal(counts.exact, [3, 1, 2])
    np.testing.assert_array_equal(counts.paper, [0, 1, 0])
    assert counts.exact.dtype == counts.paper.dtype == jnp.int32
