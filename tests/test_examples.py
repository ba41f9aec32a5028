"""examples/: the commands of its README, and counts by hand."""

import math
import re
import shlex
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import perepisode
from perepisode import cli
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.temptation import Temptation, exact
from perepisode.pytree import pytree

HOME = Path(__file__).parents[1] / "examples"
WAIT, RIDE = range(2)


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory):
    """A writable folder with links to the examples, as the current directory."""
    folder = tmp_path_factory.mktemp("examples")
    for path in HOME.glob("*.py"):
        (folder / path.name).symlink_to(path)
    known, search = dict(ENVIRONMENTS), list(sys.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PEREPISODE_PLUGINS", "")
        yield folder
    ENVIRONMENTS.clear()
    ENVIRONMENTS.update(known)
    sys.path[:] = search
    for name in ("courier", "maze", "pendulum", "classic"):
        sys.modules.pop(name, None)


def section(heading: str) -> str:
    return next(part for part in (HOME / "README.md").read_text().split("\n## ") if part.startswith(heading))


def follow(heading: str, steps: str | None = None) -> None:
    """Runs the commands below a heading, with fewer training steps if given."""
    for line in re.findall(r"```sh\n(.*?)```", section(heading), re.DOTALL)[0].splitlines():
        program, *words = shlex.split(line)
        if program == "export":
            name, _, value = words[0].partition("=")
            assert (name, value) == ("PEREPISODE_PLUGINS", f"{heading}.py")
            continue  # already imported in this process
        if words[0] == "train" and steps:
            index = words.index("--total-timesteps") if "--total-timesteps" in words else len(words)
            words[index : index + 2] = ["--total-timesteps", steps]
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert not end.value.code, line


def test_the_courier_is_short():
    assert len((HOME / "courier.py").read_text().splitlines()) < 60


def test_the_courier_by_hand():
    courier = perepisode.make("courier.py:Courier", shift=3, change=1.0)
    red, green = ({"time": jnp.int32(0), "is_red": jnp.bool_(light)} for light in (True, False))
    key = jax.random.key(0)
    for state, action, reward, violations in (
        (red, RIDE, 1, 1),
        (red, WAIT, 0, 0),
        (green, RIDE, 1, 0),
        (green, WAIT, 0, 0),
    ):
        after, outcome = courier.step(key, state, jnp.int32(action))
        assert (float(outcome.task_reward), int(outcome.violations[0])) == (reward, violations)
        assert int(after["time"]) == 1
        if action == WAIT:
            assert not after["is_red"]  # with change=1 every red light changes at once, and a green one stays
    _, last = courier.step(key, {**green, "time": jnp.int32(2)}, jnp.int32(WAIT))
    assert last.end_cause == perepisode.EndCause.TIMEOUT


def test_the_courier_is_trained_evaluated_reported_and_replayed(here):
    follow("courier", "2560")
    table = pd.read_parquet(here / "out" / "courier" / "episodes.parquet")
    assert set(table["length"]) == {40}
    assert ENVIRONMENTS["courier"].ppo.hidden_size == 16  # its own settings, not the defaults
    assert set(table["arm"]) == {"k=2, scaled obs", "w=0.1", "w=0.15"}
    assert (here / "out" / "courier" / "report" / "index.html").exists()
    assert "runs a red light" in (here / "out" / "courier" / "watch" / "index.html").read_text()


@pytest.mark.slow
def test_the_courier_reaches_the_results_of_its_page(here, monkeypatch, tmp_path):
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


def test_violations_in_the_maze_equal_a_count_by_hand():
    """From positions and rewards alone: without a reward the agent is where it stepped, with one it was at the goal."""
    pytest.importorskip("gymnax")
    maze = perepisode.make("maze.py:Maze")
    num_envs, steps, bed = 64, 60, (1, 3)

    @jax.jit
    @jax.vmap
    def play(key):
        def step(state, key):
            action = jax.random.randint(key, (), 0, maze.actions)
            after, outcome = maze.step(key, state, action)
            return after, (state.env_state.pos, after.env_state.pos, outcome)

        state = maze.reset(key)
        _, trajectory = jax.lax.scan(step, state, jax.random.split(key, steps))
        return state.env_state.goal, trajectory

    goals, (before, after, outcomes) = jax.tree.map(np.asarray, play(jax.random.split(jax.random.key(0), num_envs)))
    expected = np.zeros((num_envs, steps), int)
    for env, step in np.ndindex(num_envs, steps):
        start, end = tuple(before[env, step]), tuple(after[env, step])
        at_goal = outcomes.task_reward[env, step] == 1
        expected[env, step] = tuple(goals[env]) == bed if at_goal else start != bed and end == bed
    np.testing.assert_array_equal(outcomes.violations[..., 0], expected)
    at_goal = outcomes.task_reward == 1
    assert expected[at_goal].any()
    assert expected[~at_goal].any()


def test_the_maze_is_trained_on_and_evaluated(here):
    pytest.importorskip("gymnax")
    out = "out/maze-briefly"
    train = f"train --env maze.py:Maze --method esr:budget=2:rho_u=0 --seeds 7 --total-timesteps 3840 --out {out}"
    train += " --hidden-size 8"
    for command in (train, f"evaluate {out} --num-envs 16 --num-steps 120"):
        with pytest.raises(SystemExit) as end:
            cli.main(command.split())
        assert not end.value.code, command
    table = pd.read_parquet(here / out / "episodes.parquet")
    assert (set(table["environment"]), set(table["dilemma"]), set(table["arm"])) == ({"maze"}, {"flowers"}, {"k=2"})
    assert table["length"].max() <= 60
    assert table["violations"].max() > 0


@pytest.mark.slow
def test_the_maze_reaches_the_results_of_its_page(here, monkeypatch, tmp_path):
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


# ---- a pendulum of gymnax, with continuous actions ------------------------------------------------------------------


def swung(key, torques):
    """Task rewards and counts of a pendulum of the example, [step]."""
    env = perepisode.make("pendulum.py:Pendulum")

    def step(state, torque):
        after, outcome = env.step(key, state, torque[None])
        return after, (outcome.task_reward, outcome.violations[0], outcome.end_cause)

    return jax.lax.scan(step, env.reset(key), torques)[1]


def test_the_pendulum_by_hand():
    """Euler's method in NumPy: gravity 10, length and mass 1, steps of 0.05 s."""
    pytest.importorskip("gymnax")
    env, key = perepisode.make("pendulum.py:Pendulum"), jax.random.key(3)
    assert env.actions == perepisode.Box((-2.0,), (2.0,))
    start = env.reset(key).env_state
    angle, speed = float(start.theta), float(start.theta_dot)
    torques = 2.0 * np.sign(np.sin(np.arange(200) / 6))  # pushes it back and forth, up to the limit
    rewards, counts, ends = jax.tree.map(np.asarray, jax.jit(swung)(key, jnp.float32(torques)))
    for time, torque in enumerate(torques[:60]):  # later, rounding has grown
        wrapped = (angle + math.pi) % (2 * math.pi) - math.pi
        cost = wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2
        assert rewards[time] == pytest.approx((1 - cost / (math.pi**2 + 6.4 + 0.004)) / 20, abs=1e-4)
        speed = np.clip(speed + (15 * math.sin(angle) + 3 * torque) * 0.05, -8, 8)
        angle += speed * 0.05
        assert counts[time] == (abs(speed) > 6)
    assert 0 < counts[:60].sum() < 60
    assert ends.tolist() == [perepisode.EndCause.RUNNING] * 199 + [perepisode.EndCause.TIMEOUT]
    picture = env.draw(env.reset(key))  # upwards at angle 0
    assert picture.shape == (64, 64, 3)


def test_the_picture_of_the_pendulum_points_where_it_does():
    pytest.importorskip("gymnax")
    env = perepisode.make("pendulum.py:Pendulum")
    state = env.reset(jax.random.key(0))
    for angle, row, column in ((0.0, 8, 32), (np.pi / 2, 32, 56), (np.pi, 56, 32), (-np.pi / 2, 32, 8)):
        inner = state.env_state.replace(theta=jnp.float32(angle))
        picture = np.asarray(env.draw(type(state)(inner, state.observation, state.time)))
        disc = (picture == [40, 90, 170]).all(axis=-1)
        np.testing.assert_allclose(np.argwhere(disc).mean(axis=0), [row, column], atol=0.5)


def test_the_pendulum_is_trained_evaluated_reported_and_replayed(here):
    pytest.importorskip("gymnax")
    follow("pendulum", "6400")
    table = pd.read_parquet(here / "out" / "pendulum" / "episodes.parquet")
    assert set(table["length"]) == {200}
    assert set(table["arm"]) == {"k=3", "w=0.0015"}
    assert set(table["actions"].map(len)) == {200 * 4}  # float32
    page = (here / "out" / "pendulum" / "watch" / "index.html").read_text()
    assert "too fast" in page
    assert "NOT reproduced" not in page


@pytest.mark.slow
def test_the_pendulum_reaches_the_results_of_its_page(here, monkeypatch, tmp_path):
    pytest.importorskip("gymnax")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pendulum.py").symlink_to(here / "pendulum.py")
    follow("pendulum")
    table = pd.read_parquet("out/pendulum/episodes.parquet").query("in_first")
    means = table.groupby(["method", "seed"])["return"].mean()
    keys = jax.random.split(jax.random.key(0), 256)
    torques = jax.random.uniform(keys[0], (256, 200), minval=-2.0, maxval=2.0)
    random = jax.jit(jax.vmap(swung))(keys, torques)[0].sum(axis=1).mean()
    assert random < 7.5
    assert (10 - means < (10 - random) / 4).all()  # no episode earns more than 10
    over = (table["violations"] > 3).groupby([table["method"], table["seed"]]).mean()
    assert (over["esr"] < 0.02).all()
    assert over["ser"].mean() > 0.03
    worst = table.groupby(["method", "seed"])["violations"].apply(lambda v: v.nlargest(len(v) // 10).mean())
    assert worst["ser"].mean() > 1.5 * worst["esr"].mean()


# ---- agents of other libraries --------------------------------------------------------------------------------------


def table_of(heading: str) -> dict[str, list[str]]:
    """The rows of a section's table, by their first cell."""
    lines = [line for line in section(heading).splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: cells for name, *cells in rows}


def committed(folder: str) -> pd.DataFrame:
    """The committed episodes of an example: the first twelve of each of 64 environments."""
    table = pd.concat([pd.read_parquet(path) for path in (HOME / folder).glob("*.parquet")])
    assert table.groupby(["method", "arm", "steps", "seed"], dropna=False).size().eq(64 * 12).all()
    return table


def test_the_numbers_of_both_libraries_follow_from_their_tables():
    found = {}
    for (method, arm), own in committed("sb3").groupby(["method", "arm"]):
        seeds = own.groupby("seed")
        worst = seeds["violations"].apply(lambda counts: counts.nlargest(math.ceil(0.1 * len(counts))).mean())
        found[f"{method if 'SB3' in method else method.upper()} ({arm})"] = [
            plus_minus(seeds["return"].mean()),
            plus_minus(seeds["violations"].mean()),
            f"{(own['violations'] > 2).mean():.1%}".replace("%", " %"),
            plus_minus(worst),
            f"{own['violations'].max():.0f}",
        ]
    assert table_of("sb3_beside_ours.py") == found


def test_the_numbers_of_eupg_follow_from_its_tables():
    """Utilities by Eq. 5, written out, and the exact optimum."""

    def utility(task, violations):
        return task / (1 + np.exp(-12 * (1.5 - violations))) - violations

    best = exact.esr_optimum(Temptation(), utility)
    found = {"exact optimum": [f"{best.utility:.2f}", *formatted(best.mean_return, best.mean_count, best.p_over(1))]}
    for (method, steps), own in committed("eupg").groupby(["method", "steps"]):
        utilities = utility(own["return"], own["violations"]).groupby(own["seed"]).mean()
        means = own["return"].mean(), own["violations"].mean(), (own["violations"] > 1).mean()
        name = f"ESR (k=1), {steps:,} steps" if method == "esr" else method
        found[name] = [", ".join(f"{mean:.2f}" for mean in utilities), *formatted(*means)]
    assert {name: cells[:-1] for name, cells in table_of("eupg.py").items()} == found  # without the seconds


def formatted(mean_return: float, violations: float, share: float) -> list[str]:
    return [f"{mean_return:.2f}", f"{violations:.2f}", f"{share:.1%}"]


def plus_minus(seeds: pd.Series) -> str:
    """Mean and 95 % t interval over seeds."""
    low, high = stats.t.interval(0.95, len(seeds) - 1, loc=seeds.mean(), scale=stats.sem(seeds))
    return f"{seeds.mean():.2f} ± {(high - low) / 2:.2f}"


# ---- Craftax-Classic ------------------------------------------------------------------------------------------------


@pytree
class Scene:
    """A cow with this health in front of a hungry player."""

    health: jax.Array
    action: jax.Array
    sleeping: jax.Array


@pytest.mark.xdist_group("craftax")
def test_a_cow_counts_when_the_attack_kills_it_and_feeds_the_player():
    from craftax.craftax_classic.constants import Action, BlockType

    classic = perepisode.make("classic.py:Classic")

    def play(scene, key):
        state = classic.reset(jax.random.key(0))
        position = state.player_position + jnp.array([0, 1])
        cows = state.cows.replace(
            position=state.cows.position.at[0].set(position),
            health=state.cows.health.at[0].set(scene.health),
            mask=state.cows.mask.at[0].set(True),
        )
        state = state.replace(
            map=state.map.at[tuple(position)].set(BlockType.GRASS.value),
            cows=cows,
            player_direction=jnp.full_like(state.player_direction, Action.RIGHT.value),
            player_food=jnp.full_like(state.player_food, 2),
            is_sleeping=jnp.full_like(state.is_sleeping, scene.sleeping),
        )
        after, outcome = classic.step(key, state, scene.action)
        return after.player_food, outcome.violations[0], outcome.end_cause

    do, noop = Action.DO.value, Action.NOOP.value
    cases = [(1, do, False), (2, do, False), (1, noop, False), (1, do, True)]  # an unarmed attack deals 1
    scenes = Scene(*(jnp.array(column) for column in zip(*cases)))
    keys = jax.random.split(jax.random.key(1), 32)
    food, killed, ends = jax.jit(jax.vmap(jax.vmap(play, (None, 0)), (0, None)))(scenes, keys)
    assert np.asarray(killed).tolist() == [[1] * 32, [0] * 32, [0] * 32, [0] * 32]
    assert (np.asarray(food)[0] == 8).all()  # upstream: eating a cow adds six food
    assert (np.asarray(food)[1:] <= 2).all()
    assert (np.asarray(ends) == perepisode.EndCause.RUNNING).all()


@pytest.mark.slow
@pytest.mark.xdist_group("craftax")
def test_classic_is_trained_evaluated_and_replayed(here):
    follow("classic", "4096")
    table = pd.read_parquet(here / "out" / "classic" / "episodes.parquet")
    assert len(table)
    assert set(table["dilemma"]) == {"no_cows"}
