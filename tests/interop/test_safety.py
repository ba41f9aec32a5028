"""Safety-Gymnasium's shape: the five values of Gymnasium, and the cost between them."""

import numpy as np
import pytest

from tests.interop.again import Cliff, key_of, lived_again

pytest.importorskip("gymnasium")
import gymnasium
from gymnasium.vector import AutoresetMode

from perepisode.interop.gymnasium import Env, VectorEnv
from perepisode.interop.recorder import record
from perepisode.interop.safety_gymnasium import with_cost

PLACES, STEPS, SEED = 4, 30, 17
ACTIONS = np.random.default_rng(0).integers(0, 3, (STEPS, PLACES))


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
    _, outcomes = lived_again(Cliff(), key_of(SEED), 0, taken)
    assert outcomes[-1].ended
    assert costs == [one.violations[0] for one in outcomes]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_returns_one_cost_a_place(mode, tmp_path):
    """Also with a recorder inside, whose table holds what was added up here."""
    five, again = (VectorEnv(Cliff(), PLACES, autoreset_mode=mode) for _ in range(2))
    recorded = record(again, tmp_path / "episodes.parquet", method="random", seed=0)
    six = with_cost(recorded)
    np.testing.assert_array_equal(six.reset(seed=SEED)[0], five.reset(seed=SEED)[0])
    assert six.num_envs == PLACES
    sums, ended = np.zeros(PLACES), []
    for actions in ACTIONS:
        seen, *others, info = five.step(actions)
        same_seen, reward, cost, *ends, _ = six.step(actions)
        np.testing.assert_array_equal(same_seen, seen)
        for one, other in zip([reward, *ends], others):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(cost, info["cost"])
        assert (cost.shape, cost.flags.writeable) == ((PLACES,), True)
        assert not np.shares_memory(cost, info["cost"])
        sums += cost
        for place in np.flatnonzero(ends[0] | ends[1]):
            ended.append(sums[place])
            sums[place] = 0
    assert sum(ended) > 0
    assert sorted(ended) == sorted(recorded.table()["violations"])


def test_an_environment_without_a_count_of_violations_is_refused():
    with pytest.raises(ValueError, match="none of perepisode's own"):
        with_cost(gymnasium.make("CartPole-v1"))
