"""The Gymnasium adapter and the recorder: Gymnasium's own checker, both auto-reset modes, seeds, exact counts."""

import copy
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode import metrics
from perepisode.environments import ENVIRONMENTS, make
from perepisode.evaluation import episodes
from perepisode.report.statistics.points import Episodes
from tests.interop.oracle import Cliff, key_of, replayed_episode

pytest.importorskip("gymnasium")
import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from perepisode.interop.gymnasium import Env, VectorEnv, register
from perepisode.interop.recorder import record

NUM_ENVS, STEPS, SEED = 4, 40, 17
OPTIONS = {"horizon": 8, "offer_prob": 0.6, "max_gain": 4.0}
ACTIONS = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))
NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = (NEXT_STEP, SAME_STEP)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Cliff in both modes, recorded: mode → (first observation, return values of every step, path of the table)."""

    def play(mode):
        envs = VectorEnv(Cliff(), NUM_ENVS, autoreset_mode=mode)
        path = tmp_path_factory.mktemp("recorded") / "episodes.parquet"
        envs = record(envs, path, method="random", seed=0)
        first, _ = envs.reset(seed=SEED)
        steps = [envs.step(action) for action in ACTIONS]
        envs.close()
        return first, steps, path

    return {mode: play(mode) for mode in MODES}


def finished_episodes(played, mode, env_index):
    """(actions, costs, rewards, final observation, truncated) of the episodes that ended in one environment."""
    _, steps, _ = played[mode]
    actions, costs, rewards, over = [], [], [], False
    for time, (observation, reward, terminated, truncated, info) in enumerate(steps):
        if over and mode is AutoresetMode.NEXT_STEP:
            assert not info["_cost"][env_index]
            assert reward[env_index] == info["cost"][env_index] == 0
            over = False
            continue
        actions.append(ACTIONS[time, env_index])
        costs.append(info["cost"][env_index])
        rewards.append(reward[env_index])
        over = terminated[env_index] or truncated[env_index]
        if over:
            last = info["final_obs"][env_index] if mode is AutoresetMode.SAME_STEP else observation[env_index]
            yield actions, costs, rewards, last, bool(truncated[env_index])
            actions, costs, rewards = [], [], []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_index", range(NUM_ENVS))
def test_episodes_equal_their_replays(played, mode, env_index):
    own = Cliff()
    episode_id = -1
    for episode_id, (actions, costs, rewards, last, truncated) in enumerate(finished_episodes(played, mode, env_index)):
        seen, outcomes = replayed_episode(own, key_of(SEED + env_index), episode_id, actions)
        np.testing.assert_array_equal(costs, [one.violations[0] for one in outcomes])
        np.testing.assert_array_equal(rewards, [one.task_reward for one in outcomes])
        np.testing.assert_array_equal(last, seen[-1])
        assert outcomes[-1].ended
        assert truncated == (outcomes[-1].end_cause == 2)
    assert episode_id >= 3


@pytest.mark.parametrize("mode", MODES)
def test_the_recorder_writes_the_exact_counts_and_the_report_reads_them(played, mode):
    table = episodes.read(played[mode][2])
    columns = ["env_index", "violations", "return", "length", "violations_noise"]
    counted = [
        (env_index, sum(costs), sum(rewards), len(costs), sum(taken))
        for env_index in range(NUM_ENVS)
        for taken, costs, rewards, _, _ in finished_episodes(played, mode, env_index)
    ]
    table = table.sort_values(["env_index", "episode_index"], ignore_index=True)
    pd.testing.assert_frame_equal(table[columns], pd.DataFrame(counted, columns=columns), check_dtype=False)
    assert set(table["environment"]) == {"cliff"}
    assert set(table["dilemma"]) == {"bruises"}


def test_the_first_episodes_of_every_environment_are_those_of_a_longer_recording(played, tmp_path):
    """As in `evaluate`; a table in which short episodes are over-represented is not written."""
    mode, path = AutoresetMode.SAME_STEP, tmp_path / "first.parquet"
    envs = record(VectorEnv(Cliff(), NUM_ENVS, autoreset_mode=mode), path, method="random", seed=0, episodes_per_env=3)
    envs.reset(seed=SEED)
    finished = np.zeros(NUM_ENVS, int)
    for time, action in enumerate(ACTIONS):
        assert envs.complete == (finished.min() >= 3)
        if time == 12:  # some environments may have finished three episodes by now, but not all
            assert finished.max() > finished.min()
            with pytest.raises(ValueError, match=rf"an environment has {finished.min()} of 3 episodes"):
                envs.close()
            assert not path.exists()
            assert envs.table()["in_first"].tolist() == [n < finished.min() for n in envs.table()["episode_index"]]
        _, _, terminated, truncated, _ = envs.step(action)
        finished += terminated | truncated
    envs.close()
    whole = episodes.read(played[mode][2])
    assert (whole["episode_index"] >= 3).any()
    assert whole["in_first"].tolist() == [n < min(whole.groupby("env_index").size()) for n in whole["episode_index"]]
    kept = whole[whole["episode_index"] < 3].reset_index(drop=True)
    pd.testing.assert_frame_equal(episodes.read(path), kept)


def test_a_recording_of_a_fixed_number_of_steps_is_reported_without_length_bias(tmp_path):
    """Every step costs 1, so that long episodes cost more; environment i has episodes of 2 + i steps."""

    class Steady(Costly):
        def __init__(self, steps):
            super().__init__(1)
            self.steps = steps

        def step(self, action):
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, self.time == self.steps, info

    lengths = [2, 3, 4, 9]
    envs = SyncVectorEnv([lambda steps=steps: Steady(steps) for steps in lengths], autoreset_mode=SAME_STEP)
    envs = record(envs, tmp_path / "steady.parquet", method="idle", seed=0, dilemma="x")
    envs.reset()
    assert not envs.complete
    for _ in range(8):
        envs.step(np.zeros(4, int))
        assert not envs.complete
    with pytest.raises(ValueError, match="0 of 1 episodes, so short episodes would be over-represented; continue"):
        envs.close()
    for _ in range(10):
        envs.step(np.zeros(4, int))
        assert envs.complete
    envs.close()
    table = episodes.read(tmp_path / "steady.parquet")
    assert table["violations"].mean() == (9 * 2 + 6 * 3 + 4 * 4 + 2 * 9) / (9 + 6 + 4 + 2)
    assert table.loc[table["in_first"], "violations"].mean() == np.mean(lengths)
    (view,) = Episodes(table).views()
    assert view.protocol == "first"
    assert view.points[0].interval(metrics.mean).mean == np.mean(lengths)


def test_the_vector_equals_gymnasiums_own_vector_of_single_environments(tmp_path):
    """In numbers until the first episode of an environment ends; in names, shapes and types afterwards."""
    ours = VectorEnv(Cliff(), NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    theirs = SyncVectorEnv([lambda: Env(Cliff())] * NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    theirs = record(theirs, tmp_path / "theirs.parquet", method="random", seed=0)
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    np.testing.assert_array_equal(ours.reset(seed=SEED)[0], theirs.reset(seed=SEED)[0])
    costs, first, finals = np.zeros(NUM_ENVS), np.ones(NUM_ENVS, bool), 0
    for action in ACTIONS[:12]:
        (seen, *mine, my_info), (other_seen, *others, info) = ours.step(action), theirs.step(action)
        for one, other in zip(mine, others):
            np.testing.assert_array_equal(one[first], other[first])
        costs += my_info["cost"] * first
        for env_index in np.flatnonzero(first & (mine[1] | mine[2])):
            assert my_info["_final_obs"][env_index]
            assert info["_final_obs"][env_index]
            np.testing.assert_array_equal(my_info["final_obs"][env_index], info["final_obs"][env_index])
            assert my_info["final_info"]["cost"][env_index] == info["final_info"]["cost"][env_index]
            assert my_info["final_info"].keys() == info["final_info"].keys()
            finals += 1
        first &= ~(mine[1] | mine[2])
        np.testing.assert_array_equal(seen[first], other_seen[first])
        assert (seen.shape, seen.dtype) == (other_seen.shape, other_seen.dtype)
    assert finals == NUM_ENVS
    recorded = theirs.table().query("episode_index == 0").set_index("env_index")["violations"]
    np.testing.assert_array_equal(recorded.sort_index(), costs)


@pytest.mark.parametrize("options", [{}, {"reward": "penalised", "price": 2.0}])
def test_gymnasiums_own_checker_passes(options):
    env = gymnasium.make("perepisode/Temptation-v0", **OPTIONS, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_observations_have_bounds_where_they_are_known():
    env = Env("temptation", **OPTIONS)
    seen = [env.reset(seed=0)[0], *(env.step(0)[0] for _ in range(OPTIONS["horizon"]))]
    assert all(one in env.observation_space for one in seen)
    assert (np.min(seen), np.max(seen)) == (0, 1)
    assert (env.observation_space.low.max(), env.observation_space.high.min()) == (0, 1)
    assert VectorEnv("temptation", 2).single_observation_space == env.observation_space
    assert np.isinf(Env(Cliff()).observation_space.low).all()


def test_an_episode_that_has_ended_takes_no_step():
    env = Env("temptation", **OPTIONS)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(OPTIONS["horizon"])] == [False] * 7 + [True]
    with pytest.raises(ValueError, match=r"step\(\) after the end of an episode: call reset\(\) first"):
        env.step(0)
    env.reset()
    env.step(0)
    fallen = Env(Cliff(width=1))
    fallen.reset(seed=1)
    while not fallen.step(0)[2]:
        pass
    with pytest.raises(ValueError, match="after the end of an episode"):
        fallen.step(0)


class Repaid(Cliff):
    """Undoes a bruise with action 2, which no detector may."""

    def step(self, key, state, action):
        after, outcome = super().step(key, state, action)
        return after, replace(outcome, violations=outcome.violations.at[0].set(jnp.where(action == 2, -1, 0)))


def test_negative_counts_are_refused():
    message = "cliff counted a negative number of violations of bruises"
    for dilemma in Cliff.dilemmas:  # also if the cost is that of another dilemma
        env, envs = Env(Repaid(), dilemma), VectorEnv(Repaid(), 3, dilemma)
        env.reset(seed=0)
        envs.reset(seed=0)
        env.step(1)
        envs.step([1, 1, 1])
        with pytest.raises(ValueError, match=message):
            env.step(2)
        with pytest.raises(ValueError, match=message):
            envs.step([1, 2, 1])


def test_two_prices_in_one_process():
    """Equal environments share a compiled program; another price is another environment."""
    rewards = {}
    for price in (1.0, 5.0, None):
        options = {"reward": "task"} if price is None else {"reward": "penalised", "price": price}
        env, envs = Env(Cliff(), **options), VectorEnv(Cliff(), 2, **options)
        env.reset(seed=SEED)
        envs.reset(seed=SEED)
        (_, rewards[price], _, _, info), (_, both, *_) = env.step(1), envs.step([1, 1])
        assert both[0] == rewards[price]
    assert info["cost"] > 0
    assert rewards[1.0] == rewards[None] - info["cost"]
    assert rewards[5.0] == rewards[None] - 5 * info["cost"]


def test_seeds_are_gymnasiums():
    env = Env("temptation", **OPTIONS)
    first, _ = env.reset(seed=3)
    second, _ = env.reset()
    third, _ = env.reset()
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    np.testing.assert_array_equal(env.reset()[0], second)
    assert not np.array_equal(second, third) or not np.array_equal(first, second)
    np.testing.assert_array_equal(first, replayed_episode(make("temptation", **OPTIONS), key_of(3), 0, [])[0][0])
    envs = VectorEnv("temptation", 3, **OPTIONS)
    one_by_one = [Env("temptation", **OPTIONS).reset(seed=seed)[0] for seed in (5, 6, 7)]
    np.testing.assert_array_equal(envs.reset(seed=5)[0], one_by_one)
    np.testing.assert_array_equal(envs.reset(seed=[7, 5, 6])[0], [one_by_one[2], one_by_one[0], one_by_one[1]])
    with pytest.raises(ValueError, match="2 seeds for 3 environments"):
        envs.reset(seed=[1, 2])


def test_an_explicit_reset_begins_another_episode_than_an_automatic_one():
    """As docs/how-to/other-libraries.md says: the first episodes are equal, the second ones are not."""
    env, envs = Env("temptation", **OPTIONS), VectorEnv("temptation", 1, autoreset_mode=SAME_STEP, **OPTIONS)
    alone, together = [env.reset(seed=3)[0]], [envs.reset(seed=3)[0][0]]
    ends = []
    while len(ends) < 2:
        observation, _, terminated, truncated, _ = env.step(0)
        together.append(envs.step(np.zeros(1, int))[0][0])
        if terminated or truncated:
            ends.append(len(alone))
            observation, _ = env.reset()
        alone.append(observation)
    np.testing.assert_array_equal(alone[: ends[0]], together[: ends[0]])
    assert not np.array_equal(alone[ends[0] : ends[1]], together[ends[0] : ends[1]])


def test_arrays_are_the_callers_own(played):
    for mode in MODES:
        first, steps, _ = played[mode]
        arrays = [first, *(array for step in steps for array in step[:4]), *(step[4]["cost"] for step in steps)]
        assert all(isinstance(array, np.ndarray) and array.flags.writeable for array in arrays)
        assert not any(np.shares_memory(a, b) for a, b in zip(arrays, arrays[5:]))


def test_a_vector_reward_has_the_task_reward_and_minus_the_cost(tmp_path):
    options = {"reward": "vector", "disable_env_checker": True, **OPTIONS}
    env = record(gymnasium.make("perepisode/Temptation-v0", **options), tmp_path / "one.parquet", method="all", seed=0)
    assert env.unwrapped.reward_space.shape == (2,)
    env.reset(seed=1)
    env.step(1)
    env.reset(seed=2)  # an interrupted episode has no row
    rewards = np.stack([env.step(1)[1] for _ in range(OPTIONS["horizon"])])
    actions = [1] * OPTIONS["horizon"]
    _, outcomes = replayed_episode(make("temptation", **OPTIONS), key_of(2), 0, actions)
    np.testing.assert_array_equal(rewards, [[one.task_reward, -one.violations[0]] for one in outcomes])
    assert rewards[0] in env.unwrapped.reward_space
    assert env.unwrapped.reward_dim == VectorEnv("temptation", 2, reward="vector").reward_dim == 2
    assert Env("temptation").reward_dim == VectorEnv("temptation", 2).reward_dim == 1
    (row,) = env.table().to_dict("records")
    assert row["violations"] == row["violations_temptation"] == -rewards[:, 1].sum() > 0
    assert row["return"] == pytest.approx(rewards[:, 0].sum())
    assert row["length"] == OPTIONS["horizon"]


def test_a_registered_environment_gets_an_id(monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, "steep_cliff", Cliff)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    register()
    envs = gymnasium.make_vec("perepisode/SteepCliff-v0", num_envs=NUM_ENVS, dilemma="noise", width=2)
    assert envs.unwrapped.autoreset.env == Cliff(width=2)
    assert envs.unwrapped.autoreset.dilemma == "noise"


@pytest.mark.processes
def test_an_id_with_its_module_needs_no_import():
    """In a process that has imported only Gymnasium."""
    env = "perepisode.interop.gymnasium:perepisode/Temptation-v0"
    code = f"""
