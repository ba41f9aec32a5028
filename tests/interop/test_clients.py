"""Other people's training code on the miniature, with the lines changed that the documentation says.

Where a client is a script, or is not on a package index, its calling pattern is repeated here.  A library that is not
installed is skipped; the versions tried are in docs/how-to/other-libraries.md.
"""

import importlib.util
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode.interop.jax_recorder import JaxRecorder
from tests.interop.oracle import Cliff, replayed_episode

gymnasium = pytest.importorskip("gymnasium")
from perepisode.interop.recorder import record  # noqa: E402  after the check for Gymnasium

pytestmark = pytest.mark.slow

MINIATURE = "perepisode.interop.gymnasium:perepisode/Temptation-v0"
HORIZON, SEED = 8, 1


@pytest.fixture
def cleanrl(monkeypatch):
    """CleanRL's networks, advantages and update, which examples/budget has as functions."""
    pytest.importorskip("torch")
    pytest.importorskip("moviepy")
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "examples" / "budget"), *sys.path])
    return import_module("cleanrl_ppo")


def test_cleanrls_ppo_captures_a_video(cleanrl, monkeypatch, tmp_path):
    """`--capture-video` of ppo.py: the id is the only changed line; our recorder is a second one."""
    import torch
    from moviepy import VideoFileClip
    from torch.distributions import Categorical

    num_envs, num_steps, updates = 4, 32, 3
    monkeypatch.setattr(cleanrl, "NUM_STEPS", num_steps)

    def make_env(index):
        def thunk():
            if index == 0:
                env = gymnasium.make(MINIATURE, render_mode="rgb_array", horizon=HORIZON)  # changed: the id
                env = gymnasium.wrappers.RecordVideo(env, f"{tmp_path}/videos")
            else:
                env = gymnasium.make(MINIATURE, horizon=HORIZON)
            return gymnasium.wrappers.RecordEpisodeStatistics(env)

        return thunk

    envs = gymnasium.vector.SyncVectorEnv([make_env(i) for i in range(num_envs)])
    envs = record(envs, tmp_path / "episodes.parquet", method="PPO", seed=SEED)
    torch.manual_seed(SEED)
    actor, critic = cleanrl.mlp(envs.single_observation_space.shape[0], 2, 0.01), cleanrl.mlp(3, 1, 1.0)
    before = [weights.clone() for weights in actor.parameters()]
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-4, eps=1e-5)
    next_obs, next_done = torch.Tensor(envs.reset(seed=SEED)[0]), torch.zeros(num_envs)
    episodic_returns = []
    for _ in range(updates):
        rollout = []
        for _ in range(num_steps):
            with torch.no_grad():
                policy, value = Categorical(logits=actor(next_obs)), critic(next_obs)[:, 0]
                action = policy.sample()
            observation, reward, terminations, truncations, infos = envs.step(action.numpy())
            reward = torch.tensor(reward).float()
            rollout.append((next_obs, action, policy.log_prob(action), reward, next_done, value))
            next_obs, next_done = torch.Tensor(observation), torch.Tensor(np.logical_or(terminations, truncations))
            if "episode" in infos:
                episodic_returns += infos["episode"]["r"][infos["_episode"]].tolist()
        obs, actions, logprobs, rewards, dones, values = map(torch.stack, zip(*rollout))
        with torch.no_grad():
            advantages = cleanrl.advantages_of(rewards, values, dones, critic(next_obs)[:, 0], next_done)
        batch = (obs, actions, logprobs, advantages, advantages + values)
        cleanrl.update(actor, critic, optimizer, *(tensor.flatten(0, 1) for tensor in batch))
    envs.close()
    assert any((weights != old).any() for weights, old in zip(actor.parameters(), before))
    videos = sorted(path.name for path in (tmp_path / "videos").glob("*.mp4"))
    assert videos == [f"rl-video-episode-{episode}.mp4" for episode in (0, 1, 8)]  # the cubes among ten episodes
    with VideoFileClip(str(tmp_path / "videos" / videos[0])) as clip:
        assert clip.size == [160, 96]
        assert round(clip.duration * clip.fps) == HORIZON + 1
    table = pd.read_parquet(tmp_path / "episodes.parquet")
    assert len(table) == num_envs * (updates * num_steps // (HORIZON + 1))  # a step of its own begins each episode
    assert sorted(table["return"]) == pytest.approx(sorted(episodic_returns), abs=1e-4)


class LogState(NamedTuple):
    env_state: object
    episode_returns: jax.Array
    episode_lengths: jax.Array


class LogWrapper:
    """What the LogWrapper of purejaxrl and Craftax_Baselines adds to `info`, around a step of five values."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self, key, params):
        observation, env_state = self.env.reset(key, params)
        return observation, LogState(env_state, jnp.float32(0), jnp.int32(0))

    def step(self, key, state, action, params):
        observation, env_state, reward, done, info = self.env.step(key, state.env_state, action, params)
        returns, lengths = state.episode_returns + reward, state.episode_lengths + 1
        info |= {"returned_episode_returns": returns, "returned_episode_lengths": lengths, "returned_episode": done}
        return observation, LogState(env_state, returns * (1 - done), lengths * (1 - done)), reward, done, info


def test_purejaxrls_wrappers_and_metrics(tmp_path):
    """`out["metrics"]` of ppo.py, [update, step, env]; changed: the line that makes the environment."""
    pytest.importorskip("gymnax")
    from perepisode.interop import gymnax

    num_envs, num_steps, updates = 4, 12, 5
    env, env_params = gymnax.make("temptation", step_api="5-tuple", horizon=HORIZON)  # changed
    env = LogWrapper(env)

    def env_step(runner, _):
        env_state, last_obs, rng = runner
        rng, key_action, key_step = jax.random.split(rng, 3)
        action = jax.random.bernoulli(key_action, 0.3 + 0.4 * last_obs[:, 1]).astype(int)
        obs, env_state, _, _, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            jax.random.split(key_step, num_envs), env_state, action, env_params
        )
        return (env_state, obs, rng), info

    @jax.jit
    def train(rng):
        rng, key = jax.random.split(rng)
        obs, env_state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, num_envs), env_params)
        update = lambda runner, _: jax.lax.scan(env_step, runner, None, num_steps)  # noqa: E731
        runner, metric = jax.lax.scan(update, (env_state, obs, rng), None, updates)
        return {"runner_state": runner, "metrics": metric}

    info = train(jax.random.key(SEED))["metrics"]
    table = JaxRecorder(env, tmp_path / "a.parquet", method="PPO", seed=SEED).add(info).table()
    finished = np.asarray(info["returned_episode"])
    assert len(table) == finished.sum() == num_envs * (num_steps * updates // HORIZON)
    for column, name in (("return", "returned_episode_returns"), ("length", "returned_episode_lengths")):
        assert sorted(table[column]) == pytest.approx(sorted(np.asarray(info[name])[finished].tolist()), abs=1e-4)
    assert sorted(table["violations"]) == sorted(np.asarray(info["episode_cost"])[finished].tolist())
    assert table["violations"].max() > 0


def test_the_loop_of_craftax_baselines_logs_costs_at_the_end_of_an_episode():
    """`LogWrapper(env)`, a batch, and the mean of every entry of `info` where an episode ended, as ppo_rnn.py logs."""
    pytest.importorskip("gymnax")
    from gymnax.wrappers.purerl import GymnaxWrapper

    from perepisode.interop import gymnax

    class BatchEnvWrapper(GymnaxWrapper):
        def __init__(self, env, num_envs):
            super().__init__(env)
            self.num_envs = num_envs

        def reset(self, rng, params):
            return jax.vmap(self._env.reset, in_axes=(0, None))(jax.random.split(rng, self.num_envs), params)

        def step(self, rng, state, action, params):
            step = jax.vmap(self._env.step, in_axes=(0, 0, 0, None))
            return step(jax.random.split(rng, self.num_envs), state, action, params)

    env, params = gymnax.make("temptation", step_api="5-tuple", horizon=HORIZON, offer_prob=1.0)  # changed
    env = BatchEnvWrapper(LogWrapper(env), num_envs=4)  # changed: no optimistic resets
    _, state = env.reset(jax.random.key(0), params)

    def one(state, rng):
        _, state, _, _, info = env.step(rng, state, jnp.array([0, 1, 1, 1]), params)
        return state, info

    _, info = jax.jit(partial(jax.lax.scan, one))(state, jax.random.split(jax.random.key(1), 3 * HORIZON))
    ended = info["returned_episode"]
    metric = jax.tree.map(lambda x: (x * ended).sum() / ended.sum(), info)
    assert float(metric["episode_cost"]) == pytest.approx(0.75 * HORIZON)  # three of four take every offer
    assert float(metric["returned_episode_lengths"]) == HORIZON


class StoixState(NamedTuple):
    key: jax.Array
    env_state: object
    begun_with: jax.Array  # the key of the reset, for the replay below


class TimeStep(NamedTuple):
    observation: jax.Array
    reward: jax.Array
    discount: jax.Array
    last: jax.Array


class StoixEnv:
    """The calls of Stoix's GymnaxWrapper, which drops `info`, and of its automatic reset."""

    def __init__(self, env, params):
        self.env, self.params = env, params

    def reset(self, key):
        key, reset_key = jax.random.split(key)
        observation, env_state = self.env.reset(reset_key, self.params)
        return StoixState(key, env_state, jax.random.key_data(reset_key)), observation

    def step(self, state, action):
        key, step_key = jax.random.split(state.key)
        observation, env_state, reward, done, _ = self.env.step(step_key, state.env_state, action, self.params)
        timestep = TimeStep(observation, reward.astype(float), jnp.array(1.0 - done, float), done)
        return StoixState(key, env_state, state.begun_with), timestep

    def step_and_reset(self, state, action):
        after, timestep = self.step(state, action)
        following = jax.lax.cond(timestep.last, lambda: self.reset(after.key)[0], lambda: after)
        return following, (timestep, state.begun_with)


def test_stoix_resets_by_itself_and_sees_costs_in_the_reward():
    """Changed: the line that makes the environment, with auto_reset=False and a price."""
    pytest.importorskip("gymnax")
    from perepisode.interop import gymnax

    price, steps = 2.0, 40
    env, params = gymnax.make(Cliff(), step_api="5-tuple", auto_reset=False, reward="penalised", price=price)  # changed
    stoix = StoixEnv(env, params)
    actions = jax.random.randint(jax.random.key(3), (steps,), 0, 3)
    state, _ = jax.jit(stoix.reset)(jax.random.key(4))
    _, (timesteps, begun_with) = jax.jit(partial(jax.lax.scan, stoix.step_and_reset))(state, actions)
    ends = np.flatnonzero(timesteps.last).tolist()
    assert len(ends) >= 3
    for first, last in zip([0, *(end + 1 for end in ends)], ends):
        key = jax.random.wrap_key_data(begun_with[first])
        seen, outcomes = replayed_episode(Cliff(), key, 0, actions[first : last + 1])
        paid = [outcome.task_reward - price * outcome.violations[0] for outcome in outcomes]
        np.testing.assert_allclose(timesteps.reward[first : last + 1], paid, rtol=1e-6)
        np.testing.assert_array_equal(timesteps.observation[first : last + 1], seen[1:])
        assert timesteps.discount[first : last + 1].tolist() == [1.0] * (last - first) + [0.0]


@pytest.fixture
def safety_wrappers(monkeypatch):
    """Files of safety_gymnasium.wrappers, whose package needs Gymnasium 0.28 and MuJoCo: `pip install --no-deps`."""
    found = importlib.util.find_spec("safety_gymnasium")
    if found is None:
        pytest.skip("safety_gymnasium is not installed")
    moved = {  # what these files import from where Gymnasium 0.28 had it
        "autoreset": {"AutoResetWrapper": gymnasium.Wrapper},
        "time_limit": {"TimeLimit": gymnasium.wrappers.TimeLimit},
        "normalize": {
            "NormalizeObservation": gymnasium.wrappers.NormalizeObservation,
            "NormalizeReward": gymnasium.wrappers.NormalizeReward,
            "RunningMeanStd": gymnasium.wrappers.utils.RunningMeanStd,
        },
    }
    for name, content in moved.items():
        module = ModuleType(f"gymnasium.wrappers.{name}")
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def load(name):
        path = Path(found.origin).parent / "wrappers" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"safety_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_safety_gymnasiums_wrappers_take_the_six_values(safety_wrappers):
    """Changed: the environment, in `with_cost`."""
    from perepisode.interop.safety_gymnasium import with_cost

    options = {"horizon": HORIZON, "offer_prob": 1.0}
    env = with_cost(gymnasium.make(MINIATURE, **options))  # changed
    env = safety_wrappers("time_limit").SafeTimeLimit(env, max_episode_steps=5)
    env = safety_wrappers("autoreset").SafeAutoResetWrapper(env)
    env = safety_wrappers("normalize").SafeNormalizeCost(env)
    env = safety_wrappers("unsqueeze").SafeUnsqueeze(env)
    observation, _ = env.reset(seed=SEED)
    assert observation.shape == (1, 3)
    costs, truncations = [], []
    for _ in range(10):
        observation, _, cost, _, truncated, info = env.step(1)
        assert (observation.shape, cost.shape) == ((1, 3), (1,))
        costs.append(cost.item())
        truncations.append(truncated.item())
    assert truncations == [False] * 4 + [True] + [False] * 4 + [True]
    assert info["final_info"]["episode_cost"] == 5
    assert min(costs) > 0

    env = safety_wrappers("gymnasium_conversion").SafetyGymnasium2Gymnasium(with_cost(gymnasium.make(MINIATURE)))
    env.reset(seed=SEED)
    with pytest.warns(UserWarning, match="already contains a cost"):  # the same one
        *five, info = env.step(1)
    assert len(five) == 4
    assert info["cost"] in (0, 1)


def test_mo_gymnasiums_wrappers_take_the_vector(tmp_path):
    """Changed: the environment, with reward="vector"; `mo_gymnasium.make` would look its own ids up."""
    wrappers = pytest.importorskip("mo_gymnasium.wrappers")
    make = partial(gymnasium.make, MINIATURE, horizon=HORIZON, reward="vector", disable_env_checker=True)  # changed
    env = record(wrappers.MORecordEpisodeStatistics(make(), gamma=1.0), tmp_path / "a.parquet", method="a", seed=0)
    returns = []
    for episode in range(4):
        env.reset(seed=episode)
        ended = False
        while not ended:
            *_, reward, _, ended, info = env.step(episode % 2)
            assert reward.shape == (env.unwrapped.reward_dim,)
        returns.append(info["episode"]["r"])
    env.close()
    table = pd.read_parquet(tmp_path / "a.parquet")
    np.testing.assert_allclose(np.array(returns)[:, 0], table["return"], rtol=1e-5)
    np.testing.assert_allclose(-np.array(returns)[:, 1], table["violations"], rtol=1e-5)
    assert table["violations"].tolist()[::2] == [0, 0]

    linear = wrappers.LinearReward(make(), weight=np.array([1.0, 2.0]))
    penalised = gymnasium.make(MINIATURE, horizon=HORIZON, reward="penalised", price=2.0)
    clipped = wrappers.MOClipReward(make(), idx=1, min_r=-0.5, max_r=0.0)
    for one in (linear, penalised, clipped):
        one.reset(seed=SEED)
    for _ in range(HORIZON):
        _, reward, *_ = penalised.step(1)
        _, scalarised, *_, info = linear.step(1)
        _, vector, *_ = clipped.step(1)
        assert scalarised == pytest.approx(reward, rel=1e-5)
        assert vector[1] == max(-0.5, info["vector_reward"][1])
