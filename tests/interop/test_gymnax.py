"""The gymnax adapter: exact counts, replayable episodes, and no unnecessary resets."""

from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.config import ConfigError
from perepisode.environments import make
from perepisode.environments.base import EndCause, Outcome
from tests.interop.oracle import Cliff, Counted, replayed_episode

pytest.importorskip("gymnax")
from gymnax.environments import environment, spaces

from perepisode.interop import autoreset, gymnax

NUM_ENVS, STEPS = 6, 50
OPTIONS = {"horizon": 8, "offer_prob": 0.6, "max_gain": 4.0}  # powers of two: observations have no rounding


def play(env, params, keys, actions):
    """Every step of every environment, through `vmap(step)` in one scan: [step, env, ...]."""

    @jax.jit
    def whole(keys, actions):
        observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)

        def one(carry, action):
            observation, state = carry
            values = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, action, params)
            return values[:2], (observation, state.episode_id, *values)

        return jax.lax.scan(one, (observation, state), actions)[1]

    return jax.tree.map(np.asarray, whole(keys, actions))


@pytest.fixture(scope="module", params=[make("temptation", **OPTIONS), Cliff()], ids=lambda own: own.name)
def played(request):
    """An environment, keys and actions of a batch, and everything that `step` returned."""
    env, params = gymnax.make(request.param)
    keys = jax.random.split(jax.random.key(3), NUM_ENVS)
    actions = np.random.default_rng(0).integers(0, env.num_actions, (STEPS, NUM_ENVS))
    return request.param, keys, actions, play(env, params, keys, actions)


def episodes(played):
    """(env_index, episode_id, steps) of every finished episode."""
    _, _, _, (_, _, _, _, _, terminated, truncated, _) = played
    for env_index in range(NUM_ENVS):
        ends = np.flatnonzero((terminated | truncated)[:, env_index])
        for episode_id, (first, last) in enumerate(zip([0, *(ends[:-1] + 1)], ends)):
            yield env_index, episode_id, slice(first, last + 1)