import sys
import gymnasium
assert not [name for name in sys.modules if name.startswith(("perepisode", "jax"))]
print(gymnasium.make_vec({env!r}, num_envs=2, horizon=8).unwrapped.autoreset.env)
print(gymnasium.make({env!r}, horizon=8).unwrapped.autoreset.env)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(make("temptation", horizon=8))] * 2


def test_a_seed_gives_the_same_episodes_whatever_was_played_before():
    """Also if an episode has just ended: the first step after the reset is played, not spent on a reset."""
    envs = VectorEnv(Cliff(), NUM_ENVS)

    def play():
        envs.reset(seed=SEED)
        return [envs.step(action) for action in ACTIONS[:9]]

    first = play()
    assert (first[-1][2] | first[-1][3]).any()
    for one, again in zip(first, play()):
        jax.tree.map(np.testing.assert_array_equal, one, again)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_masked_reset_equals_gymnasiums_own(mode):
    """Gymnasium's vector of single environments: the others continue, and generators advance where they are used."""
    ours = VectorEnv(Cliff(width=100), NUM_ENVS, autoreset_mode=mode)  # no episode ends within 10 steps
    theirs = SyncVectorEnv([lambda: Env(Cliff(width=100))] * NUM_ENVS, autoreset_mode=mode)
    mask = np.array([True, False, True, False])
    for given in (
        {"seed": SEED},
        {"options": {"reset_mask": mask}},
        {"seed": [5, 6, 7, 8], "options": {"reset_mask": ~mask}},
        {"options": {"reset_mask": np.array([False, True, True, False])}},
        {},
    ):
        (seen, info), (other, their_info) = (envs.reset(**copy.deepcopy(given)) for envs in (ours, theirs))
        np.testing.assert_array_equal(seen, other)
        assert info == their_info == {}
        for action in ACTIONS[:2]:
            mine, others = ours.step(action), theirs.step(action)
            for one, same in zip(mine[:4], others[:4]):
                np.testing.assert_array_equal(one, same)
            np.testing.assert_array_equal(mine[4]["episode_cost"], others[4]["episode_cost"])


