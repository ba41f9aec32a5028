"""The gymnax wrapper, on steps of five values and of six: rewards against hand arithmetic."""

import copy
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.wrappers.by_hand import EPISODES, SETTINGS, totals, utility

pytest.importorskip("gymnax")
from gymnax.environments import environment, spaces

from perepisode.interop import gymnax
from perepisode.wrappers import gymnasium as numpys
from perepisode.wrappers.gymnax import BudgetState, EpisodeBudget

LONGEST = max(len(rewards) for rewards, _, _ in EPISODES)
TABLE, COSTS = (np.array([row[i] + [0.0] * (LONGEST - len(row[i])) for row in EPISODES]) for i in (0, 1))
LENGTHS = np.array([len(rewards) for rewards, _, _ in EPISODES])
TERMINATES = np.array([end != "truncated" for _, _, end in EPISODES])


class Playing(NamedTuple):
    episode: jax.Array
    time: jax.Array


class Script(environment.Environment):
    """The scripted episodes; the key of a reset says which one begins."""

    def __init__(self, reward="task"):
        self.reward = reward

    def reset_env(self, key, params):
        state = Playing(jax.random.randint(key, (), 0, len(EPISODES)), jnp.int32(0))
        return self.get_obs(state), state

    def step_env(self, key, state, action, params):
        here = state.episode, state.time
        state = state._replace(time=state.time + 1)
        reward = jnp.asarray(TABLE)[here] if self.reward == "task" else jnp.zeros(2)
        ended = (state.time == jnp.asarray(LENGTHS)[state.episode]) & jnp.asarray(TERMINATES)[state.episode]
        return self.get_obs(state), state, reward, ended, {"cost": jnp.asarray(COSTS)[here], "episode": state.episode}

    def get_obs(self, state, params=None, key=None):
        return jnp.stack([state.episode, state.time]).astype(jnp.float32)

    def is_truncated(self, state, params):
        return (state.time == jnp.asarray(LENGTHS)[state.episode]) & ~jnp.asarray(TERMINATES)[state.episode]

    def action_space(self, params=None):
        return spaces.Discrete(2)

    def observation_space(self, params=None):
        return spaces.Box(-jnp.inf, jnp.inf, (2,), jnp.float32)


class Five:
    """gymnax before 1.0: terminated and truncated are one."""

    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._env, name)

    def step(self, key, state, action, params=None):
        observation, state, reward, terminated, truncated, info = self._env.step(key, state, action, params)
        info = {name: value for name, value in info.items() if name != "final_observation"}
        return observation, state, reward, terminated | truncated, info


def play(env, count=4, steps=60):
    """Of every episode that ended: its number, the sums of its rewards, task rewards and costs, and its utility."""
    keys = jax.random.split(jax.random.key(0), count)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, None)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    assert observation.shape == (count, *env.observation_space(None).shape)
    sums, found = np.zeros((count, 3)), []
    for time in range(steps):
        keys = jax.random.split(jax.random.key(time), count)
        observation, state, reward, *ends, info = step(keys, state, jnp.zeros(count, int), None)
        sums += np.stack([reward, info["task_reward"], info["cost"]], -1)
        for index in np.flatnonzero(np.any(ends, axis=0)):
            np.testing.assert_array_equal(observation[index, 2:4], 0)
            if "final_observation" in info:
                last = [sums[index, 1] / 50, min(sums[index, 2] / env.accounting.unit / env.accounting.cost_scale, 1.5)]
                np.testing.assert_allclose(info["final_observation"][index, 2:4], last, rtol=1e-5)
            found.append((int(info["episode"][index]), *sums[index], float(info["utility"][index])))
            sums[index] = 0
    assert {number for number, *_ in found} == set(range(len(EPISODES)))
    return found


def check_sums(found, setting):
    for number, reward, task_reward, cost, stated in found:
        wanted = utility(*totals(number), **setting)
        assert (task_reward, cost) == pytest.approx(totals(number))
        assert (reward, stated) == pytest.approx((wanted, wanted), abs=1e-5)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("five", [True, False])
