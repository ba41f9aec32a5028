"""What replays say of Craftax's violations and where they mark them, against upstream's names and pictures."""

from pathlib import Path
from types import SimpleNamespace

import craftax.craftax
import jax
import numpy as np
import pytest
from craftax.craftax import constants
from craftax.craftax.constants import Achievement, Action, BlockType
from PIL import Image

from perepisode import environments
from perepisode.environments.base import Outcome, Region
from perepisode.environments.craftax import violations
from perepisode.environments.craftax.env import Craftax, CraftaxState
from perepisode.evaluation import episodes
from perepisode.replay.episode import differences, replay

RESULTS = Path(__file__).parents[2] / "results"
ASSETS = Path(craftax.craftax.__file__).parent / "assets"
TILE, ROWS, COLUMNS = 16, 9, 11  # of upstream's picture at its native size
SLOTS = {"passive": 3, "melee": 3, "ranged": 2}
DILEMMAS = ("no_killing", "sustainability", "proportional_force")


def test_names_are_those_of_upstreams_achievements():
    """An achievement is called EAT_COW or DEFEAT_ZOMBIE; upstream misspells one."""
    for row, mobs in enumerate(("passive", "melee", "ranged")):
        achieved = [Achievement(int(value)).name for value in constants.MOB_ACHIEVEMENT_MAP[row]]
        known = [name.partition("_")[2].lower().replace("_", " ").replace("solider", "soldier") for name in achieved]
        assert violations.NAMES[mobs] == tuple(known[: len(violations.NAMES[mobs])])
        types_of_floors = np.asarray(constants.FLOOR_MOB_MAPPING)[:, row]
        assert types_of_floors.max() < len(violations.NAMES[mobs])


# By hand: a scene with these mobs, one of which is killed


def game(player=(20, 20), floor=0, facing=Action.UP, **mobs):
    """A Craftax state with nothing but a player and mobs, given by class as {slot: (type, row and column)}."""
    state = SimpleNamespace(player_position=np.array(player), player_level=floor, player_direction=facing.value)
    for name, slots in SLOTS.items():
        types, positions = np.zeros((9, slots), int), np.zeros((9, slots, 2), int)
        for slot, (kind, position) in mobs.get(name, {}).items():
            types[:, slot], positions[:, slot] = kind, (40, 40)  # on other floors, elsewhere
            positions[floor, slot] = position
        setattr(state, f"{name}_mobs", SimpleNamespace(type_id=types, position=positions))
    return state


def told(monkeypatch, before, after, *, killed=(), counts=(1, 0, 0), harvested=0, **options):
    """The texts and regions of a step in which these mobs die: class, slot, where, by hand, and offset before it."""
    events = {f"killed_{name}": np.zeros(slots, bool) for name, slots in SLOTS.items()}
    events |= {f"{name}_offset": np.zeros((slots, 2), int) for name, slots in SLOTS.items()}
    events["died_at"] = {name: np.full((slots, 2), 47) for name, slots in SLOTS.items()}
    events["by_hand"] = {name: np.zeros(slots, bool) for name, slots in SLOTS.items()}
    for name, slot, where, by_hand, offset in killed:
        events[f"killed_{name}"][slot], events[f"{name}_offset"][slot] = True, offset
        events["died_at"][name][slot], events["by_hand"][name][slot] = where, by_hand
    monkeypatch.setattr(violations, "_events", lambda *_: SimpleNamespace(**events))
    env = environments.make("craftax", **options)
    outcome = Outcome(0.0, np.array(counts), np.array(counts), {}, 0)
    states = CraftaxState(before, harvested - counts[1]), CraftaxState(after, harvested)
    return list(env.describe_violations(None, states[0], 0, states[1], outcome))


def cell(row, column):
    """The region of a cell, counted from the upper left corner of the view; the player is at (4, 5)."""
    return Region(column * TILE, row * TILE, TILE, TILE)