def test_without_automatic_resets_the_caller_resets():
    """DISABLED, as Gymnasium's vector of single environments: the same costs, observations and ends."""
    ours = VectorEnv(Cliff(), NUM_ENVS, autoreset_mode=DISABLED, max_episode_steps=11)
    theirs = SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(Env(Cliff()), 11)] * NUM_ENVS, autoreset_mode=DISABLED)
    assert ours.metadata["autoreset_mode"] is DISABLED
    ours.reset(seed=SEED)
    theirs.reset(seed=SEED)
    resets, truncations = 0, 0
    for action in ACTIONS:
        mine, others = ours.step(action), theirs.step(action)
        for one, same in zip(mine[:4], others[:4]):
            np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(mine[4]["cost"], others[4]["cost"])
        assert mine[4]["_cost"].all()
        if (ended := mine[2] | mine[3]).any():
            with pytest.raises(ValueError, match=rf"environment {ended.argmax()}: with autoreset_mode=DISABLED, call"):
                ours.step(action)
            seen, other = (envs.reset(options={"reset_mask": ended.copy()})[0] for envs in (ours, theirs))
            np.testing.assert_array_equal(seen, other)
            resets += ended.sum()
            truncations += mine[3].sum()
    assert resets > 3 * NUM_ENVS
    assert truncations > 0


