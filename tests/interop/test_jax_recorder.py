"""The recorder for JAX loops: the tables of Gymnasium's recorder, in a scan and after it."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode.config import ConfigError
from perepisode.evaluation import episodes
from perepisode.interop.jax_recorder import JaxRecorder
from tests.interop.oracle import Cliff, key_of

NUM_ENVS, STEPS, SEED = 4, 40, 17
ACTIONS = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))


@cache
def adapter():
    pytest.importorskip("gymnax")
    from perepisode.interop import gymnax

    return gymnax.make(Cliff(), step_api="5-tuple")


def reset_keys():
    return jnp.stack([key_of(SEED + i) for i in range(NUM_ENVS)])


def scanned(body=lambda info, action: None):
    """The info of every step, [time, env]; `body` is called in the body of the scan."""
    env, params = adapter()

    @jax.jit
    def whole(keys, actions):
        def one(state, action):
            _, state, _, _, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, action, params)
            body(info, action)
            return state, info

        return jax.lax.scan(one, jax.vmap(env.reset, in_axes=(0, None))(keys, params)[1], actions)[1]

    return whole(reset_keys(), ACTIONS)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The table of Gymnasium's recorder: the same seeds and actions, stepped one by one."""
    pytest.importorskip("gymnasium")
    from gymnasium.vector import AutoresetMode

    from perepisode.interop.gymnasium import VectorEnv
    from perepisode.interop.recorder import record

    path = tmp_path_factory.mktemp("gymnasium") / "episodes.parquet"
    envs = record(VectorEnv(Cliff(), NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP), path, method="random", seed=0)
    envs.reset(seed=SEED)
    for action in ACTIONS:
        envs.step(action)
    envs.close()
    return episodes.read(path)


def new(path, **columns):
    return JaxRecorder(adapter()[0], path, **{"method": "random", "seed": 0, **columns})


def assert_equal(found, expected, without=("actions", "episode_key")):
    """The same rows, in columns of the same order and type; int32 counts need no float."""
    expected = expected.drop(columns=list(without))
    pd.testing.assert_frame_equal(found[expected.columns], expected.reset_index(drop=True))


def test_two_lines_after_a_scan(expected, tmp_path):
    recorder = new(tmp_path / "after.parquet")
    recorder.add(scanned()).write()
    assert_equal(episodes.read(tmp_path / "after.parquet"), expected)
    assert set(expected["dilemma"]) == {"bruises"}


def test_two_lines_in_a_scan(expected, tmp_path):
    recorder = new(tmp_path / "inside.parquet")
    scanned(lambda info, _: recorder.add(info))
    recorder.write()
    assert_equal(episodes.read(tmp_path / "inside.parquet"), expected)


def test_with_keys_and_actions_it_has_what_a_replay_needs(expected, tmp_path):
    """The same bytes as Gymnasium's recorder, which reads the keys from the environments; also where parts join."""
    inside = new(tmp_path / "inside.parquet", reset_keys=reset_keys())
    scanned(lambda info, action: inside.add(info, actions=action))
    info = jax.device_get(scanned())
    parts = new(tmp_path / "parts.parquet", reset_keys=jax.random.key_data(reset_keys()))
    for some in (slice(0, 3), slice(3, 20), slice(20, None)):
        parts.add({name: values[some] for name, values in info.items()}, actions=ACTIONS[some])
    for recorder in (inside, parts):
        recorder.write()
        assert_equal(episodes.read(recorder.path), expected, without=())


def test_actions_and_keys_that_do_not_fit_are_refused(tmp_path):
    info = jax.device_get(scanned())
    with pytest.raises(ConfigError, match=r"actions are \(40,\); give one for each of \(40, 4\) steps"):
        new(tmp_path / "a.parquet").add(info, actions=ACTIONS[:, 0])
    with pytest.raises(ConfigError, match="actions in some calls only"):
        new(tmp_path / "a.parquet").add(info, actions=ACTIONS).add(info)
    with pytest.raises(ConfigError, match="3 reset_keys for 4 environments"):
        new(tmp_path / "a.parquet", reset_keys=reset_keys()[:3]).add(info)


def test_info_may_come_in_parts_and_with_more_axes_of_time(expected, tmp_path):
    """As purejaxrl stacks it: [update, step, env]; episodes go on from one part to the next."""
    info = jax.device_get(scanned())
    recorder = new(tmp_path / "parts.parquet")
    assert not recorder.complete
    recorder.add({name: values[:7] for name, values in info.items()})
    recorder.add({name: values[7:].reshape(11, 3, NUM_ENVS) for name, values in info.items()})
    recorder.write()
    assert_equal(episodes.read(tmp_path / "parts.parquet"), expected)


