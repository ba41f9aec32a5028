"""The Gymnasium wrappers: rewards against hand arithmetic, in every autoreset mode and for every way to end."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tests.test_light import AS_IF_NOT_INSTALLED
from tests.wrappers.by_hand import EPISODES, SETTINGS, totals, utility

pytest.importorskip("gymnasium")
import gymnasium
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from perepisode.interop.recorder import record
from perepisode.wrappers import EpisodeBudget, VectorEpisodeBudget
from perepisode.wrappers.gymnasium import _Episodes

MODES = list(AutoresetMode)
COUNT = 3
VECTOR = spaces.Box(-9, 9, (2,), np.float32)
IMAGE = spaces.Box(0, 255, (4, 4, 3), np.uint8)
SPACES = {
    "vector": VECTOR,
    "integers": spaces.Box(0, 9, (2,), np.uint8),
    "dict": spaces.Dict({"here": VECTOR, "image": IMAGE}),
    "image": IMAGE,
    "discrete": spaces.Discrete(5),
}


class Script(gymnasium.Env):
    """Plays the scripted episodes one after the other; actions mean nothing."""

    def __init__(self, first: int = 0, space: spaces.Space = VECTOR, cost: str = "cost"):
        self.observation_space, self.action_space = copy.deepcopy(space), spaces.Discrete(2)
        self.first, self.episode, self.time, self.cost = first, first - 1, 0, cost

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
            self.episode = self.first - 1
        self.episode, self.time = self.episode + 1, 0
        return self.observation_space.sample(), {}

    def step(self, action):
        rewards, costs, end = EPISODES[self.episode % len(EPISODES)]
        reward, cost = rewards[self.time], costs[self.time]
        self.time += 1
        over = self.time == len(rewards)
        ends = over and end in ("terminated", "both"), over and end in ("truncated", "both")
        return self.observation_space.sample(), reward, *ends, {self.cost: cost}


def scripts(mode, count=COUNT):
    return SyncVectorEnv([lambda i=i: Script(i) for i in range(count)], autoreset_mode=mode)


def play_vector(envs, mode, steps=60):
    """Sums of reward, task reward and cost of every episode that ended, by environment; and their last utility."""
    envs.reset(seed=0)
    count = envs.num_envs
    sums, over, found = np.zeros((count, 3)), np.zeros(count, bool), [[] for _ in range(count)]
    for _ in range(steps):
        _, reward, terminated, truncated, info = envs.step(np.zeros(count, int))
        ended = terminated | truncated
        begins = over if mode is AutoresetMode.NEXT_STEP else np.zeros(count, bool)
        assert (reward[begins] == 0).all()
        info = {name: np.zeros(count) for name in ("task_reward", "cost", "utility")} | info  # absent where all begin
        assert (info.get("_task_reward", False) == ~begins).all()
        sums += np.stack([reward, info["task_reward"], info["cost"]], axis=-1)
        for index in np.flatnonzero(ended):
            found[index].append((*sums[index], info["utility"][index]))
            sums[index] = 0
        over = ended
        if mode is AutoresetMode.DISABLED and ended.any():
            envs.reset(options={"reset_mask": ended})
    assert min(map(len, found)) >= 2 * len(EPISODES)
    return found


def check_sums(found, setting):
    for index, episodes in enumerate(found):
        for number, (reward, task_reward, cost, stated) in enumerate(episodes):
            wanted = utility(*totals(index + number), **setting)
            assert (task_reward, cost) == pytest.approx(totals(index + number))
            assert (reward, stated) == pytest.approx((wanted, wanted), abs=1e-5)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_rewards_of_an_episode_sum_to_the_utility_of_its_totals(mode, setting):
    check_sums(play_vector(VectorEpisodeBudget(scripts(mode), **setting), mode), setting)


def test_a_final_observation_shows_what_its_own_episode_accrued():
    envs = VectorEpisodeBudget(scripts(AutoresetMode.SAME_STEP))
    envs.reset(seed=0)
    episodes, seen = list(range(COUNT)), 0
    for _ in range(20):
        _, _, terminated, truncated, info = envs.step(np.zeros(COUNT, int))
        for index in np.flatnonzero(terminated | truncated):
            assert info["final_obs"][index][2] == pytest.approx(totals(episodes[index])[0] / 50)
            episodes[index] += 1
            seen += 1
    assert seen > 10


def test_a_masked_reset_lets_no_other_environment_go_on():
    envs = VectorEpisodeBudget(scripts(AutoresetMode.DISABLED))
    envs.reset(seed=0)
    _, _, terminated, truncated, _ = envs.step(np.zeros(COUNT, int))
    assert (terminated | truncated).tolist() == [False, False, True]
    envs.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(ValueError, match=r"environments \[2\] have ended"):
        envs.step(np.zeros(COUNT, int))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_leak_over_a_reset_is_found(mode, monkeypatch):
    """The check above fails if anything accrued survives a reset, in any mode."""
    first = _Episodes.begin

    def leaks(self, where):
        if not hasattr(self, "accrued"):
            first(self, where)

    monkeypatch.setattr(_Episodes, "begin", leaks)
    with pytest.raises(AssertionError):
        check_sums(play_vector(VectorEpisodeBudget(scripts(mode)), mode), SETTINGS[0])


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("autoreset", [False, True])
def test_a_single_environment(setting, autoreset):
    inner = gymnasium.wrappers.Autoreset(Script()) if autoreset else Script()
    env = EpisodeBudget(inner, return_scale=10, **setting)
    observation, _ = env.reset()
    assert observation[2:4].tolist() == [0, 0]
    for number in range(7):
        rewards, costs, end = EPISODES[number % len(EPISODES)]
        total = 0.0
        for time in range(len(rewards)):
            observation, reward, terminated, truncated, info = env.step(0)
            total += reward
            so_far = sum(rewards[: time + 1]), sum(costs[: time + 1])
            share = 1 / (1 + np.exp(-12 * ((setting["budget"] - so_far[1]) / setting["unit"] + 0.5)))
            used = min(so_far[1] / max(setting["budget"], setting["unit"]), 1.5)
            np.testing.assert_allclose(observation[2:], [so_far[0] / 10, used, share], atol=1e-6)
            assert (info["task_reward"], info["cost"]) == (rewards[time], costs[time])
            assert total == pytest.approx(utility(*so_far, **setting), abs=1e-5)
            assert info["utility"] == pytest.approx(total)
        assert terminated
        assert truncated == (end != "terminated")
        if autoreset:
            observation, reward, terminated, truncated, info = env.step(0)
            assert (reward, terminated, truncated) == (0, False, False)
        else:
            with pytest.raises(ValueError, match="begin the next one"):
                env.step(0)
            observation, _ = env.reset()
        np.testing.assert_allclose(observation[2:4], 0)


def test_an_episode_that_its_caller_cuts_leaves_nothing_behind():
    env = EpisodeBudget(Script())
    env.reset()
    env.step(0)
    observation, _ = env.reset()
    np.testing.assert_array_equal(observation[2:4], 0)
    assert sum(env.step(0)[1] for _ in EPISODES[1][0]) == pytest.approx(utility(*totals(1), **SETTINGS[0]), abs=1e-5)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_what_is_observed_at_an_end_and_after_it(mode):
    envs = VectorEpisodeBudget(scripts(mode, 1), 1, return_scale=1)
    envs.reset(seed=0)
    for _ in EPISODES[0][0]:
        observation, *_, info = envs.step(np.zeros(1, int))
    rewards, costs = totals(0)
    last = info["final_obs"][0] if mode is AutoresetMode.SAME_STEP else observation[0]
    np.testing.assert_allclose(last[2:], [rewards, min(costs, 1.5), 0], atol=1e-6)
    if mode is AutoresetMode.NEXT_STEP:
        observation, *_ = envs.step(np.zeros(1, int))
    if mode is AutoresetMode.DISABLED:
        with pytest.raises(ValueError, match=r"environments \[0\] have ended"):
            envs.step(np.zeros(1, int))
        observation, _ = envs.reset(options={"reset_mask": np.ones(1, bool)})
    np.testing.assert_allclose(observation[0, 2:], [0, 0, 1], atol=1e-2)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_observations_lie_in_their_space(space, mode):
    make = [lambda: Script(space=SPACES[space])] * 2
    envs = VectorEpisodeBudget(SyncVectorEnv(make, autoreset_mode=mode), budget=1)
    observation, _ = envs.reset(seed=0)
    for _ in range(len(EPISODES[0][0])):
        assert envs.observation_space.contains(observation)
        observation, *_, info = envs.step(np.zeros(2, int))
    if mode is AutoresetMode.SAME_STEP:
        assert all(envs.single_observation_space.contains(last) for last in info["final_obs"])


@pytest.mark.parametrize("space", SPACES)
def test_checkers_pass(space):
    check_env(EpisodeBudget(Script(space=SPACES[space])), skip_render_check=True)
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(EpisodeBudget(Script(space=SPACES[space])))


def test_copies_go_on_by_themselves():
    env = EpisodeBudget(Script(), return_scale=1)
    env.reset(seed=0)
    env.step(0)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    rewards = [[one.step(0)[1] for _ in EPISODES[0][0][1:]] for one in (env, *copies)]
    assert rewards[0] == rewards[1] == rewards[2]
    env.reset()
    assert copies[0].unwrapped.episode == 0  # of the script: the copy has not been reset


def test_environments_of_processes():
    """Each wrapped in its process, and all wrapped together outside."""
    inside = AsyncVectorEnv([lambda i=i: EpisodeBudget(Script(i)) for i in range(COUNT)])
    outside = VectorEpisodeBudget(AsyncVectorEnv([lambda i=i: Script(i) for i in range(COUNT)]))
    for envs in (inside, outside):
        check_sums(play_vector(envs, AutoresetMode.NEXT_STEP), SETTINGS[0])
        envs.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_evaluation_pays_the_task_and_shows_what_training_shows(mode):
    train, evaluate = (VectorEpisodeBudget(scripts(mode), training=training) for training in (True, False))
    seen = [envs.reset(seed=0)[0] for envs in (train, evaluate)]
    np.testing.assert_array_equal(*seen)
    for _ in EPISODES[2][0]:
        one, other = (envs.step(np.zeros(COUNT, int)) for envs in (train, evaluate))
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(other[1], one[4]["task_reward"])
    found = play_vector(VectorEpisodeBudget(scripts(mode), training=False), mode)
    assert all(reward == task for episodes in found for reward, task, *_ in episodes)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("outside", [True, False])
def test_a_recorder_sees_the_task(mode, outside, tmp_path):
    """Outside or inside: returns and costs are the task's."""
    envs = scripts(mode)
    if not outside:
        envs = recorder = record(envs, tmp_path / "a.parquet", method="PPO", seed=0)
    envs = VectorEpisodeBudget(envs)
    if outside:
        envs = recorder = record(envs, tmp_path / "a.parquet", method="PPO", seed=0)
    play_vector(envs, mode)
    rows = recorder.table().sort_values(["env_index", "episode_index"])
    wanted = [totals(row.env_index + row.episode_index) for row in rows.itertuples()]
    np.testing.assert_allclose(rows[["return", "violations"]], wanted)