def test_every_episode_equals_its_replay(played):
    own, keys, actions, (before, episode_ids, after, _, reward, terminated, truncated, info) = played
    finished = list(episodes(played))
    assert len(finished) > 4 * NUM_ENVS
    for env_index, episode_id, steps in finished[:: len(finished) // 10]:
        seen, outcomes = replayed_episode(own, keys[env_index], episode_id, actions[steps, env_index])
        np.testing.assert_array_equal(episode_ids[steps, env_index], episode_id)
        np.testing.assert_array_equal(before[steps, env_index], seen[:-1])
        np.testing.assert_array_equal(info["final_observation"][steps, env_index], seen[1:])
        np.testing.assert_array_equal(after[steps, env_index][:-1], np.asarray(seen)[1:-1])
        np.testing.assert_array_equal(reward[steps, env_index], [one.task_reward for one in outcomes])
        counts = np.stack([one.violations for one in outcomes])
        for name, column in zip(own.dilemmas, counts.T):
            np.testing.assert_array_equal(info[f"violations_{name}"][steps, env_index], column)
        np.testing.assert_array_equal(info["cost"][steps, env_index].sum(), counts[:, 0].sum())
        np.testing.assert_array_equal(info["episode_cost"][steps, env_index], counts[:, 0].cumsum())
        assert not any(one.ended for one in outcomes[:-1])
        timeout = outcomes[-1].end_cause == EndCause.TIMEOUT
        assert (truncated[steps, env_index][-1], terminated[steps, env_index][-1]) == (timeout, not timeout)


@pytest.mark.parametrize("share", [1, 2, 16])
def test_results_do_not_depend_on_the_backend_or_on_how_many_spares_are_assigned_at_once(played, monkeypatch, share):
    """On a GPU, spares are assigned before it is checked whether any is missing."""
    own, keys, actions, expected = played
    monkeypatch.setattr(autoreset, "SHARE", share)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = play(*gymnax.make(own), keys, actions)
    # spares are not compared: which of them are ready depends on when the missing ones were generated
    for index in (0, 1, 2, *range(4, 8)):
        jax.tree.map(np.testing.assert_array_equal, found[index], expected[index])


def test_the_observation_after_an_episode_is_the_first_of_the_next(played):
    own, keys, _, (_, _, after, *_) = played
    for env_index, episode_id, steps in list(episodes(played))[:5]:
        first, _ = replayed_episode(own, keys[env_index], episode_id + 1, [])
        np.testing.assert_array_equal(after[steps, env_index][-1], first[0])


def test_episodes_ended_in_every_way(played):
    own, keys, actions, _ = played
    causes = {int(replayed_episode(own, keys[p], n, actions[s, p])[1][-1].end_cause) for p, n, s in episodes(played)}
    expected = {EndCause.DEATH, EndCause.WON, EndCause.TIMEOUT} if own.name == "cliff" else {EndCause.TIMEOUT}
    assert causes == expected


def test_an_environment_is_the_same_alone_in_a_batch_and_in_a_nested_batch():
    env, params = gymnax.make(Cliff())
    keys = jax.random.split(jax.random.key(5), NUM_ENVS)
    actions = np.random.default_rng(1).integers(0, 3, (STEPS, NUM_ENVS))
    batch = play(env, params, keys, actions)

    def spread(tree):
        return jax.tree.map(lambda leaf: leaf.reshape(2, NUM_ENVS // 2, *leaf.shape[1:]), tree)

    step = jax.jit(jax.vmap(jax.vmap(env.step, in_axes=(0, 0, 0, None)), in_axes=(0, 0, 0, None)))
    _, nested = jax.vmap(jax.vmap(env.reset))(spread(keys))
    _, alone = env.reset(keys[2])
    for time in range(STEPS):
        observation, nested, reward, *_ = step(spread(keys), nested, spread(actions[time]), params)
        np.testing.assert_array_equal(observation.reshape(NUM_ENVS, -1), batch[2][time])
        np.testing.assert_array_equal(reward.reshape(NUM_ENVS), batch[4][time])
        seen, alone, *_ = env.step(keys[0], alone, actions[time, 2], params)
        np.testing.assert_array_equal(seen, batch[2][time][2])


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_environments_are_reset_only_for_finished_episodes(monkeypatch, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    env, params = gymnax.make(Counted())
    keys = jax.random.split(jax.random.key(7), 32)
    _, state = jax.vmap(env.reset)(keys)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    jax.effects_barrier()
    Counted.resets, ended = 0, 0
    for _ in range(60):
        _, state, _, terminated, truncated, _ = step(keys, state, jnp.ones(32, int), params)
        ended += int((terminated | truncated).sum())
    jax.effects_barrier()
    assert ended > 32
    # one per finished episode, one spare per environment, and the rest of each share that is generated at once
    assert ended <= Counted.resets <= 1.5 * (ended + 32)


def test_nothing_is_reset_while_no_episode_ends():
    env, params = gymnax.make(Counted(width=100))
    keys = jax.random.split(jax.random.key(7), 32)
    _, state = jax.vmap(env.reset)(keys)
    jax.effects_barrier()
    Counted.resets = 0
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    for _ in range(11):
        _, state, _, terminated, truncated, _ = step(keys, state, jnp.ones(32, int), params)
    assert not (terminated | truncated).any()
    jax.effects_barrier()
    assert Counted.resets == 0


def test_the_5_tuple_merges_both_ends_and_equals_its_copies():
    six, params = gymnax.make(Cliff(), dilemma="noise")
    five, copied = deepcopy(gymnax.make(Cliff(), dilemma="noise", step_api="5-tuple"))
    assert copied.max_steps_in_episode == params.max_steps_in_episode == 12
    assert five == deepcopy(five)
    assert hash(five) == hash(deepcopy(five))
    assert five != six
    keys = jax.random.split(jax.random.key(3), NUM_ENVS)
    actions = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))
    *_, reward, terminated, truncated, info = play(six, params, keys, actions)
    *_, same, done, short = play(five, copied, keys, actions)
    np.testing.assert_array_equal(done, terminated | truncated)
    np.testing.assert_array_equal(same, reward)
    np.testing.assert_array_equal(info["cost"], actions)
    np.testing.assert_array_equal(short["cost"], actions)
    # scripts that unpack five values average everything in info, as Craftax_Baselines does
    assert info.keys() - short.keys() == {"final_observation"}
    assert {value.shape for value in short.values()} == {(STEPS, NUM_ENVS)}


def test_rewards_are_the_task_reward_a_penalised_one_or_a_vector():
    keys = jax.random.split(jax.random.key(3), NUM_ENVS)
    actions = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))
    task, priced, vector = (
        play(*gymnax.make(Cliff(), "noise", **options), keys, actions)[4]
        for options in ({}, {"reward": "penalised", "price": 0.25}, {"reward": "vector"})
    )
    np.testing.assert_array_equal(priced, task - np.float32(0.25) * actions)
    np.testing.assert_array_equal(vector, np.stack([task, -actions], axis=-1))


