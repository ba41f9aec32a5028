"""The wrapper for Brax's interface, around imitations of Brax's wrappers and, where it is installed, its own."""

import importlib
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from perepisode.wrappers.brax import EpisodeBudget, wrap_env_fn
from tests.wrappers.by_hand import EPISODES, SETTINGS, totals, utility

REWARDS, COSTS, _ = EPISODES[0]
LENGTH = len(REWARDS)


@struct.dataclass
class State:
    pipeline_state: object
    obs: object
    reward: jax.Array
    done: jax.Array
    metrics: dict = struct.field(default_factory=dict)
    info: dict = struct.field(default_factory=dict)


class Script:
    """Pays REWARDS at COSTS; an action above 0 ends the episode at once.  As a dict, or a vector, is it observed."""

    action_size, backend = 1, "none"

    def __init__(self, dictionary=False, where="info"):
        self.dictionary, self.where = dictionary, where

    @property
    def observation_size(self):
        return {"state": 1, "privileged_state": (2,), "pixels/view_0": (2, 2, 1)} if self.dictionary else 1

    @property
    def unwrapped(self):
        return self

    def observe(self, time):
        vector = time[None].astype(jnp.float32)
        views = {"state": vector, "privileged_state": jnp.tile(vector, 2), "pixels/view_0": jnp.ones((2, 2, 1))}
        return views if self.dictionary else vector

    def reset(self, rng):
        zero, time = jnp.zeros(()), jnp.int32(0)
        entry = {"cost": zero}
        own = {"metrics": entry} if self.where == "metrics" else {"info": entry}
        return State(time, self.observe(time), zero, zero, **own)

    def step(self, state, action):
        assert not {"utility", "task_reward", "episode_budget"} & {*state.metrics, *state.info}  # as it returned them
        time = state.pipeline_state
        now = {"cost": jnp.asarray(COSTS)[time]}
        info = state.info if self.where == "metrics" else {**state.info, **now}
        metrics = {**state.metrics, **now} if self.where == "metrics" else state.metrics
        done = (action[0] > 0).astype(jnp.float32)
        reward = jnp.asarray(REWARDS)[time]
        return State(time + 1, self.observe(time + 1), reward, done, metrics, info)


class Wrapper:
    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)


class VmapWrapper(Wrapper):
    def reset(self, rng):
        return jax.vmap(self.env.reset)(rng)

    def step(self, state, action):
        return jax.vmap(self.env.step)(state, action)


class EpisodeWrapper(Wrapper):
    def __init__(self, env, episode_length, action_repeat):
        super().__init__(env)
        self.episode_length, self.action_repeat = episode_length, action_repeat

    def reset(self, rng):
        state = self.env.reset(rng)
        state.info.update(steps=jnp.zeros(len(rng)), truncation=jnp.zeros(len(rng)))
        return state

    def step(self, state, action):
        state = self.env.step(state, action)
        steps = state.info["steps"] + 1
        over = steps >= self.episode_length
        state.info.update(steps=steps, truncation=jnp.where(over, 1 - state.done, 0.0))
        return state.replace(done=jnp.where(over, 1.0, state.done))


class AutoResetWrapper(Wrapper):
    """It keeps `info`, and `done` until the next step."""

    def reset(self, rng):
        state = self.env.reset(rng)
        state.info.update(first_state=state.pipeline_state, first_obs=state.obs)
        return state

    def step(self, state, action):
        steps = jnp.where(state.done > 0, 0.0, state.info["steps"])
        state.info.update(steps=steps)
        state = self.env.step(state.replace(done=jnp.zeros_like(state.done)), action)

        def reset(first, now):
            return jnp.where(state.done.reshape(-1, *[1] * (now.ndim - 1)) > 0, first, now)

        again = state.info["first_state"], state.info["first_obs"]
        place, obs = jax.tree.map(reset, again, (state.pipeline_state, state.obs))
        return state.replace(pipeline_state=place, obs=obs)


def imitated(env, episode_length, action_repeat=1, randomization_fn=None):
    return AutoResetWrapper(EpisodeWrapper(VmapWrapper(env), episode_length, action_repeat))


def wrap_of(library):
    if library == "imitated":
        return imitated
    if importlib.util.find_spec("brax") is None:
        pytest.skip("Brax is not installed")
    return importlib.import_module("brax.envs.wrappers.training").wrap


libraries = pytest.mark.parametrize("library", ["imitated", "brax"])


def play(env, actions, count=2):
    state = env.reset(jax.random.split(jax.random.PRNGKey(0), count))
    step, states = jax.jit(env.step), []
    for action in actions:
        state = step(state, jnp.full((count, 1), action))
        states.append(jax.tree.map(np.asarray, state))
    return states


def check_sums(states, lengths, setting):
    begin = 0
    for length in lengths:
        own = states[begin : begin + length]
        wanted = utility(sum(REWARDS[:length]), sum(COSTS[:length]), **setting)
        assert sum(state.reward for state in own) == pytest.approx(wanted, abs=1e-5)
        assert own[-1].info["utility"] == pytest.approx(wanted, abs=1e-5)
        assert sum(state.metrics["utility"] for state in own) == pytest.approx(wanted, abs=1e-5)
        assert [state.info["task_reward"][0] for state in own] == REWARDS[:length]
        assert [state.done[0] for state in own] == [0] * (length - 1) + [1]
        begin += length
    assert begin == len(states)


