"""The Stable-Baselines3 adapter: its conventions, exact costs, and an agent that learns."""

import importlib
import sys
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

from perepisode import interop
from perepisode.environments.base import EndCause
from perepisode.environments.temptation import Temptation
from tests.interop.oracle import Cliff, key_of, replayed_episode

pytest.importorskip("gymnasium")
from gymnasium.vector import AutoresetMode

from perepisode.interop.gymnasium import VectorEnv
from perepisode.interop.recorder import record

NUM_ENVS, STEPS, SEED = 4, 40, 17
ACTIONS = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))


class BaseVecEnv:
    """What the adapter uses of Stable-Baselines3's VecEnv."""

    def __init__(self, num_envs, observation_space, action_space):
        self.num_envs, self.observation_space, self.action_space = num_envs, observation_space, action_space
        self._reset_seeds()

    def _reset_seeds(self):
        self._seeds = [None] * self.num_envs

    def seed(self, seed):
        self._seeds = [seed + i for i in range(self.num_envs)]

    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()

    def _get_indices(self, indices):
        return range(self.num_envs) if indices is None else indices


@pytest.fixture(scope="module", params=["installed", "stand-in"])
def sb3(request):
    """The adapter, also where Stable-Baselines3 is not installed: of PyTorch it needs nothing."""
    if request.param == "installed":
        pytest.importorskip("stable_baselines3")
        return importlib.import_module("perepisode.interop.sb3")
    base = ModuleType("stable_baselines3.common.vec_env.base_vec_env")
    base.VecEnv = BaseVecEnv
    parents = ["stable_baselines3", "stable_baselines3.common", "stable_baselines3.common.vec_env"]
    with mock.patch.dict(sys.modules, {name: ModuleType(name) for name in parents} | {base.__name__: base}):
        sys.modules.pop("perepisode.interop.sb3", None)
        adapter = importlib.import_module("perepisode.interop.sb3")
    vars(interop).pop("sb3")  # other tests import their own
    return adapter


def test_episodes_equal_their_replays(sb3):
    envs = sb3.make(Cliff(), NUM_ENVS)
    envs.seed(SEED)
    envs.reset()
    steps = [envs.step(actions) for actions in ACTIONS]
    replays = 0
    for env_index in range(NUM_ENVS):
        ends = [time for time, (_, _, done, _) in enumerate(steps) if done[env_index]]
        for episode_id, (first, last) in enumerate(zip([0, *(end + 1 for end in ends[:-1])], ends)):
            own = range(first, last + 1)
            seen, outcomes = replayed_episode(Cliff(), key_of(SEED + env_index), episode_id, ACTIONS[own, env_index])
            infos = [steps[time][3][env_index] for time in own]
            assert [info["cost"] for info in infos] == [one.violations[0] for one in outcomes]
            assert [steps[time][1][env_index] for time in own] == [one.task_reward for one in outcomes]
            np.testing.assert_array_equal(infos[-1]["terminal_observation"], seen[-1])
            assert infos[-1]["TimeLimit.truncated"] == (outcomes[-1].end_cause == EndCause.TIMEOUT)
            assert not any("terminal_observation" in info for info in infos[:-1])
            replays += 1
    assert replays > 4 * NUM_ENVS


def test_incompatible_environments_are_refused(sb3):
    with pytest.raises(ValueError, match="SAME_STEP"):
        sb3.VecEnv(VectorEnv("temptation", 2))
    with pytest.raises(ValueError, match="one number"):
        sb3.make("temptation", 2, reward="vector")
    envs = sb3.make("temptation", 2)
    with pytest.raises(ValueError, match="cannot be set: all environments are one program"):
        envs.set_attr("price", 1.0)
    assert envs.get_attr("num_envs", [0]) == [2]


def test_an_agent_of_theirs_acts_in_a_recorded_vector(tmp_path):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecMonitor

    from perepisode.interop import sb3

    recorded = VectorEnv("temptation", 8, autoreset_mode=AutoresetMode.SAME_STEP)
    recorded = record(recorded, tmp_path / "ppo.parquet", method="PPO", seed=0)
    envs = VecMonitor(sb3.VecEnv(recorded))
    agent = PPO("MlpPolicy", envs, n_steps=4, batch_size=16, seed=0, device="cpu")
    returns, lengths = evaluate_policy(agent, envs, n_eval_episodes=16, return_episode_rewards=True)
    table = recorded.table()
    np.testing.assert_allclose(sorted(table["return"]), sorted(returns), rtol=1e-5)
    assert set(table["length"]) == set(lengths) == {Temptation().horizon}