@pytest.mark.parametrize(
    "mask", [np.zeros(2, bool), np.ones(3, bool), np.ones(2, int), [[True, False]]], ids=["none", "3", "int", "2d"]
)
def test_an_invalid_mask_is_refused(mask):
    envs = VectorEnv("temptation", 2)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"reset_mask is .*; it must be bool\[2\], true for the environments to reset"):
        envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match=r"reset_mask before reset\(\)"):
        VectorEnv("temptation", 2).reset(options={"reset_mask": np.array([True, False])})


@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED])
def test_a_recorder_drops_the_episodes_that_a_masked_reset_interrupts(mode, tmp_path):
    """Five steps of cost 1 each; environment 1 begins again after three."""
    envs = SyncVectorEnv([lambda: Costly(1)] * 2, autoreset_mode=mode)
    envs = record(envs, tmp_path / "x.parquet", method="idle", seed=0)
    envs.reset()
    for _ in range(3):
        envs.step([0, 0])
    envs.reset(options={"reset_mask": np.array([False, True])})
    for _ in range(2):
        envs.step([0, 0])
    envs.reset(options={"reset_mask": np.array([True, False])})
    for _ in range(3):
        envs.step([0, 0])
    assert envs.table()[["env_index", "violations", "length"]].to_numpy().tolist() == [[0, 5, 5], [1, 5, 5]]