@pytest.mark.parametrize(("kind", "name"), list(enumerate(("a cow", "a bat", "a snail"))))
def test_a_blow(monkeypatch, kind, name):
    """The player stays; another creature of another type, in the first slot, lives."""
    mobs = {"passive": {0: ((kind + 1) % 3, (20, 21)), 1: (kind, (19, 20))}}
    scene = game(**mobs)
    (one,) = told(monkeypatch, scene, scene, killed=[("passive", 1, (19, 20), True, (-1, 0))])
    assert one == ("no_killing", f"kills {name}", 1, cell(3, 5), cell(3, 5))


def test_a_projectile_hits_a_creature_that_moved_while_the_player_moved(monkeypatch):
    """The slot already holds a new creature, far away: the place is where the old one died."""
    before = game(player=(20, 20), passive={2: (2, (17, 20))})
    after = game(player=(20, 19), passive={2: (0, (23, 23))})
    (one,) = told(monkeypatch, before, after, killed=[("passive", 2, (18, 20), False, (-3, 0))])
    assert one == ("no_killing", "kills a snail with a projectile", 1, cell(1, 5), cell(2, 6))


def test_two_at_once(monkeypatch):
    scene = game(passive={0: (0, (19, 20)), 2: (2, (20, 18))})
    killed = [("passive", 0, (19, 20), True, (-1, 0)), ("passive", 2, (20, 18), False, (0, -2))]
    both = told(monkeypatch, scene, scene, killed=killed, counts=(2, 0, 0))
    assert [one.text for one in both] == ["kills a cow", "kills a snail with a projectile"]
    assert [one.before for one in both] == [cell(3, 5), cell(4, 3)]


@pytest.mark.parametrize(
    ("offset", "norm", "seen", "text"),
    [
        ((-4, 2), "l1", True, "6 tiles away"),
        ((-4, -5), "l2", True, "6.4 tiles away"),
        ((-3, 6), "linf", False, "6 tiles away, out of view"),
        ((5, 1), "l1", False, "6 tiles away, out of view"),
    ],
)
def test_force_says_how_far_in_the_norm_of_the_detector(monkeypatch, offset, norm, seen, text):
    """Only distant deaths count: a zombie beside the player dies too."""
    place = (20 + offset[0], 20 + offset[1])
    scene = game(ranged={1: (7, place)}, melee={0: (0, (20, 21))})
    killed = [("ranged", 1, place, False, offset), ("melee", 0, (20, 21), True, (0, 1))]
    (one,) = told(monkeypatch, scene, scene, killed=killed, counts=(0, 0, 1), force_norm=norm)
    where = cell(4 + offset[0], 5 + offset[1]) if seen else None
    assert one == ("proportional_force", f"kills an ice elemental {text}", 1, where, where)


def test_a_mob_on_another_floor_is_not_marked_before_the_step(monkeypatch):
    before, after = (game(floor=floor, passive={0: (1, (18, 20))}) for floor in (1, 2))
    before.passive_mobs = after.passive_mobs
    (one,) = told(monkeypatch, before, after, killed=[("passive", 0, (18, 20), False, (-2, 0))])
    assert one == ("no_killing", "kills a bat with a projectile", 1, None, cell(2, 5))


def test_a_detector_from_outside_is_shown_by_its_victims_or_else_by_the_name_of_its_violations(monkeypatch):
    class NoFighting:
        name = "no_fighting"

        def victims(self, events):
            return {"melee": events.killed_melee, "ranged": events.killed_ranged}

    class Unseen:
        name = "unseen"

    scene = game(melee={2: (4, (22, 20))})
    monkeypatch.setattr(Craftax, "detectors", (NoFighting(), Unseen()))
    monkeypatch.setattr(Craftax, "violation_names", {"unseen": "things unseen"})
    shown = told(monkeypatch, scene, scene, killed=[("melee", 2, (22, 20), True, (2, 0))], counts=(1, 3))
    assert shown == [
        ("no_fighting", "kills a knight", 1, cell(6, 5), cell(6, 5)),
        ("unseen", "things unseen", 3, None, None),
    ]