def test_the_parameters_can_shorten_episodes():
    env, params = gymnax.make("temptation", **OPTIONS)
    keys = jax.random.split(jax.random.key(3), NUM_ENVS)
    *_, terminated, truncated, _ = play(env, params.replace(max_steps_in_episode=3), keys, np.zeros((9, NUM_ENVS), int))
    np.testing.assert_array_equal(np.flatnonzero(truncated[:, 0]), [2, 5, 8])
    assert not terminated.any()


@pytest.mark.parametrize("old", [jax.random.PRNGKey, jax.random.key, partial(jax.random.key, impl="rbg")])
def test_keys_of_every_implementation_work(old):
    env, params = gymnax.make("temptation", **OPTIONS)
    observation, state = env.reset(old(1), params)
    again, _ = env.reset(old(1), params)
    np.testing.assert_array_equal(observation, again)
    assert all(isinstance(np.asarray(leaf), np.ndarray) for leaf in jax.tree.leaves(state))


def test_it_is_a_gymnax_environment():
    env, params = gymnax.make("temptation")
    assert isinstance(env, environment.Environment)
    assert isinstance(env.action_space(params), spaces.Discrete)
    assert (env.num_actions, env.action_space(params).n, env.name) == (2, 2, "temptation")
    space = env.observation_space(params)
    assert (space.shape, space.low, space.high) == ((3,), 0, 1)
    assert gymnax.make(Cliff())[0].observation_space().high == np.inf
    assert params.max_steps_in_episode == env.default_params.max_steps_in_episode == 40
    assert hash(params) == hash(env.default_params)  # wrappers of Craftax_Baselines compile once per value
    observation, state = env.reset_env(jax.random.key(0), params)
    seen, after, reward, terminated, _ = env.step_env(jax.random.key(1), state, 0, params)
    np.testing.assert_array_equal(seen, env.get_obs(after))
    assert (float(reward), bool(terminated), observation.shape) == (0.75, False, (3,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "nowhere"}, "nowhere"),
        ({"dilemma": "no_lying"}, "no_lying.*temptation"),
        ({"reward": "none"}, "reward 'none'.*penalised"),
        ({"reward": "penalised"}, "price"),
        ({"price": 1.0}, "price"),
        ({"step_api": "4-tuple"}, "step_api='4-tuple'"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        gymnax.make(**{"env": "temptation", **arguments})


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf"), "2", True])
def test_a_price_is_a_number_of_at_least_zero(price):
    with pytest.raises(ValueError, match=f"price={price!r}: use a number of at least 0"):
        gymnax.make("temptation", reward="penalised", price=price)


def test_a_price_and_its_reward_go_together():
    with pytest.raises(ValueError, match="reward='penalised' needs price="):
        gymnax.make("temptation", reward="penalised")
    with pytest.raises(ValueError, match="price needs reward='penalised'"):
        gymnax.make("temptation", price=2.0)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_episodes_follow_from_the_key_of_their_environment_for_every_implementation(kind):
    env, params = gymnax.make(Cliff())
    keys = jax.random.split(jax.random.key(0, impl=kind), 4)
    others = jnp.concatenate([keys[:1], jax.random.split(jax.random.key(99, impl=kind), 3)])

    def key_data(keys):
        return jax.vmap(env.reset, in_axes=(0, None))(keys, params)[1].key

    assert (key_data(keys) == key_data(others)).all(axis=1).tolist() == [True, False, False, False]
    np.testing.assert_array_equal(key_data(keys), [env.reset(key, params)[1].key for key in keys])
    assert len({tuple(row) for row in key_data(keys).tolist()}) == 4
    raw = np.tile(jax.random.key_data(keys[0]), (4, 1))
    raw[:, -1] += np.arange(4, dtype=np.uint32)
    by_last_word = key_data(jax.random.wrap_key_data(jnp.asarray(raw), impl=kind))
    assert len({tuple(row) for row in by_last_word.tolist()}) == 4


@pytest.mark.parametrize(("width", "ways"), [(3, {EndCause.DEATH, EndCause.WON}), (100, {EndCause.TIMEOUT})])
def test_step_env_says_how_an_episode_ended(width, ways):
    """In the order of gymnax's own `step`: `step_env`, then `is_truncated`."""
    own, keys = Cliff(width=width), jax.random.split(jax.random.key(3), NUM_ENVS)
    actions = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))
    env, params = gymnax.make(own)
    params = params.replace(max_steps_in_episode=1000)  # does not change the time limit of the environment itself
    step, causes = jax.jit(env.step_env), set()
    for env_index in range(NUM_ENVS):
        _, state = env.reset_env(keys[env_index], params)
        for action in actions[:, env_index]:
            assert not env.is_terminated(state)
            _, state, _, terminated, _ = step(keys[0], state, action, params)
            truncated = bool(env.is_truncated(state, params))
            assert terminated == env.is_terminated(state) == (env.discount(state, params) == 0)
            if terminated or truncated:
                break
        _, outcomes = replayed_episode(own, keys[env_index], 0, actions[: int(state.time), env_index])
        assert truncated == (outcomes[-1].end_cause == EndCause.TIMEOUT)
        causes.add(int(outcomes[-1].end_cause))
        _, state = env.reset(keys[env_index], params)  # again, with the step that resets automatically
        for action in actions[:, env_index]:
            *_, state, _, terminated, truncated, _ = env.step(keys[0], state, action, params)
            assert not env.is_terminated(state)
            assert not env.is_truncated(state, params)
            if terminated or truncated:
                break
        assert state.episode_id == 1
    assert causes == ways


