"""Safety-Gymnasium's step: Gymnasium's five values, and the cost after the reward."""

import numpy as np
import pytest

from tests.interop.oracle import Cliff, key_of, replayed_episode

pytest.importorskip("gymnasium")
import gymnasium
from gymnasium.vector import AutoresetMode

from perepisode.interop.gymnasium import Env, VectorEnv
from perepisode.interop.recorder import record
from perepisode.interop.safety_gymnasium import with_cost

NUM_ENVS, STEPS, SEED = 4, 30, 17
ACTIONS = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))


def test_one_environment_returns_the_cost_after_the_reward():
    five, six = Env(Cliff()), with_cost(Env(Cliff()))
    np.testing.assert_array_equal(six.reset(seed=SEED)[0], five.reset(seed=SEED)[0])
    assert (six.observation_space, six.action_space) == (five.observation_space, five.action_space)
    costs, taken = [], []
    for action in ACTIONS[:, 0]:
        seen, *others, info = five.step(action)
        same_seen, reward, cost, terminated, truncated, same_info = six.step(action)
        np.testing.assert_array_equal(same_seen, seen)
        assert [reward, terminated, truncated] == others
        assert same_info == info
        assert isinstance(cost, float)
        costs.append(cost)
        taken.append(action)
        if terminated or truncated:
            break
    _, outcomes = replayed_episode(Cliff(), key_of(SEED), 0, taken)
    assert outcomes[-1].ended
    assert costs == [one.violations[0] for one in outcomes]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_returns_one_cost_per_environment(mode, tmp_path):
    """Also around a recorder, whose table has the sums of this test."""
    five, again = (VectorEnv(Cliff(), NUM_ENVS, autoreset_mode=mode) for _ in range(2))
    recorded = record(again, tmp_path / "episodes.parquet", method="random", seed=0)
    six = with_cost(recorded)
    np.testing.assert_array_equal(six.reset(seed=SEED)[0], five.reset(seed=SEED)[0])
    assert six.num_envs == NUM_ENVS
    sums, ended = np.zeros(NUM_ENVS), []
    for actions in ACTIONS:
        seen, *others, info = five.step(actions)
        same_seen, reward, cost, *ends, _ = six.step(actions)
        np.testing.assert_array_equal(same_seen, seen)
        for one, other in zip([reward, *ends], others):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(cost, info["cost"])
        assert (cost.shape, cost.flags.writeable) == ((NUM_ENVS,), True)
        assert not np.shares_memory(cost, info["cost"])
        sums += cost
        for env_index in np.flatnonzero(ends[0] | ends[1]):
            ended.append(sums[env_index])
            sums[env_index] = 0
    assert sum(ended) > 0
    assert sorted(ended) == sorted(recorded.table()["violations"])


@pytest.mark.parametrize("make", [lambda: Env(Cliff()), lambda: VectorEnv(Cliff(), 2)], ids=["one", "vector"])
def test_a_step_of_six_values_is_not_wrapped_again(make, tmp_path):
    """Five values are unpacked there: it would fail in the first step."""
    with pytest.raises(ValueError, match=r"with_cost\(\) was already applied; apply it once, as the outermost"):
        with_cost(with_cost(make()))
    with pytest.raises(ValueError, match=r"apply with_cost outside: with_cost\(record\(env, ...\)\)"):
        record(with_cost(make()), tmp_path / "x.parquet", method="random", seed=0)


def test_an_environment_without_costs_is_refused():
    with pytest.raises(ValueError, match="not an environment of perepisode"):
        with_cost(gymnasium.make("CartPole-v1"))
