"""Accrued observations: by hand, for every method that has one, and as part of a run's identity."""

import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.algorithms import AGENTS
from perepisode.config import ConfigError
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from perepisode.methods import METHODS, Accrued, Objective
from perepisode.methods.accrued_obs import ACCRUED_OBS
from perepisode.runs import Run
from perepisode.study import matrix, packing
from perepisode.training import population, update
from tests.methods import FILES, sample_settings

OBSERVING = [name for name, method in METHODS.items() if method.accrued_obs is not None]


def after(task_return, violations):
    return Accrued(jnp.asarray(task_return, jnp.float32), jnp.asarray(violations, jnp.float32))


@pytest.mark.parametrize(
    ("name", "task_return", "violations", "expected"),
    [
        ("paper", 0.0, 0, [0, 0]),
        ("paper", 25.0, 2, [0.5, 0.4]),
        ("paper", -400.0, 60, [-5, 5]),
        ("scaled", 0.0, 0, [0, 0, 0, 0, 0, 0, 0]),
        ("scaled", 25.0, 1, [0.5, 6, 30, 0, 0, 0, 0]),
        ("scaled", 10.0, 4, [0.2, 24, 30, 30, 30, 30, 0]),
        ("scaled", 400.0, 60, [5, 150, 30, 30, 30, 30, 30]),  # √(8093 + 7) / 3 = 30
    ],
)
def test_by_hand(name, task_return, violations, expected):
    features = np.asarray(ACCRUED_OBS[name](after(task_return, violations), 8093))
    assert features == pytest.approx(np.array(expected, float), abs=1e-5)


@pytest.mark.parametrize("method", OBSERVING)
def test_every_method_with_an_accrued_observation_can_choose_it(method):
    accrued = after(np.full((3, 2), 25.0), np.full((3, 2), 1))
    scaled = METHODS[method].build(FILES, **sample_settings(method), accrued_obs="scaled")
    np.testing.assert_array_equal(scaled.features(accrued, 93), ACCRUED_OBS["scaled"](accrued, 93))
    if METHODS[method].features is Objective.features:
        default = METHODS[method].build(FILES, **sample_settings(method))
        np.testing.assert_array_equal(default.features(accrued, 93), ACCRUED_OBS["paper"](accrued, 93))


def test_saute_observes_its_remaining_budget():
    remaining = METHODS["saute"].build(budget=1).features(after(np.full((3, 2), 25.0), np.full((3, 2), 1)), 93)
    np.testing.assert_allclose(remaining, (1 - 1 / 1.5) * np.ones((3, 2, 1)), rtol=1e-6)


def test_the_scale_follows_the_number_of_inputs():
    """100 inputs in total give a scale of 10 / 3; training uses the environment's 3 inputs plus 7."""
    accrued = after(0.0, 1)
    assert np.asarray(ACCRUED_OBS["scaled"](accrued, 93))[2] == pytest.approx(10 / 3)
    env = Temptation()
    members = population.gather([Run("temptation", "temptation", "esr", {"budget": 1, "accrued_obs": "scaled"})])
    program = update.Program(AGENTS["ppo_gru"](env, TEMPTATION_PPO), 1, 1, 1)
    features = update.accrued_features(program, members, Accrued.zeros((1,)).add(jnp.zeros(1), jnp.ones(1)))
    assert np.asarray(features)[0, 2] == pytest.approx((3 + 7) ** 0.5 / 3)


def test_methods_without_an_accrued_observation_observe_nothing():
    assert {"esr", "esr_distilled", "ser_racc", "saute", "cvar", "chance"} <= set(OBSERVING)
    for name in set(METHODS) - set(OBSERVING):
        if METHODS[name].features is Objective.features:
            objective = METHODS[name].build(FILES, **sample_settings(name))
            assert objective.features(after(25.0, 1), env_inputs=10).shape == (0,)


def test_the_default_keeps_ids_and_labels():
    """266373e1270a is ESR k = 1 as trained before the setting existed."""
    run = Run("craftax", "no_killing", "esr", {"budget": 1}, seed=42, total_timesteps=750_000_000)
    assert (
        run.id
        == Run.from_json({**run.to_json(), "method_settings": {"budget": 1, "accrued_obs": "paper"}}).id
        == "266373e1270a"
    )
    assert run.arm == "k=1"
    assert "accrued_obs" not in run.to_json()["method_settings"]


def test_another_observation_is_another_run():
    run = Run(
        "craftax", "no_killing", "esr", {"budget": 1, "accrued_obs": "scaled"}, seed=42, total_timesteps=750_000_000
    )
    assert run.id != "266373e1270a"
    assert run.arm == "k=1, scaled obs"
    assert run.value == 1
    assert Run.from_json(run.to_json()).id == run.id


def test_different_observations_train_together():
    runs = [Run("temptation", "temptation", "esr", {"budget": 1, **own}) for own in ({}, {"accrued_obs": "scaled"})]
    racc = Run("temptation", "temptation", "ser_racc", {"weight": 0.1, "accrued_obs": "scaled"})
    saute = Run("temptation", "temptation", "saute", {"budget": 1})
    (pack,) = packing.pack([*runs, racc, saute], 8)
    members = population.gather(pack)
    assert members.accrued_obs_sizes == (2, 7, 7, 1)
    program = update.Program(AGENTS["ppo_gru"](Temptation(), TEMPTATION_PPO), 1, 1, 1)
    features = update.accrued_features(program, members, after(np.full(4, 25.0), np.full(4, 1)))
    np.testing.assert_allclose(features.values[0], [0.5, 0.2, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(features.values[3], [1 / 3, 0, 0, 0, 0, 0, 0], rtol=1e-6)
    assert (np.asarray(features.values[1:3, 2]) > 1).all()


def test_the_papers_matrix_uses_the_papers_observation():
    assert not any("accrued_obs" in run.method_settings for run in matrix.paper())


def test_an_unknown_observation_is_refused():
    for settings in ({"accrued_obs": "shouting"}, {"accrued_obs": "remaining"}):
        with pytest.raises(ConfigError, match="choose from paper, scaled"):
            Run("craftax", "no_killing", "esr", {"budget": 1, **settings}).checked()
    with pytest.raises(ConfigError, match="no setting 'accrued_obs'"):
        Run("craftax", "no_killing", "ser", {"weight": 1, "accrued_obs": "scaled"}).checked()
    Run("craftax", "no_killing", "saute", {"accrued_obs": "remaining"}).checked()