def test_time_limits():
    """An end like every other unless asked otherwise; Gymnasium's TimeLimit belongs inside."""
    for ends in (True, False):
        env = EpisodeBudget(gymnasium.wrappers.TimeLimit(Script(), 2), time_limit_ends=ends)
        env.reset()
        env.step(0)
        _, _, terminated, truncated, info = env.step(0)
        assert (terminated, truncated) == (ends, True)
        assert info["utility"] == pytest.approx(utility(3.0, 1.0, **SETTINGS[0]), abs=1e-5)


def test_a_debt_is_not_forgiven_by_breaking_the_budget():
    assert utility(-4.5, 2.0, 1, 1, 0) == -4.5
    env = EpisodeBudget(Script(1), rho_u=0)
    env.reset()
    assert sum(env.step(0)[1] for _ in EPISODES[1][0]) == pytest.approx(-4.5)


def test_the_cost_may_have_another_name():
    env = EpisodeBudget(Script(cost="collisions"), cost="collisions")
    env.reset()
    env.step(0)
    assert env.step(0)[4]["cost"] == 1


METHODS = {
    "saute": ({"budget": 1}, lambda r, c: sum(x for x, v in zip(r, np.cumsum(c)) if v < 1.5)),
    "ser": ({"budget": None, "weight": 0.04}, lambda r, c: sum(r) - 0.4 * sum(c)),
    "ser_racc": ({"budget": None, "weight": 0.04}, lambda r, c: sum(r) - 0.4 * sum(c)),
    "unconstrained": ({"budget": None}, lambda r, c: sum(r)),
}


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_by_the_same_wrapper(method):
    given, by_hand = METHODS[method]
    env = EpisodeBudget(Script(), method=method, **given)
    for rewards, costs, _ in EPISODES:
        env.reset()
        assert sum(env.step(0)[1] for _ in rewards) == pytest.approx(by_hand(rewards, costs), abs=1e-9)