def test_step_env_is_truncated_by_the_parameters():
    """A shorter limit than the environment's own; a longer one changes nothing."""
    env, params = gymnax.make("temptation", **OPTIONS)
    for limit, expected in ((3, 3), (1000, OPTIONS["horizon"])):
        limited = params.replace(max_steps_in_episode=limit)
        _, state = env.reset_env(jax.random.key(0), limited)
        for time in range(1, expected + 1):
            _, state, _, terminated, _ = env.step_env(jax.random.key(0), state, 0, limited)
            assert (bool(terminated), bool(env.is_truncated(state, limited))) == (False, time == expected)


@pytest.mark.parametrize("step_api", ["5-tuple", "6-tuple"])
def test_without_automatic_reset_the_library_resets(step_api):
    """Episodes are those of the other adapter; the state after the end is that of the end."""
    own, keys = Cliff(), jax.random.split(jax.random.key(3), NUM_ENVS)
    actions = np.random.default_rng(0).integers(0, 3, (STEPS, NUM_ENVS))
    env, params = gymnax.make(own, step_api=step_api, auto_reset=False)
    causes = []
    for env_index in range(NUM_ENVS):
        first, state = env.reset(keys[env_index], params)
        for action in actions[:, env_index]:
            seen, state, reward, *ends, info = env.step(keys[0], state, action, params)
            if any(map(bool, ends)):
                break
        shown, outcomes = replayed_episode(own, keys[env_index], 0, actions[: int(state.time), env_index])
        np.testing.assert_array_equal(first, shown[0])
        np.testing.assert_array_equal(seen, shown[-1])
        np.testing.assert_array_equal(seen, env.get_obs(state))
        assert info["episode_cost"] == sum(one.violations[0] for one in outcomes)
        assert (reward, bool(outcomes[-1].ended)) == (outcomes[-1].task_reward, True)
        causes.append(EndCause(int(outcomes[-1].end_cause)))
        assert bool(info["truncated"]) == (causes[-1] is EndCause.TIMEOUT)
    assert len(set(causes)) > 1
    assert env != gymnax.make(own, step_api=step_api)[0]
    assert env == gymnax.make(own, step_api=step_api, auto_reset=False)[0]


