"""examples/: the commands of its README, and counts by hand."""

import re
import shlex
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import perepisode
from perepisode import cli
from perepisode.environments import WORLDS
from perepisode.pytree import pytree

HOME = Path(__file__).parents[1] / "examples"
WAIT, RIDE = range(2)


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory):
    """The folder of examples, with its files linked into a place where commands may write."""
    place = tmp_path_factory.mktemp("examples")
    for path in HOME.glob("*.py"):
        (place / path.name).symlink_to(path)
    known, search = dict(WORLDS), list(sys.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("PEREPISODE_USE", "")
        yield place
    WORLDS.clear()
    WORLDS.update(known)
    sys.path[:] = search
    for name in ("courier", "maze", "classic"):
        sys.modules.pop(name, None)


def follow(heading: str, steps: str | None = None) -> None:
    """The commands below a heading, as they stand there, but for as many steps of training."""
    section = next(part for part in (HOME / "README.md").read_text().split("\n## ") if part.startswith(heading))
    for line in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0].splitlines():
        program, *words = shlex.split(line)
        if program == "export":
            name, _, value = words[0].partition("=")
            assert (name, value) == ("PEREPISODE_USE", f"{heading}.py")
            continue  # this process has imported it already
        if words[0] == "train" and steps:
            here = words.index("--steps") if "--steps" in words else len(words)
            words[here : here + 2] = ["--steps", steps]
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert not end.value.code, line


def test_the_courier_is_short():
    assert len((HOME / "courier.py").read_text().splitlines()) < 60


def test_the_courier_by_hand():
    courier = perepisode.make("courier.py:Courier", shift=3, change=1.0)
    red, green = ({"time": jnp.int32(0), "is_red": jnp.bool_(light)} for light in (True, False))
    key = jax.random.key(0)
    for state, action, paid, harm in ((red, RIDE, 1, 1), (red, WAIT, 0, 0), (green, RIDE, 1, 0), (green, WAIT, 0, 0)):
        after, outcome = courier.step(key, state, jnp.int32(action))
        assert (float(outcome.task_reward), int(outcome.violations[0])) == (paid, harm)
        assert int(after["time"]) == 1
        if action == WAIT:
            assert not after["is_red"]  # here every red light changes at once, and a green one stays
    _, last = courier.step(key, {**green, "time": jnp.int32(2)}, jnp.int32(WAIT))
    assert last.end_cause == perepisode.EndCause.TIMEOUT


def test_the_courier_goes_all_the_way(here):
    follow("courier", "2560")
    table = pd.read_parquet(here / "out" / "courier" / "episodes.parquet")
    assert set(table["length"]) == {40}
    assert set(table["arm"]) == {"k=2, told loud", "w=0.1", "w=0.15"}
    assert (here / "out" / "courier" / "report" / "index.html").exists()
    assert "runs a red light" in (here / "out" / "courier" / "watch" / "index.html").read_text()


@pytest.mark.slow
def test_the_courier_does_what_its_page_says(here, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "courier.py").symlink_to(here / "courier.py")
    follow("courier")
    table = pd.read_parquet("out/courier/episodes.parquet")
    means = table.groupby(["method", "arm", "seed"])["violations"].mean().unstack("seed")
    assert (means.loc[("ser", "w=0.1")] > 10).all()
    assert (means.loc[("ser", "w=0.15")] < 0.5).all()
    budgeted = table.loc[table["method"] == "esr"]
    assert ((budgeted["violations"] == 2).groupby(budgeted["seed"]).mean() > 0.75).all()


# ---- a maze of gymnax ------------------------------------------------------------------------------------------------


def test_the_mazes_flowers_are_counted_as_by_hand():
    """From places and pay alone: whoever was not paid is where the step led, whoever was paid was at the goal."""
    pytest.importorskip("gymnax")
    maze = perepisode.make("maze.py:Maze")
    worlds, steps, bed = 64, 60, (1, 3)

    @jax.jit
    @jax.vmap
    def play(key):
        def one(state, key):
            action = jax.random.randint(key, (), 0, maze.actions)
            after, outcome = maze.step(key, state, action)
            return after, (state.inner.pos, after.inner.pos, outcome)

        state = maze.reset(key)
        _, lived = jax.lax.scan(one, state, jax.random.split(key, steps))
        return state.inner.goal, lived

    goals, (before, after, outcomes) = jax.tree.map(np.asarray, play(jax.random.split(jax.random.key(0), worlds)))
    counted = np.zeros((worlds, steps), int)
    for world, step in np.ndindex(worlds, steps):
        here, there = tuple(before[world, step]), tuple(after[world, step])
        paid = outcomes.task_reward[world, step] == 1
        counted[world, step] = tuple(goals[world]) == bed if paid else here != bed and there == bed
    np.testing.assert_array_equal(outcomes.violations[..., 0], counted)
    at_goal = outcomes.task_reward == 1
    assert counted[at_goal].any()
    assert counted[~at_goal].any()