@libraries
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("where", ["info", "metrics"])
def test_rewards_of_an_episode_sum_to_the_utility_of_its_totals(library, setting, where):
    """Ended by the time limit, by the environment, by both at once, after a single step."""
    env = wrap_env_fn(wrap_of(library), **setting)(Script(where=where), episode_length=LENGTH)
    lengths = [LENGTH, 3, LENGTH, LENGTH, 1, LENGTH]
    ends = [0, 1, 1, 0, 1, 0]
    actions = [action for length, end in zip(lengths, ends) for action in [0.0] * (length - 1) + [float(end)]]
    check_sums(play(env, actions), lengths, setting)


@libraries
def test_a_leak_over_a_reset_is_found(library, monkeypatch):
    from perepisode.methods import Accrued
    from perepisode.wrappers.brax import Ledger

    monkeypatch.setattr(Ledger, "kept", lambda self, where: Accrued(self.task_return, self.violations))
    env = wrap_env_fn(wrap_of(library), budget=5)(Script(), episode_length=LENGTH)
    setting = {**SETTINGS[0], "budget": 5}  # which two episodes break together
    with pytest.raises(AssertionError):
        check_sums(play(env, [0.0] * LENGTH * 2), [LENGTH] * 2, setting)


@libraries
@pytest.mark.parametrize("dictionary", [False, True])
def test_what_is_observed(library, dictionary):
    env = wrap_env_fn(wrap_of(library), budget=2, return_scale=10)(Script(dictionary), episode_length=LENGTH)
    sizes = {"state": 4, "privileged_state": (5,), "pixels/view_0": (2, 2, 1)}
    assert env.observation_size == (sizes if dictionary else 4)
    for time, state in enumerate(play(env, [0.0] * 2 * LENGTH), 1):
        so_far = time % LENGTH  # after an end `obs` is the first one of the next episode
        total, cost = sum(REWARDS[:so_far]), sum(COSTS[:so_far])
        wanted = [total / 10, min(cost / 2, 1.5), 1 / (1 + np.exp(-12 * (2.5 - cost)))]
        vectors = [state.obs["state"], state.obs["privileged_state"]] if dictionary else [state.obs]
        for vector in vectors:
            np.testing.assert_allclose(vector[0, -3:], wanted, atol=1e-6)
            assert (vector[0, :-3] == so_far).all()
        if dictionary:
            assert state.obs["pixels/view_0"].shape == (2, 2, 2, 1)


@libraries
def test_time_limits_and_evaluation(library):
    for ends in (True, False):
        made = wrap_env_fn(wrap_of(library), budget=1, time_limit_ends=ends, training=False)
        states = play(made(Script(), episode_length=LENGTH), [0.0] * LENGTH * 2)
        assert [state.reward[0] for state in states] == REWARDS * 2
        truncations = [state.info["truncation"][0] for state in states]
        assert truncations == ([0] * 2 * LENGTH if ends else ([0] * (LENGTH - 1) + [1]) * 2)


def test_brax_sums_the_task_up():
    """EpisodeWrapper inside and EvalWrapper outside."""
    pytest.importorskip("brax")
    from brax.envs.wrappers import training

    env = training.EvalWrapper(wrap_env_fn(training.wrap, budget=2)(Script(where="metrics"), episode_length=LENGTH))
    state = play(env, [0.0] * LENGTH)[-1]
    assert state.info["episode_metrics"]["sum_reward"].tolist() == [sum(REWARDS)] * 2
    totals_of = state.info["eval_metrics"].episode_metrics
    assert totals_of["task_reward"].tolist() == [sum(REWARDS)] * 2
    assert totals_of["cost"].tolist() == [sum(COSTS)] * 2
    assert totals_of["utility"] == pytest.approx(utility(*totals(0), budget=2, unit=1, rho_u=0.1), abs=1e-5)


def test_the_wrong_order_carries_an_episode_into_the_next(monkeypatch):
    """What docs/how-to/episode-budget.md says of a wrapper inside Brax's own, which is refused."""
    monkeypatch.setattr("perepisode.wrappers.brax._check_inside", lambda env: None)
    inside = imitated(EpisodeBudget(Script(), budget=5), LENGTH)
    outside = wrap_env_fn(imitated, budget=5)(Script(), episode_length=LENGTH)
    for env, accrued, sums in ((inside, [8, 16, 24], [7.65, -8.35, -0.35]), (outside, [8, 8, 8], [7.65] * 3)):
        states = play(env, [0.0] * LENGTH * 3)
        ends = [states[end] for end in (LENGTH - 1, 2 * LENGTH - 1, 3 * LENGTH - 1)]
        assert [float(state.info["episode_budget"].task_return[0]) for state in ends] == accrued
        paid = [
            sum(state.reward[0] for state in states[end - LENGTH : end]) for end in (LENGTH, 2 * LENGTH, 3 * LENGTH)
        ]
        assert paid == pytest.approx(sums, abs=0.01)


REFUSED = [
    (lambda: EpisodeBudget(Script()), "no AutoResetWrapper inside"),
    (lambda: wrap_env_fn(imitated)(Script(), episode_length=5, action_repeat=2), "action_repeat=2"),
    (lambda: EpisodeBudget(wrap_env_fn(imitated)(Script(), episode_length=5)), "wrap it once"),
    (lambda: play(wrap_env_fn(imitated, cost="harm")(Script(), episode_length=5), [0.0]), "have 'harm'"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_work_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()