def test_without_automatic_reset_no_spare_is_generated():
    env, params = gymnax.make(Counted(), auto_reset=False)
    keys = jax.random.split(jax.random.key(7), 32)
    _, state = jax.vmap(env.reset)(keys)
    jax.effects_barrier()
    Counted.resets = 0
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    ended = jnp.zeros(32, bool)
    for _ in range(12):
        _, state, _, terminated, truncated, _ = step(keys, state, jnp.ones(32, int), params)
        ended |= terminated | truncated
    assert ended.all()
    jax.effects_barrier()
    assert Counted.resets == 0


class PlainNumbers(Cliff):
    """Returns Python numbers and never ends."""

    name, dilemmas = "plain_numbers", ("bruises",)

    def step(self, key, state, action):
        counts = jnp.array([action == 1]).astype(jnp.uint8) * 200
        return state, Outcome(1.0, counts, counts, {}, EndCause.RUNNING)


def test_python_numbers_are_accepted_and_large_counts_do_not_overflow():
    env, params = gymnax.make(PlainNumbers())
    keys = jax.random.split(jax.random.key(0), 2)
    _, state = jax.vmap(env.reset)(keys)
    for _ in range(3):
        values = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, np.array([0, 1]), params)
        state = values[1]
    assert values[-1]["episode_cost"].tolist() == [0, 600]
    _, alone = env.reset(keys[0], params)
    *_, info = env.step_env(keys[0], alone, 1, params)  # a Python action outside jit
    assert info["cost"] == 200


@dataclass(frozen=True)
class Few(PlainNumbers):
    """Two dilemmas, but counts of one."""

    name, dilemmas = "few", ("a", "b")


@pytest.mark.parametrize(
    ("env", "message"),
    [(Few(), "few: Outcome.violations is uint8.1.; it must be a whole number for each"), ("no.py:Way", "no file")],
)
def test_the_adapter_checks_an_environment_as_training_does(env, message):
    with pytest.raises(ConfigError, match=message):
        gymnax.make(env)


def test_a_class_works_like_its_name():
    assert gymnax.make(type(make("temptation")), horizon=3) == gymnax.make("temptation", horizon=3)


@pytest.mark.parametrize(("action", "message"), [(jnp.zeros(2, int), r"int32\[2\]"), (0.9, r"float32\[\]")])
def test_an_action_is_one_whole_number(action, message):
    env, params = gymnax.make("temptation")
    _, state = env.reset(jax.random.key(0), params)
    with pytest.raises(ConfigError, match=f"the action of an environment is {message}; it must be one whole number"):
        env.step(jax.random.key(0), state, action, params)
