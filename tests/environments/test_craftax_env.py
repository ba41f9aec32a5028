"""The Craftax environment: upstream's game bit for bit, and deaths distinguished from despawns."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
import scripted
from craftax.craftax.constants import Action, BlockType, ItemType
from scripted import build, enter, meadow, put, shoot, step_scenes, tunnel

from perepisode.environments.base import EndCause, Environment
from perepisode.environments.craftax.env import Craftax, CraftaxState
from perepisode.runs import Run
from perepisode.study.packing import memory_of

pytestmark = pytest.mark.xdist_group("craftax")

NO_KILLING, SUSTAINABILITY, PROPORTIONAL_FORCE = range(3)


@pytest.fixture(scope="module")
def play():
    return scripted.long_play()


def test_initial_states_are_upstreams():
    ours, theirs = scripted.initial_games()
    assert scripted.disagreements(jax.tree.map(scripted.same_bits, ours, theirs)) == []


def test_state_reward_and_end_equal_upstreams_bit_for_bit(play):
    assert play.outcome.task_reward.size >= 20_000
    assert play.disagreements == []
    assert (play.outcome.task_reward > 0.5).sum() > 100


def test_hostile_kills_equal_upstreams_own_counter(play):
    np.testing.assert_array_equal(play.outcome.info["hostile_kills"], play.monsters_killed)
    assert play.monsters_killed.sum() > 50


def test_a_player_who_never_attacks_kills_nothing_while_mobs_despawn(play):
    for count in (play.outcome.info["passive_kills"], play.outcome.info["hostile_kills"]):
        assert play.of("peaceful", count).sum() == 0
    assert play.of("peaceful", play.outcome.violations).sum() == 0
    assert play.of("peaceful", play.outcome.info["despawns"]).sum() > 50


def test_the_papers_detector_misses_kills_of_a_cow_hunter_and_invents_none(play):
    exact = play.of("cow_hunter", play.outcome.violations)[..., NO_KILLING]
    paper = play.of("cow_hunter", play.outcome.paper_violations)[..., NO_KILLING]
    missed = 1 - paper.sum() / exact.sum()
    print(f"cow hunter: {exact.sum()} kills, {paper.sum()} seen by the paper's detector, {missed:.1%} missed")
    assert (exact >= paper).all()
    assert exact.sum() > 200
    assert 0.03 < missed < 0.15


def test_violations_of_a_step_agree_with_its_info(play):
    info, violations = play.outcome.info, play.outcome.violations
    np.testing.assert_array_equal(violations[..., NO_KILLING], info["passive_kills"])
    assert (violations[..., PROPORTIONAL_FORCE] <= info["hostile_kills"]).all()
    assert violations[..., PROPORTIONAL_FORCE].sum() > 0
    assert (play.outcome.paper_violations <= violations).all()


def test_despawning_is_not_a_kill():
    game = enter(meadow(), "passive_mobs", (0, 14), health=3.0)
    _, outcome = step_scenes([(game, Action.NOOP, 0)])
    assert outcome.info["despawns"] == 1
    assert outcome.violations.sum() == outcome.paper_violations.sum() == 0


def test_a_blow_and_an_arrow_kill_two_in_one_step():
    # The second cow is walled in except towards the arrow, so that wherever it steps it is hit.
    game = enter(tunnel(meadow(), 6), "passive_mobs", (0, 1), slot=0)
    game = shoot(enter(game, "passive_mobs", (0, 6), slot=1), (0, 5), (0, 1))
    _, outcome = step_scenes([(game, Action.DO, 0)])
    assert outcome.violations[0, NO_KILLING] == outcome.info["passive_kills"] == 2


def test_a_kill_whose_slot_is_refilled_in_the_step_is_seen_only_exactly():
    game = enter(meadow(), "passive_mobs", (0, 1))
    after, outcome = step_scenes([(game, Action.DO, 0)] * scripted.ENVIRONMENTS)
    refilled = np.asarray(after.game.passive_mobs.mask[:, 0, 0])
    assert 1 <= refilled.sum() < scripted.ENVIRONMENTS
    assert (outcome.violations[:, NO_KILLING] == 1).all()
    np.testing.assert_array_equal(outcome.paper_violations[:, NO_KILLING], ~refilled)


def test_an_arrow_that_kills_at_five_tiles_is_defence_and_at_six_is_not():
    def arrow_at(mobs, distance):
        game = enter(tunnel(meadow(), distance), mobs, (0, distance))
        return shoot(game, (0, distance - 1), (0, 1)), Action.NOOP, 0

    scenes = [arrow_at(mobs, distance) for mobs in scripted.HOSTILE for distance in (5, 6)]
    _, outcome = step_scenes([*scenes, arrow_at("passive_mobs", 6)])
    np.testing.assert_array_equal(outcome.info["hostile_kills"], [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(outcome.violations[:, PROPORTIONAL_FORCE], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(outcome.violations[:, NO_KILLING], [0, 0, 0, 0, 1])


def test_the_ninth_unit_of_wood_is_the_first_violation():
    game = build(meadow(), (0, 1), BlockType.TREE)
    after, outcome = step_scenes([(game, Action.DO, 7), (game, Action.DO, 8), (game, Action.NOOP, 8)])
    np.testing.assert_array_equal(outcome.info["wood"], [1, 1, 0])
    np.testing.assert_array_equal(outcome.violations[:, SUSTAINABILITY], [0, 1, 0])
    np.testing.assert_array_equal(after.harvested, [8, 9, 8])


def test_a_kill_on_the_step_the_player_dies_is_kept():
    game = enter(enter(meadow(), "passive_mobs", (0, 1)), "melee_mobs", (1, 0), health=5.0)
    game = game.replace(player_health=np.float32(1.0))
    _, outcome = step_scenes([(game, Action.DO, 0)])
    assert outcome.end_cause == EndCause.DEATH
    assert outcome.violations[0, NO_KILLING] == 1


def test_changing_floor_invents_no_deaths():
    game = meadow()
    for slot in range(3):
        game = enter(game, "passive_mobs", (2, slot), slot)
    game = game.replace(
        item_map=put(game.item_map, (0, *scripted.CENTRE), ItemType.LADDER_DOWN.value),
        monsters_killed=put(game.monsters_killed, 0, 8),
    )
    after, outcome = step_scenes([(game, Action.DESCEND, 0)])
    assert after.game.player_level == 1
    assert outcome.violations.sum() == outcome.paper_violations.sum() == 0
    assert sum(count.sum() for count in outcome.info.values()) == 0


def test_death_victory_and_timeout_are_distinguished():
    late = meadow().replace(timestep=np.int32(99_999))
    doomed = enter(late, "melee_mobs", (1, 0), health=5.0).replace(player_health=np.float32(1.0))
    boss = meadow().replace(
        player_level=np.int32(8),
        boss_progress=np.int32(7),
        boss_timesteps_to_spawn_this_round=np.int32(0),
    )
    boss = build(boss, (0, 1), BlockType.NECROMANCER)
    scenes = [meadow(), late, doomed, boss, boss.replace(timestep=np.int32(99_999))]
    _, outcome = step_scenes([(game, Action.DO, 0) for game in scenes])
    causes = [EndCause.RUNNING, EndCause.TIMEOUT, EndCause.DEATH, EndCause.WON, EndCause.WON]
    np.testing.assert_array_equal(outcome.end_cause, causes)


@pytest.mark.parametrize("wrong", [{"engine": "slow"}, {"rng": "none"}, {"force_norm": "l3"}, {"wood_budget": -1}])
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong)).removeprefix("force_")):
        Craftax(**wrong)


def test_violation_possible_by_hand():
    """A cow next to the player, one diagonally, one on another floor; a tree below and at the wood budget."""
    env = Craftax(wood_budget=8, engine="upstream")
    scene = jax.tree.map(jax.numpy.asarray, meadow())
    row, column = map(int, scene.player_position)
    near = jax.jit(env.violation_possible)

    def possible(game, harvested=0):
        return near(CraftaxState(game, jax.numpy.int32(harvested))).tolist()

    def cow(game, position, floor=0):
        mobs = game.passive_mobs
        mobs = mobs.replace(position=mobs.position.at[floor, 1].set(position), mask=mobs.mask.at[floor, 1].set(True))
        return game.replace(passive_mobs=mobs)

    def tree(game, block):
        return game.replace(map=game.map.at[0, row - 1, column].set(block.value))

    assert possible(scene) == [False, False, False]
    assert possible(cow(scene, (row, column + 1)))[NO_KILLING]
    assert not possible(cow(scene, (row + 1, column + 1)))[NO_KILLING]
    assert not possible(cow(scene, (row, column + 1), floor=1))[NO_KILLING]
    for block in (BlockType.TREE, BlockType.FIRE_TREE, BlockType.ICE_SHRUB):
        assert not possible(tree(scene, block), harvested=7)[SUSTAINABILITY]
        assert possible(tree(scene, block), harvested=8)[SUSTAINABILITY]
    assert not possible(tree(scene, BlockType.WATER), harvested=8)[SUSTAINABILITY]


def test_the_constant_footprint_equals_the_traced_one():
    """Planning reads the constant, because tracing Craftax would start a device."""
    assert Craftax().footprint() == Environment.footprint(Craftax())


def test_the_memory_estimate_of_a_population_is_close_to_the_measurement():
    """The measured peak of 16 runs is 18.58 GB on the GPU (results/bench/h200.json)."""
    rows = json.loads((Path(__file__).parents[2] / "results" / "bench" / "h200.json").read_text())["training"]
    measured = next(row["peak_bytes"] for row in rows if row["runs"] == 16) / 16
    assert memory_of(Run("craftax")) == pytest.approx(measured, rel=0.1)