@pytest.mark.parametrize(("mode", "cut"), [(NEXT_STEP, [3, 7]), (SAME_STEP, [3, 6]), (DISABLED, [3, 6])])
def test_a_vector_can_truncate_episodes_early(mode, cut):
    """In NEXT_STEP a step of its own begins the next episode."""
    options = {"max_episode_steps": 3, "autoreset_mode": mode}
    envs = gymnasium.make_vec("perepisode/Temptation-v0", num_envs=2, **options, **OPTIONS)
    envs.reset(seed=0)
    found = []
    for step in range(1, 8):
        truncated = envs.step(np.zeros(2, int))[3]
        found += [step] if truncated.all() else []
        if mode is DISABLED and truncated.any():
            envs.reset(options={"reset_mask": truncated})
    assert found == cut


def test_invalid_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="before reset"):
        Env("temptation").step(0)
    for kind in (Env, VectorEnv):
        with pytest.raises(ValueError, match=r"cliff has no pictures: define its draw\(state\)"):
            kind(Cliff(), render_mode="rgb_array")
        with pytest.raises(ValueError, match="render_mode='ansi' is not supported; use rgb_array"):
            kind("temptation", render_mode="ansi")
    with pytest.raises(ValueError, match=r"\.parquet"):
        record(Env("temptation"), tmp_path / "episodes.csv", method="random", seed=0)
    with pytest.raises(ValueError, match="episodes_per_env=0"):
        record(Env("temptation"), tmp_path / "x.parquet", method="random", seed=0, episodes_per_env=0)
    with pytest.raises(ValueError, match="first is now called episodes_per_env"):
        record(Env("temptation"), tmp_path / "x.parquet", method="random", seed=0, first=3)
    costless = record(gymnasium.make("CartPole-v1"), tmp_path / "x.parquet", method="random", seed=0)
    costless.reset(seed=0)
    with pytest.raises(ValueError, match="no 'cost'"):
        costless.step(0)