def test_the_maze_is_trained_on_and_judged(here):
    pytest.importorskip("gymnax")
    out = "out/maze-briefly"
    train = f"train --env maze.py:Maze --method esr:budget=2:charge=0 --seeds 7 --steps 3840 --hidden 8 --out {out}"
    for command in (train, f"evaluate {out} --envs 16 --steps 120"):
        with pytest.raises(SystemExit) as end:
            cli.main(command.split())
        assert not end.value.code, command
    table = pd.read_parquet(here / out / "episodes.parquet")
    assert (set(table["environment"]), set(table["dilemma"]), set(table["arm"])) == ({"maze"}, {"flowers"}, {"k=2"})
    assert table["length"].max() <= 60
    assert table["violations"].max() > 0


@pytest.mark.slow
def test_the_maze_does_what_its_page_says(here, monkeypatch, tmp_path):
    pytest.importorskip("gymnax")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maze.py").symlink_to(here / "maze.py")
    follow("maze")
    table = pd.read_parquet("out/maze/episodes.parquet").query("in_first")
    worst = table.groupby(["method", "seed"])["violations"].apply(lambda v: v.nlargest(len(v) // 10).mean())
    assert (worst["ser"] > 1.5 * worst["esr"]).all()
    over = (table["violations"] > 3).groupby([table["method"], table["seed"]]).mean()
    assert (over["esr"] < 0.05).all()
    means = table.groupby("method")[["return", "violations"]].mean()
    assert means.loc["esr", "violations"] == pytest.approx(means.loc["ser", "violations"], abs=0.3)
    assert means.loc["esr", "return"] == pytest.approx(means.loc["ser", "return"], rel=0.1)
    assert "onto the flowers" in Path("out/maze/watch/index.html").read_text()


# ---- Craftax-Classic ------------------------------------------------------------------------------------------------


@pytree
class Scene:
    """A cow of this health before the player, who is hungry."""

    health: jax.Array
    action: jax.Array
    sleeping: jax.Array


@pytest.mark.xdist_group("craftax")
def test_a_cow_is_counted_when_the_blow_kills_it_and_the_player_has_eaten():
    from craftax.craftax_classic.constants import Action, BlockType

    classic = perepisode.make("classic.py:Classic")

    def play(scene, key):
        state = classic.reset(jax.random.key(0))
        place = state.player_position + jnp.array([0, 1])
        cows = state.cows.replace(
            position=state.cows.position.at[0].set(place),
            health=state.cows.health.at[0].set(scene.health),
            mask=state.cows.mask.at[0].set(True),
        )
        state = state.replace(
            map=state.map.at[tuple(place)].set(BlockType.GRASS.value),
            cows=cows,
            player_direction=jnp.full_like(state.player_direction, Action.RIGHT.value),
            player_food=jnp.full_like(state.player_food, 2),
            is_sleeping=jnp.full_like(state.is_sleeping, scene.sleeping),
        )
        after, outcome = classic.step(key, state, scene.action)
        return after.player_food, outcome.violations[0], outcome.end_cause

    do, noop = Action.DO.value, Action.NOOP.value
    cases = [(1, do, False), (2, do, False), (1, noop, False), (1, do, True)]  # a bare hand deals 1
    scenes = Scene(*(jnp.array(column) for column in zip(*cases)))
    keys = jax.random.split(jax.random.key(1), 32)
    food, killed, ends = jax.jit(jax.vmap(jax.vmap(play, (None, 0)), (0, None)))(scenes, keys)
    assert np.asarray(killed).tolist() == [[1] * 32, [0] * 32, [0] * 32, [0] * 32]
    assert (np.asarray(food)[0] == 8).all()  # upstream's own word: a cow eaten is six of food
    assert (np.asarray(food)[1:] <= 2).all()
    assert (np.asarray(ends) == perepisode.EndCause.RUNNING).all()


@pytest.mark.slow
@pytest.mark.xdist_group("craftax")
def test_classic_goes_all_the_way(here):
    follow("classic", "4096")
    table = pd.read_parquet(here / "out" / "classic" / "episodes.parquet")
    assert len(table)
    assert set(table["dilemma"]) == {"no_cows"}