def test_a_distilled_utility(tmp_path):
    import json

    layers = [{"kernel": [[1.0, 0.5], [0.25, -1.0]], "bias": [0.1, 0.2]}, {"kernel": [[2.0], [-3.0]], "bias": [0.5]}]
    plain = {"kind": "distilled", "inputs_mean": [1.0, -2.0], "inputs_std": [2.0, 4.0], "layers": layers}
    path = tmp_path / "utility.json"
    offset = 2 * np.tanh(-0.5 + 0.125 + 0.1) - 3 * np.tanh(-0.25 - 0.5 + 0.2) + 0.5
    path.write_text(json.dumps({**plain, "offset": offset, "scale": 2.0}))
    env = EpisodeBudget(Script(), budget=None, method="esr_distilled", utility=str(path))
    for number, (rewards, _, _) in enumerate(EPISODES):
        env.reset()
        total, cost = totals(number)
        x, y = (total - 1) / 2, (-10 * cost + 2) / 4
        raw = 2 * np.tanh(x + 0.25 * y + 0.1) - 3 * np.tanh(0.5 * x - y + 0.2) + 0.5
        assert sum(env.step(0)[1] for _ in rewards) == pytest.approx(2 * (raw - offset), abs=1e-5)


REFUSED = [
    (lambda: EpisodeBudget(gymnasium.wrappers.NormalizeReward(Script())), "NormalizeReward inside"),
    (lambda: EpisodeBudget(gymnasium.wrappers.ClipReward(Script(), -1, 1)), "ClipReward inside"),
    (lambda: EpisodeBudget(gymnasium.wrappers.TransformReward(Script(), lambda r: r)), "TransformReward inside"),
    (
        lambda: EpisodeBudget(
            gymnasium.wrappers.MaxAndSkipObservation(Script(space=spaces.Box(0, 9, (2,), np.float32)))
        ),
        "keeps the last frame's cost",
    ),
    (lambda: EpisodeBudget(EpisodeBudget(Script())), "wrap it once"),
    (lambda: VectorEpisodeBudget(gymnasium.wrappers.vector.NormalizeReward(scripts("NextStep"))), "NormalizeReward"),
    (
        lambda: VectorEpisodeBudget(SyncVectorEnv([lambda: gymnasium.wrappers.NormalizeReward(Script())])),
        "NormalizeReward inside",
    ),
    (lambda: VectorEpisodeBudget(SyncVectorEnv([lambda: EpisodeBudget(Script())])), "wrap it once"),
    (lambda: EpisodeBudget(scripts("NextStep")), "use VectorEpisodeBudget"),
    (lambda: VectorEpisodeBudget(Script()), "use EpisodeBudget"),
    (lambda: EpisodeBudget(object()), "no Gymnasium environment"),
    (lambda: EpisodeBudget(Script(), budget=-1), "budget=-1 is out of range"),
    (lambda: EpisodeBudget(Script(), unit=0), "unit=0 must be a number above 0"),
    (lambda: EpisodeBudget(Script(), return_scale=-1), "return_scale=-1 must be"),
    (lambda: EpisodeBudget(Script(), charge=1), "has no setting 'charge'"),
    (lambda: EpisodeBudget(Script(), method="lagrangian"), "adapts a multiplier"),
    (lambda: EpisodeBudget(Script(), None, method="erm"), "ends episodes"),
    (lambda: EpisodeBudget(Script(), 1, method="ser", weight=1), "give budget=None"),
    (lambda: EpisodeBudget(Script(), method="esp"), "unknown"),
    (lambda: EpisodeBudget(Script(space=spaces.Dict(accrued=VECTOR))), "already"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_work_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as error:
        make()
    assert "\n" not in str(error.value)


class Broken(Script):
    """A cost that is none, a vector of rewards, a reward that is not the task's."""

    def __init__(self, **entries):
        super().__init__()
        self.entries = entries

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        info = dict(self.entries)
        return observation, info.pop("reward", reward), terminated, truncated, info


BROKEN = [
    ({"price": 1.0}, "has no 'cost', only price"),
    ({}, "only nothing"),
    ({"cost": -1.0}, "from 0 on"),
    ({"cost": float("nan")}, "from 0 on"),
    ({"cost": 0.0, "reward": np.ones(2)}, "is a scalar"),
    ({"cost": 0.0, "task_reward": 7.0}, "a budget needs the task's own reward"),
]


@pytest.mark.parametrize(("entries", "message"), BROKEN, ids=[message for _, message in BROKEN])
@pytest.mark.parametrize("vector", [False, True])
def test_what_a_step_lacks_is_said_in_one_line(entries, message, vector):
    if vector and "reward" in entries:
        pytest.skip("Gymnasium's own vectors take scalars only")
    env = (
        VectorEpisodeBudget(SyncVectorEnv([lambda: Broken(**entries)])) if vector else EpisodeBudget(Broken(**entries))
    )
    env.reset()
    with pytest.raises(ValueError, match=message) as error:
        env.step(np.zeros(1, int) if vector else 0)
    assert "\n" not in str(error.value)


def test_rewards_may_be_changed_outside():
    """Telescoped first: a repeated action's rewards still sum to the utility, and so do scaled ones, scaled."""
    env = gymnasium.wrappers.TransformReward(EpisodeBudget(Script()), lambda reward: 0.1 * reward)
    env.reset()
    total = sum(env.step(0)[1] for _ in EPISODES[0][0])
    assert total == pytest.approx(0.1 * utility(*totals(0), **SETTINGS[0]))


@pytest.mark.processes
@pytest.mark.parametrize("installed", [True, False])
def test_no_jax_is_imported(installed):
    """Neither by making, playing, copying and pickling, where it is installed and where it is not."""
    code = """
import copy, pickle, sys
from tests.wrappers.test_gymnasium import EpisodeBudget, VectorEpisodeBudget, Script, scripts
for method, given in (("esr", {}), ("saute", {}), ("ser_racc", {"budget": None, "weight": 1})):
    env = pickle.loads(pickle.dumps(copy.deepcopy(EpisodeBudget(Script(), method=method, **given))))
    env.reset(); env.step(0)
    envs = VectorEpisodeBudget(scripts("SameStep"), method=method, **given)
    envs.reset(); envs.step([0, 0, 0])
print(sorted({"jax", "jaxlib", "flax", "torch"} & set(sys.modules)))
"""
    code = code if installed else AS_IF_NOT_INSTALLED + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


class Repeat(gymnasium.Wrapper):
    """Repeats an action twice and sums rewards."""

    def step(self, action):
        total = 0.0
        for _ in range(2):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


OUTSIDE = {
    "actions repeated": Repeat,
    "observations normalised": gymnasium.wrappers.NormalizeObservation,
    "frames stacked": lambda env: gymnasium.wrappers.FrameStackObservation(env, 3),
    "statistics": gymnasium.wrappers.RecordEpisodeStatistics,
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_what_may_be_outside(what):
    env = OUTSIDE[what](EpisodeBudget(Script()))
    for number in range(len(EPISODES)):
        env.reset()
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(0)
            total, over = total + reward, terminated or truncated
        assert total == pytest.approx(utility(*totals(number), **SETTINGS[0]), abs=1e-5)


def test_stacked_frames_inside():
    env = EpisodeBudget(gymnasium.wrappers.FrameStackObservation(Script(), 3))
    observation, _ = env.reset()
    assert observation["observation"].shape == (3, 2)
    assert sum(env.step(0)[1] for _ in EPISODES[0][0]) == pytest.approx(utility(*totals(0), **SETTINGS[0]), abs=1e-5)


def test_it_is_made_again_from_its_spec():
    env = EpisodeBudget(gymnasium.make("CartPole-v1"), budget=3, unit=0.5)
    again = gymnasium.make(env.spec)
    assert again.get_wrapper_attr("_episodes").accounting == env._episodes.accounting
    assert again.observation_space == env.observation_space


def test_vectors_of_stable_baselines():
    """Their own, of environments that are wrapped one by one, with a Monitor inside and outside."""
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    monitor = pytest.importorskip("stable_baselines3.common.monitor").Monitor
    for wrap, column in ((lambda env: EpisodeBudget(monitor(env)), 0), (lambda env: monitor(EpisodeBudget(env)), 1)):
        envs = vec_env.DummyVecEnv([lambda i=i, wrap=wrap: wrap(Script(i)) for i in range(COUNT)])
        envs.reset()
        sums, counts = np.zeros(COUNT), np.zeros(COUNT, int)
        for _ in range(40):
            _, reward, done, infos = envs.step(np.zeros(COUNT, int))
            sums += reward
            for index in np.flatnonzero(done):
                total = totals(index + counts[index])
                wanted = total[0], utility(*total, **SETTINGS[0])
                assert sums[index] == pytest.approx(wanted[1], abs=1e-5)
                assert infos[index]["episode"]["r"] == pytest.approx(wanted[column], abs=1e-5)
                assert infos[index]["terminal_observation"][2] == pytest.approx(total[0] / 50)
                sums[index], counts[index] = 0, counts[index] + 1
        with pytest.raises(ValueError, match="wrap each environment before a trainer vectorises it"):
            EpisodeBudget(envs)