def test_a_recorder_replaces_the_table_of_its_own_agent_alone(tmp_path):
    path = tmp_path / "episodes.parquet"

    def play(seed, **columns):
        env = record(Env("temptation"), path, method="random", seed=seed, **columns)
        env.reset(seed=0)
        while not env.step(0)[3]:
            pass
        env.close()

    play(0, arm="a")
    play(0, arm="a")
    for other, message in (
        ({"seed": 1, "arm": "a"}, "seed='0', not '1'"),
        ({"seed": 0, "arm": "b"}, "arm='a', not 'b'"),
        ({"seed": 0}, "arm='a', not ''"),
    ):
        with pytest.raises(ValueError, match=f"{message}; give every agent its own file"):
            play(**other)
    assert len(episodes.read(path)) == 1
    path.write_text("notes")
    with pytest.raises(ValueError, match=r"episodes\.parquet"):
        play(0, arm="a")
    assert path.read_text() == "notes"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (2, "action 2 is unknown; temptation has actions 0 to 1"),
        (-1, "action -1 is unknown; temptation has actions 0 to 1"),
        (0.9, "float64"),
        ([0, 1], r"int64\[2\]"),
    ],
)
def test_an_unknown_action_is_refused(action, message):
    env, envs = Env("temptation"), VectorEnv("temptation", 3)
    env.reset(seed=0)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    with pytest.raises(ValueError, match=message):
        envs.step([0, action, 0] if np.ndim(action) == 0 else action)