def test_rewards_of_an_episode_sum_to_the_utility_of_its_totals(setting, five):
    env = EpisodeBudget(Five(Script()) if five else Script(), **setting)
    check_sums(play(env), setting)


def test_a_time_limit_that_is_no_end_for_the_trainer_begins_the_next_episode_too():
    check_sums(play(EpisodeBudget(Script(), time_limit_ends=False, **SETTINGS[0])), SETTINGS[0])


def test_a_leak_over_a_reset_is_found(monkeypatch):
    monkeypatch.setattr(BudgetState, "kept", lambda self, where: self)
    with pytest.raises(AssertionError):
        check_sums(play(EpisodeBudget(Five(Script()))), SETTINGS[0])


def test_a_loop_that_resets_by_itself():
    env = EpisodeBudget(Script())
    for seed in range(6):
        _, state = env.reset_env(jax.random.key(seed), None)
        number, total = int(state.env_state.episode), 0.0
        for _ in EPISODES[number][0]:
            observation, state, reward, _, _ = env.step_env(jax.random.key(0), state, 0, None)
            total += float(reward)
        assert bool(env.is_truncated(state, None)) == (not TERMINATES[number])
        np.testing.assert_array_equal(observation, env.get_obs(state))
        assert total == pytest.approx(utility(*totals(number), **SETTINGS[0]), abs=1e-5)


def test_time_limits_and_evaluation():
    keys = jax.random.split(jax.random.key(3), 64)
    for ends in (True, False):
        env = EpisodeBudget(Script(), time_limit_ends=ends, training=False)
        _, state = jax.vmap(env.reset, in_axes=(0, None))(keys, None)
        for time in range(LONGEST):
            actions = jnp.zeros(64, int)
            _, state, reward, terminated, truncated, info = jax.vmap(env.step)(keys, state, actions)
            np.testing.assert_array_equal(reward, info["task_reward"])
            cut = np.asarray(truncated)
            assert (np.asarray(terminated)[cut] == ends).all()
            if time == 2:
                assert cut.any()


def test_numpy_and_jax_pay_the_same():
    """Steps of the miniature, through both wrappers."""
    inner, params = gymnax.make("temptation", step_api="5-tuple")
    env = EpisodeBudget(inner, budget=1, return_scale=50)
    observation, state = env.reset(jax.random.key(0), params)
    episode = numpys._Episodes(env.accounting, ())
    step = jax.jit(env.step)
    for time in range(90):
        observation, state, reward, done, info = step(jax.random.key(0), state, time % 2, params)
        gain = episode.step(np.float64(info["task_reward"]), np.float64(info["cost"]))
        assert float(reward) == pytest.approx(float(gain), abs=1e-5)
        if done:
            episode.begin(np.True_)
        np.testing.assert_allclose(observation[-3:], episode.features, atol=1e-6)


def test_equal_wrappers_share_what_is_compiled():
    one, other = (EpisodeBudget(gymnax.make("temptation", step_api="5-tuple")[0], budget=2) for _ in range(2))
    assert one == other == copy.deepcopy(one)
    assert hash(one) == hash(copy.deepcopy(other))
    assert one != EpisodeBudget(gymnax.make("temptation", step_api="5-tuple")[0], budget=1)


class NormalizeVecReward(Five):
    pass


REFUSED = [
    (lambda: EpisodeBudget(NormalizeVecReward(Script())), "put it outside"),
    (lambda: EpisodeBudget(EpisodeBudget(Script())), "wrap it once"),
    (lambda: EpisodeBudget(gymnax.make("temptation", reward="penalised", price=1.0)[0]), "reward='task'"),
    (lambda: EpisodeBudget(Script(), cost="harm").step(jax.random.key(0), begun(), 0), "no 'harm', only cost"),
    (lambda: EpisodeBudget(Script("vector")).step(jax.random.key(0), begun(), 0), "a scalar reward"),
    (lambda: EpisodeBudget(Script(), method="lagrangian"), "adapts a multiplier"),
]


def begun():
    return EpisodeBudget(Script()).reset(jax.random.key(0))[1]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_work_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()