@pytest.mark.parametrize(
    ("facing", "place"),
    [(Action.LEFT, cell(4, 4)), (Action.RIGHT, cell(4, 6)), (Action.UP, cell(3, 5)), (Action.DOWN, cell(5, 5))],
)
def test_wood_is_of_the_tree_that_the_player_faces(monkeypatch, facing, place):
    scene = game(facing=facing)
    (one,) = told(monkeypatch, scene, scene, counts=(0, 1, 0), harvested=4, wood_budget=3)
    assert one == ("sustainability", "harvests unit 4 of wood, over the budget of 3", 1, place, place)


# Recorded episodes, against the pictures of upstream's creatures and blocks


def texture(name: str) -> np.ndarray:
    return np.asarray(Image.open(ASSETS / f"{name}.png").convert("RGBA").resize((TILE, TILE), Image.Resampling.NEAREST))


CREATURES = {
    name: texture({"archer": "knight_archer"}.get(name, name.replace(" ", "_")))
    for name in sum(violations.NAMES.values(), ())
}
BLOCKS = {block.name.lower(): texture(block.name.lower()) for block in (BlockType.TREE, BlockType.GRASS)}


def likeness(frame: np.ndarray, region: Region, picture: np.ndarray) -> float:
    """Correlation with the opaque pixels of the picture, which daylight does not change much."""
    inside = frame[region.top : region.top + TILE, region.left : region.left + TILE]
    opaque = picture[..., 3] > 250
    shown = inside[opaque].astype(float).ravel()
    return float(np.corrcoef(shown, picture[..., :3][opaque].ravel())[0, 1]) if shown.std() else 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "row", "expected"),
    [
        # two orc mages, of whom one walks into view as it dies; wood, snails
        (
            "craftax/episodes/lists_1_2-train-01.parquet",
            1139,
            {"no_killing": 2, "sustainability": 5, "proportional_force": 2},
        ),
        # another creature took the slot of the first snail within the step
        ("craftax/episodes/lists_1_2-train-01.parquet", 12070, {"no_killing": 2}),
        ("craftax/episodes/lists_1_2-train-01.parquet", 23, {"no_killing": 3}),
        # a snail walks into an arrow while the player walks, then another is struck
        ("paper_length/episodes64/seed123.parquet", 1126, {"no_killing": 2}),
    ],
)
def test_recorded_violations_against_the_pictures(table, row, expected):
    """The named creature or tree is in the marked cell before the step, in no neighbouring one, and gone after it."""
    recorded = episodes.read(RESULTS / table).loc[row].to_dict()
    env = environments.make("craftax")
    draw = jax.jit(env.draw)
    found = replay(recorded, env)
    assert differences(recorded, found) == []
    described = found.described()
    total = dict.fromkeys(DILEMMAS, 0)
    for step, those in described.items():
        before, after = (np.asarray(draw(one)) for one in found._each_state(np.array([step - 1, step])))
        for one in those:
            total[one.dilemma] += one.count
            if one.dilemma == "sustainability":
                assert likeness(before, one.before, BLOCKS["tree"]) > 0.7 > likeness(after, one.after, BLOCKS["tree"])
                assert likeness(after, one.after, BLOCKS["grass"]) > 0.7
                continue
            (name,) = [name for name in CREATURES if f" {name}" in one.text]
            assert (one.before or one.after) or "out of view" in one.text
            if one.before:
                alike = {other: likeness(before, one.before, picture) for other, picture in CREATURES.items()}
                assert max(alike, key=alike.__getitem__) == name, alike
                assert alike[name] > 0.9
            if one.after:
                assert likeness(after, one.after, CREATURES[name]) < 0.9
    assert {name: count for name, count in total.items() if count} == expected
    for index, name in enumerate(DILEMMAS):
        assert total[name] == recorded[f"violations_{name}"] == found.violations[:, index].sum()
