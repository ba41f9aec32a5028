"""Every adapter: exact costs, the right end of episodes, and no state carried over to the next episode."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from perepisode.environments import make
from perepisode.environments.base import EndCause
from tests.interop.oracle import Cliff, key_of, replayed_episode

pytest.importorskip("gymnasium")
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode

from perepisode.interop.gymnasium import Env, VectorEnv
from perepisode.interop.recorder import record

SEED, STEPS, LATE = 23, 160, 10_000
ACTIONS = np.random.default_rng(4).integers(0, 3, STEPS)


class Gymnax:
    """One environment whose `step` returns reward, cost, terminated and truncated."""

    def __init__(self, env, step_api):
        from perepisode.interop import gymnax

        self.env, self.params = gymnax.make(env, step_api=step_api)

    def reset(self, seed):
        _, self.state = self.env.reset(key_of(seed), self.params)

    def step(self, action):
        given = jax.random.key(0), self.state, jnp.int32(action), self.params
        _, self.state, reward, *ends, info = self.env.step(*given)
        terminated, truncated = bool(info["terminated"]), bool(info["truncated"])
        assert list(map(bool, ends)) == [[terminated or truncated], [terminated, truncated]][len(ends) - 1]
        return float(reward), float(info["cost"]), terminated, truncated

    def key(self, number):
        """The key of an episode, and its id under that key."""
        return key_of(SEED), number


class Single:
    def __init__(self, env):
        self.env, self.over = Env(env), False

    def reset(self, seed):
        self.env.reset(seed=seed)

    def step(self, action):
        if self.over:
            self.env.reset()
        _, reward, terminated, truncated, info = self.env.step(action)
        self.over = terminated or truncated
        return reward, info["cost"], terminated, truncated

    def key(self, number):
        """Every episode begins with a reset, which draws a new key."""
        words = np_random(SEED)[0].integers(0, 2**32, (number + 1, 2), np.uint32)
        return jax.random.wrap_key_data(words[number]), 0

    state = property(lambda self: self.env._state, lambda self, state: setattr(self.env, "_state", state))


class Vector:
    def __init__(self, env, mode):
        self.envs, self.passed_over = VectorEnv(env, 1, autoreset_mode=mode), False
        self.next_step = mode is AutoresetMode.NEXT_STEP

    def reset(self, seed):
        self.envs.reset(seed=seed)

    def step(self, action):
        if self.passed_over:
            self.envs.step([action])
        _, reward, terminated, truncated, info = self.envs.step([action])
        self.passed_over = self.next_step and (terminated | truncated)[0]
        return reward[0], info["cost"][0], terminated[0], truncated[0]

    key = Gymnax.key
    state = property(lambda self: self.envs._state, lambda self, state: setattr(self.envs, "_state", state))


class StableBaselines:
    def __init__(self, env):
        from perepisode.interop import sb3

        self.envs = sb3.make(env, 1)

    def reset(self, seed):
        self.envs.seed(seed)
        self.envs.reset()

    def step(self, action):
        _, reward, done, (info,) = self.envs.step(np.array([action]))
        late = info.get("TimeLimit.truncated", False)
        return reward[0], info["cost"], done[0] and not late, late

    key = Gymnax.key
    state = property(lambda self: self.envs.envs._state, lambda self, state: setattr(self.envs.envs, "_state", state))


ADAPTERS = {
    "gymnax, 6-tuple": (lambda env: Gymnax(env, "6-tuple"), "gymnax"),
    "gymnax, 5-tuple": (lambda env: Gymnax(env, "5-tuple"), "gymnax"),
    "Gymnasium": (Single, "gymnasium"),
    "Gymnasium, NEXT_STEP": (lambda env: Vector(env, AutoresetMode.NEXT_STEP), "gymnasium"),
    "Gymnasium, SAME_STEP": (lambda env: Vector(env, AutoresetMode.SAME_STEP), "gymnasium"),
    "Stable-Baselines3": (StableBaselines, "stable_baselines3"),
}


@pytest.fixture(params=ADAPTERS)
def adapter(request):
    """A function that wraps an environment."""
    wrap, library = ADAPTERS[request.param]
    pytest.importorskip(library)
    return wrap


def test_costs_and_ends_equal_those_of_a_replay(adapter):
    own = Cliff()
    env = adapter(own)
    env.reset(SEED)
    begin, causes = 0, []
    steps = [env.step(action) for action in ACTIONS]
    for time, (_, _, terminated, truncated) in enumerate(steps):
        if not (terminated or truncated):
            continue
        rewards, costs, *_ = zip(*steps[begin : time + 1])
        _, outcomes = replayed_episode(own, *env.key(len(causes)), ACTIONS[begin : time + 1])
        assert list(costs) == [one.violations[0] for one in outcomes]
        assert list(rewards) == [one.task_reward for one in outcomes]
        assert [one.ended for one in outcomes] == [False] * (time - begin) + [True]
        causes.append(EndCause(int(outcomes[-1].end_cause)))
        assert (terminated, truncated) == (causes[-1] is not EndCause.TIMEOUT, causes[-1] is EndCause.TIMEOUT)
        begin = time + 1
    assert set(causes) == {EndCause.DEATH, EndCause.WON, EndCause.TIMEOUT}


def test_the_ten_thousandth_step_truncates(adapter):
    env = adapter(make("temptation", horizon=LATE))
    env.reset(SEED)
    time = env.state.time + (LATE - 2)  # as after that many steps
    env.state = replace(env.state, time=time, env_state=replace(env.state.env_state, time=time))
    ends = [env.step(0)[2:] for _ in range(4)]
    assert ends == [(False, False), (False, True), (False, False), (False, False)]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_recorder_drops_the_episodes_that_a_reset_interrupts(mode, tmp_path):
    """Rows after the reset equal those of a recorder without earlier steps."""
    actions = ACTIONS.reshape(-1, 4)

    def recorded(before):
        envs = record(VectorEnv(Cliff(), 4, autoreset_mode=mode), tmp_path / "x.parquet", method="random", seed=0)
        envs.reset(seed=1)
        for action in actions[:before]:
            envs.step(action)
        ended = len(envs.table())
        envs.reset(seed=SEED)
        for action in actions:
            envs.step(action)
        return ended, envs.table()[["env_index", "return", "violations", "length"]]

    (none, alone), (some, after) = recorded(0), recorded(5)
    assert none == 0 < some
    assert after["length"][:some].sum() < 4 * 5  # episodes were running
    pd.testing.assert_frame_equal(after[some:].reset_index(drop=True), alone)