def test_gymnaxs_log_wrapper_keeps_what_the_recorder_reads(expected, tmp_path):
    """purejaxrl and Craftax_Baselines have the same for steps of five values; their loops return its info."""
    pytest.importorskip("gymnax")
    from gymnax.wrappers.purerl import LogWrapper

    from perepisode.interop import gymnax

    env, params = gymnax.make(Cliff())
    wrapped = LogWrapper(env)
    step = jax.jit(jax.vmap(wrapped.step, in_axes=(0, 0, 0, None)))
    keys = jnp.stack([key_of(SEED + i) for i in range(NUM_ENVS)])
    _, state = jax.vmap(wrapped.reset, in_axes=(0, None))(keys, params)
    recorder = JaxRecorder(wrapped, tmp_path / "logged.parquet", method="random", seed=0)
    for action in ACTIONS:
        _, state, _, terminated, truncated, info = step(keys, state, action, params)
        recorder.add(info)
        np.testing.assert_array_equal(info["returned_episode"], terminated | truncated)
    recorder.write()
    assert_equal(episodes.read(tmp_path / "logged.parquet"), expected)


def test_other_environments_give_reward_and_done(tmp_path):
    """By hand: two environments, five steps."""
    reward = np.array([[1, 10], [2, 20], [4, 40], [8, 80], [16, 160]], np.float32)
    cost = np.array([[0, 1], [200, 0], [200, 0], [1, 0], [5, 0]], np.uint8)
    done = np.array([[0, 0], [0, 1], [1, 0], [0, 1], [0, 0]], bool)
    recorder = JaxRecorder(None, tmp_path / "a.parquet", method="A", seed=3, arm="d=1")
    recorder.add({"cost": jnp.asarray(cost), "terminated": ~done}, reward=jnp.asarray(reward), done=jnp.asarray(done))
    columns = ["env_index", "episode_index", "return", "violations", "length", "in_first"]
    assert recorder.table()[columns].to_numpy().tolist() == [
        [1, 0, 30, 1, 2, True],
        [0, 0, 7, 400, 3, True],
        [1, 1, 120, 0, 2, False],
    ]
    recorder.write()
    assert set(episodes.read(tmp_path / "a.parquet")["arm"]) == {"d=1"}


def test_the_first_episodes_and_nothing_else(expected, tmp_path):
    recorder = new(tmp_path / "first.parquet", episodes_per_env=2)
    info = jax.device_get(scanned())
    recorder.add({name: values[:5] for name, values in info.items()})
    with pytest.raises(ConfigError, match=r"an environment has [01] of 2 episodes"):
        recorder.write()
    recorder.add({name: values[5:] for name, values in info.items()}).write()
    assert_equal(
        episodes.read(tmp_path / "first.parquet"), expected[expected["episode_index"] < 2].assign(in_first=True)
    )
    with pytest.raises(ConfigError, match="seed='0', not '1'; give every agent its own file"):
        new(tmp_path / "first.parquet", seed=1)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"reward": np.ones(2)}, "info has no 'cost', only reward"),
        ({"cost": np.ones(2), "terminated": np.ones(2, bool)}, "info has no 'task_reward'; give add.. the reward="),
        ({"cost": np.ones(2), "task_reward": np.ones(2)}, "info has no 'terminated'; give add.. done="),
        ({"cost": np.float32(1), "task_reward": np.float32(1), "terminated": True}, "call it outside vmap"),
        ({"cost": np.ones(2), "task_reward": np.ones((2, 2)), "terminated": np.ones(2, bool)}, r"return \(2, 2\)"),
        ({"cost": -np.ones(2), "task_reward": np.ones(2), "terminated": np.ones(2, bool)}, "cost'. is -1"),
        ({"cost": np.array([0, np.inf]), "task_reward": np.ones(2), "terminated": np.ones(2, bool)}, "cost'. is inf"),
        ({"cost": np.ones(2) * np.nan, "task_reward": np.ones(2), "terminated": np.ones(2, bool)}, "cost'. is nan"),
    ],
)
def test_what_cannot_be_recorded_is_refused(info, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        JaxRecorder(None, tmp_path / "a.parquet", method="A", seed=0).add(info)


def test_another_number_of_environments_is_refused(tmp_path):
    recorder = JaxRecorder(None, tmp_path / "a.parquet", method="A", seed=0)
    steps = {"cost": np.ones(2), "task_reward": np.ones(2), "terminated": np.ones(2, bool)}
    recorder.add(steps)
    with pytest.raises(ConfigError, match=r"add\(\) got 3 environments after 2"):
        recorder.add({name: np.ones(3, values.dtype) for name, values in steps.items()})


def test_several_agents_in_one_program_are_refused(tmp_path):
    """`vmap` over seeds would mix them up; record each one's info after the program."""
    recorder = new(tmp_path / "a.parquet")
    info = jax.tree.map(lambda values: jnp.stack([values[0]] * 2), scanned())
    with pytest.raises((ConfigError, ValueError), match="vmap"):
        jax.vmap(lambda info: (recorder.add(info), 0)[1])(info)
    for seed in range(2):
        new(tmp_path / f"{seed}.parquet", seed=seed).add(jax.tree.map(lambda values: values[seed], info))  # noqa: B023
