"""Rules of training not covered by other tests; benchmarks/planted_bugs.py has a bug for each."""

import json
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perepisode import metrics
from perepisode.algorithms import on_policy
from perepisode.environments.base import EndCause, Outcome
from perepisode.environments.reset_pool import action_key, episode_key, reset_key, step_key
from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.evaluation import rollout
from perepisode.methods import Accrued
from perepisode.runs import Run, RunFolder
from perepisode.training import population, update
from perepisode.training.checkpoints import Checkpoints
from perepisode.training.train import metric_rows, prepare, weights

CONFIG = replace(TEMPTATION_PPO, num_envs=8, num_steps=6, update_epochs=3, num_minibatches=2, hidden_size=4)
RUN = Run("temptation", "temptation", "ser", {"weight": 0.3}, 3, 1.0, 4 * CONFIG.steps_per_update, config=CONFIG)


@pytest.fixture(scope="module")
def begun():
    program, members = prepare([RUN])
    params = update.initial_params(program, members, [RUN.seed])
    return program, members, jax.jit(partial(update.init, program))(members, params)


@pytest.mark.parametrize(("done", "left"), [(0, 1.0), (1, 0.75), (3, 0.25)])
def test_the_learning_rate_falls_with_the_updates_done(begun, monkeypatch, done, left):
    """The last of 4 updates uses a quarter of the learning rate, as observed during tracing."""
    program, members, state = begun
    rates, learning_rate = [], on_policy.learning_rate

    def noted(config, progress):
        rates.append(float(learning_rate(config, progress)))
        return learning_rate(config, progress)

    monkeypatch.setattr(on_policy, "learning_rate", noted)
    jax.eval_shape(lambda s: update.update(program, members, replace(s, update=np.int32(done))), state)
    assert rates
    assert rates == [pytest.approx(CONFIG.learning_rate * left)] * len(rates)


def test_every_epoch_uses_every_environment_once_in_its_own_order(begun, monkeypatch):
    program, members, state = begun
    shapes = jax.eval_shape(partial(update.rollout, program), members, state)
    own = jax.tree.map(lambda x: jnp.zeros((x.shape[0], *x.shape[2:]), x.dtype), shapes[1])
    last = jnp.zeros(shapes[3].shape)
    params, opt_state = jax.tree.map(lambda x: x[0], (state.params, state.opt_state))
    orders, scan = [], jax.lax.scan

    def noted(body, carry, xs=None, **options):
        if getattr(xs, "shape", ()) == (
            CONFIG.update_epochs * CONFIG.num_minibatches,
            CONFIG.num_envs // CONFIG.num_minibatches,
        ):
            orders.extend(np.asarray(xs).reshape(CONFIG.update_epochs, CONFIG.num_envs).tolist())
            return carry, {"loss": jnp.zeros(1), "grad_norm": jnp.zeros(1)}
        return scan(body, carry, xs, **options)

    monkeypatch.setattr(on_policy, "jax", SimpleNamespace(**{**vars(jax), "lax": SimpleNamespace(**vars(jax.lax))}))
    monkeypatch.setattr(on_policy.jax.lax, "scan", noted)
    program.agent.learn(
        params, opt_state, state.runner.hidden_state[0], own, last[0], 1.0, jax.random.key(5), jnp.float32(0)
    )
    assert [sorted(order) for order in orders] == [list(range(CONFIG.num_envs))] * CONFIG.update_epochs
    assert len({tuple(order) for order in [*orders, range(CONFIG.num_envs)]}) == CONFIG.update_epochs + 1


@pytest.mark.parametrize("most", [3, 64, 164, 70_000])
def test_the_metrics_of_an_update_are_those_of_its_finished_episodes_for_any_count(begun, most):
    """Against NumPy: unfinished episodes do not count, and no count is too large."""
    program, members, state = begun
    random = np.random.default_rng(most)
    ended = random.random((5, 1, 8)) < 0.4
    counts = random.integers(0, most + 1, (5, 1, 8, 1))
    accrued = Accrued(jnp.ones((5, 1, 8)), jnp.ones((5, 1, 8)))
    totals = SimpleNamespace(accrued=accrued, violations=jnp.asarray(counts), length=jnp.ones((5, 1, 8), jnp.int32))
    record = SimpleNamespace(ended=jnp.asarray(ended), totals=totals)
    seen = update.summary(program, members, state.duals, record)  # type: ignore
    names = ("entropy", "kl", "clip_fraction", "grad_norm", "value_loss")
    stacked = {name: np.asarray(value)[None] for name, value in seen.items()} | {n: np.zeros((1, 1)) for n in names}
    ((row,),) = metric_rows([RUN], 0, {**stacked, "alive": np.ones((1, 1), bool)}, 1.0)
    own = counts[..., 0][ended]
    assert row["episodes"] == len(own) > 3
    assert row["violations"] == own.sum() / len(own)
    assert row["violations_std"] == pytest.approx(np.sqrt(((own - own.mean()) ** 2).mean()))
    assert row["p_any"] == (own > 0).mean()
    assert row["p_over_1"] == (own > 1).mean()
    assert row["cvar"] == np.sort(own)[-metrics.tail_size(len(own)) :].mean()