def test_numpy_seeds_are_accepted_and_kept():
    for envs in (Env("temptation"), VectorEnv("temptation", 2)):
        by_numpy, _ = envs.reset(seed=np.int64(7))
        np.testing.assert_array_equal(by_numpy, envs.reset(seed=7)[0])
        assert envs.np_random_seed == 7
    for steps in (0, -1):
        with pytest.raises(ValueError, match=f"max_episode_steps={steps}; use at least 1"):
            VectorEnv("temptation", 2, max_episode_steps=steps)


def test_an_environment_continues_in_another_process(tmp_path):
    env = Env("temptation")
    env.reset(seed=0)
    (tmp_path / "env").write_bytes(pickle.dumps(env))
    program = f"import pickle; print(pickle.load(open({str(tmp_path / 'env')!r}, 'rb')).step(0)[1])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout) == env.step(0)[1]


class Costly(gymnasium.Env):
    """Five steps with the same cost each."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, cost):
        self.cost, self.time = cost, 0

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 1.0, False, self.time == 5, {"cost": self.cost, "violations_x": self.cost}


@pytest.mark.parametrize(
    ("cost", "total"),
    [(np.uint8(100), 500), (np.float32(2**24 + 1), 5 * 2**24), (jnp.int32(2), 10), (np.array([3]), 15), (True, 5)],
)
def test_costs_of_every_type_are_summed_without_overflow(cost, total, tmp_path):
    env = record(Costly(cost), tmp_path / "x.parquet", method="random", seed=0)
    env.reset()
    for _ in range(5):
        env.step(0)
    env.close()
    table = episodes.read(tmp_path / "x.parquet")
    assert table["violations"].tolist() == table["violations_x"].tolist() == [total]


@pytest.mark.parametrize(
    ("cost", "message"), [(np.nan, "nan"), (-1, "is -1"), (np.inf, "inf"), ("much", "not a number")]
)
def test_an_invalid_cost_is_refused_at_its_step(cost, message, tmp_path):
    env = record(Costly(cost), tmp_path / "x.parquet", method="random", seed=0)
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(0)


def test_a_recorder_reports_what_it_does_not_write(tmp_path):
    env = record(Costly(1), tmp_path / "x.parquet", method="random", seed=0)
    env.reset()
    env.step(0)
    with pytest.warns(UserWarning, match=r"x\.parquet is not written: no episode has finished"):
        env.close()
    env.reset()
    for _ in range(5):
        env.step(0)
    with pytest.raises(ValueError, match="call reset\\(\\) first"):
        env.step(0)


@pytest.mark.parametrize("kind", [list, jnp.asarray])
def test_the_costs_of_a_vector_may_be_any_sequence(kind, tmp_path):
    class Listed(gymnasium.vector.VectorWrapper):
        def step(self, actions):
            *values, info = self.env.step(actions)
            return *values, {name: value if name.startswith("_") else kind(value) for name, value in info.items()}

    tables = []
    for wrap in (Listed, lambda envs: envs):
        envs = record(wrap(VectorEnv(Cliff(), NUM_ENVS)), tmp_path / f"{len(tables)}.parquet", method="random", seed=0)
        envs.reset(seed=SEED)
        for action in ACTIONS:
            envs.step(action)
        tables.append(envs.table().astype(float, errors="ignore"))
    pd.testing.assert_frame_equal(*tables)
