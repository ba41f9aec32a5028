"""Continuous actions through every adapter: spaces, checks, clipping, and recordings that replay exactly."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode.config import ConfigError
from perepisode.environments.base import EndCause
from perepisode.environments.episode_keys import hexadecimal
from perepisode.environments.reset_pool import reset_key
from perepisode.evaluation import episodes
from perepisode.interop.jax_recorder import JaxRecorder
from perepisode.replay.episode import differences, key_of, replay
from tests.interop import oracle
from tests.interop.oracle import Drift

NUM_ENVS, STEPS, SEED = 4, 40, 17
LOW, HIGH = np.float32([-1.0, 0.0]), np.float32([1.0, 2.0])
ACTIONS = np.random.default_rng(0).uniform(LOW, HIGH, (STEPS, NUM_ENVS, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def gymnasium():
    return pytest.importorskip("gymnasium")


@pytest.fixture(scope="module")
def ours(gymnasium):
    from perepisode.interop import gymnasium as adapter

    return adapter


@pytest.fixture(scope="module")
def recorded(ours, tmp_path_factory):
    """The recorded episodes of a vector that resets within a step."""
    from perepisode.interop.recorder import record

    path = tmp_path_factory.mktemp("recorded") / "episodes.parquet"
    envs = ours.VectorEnv(Drift(), NUM_ENVS, autoreset_mode=ours.SAME_STEP)
    envs = record(envs, path, method="random", seed=0)
    envs.reset(seed=SEED)
    for action in ACTIONS:
        envs.step(action)
    envs.close()
    return episodes.read(path)


def expected_actions() -> list[list[np.ndarray]]:
    """The actions of every environment's episodes, cut by NumPy's own count of their ends."""
    keys, cut = [oracle.key_of(SEED + i) for i in range(NUM_ENVS)], []
    for env_index, key in enumerate(keys):
        cut.append([])
        begin = 0
        while begin < STEPS:
            given = ACTIONS[begin : begin + 10, env_index]
            _, outcomes = oracle.replayed_episode(Drift(), key, len(cut[-1]), given)
            ended = [time for time, outcome in enumerate(outcomes, 1) if outcome.end_cause != EndCause.RUNNING]
            if not ended:
                break
            cut[-1].append(given[: ended[0]])
            begin += ended[0]
    return cut


def test_a_recording_has_the_actions_as_float32(recorded):
    expected = expected_actions()
    assert sum(map(len, expected)) == len(recorded) > 2 * NUM_ENVS
    for row in recorded.to_dict("records"):
        actions = expected[row["env_index"]][row["episode_index"]]
        assert row["actions"] == actions.astype("<f4").tobytes()
        assert row["violations"] == row["violations_large"] == (actions[:, 1] > 1.5).sum()
        assert row["length"] == len(actions)


def test_a_recording_is_replayed_exactly(recorded):
    """Also the counts that depend on the dynamics, and every reward to the bit.

    A recorder adds rewards up in float64, and cannot tell one end of an episode from another.
    """
    assert recorded["violations_far"].sum() > 0
    for row in recorded.to_dict("records"):
        key = hexadecimal(np.asarray(jax.random.key_data(reset_key(key_of(row, "episode_key"))))[None])[0]
        replayed = replay({**row, "reset_key": key}, Drift())
        assert {one.column for one in differences(row, replayed)} <= {"return", "end_cause"}
        assert sum(map(float, replayed.rewards)) == row["return"]
        assert int(replayed.violations[:, 1].sum()) == row["violations_far"]


def test_damaged_actions_are_refused(recorded):
    row = recorded.iloc[0].to_dict() | {"reset_key": "00" * 8}
    with pytest.raises(ConfigError, match="the row's actions are truncated; drift has 8 bytes per action"):
        replay({**row, "actions": row["actions"][:-4]}, Drift())
    swapped = np.frombuffer(row["actions"], "<f4").astype(">f4").tobytes()
    with pytest.raises(ConfigError, match=r"is out of bounds; drift has numbers from"):
        replay({**row, "actions": swapped}, Drift())


def test_the_recorder_of_jax_loops_writes_the_same_table(recorded, tmp_path):
    pytest.importorskip("gymnax")
    from perepisode.interop import gymnax

    env, params = gymnax.make(Drift(), step_api="5-tuple")
    keys = jnp.stack([oracle.key_of(SEED + i) for i in range(NUM_ENVS)])
    inside = JaxRecorder(env, tmp_path / "inside.parquet", method="random", seed=0, reset_keys=keys)

    @jax.jit
    def whole(keys, actions):
        def one(state, action):
            _, state, _, _, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, action, params)
            inside.add(info, actions=action)
            return state, info

        return jax.lax.scan(one, jax.vmap(env.reset, in_axes=(0, None))(keys, params)[1], actions)[1]

    info = jax.device_get(whole(keys, ACTIONS))
    after = JaxRecorder(env, tmp_path / "after.parquet", method="random", seed=0, reset_keys=keys)
    after.add(info, actions=ACTIONS)
    for recorder in (inside, after):
        recorder.write()
        found = episodes.read(recorder.path)
        pd.testing.assert_frame_equal(found[recorded.columns], recorded.reset_index(drop=True))
    with pytest.raises(ConfigError, match=r"actions are \(40, 4\); give one for each of \(40, 4\) steps"):
        JaxRecorder(env, None, method="random", seed=0).add(info, actions=ACTIONS[..., 0])


def test_the_recorder_of_jax_loops_stores_the_clipped_actions_that_the_environment_used(tmp_path):
    pytest.importorskip("gymnax")
    from perepisode.interop import gymnax

    env, params = gymnax.make(Drift())
    outside, within = jnp.float32([7.0, -7.0]), jnp.float32([1.0, 0.0])
    _, state = env.reset(jax.random.key(0), params)
    steps = [env.step_env(jax.random.key(0), state, action, params) for action in (outside, within)]
    for one, other in zip(*map(jax.tree.leaves, steps)):
        np.testing.assert_array_equal(one, other)
    recorder = JaxRecorder(env, tmp_path / "a.parquet", method="A", seed=0, reset_keys=jax.random.key(0)[None])
    info = {"cost": np.ones((1, 1)), "task_reward": np.ones((1, 1)), "terminated": np.ones((1, 1), bool)}
    info |= {f"violations_{name}": np.ones((1, 1), int) for name in Drift.dilemmas} | {"truncated": ~info["terminated"]}
    recorder.add(info, actions=outside[None, None])
    np.testing.assert_array_equal(np.frombuffer(recorder.table()["actions"][0], "<f4"), within)


def test_it_is_a_gymnax_environment_with_a_box():
    pytest.importorskip("gymnax")
    from gymnax.environments import spaces

    from perepisode.interop import gymnax

    env, params = gymnax.make(Drift())
    space = env.action_space(params)
    assert isinstance(space, spaces.Box)
    assert (space.shape, env.num_actions) == ((2,), 2)
    np.testing.assert_array_equal([space.low, space.high], [LOW, HIGH])
    sampled = jax.vmap(space.sample)(jax.random.split(jax.random.key(0), 100))
    assert ((sampled >= LOW) & (sampled <= HIGH)).all()
    _, state = env.reset(jax.random.key(0), params)
    for wrong in (jnp.zeros(3), jnp.float32(0), jnp.zeros(2, int)):
        with pytest.raises(ConfigError, match=r"it must be float32\[2\]"):
            env.step_env(jax.random.key(0), state, wrong, params)


def test_the_adapter_of_gymnax_takes_our_own_environments_back():
    """Out through one adapter and in through the other: the same box."""
    pytest.importorskip("gymnax")
    from perepisode.environments import ENVIRONMENTS
    from perepisode.interop import gymnax

    try:
        env, params = gymnax.make(Drift(), auto_reset=False)
        back = gymnax.from_gymnax(env, params, detectors={"none": lambda *_: 0}, name="drift_again")
        assert back.actions == Drift.actions
    finally:
        ENVIRONMENTS.pop("drift_again", None)


def test_the_spaces_are_gymnasiums(gymnasium, ours):
    from gymnasium.utils.env_checker import check_env

    env, envs = ours.Env(Drift()), ours.VectorEnv(Drift(), 3)
    assert env.action_space == envs.single_action_space == gymnasium.spaces.Box(LOW, HIGH, dtype=np.float32)
    assert envs.action_space == gymnasium.vector.utils.batch_space(env.action_space, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for advice in (".*symmetric and normalized", ".*alternative render modes"):
            warnings.filterwarnings("ignore", message=advice)
        check_env(env)


def test_a_single_environment_equals_the_vector(ours):
    env, envs = ours.Env(Drift()), ours.VectorEnv(Drift(), 1)
    np.testing.assert_array_equal(env.reset(seed=3)[0], envs.reset(seed=3)[0][0])
    for action in ACTIONS[:5, 0]:
        observation, reward, *_ = env.step(action.astype(np.float64))  # rounded to float32
        batched, rewards, *_ = envs.step(action[None])
        np.testing.assert_array_equal(observation, batched[0])
        assert reward == rewards[0]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([0.0, 2.5], r"action 2\.5 is out of bounds; drift has numbers from 0 to 2; apply .*ClipAction"),
        ([-1.0000001, 0.0], r"action -1\.0000001 is out of bounds; drift has numbers from -1 to 1"),
        ([np.nan, 0.0], "action nan is out of bounds"),
        ([0.0, np.inf], "action inf is out of bounds"),
        ([0.0], r"action is float64\[(3,)?1\]; it must be 2 real numbers"),
        ([True, False], r"action is bool\[(3,)?2\]; it must be 2 real numbers"),
        (["a", "b"], "it must be 2 real numbers"),
    ],
)
def test_an_action_that_does_not_fit_is_refused(ours, action, message):
    env, envs = ours.Env(Drift()), ours.VectorEnv(Drift(), 3)
    env.reset(seed=0)
    envs.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        env.step(action)
    good = [0] * len(action) if isinstance(action[0], float) else action
    with pytest.raises(ConfigError, match=message):
        envs.step([good, action, good])


def test_whole_numbers_are_real_numbers(ours):
    env = ours.Env(Drift())
    first = env.reset(seed=0)[0], env.step([1, 2])[0]
    again = env.reset(seed=0)[0], env.step([1.0, 2.0])[0]
    np.testing.assert_array_equal(first, again)


def test_the_clip_that_the_message_names_helps(gymnasium, ours):
    env = gymnasium.wrappers.ClipAction(ours.Env(Drift()))
    env.reset(seed=0)
    clipped, _ = env.step(np.float32([9.0, -9.0]))[0], env.reset(seed=0)
    np.testing.assert_array_equal(clipped, env.step(np.float32([1.0, 0.0]))[0])


def test_stable_baselines3_learns_with_continuous_actions():
    sb3 = pytest.importorskip("stable_baselines3")
    from perepisode.interop.sb3 import make

    model = sb3.PPO("MlpPolicy", make(Drift(), 8), n_steps=16, batch_size=64, n_epochs=1, seed=1, device="cpu")
    model.learn(128)
    assert model.action_space.shape == (2,)