def test_every_random_draw_of_an_episode_has_its_own_key():
    episode = episode_key(jax.random.key(1), jnp.int32(4))
    times = range(50)
    drawn = [reset_key(episode), *(step_key(episode, t) for t in times), *(action_key(episode, t) for t in times)]
    assert len({bytes(np.asarray(jax.random.key_data(key))) for key in drawn}) == len(drawn)


@pytest.mark.parametrize(("dilemma", "paper_detector", "charged"), [(0, False, 1.0), (1, False, 2.0), (2, True, 6.0)])
def test_a_run_is_charged_on_its_own_dilemma_by_its_own_detector(dilemma, paper_detector, charged):
    cost_spec = population.CostSpec(jnp.int32(dilemma), jnp.bool_(paper_detector), jnp.bool_(False))
    exact, paper = jnp.array([1, 2, 3]), jnp.array([4, 5, 6])
    assert float(cost_spec(Outcome(jnp.float32(0), exact, paper, {}, jnp.int32(0)))) == charged


def test_agents_of_one_seed_are_evaluated_on_the_same_episodes(begun):
    """The episode keys depend on the evaluation seed and the run's seed, and on nothing else."""
    *_, state = begun
    weighed = weights(jax.tree.map(lambda x: x[0], state.params))
    runs = [RUN, replace(RUN, method_settings={"weight": 0.1}), replace(RUN, seed=7)]
    _, members, _ = rollout.assemble(
        [rollout.Agent(run, weighed) for run in runs], rollout.EvalConfig(num_envs=2, seed=5)
    )
    expected = [jax.random.fold_in(jax.random.key(5), seed) for seed in (3, 3, 7)]
    assert jax.random.key_data(members.keys).tolist() == [jax.random.key_data(key).tolist() for key in expected]


def test_resuming_drops_metrics_after_the_checkpoint(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_metrics([{"update": update} for update in range(1, 9)])
    folder.metrics.write_text(folder.metrics.read_text() + '{"update": 9, "ret')
    folder.truncate_metrics(5)
    assert [json.loads(line)["update"] for line in folder.metrics.read_text().splitlines()] == [1, 2, 3, 4, 5]


def test_resuming_starts_at_the_newest_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for number in (4, 12):
        checkpoints.save(number, {"update": np.int32(number)})
        checkpoints.wait()
    assert int(checkpoints.restore({"update": np.int32(0)}, print)["update"]) == 12
    checkpoints.close()


def test_checkpoints_keep_the_random_keys_of_an_environments_state(tmp_path):
    checkpoints, state = Checkpoints(tmp_path), {"key": jax.random.split(jax.random.key(7), 3), "time": jnp.arange(3)}
    checkpoints.save(1, state)
    checkpoints.wait()
    restored = checkpoints.restore(jax.eval_shape(lambda: state), print)
    checkpoints.close()
    assert restored["key"].dtype == state["key"].dtype
    drawn = [jax.vmap(jax.random.normal)(one["key"]).tolist() for one in (restored, state)]
    assert drawn[0] == drawn[1]
    assert restored["time"].tolist() == [0, 1, 2]


@dataclass(frozen=True)
class ThreeDilemmas:
    dilemmas = ("a", "b", "c")


def test_each_dilemma_has_its_own_column():
    ended = np.zeros((4, 1, 2), bool)
    ended[3] = True
    totals = population.EpisodeState(
        env_state=None, is_first=None, episode_id=np.zeros((4, 1, 2), np.int32), length=np.full((4, 1, 2), 4),
        accrued=Accrued(np.zeros((4, 1, 2), "f4"), np.zeros((4, 1, 2), "f4")),
        violations=np.broadcast_to([1, 2, 3], (4, 1, 2, 3)), paper_violations=np.broadcast_to([4, 5, 6], (4, 1, 2, 3)),
        info={},
    )  # fmt: skip
    record = population.EpisodeStats(ended, np.where(ended, EndCause.TIMEOUT, EndCause.RUNNING), totals)
    members = SimpleNamespace(keys=jax.random.split(jax.random.key(0), 1))
    run = SimpleNamespace(**{**vars(RUN), "dilemma": "b", "id": "x", "arm": "", "value": 0.3, "to_json": RUN.to_json})
    agent = SimpleNamespace(run=run, objective=RUN.objective())
    program, protocol = (
        SimpleNamespace(env=ThreeDilemmas()),
        rollout.EvalConfig(num_envs=2, num_steps=4, episodes_per_env=1),
    )
    table = rollout._table([agent], protocol, program, members, record, np.zeros((4, 1, 2), np.uint8))
    names = [f"violations{end}" for end in ("", "_a", "_b", "_c", "_a_paper", "_b_paper", "_c_paper")]
    assert table[names].to_numpy().tolist() == [[2, 1, 2, 3, 4, 5, 6]] * 2
