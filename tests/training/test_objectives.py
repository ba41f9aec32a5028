from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perepisode.config import ConfigError
from perepisode.methods import METHODS, PAPER, Accrued, Finished, Objective
from perepisode.settings import check
from tests.methods import FILES, sample_settings

steps = st.lists(st.tuples(st.floats(-1, 8), st.integers(0, 3)), min_size=1, max_size=30)


def accrued(task_return, violations):
    return Accrued(jnp.float32(task_return), jnp.float32(violations))


def rewards_of(objective, episode, dual=None):
    """Step rewards of one episode given as (task reward, violations) pairs."""
    dual = objective.init_dual() if dual is None else dual
    before, rewards = accrued(0, 0), []
    for task_reward, cost in episode:
        after = accrued(before.task_return + jnp.float32(task_reward), before.violations + cost)
        rewards.append(float(objective.reward(dual, before, after)))
        before = after
    return rewards, before


@settings(max_examples=40)
@given(steps, st.sampled_from([0, 1, 2, 4]))
def test_eq7_telescopes(episode, budget):
    objective = METHODS["esr"].build(budget=budget)
    rewards, totals = rewards_of(objective, episode)
    utility = float(objective.u(totals.task_return, totals.ethical_return))
    assert sum(rewards) == pytest.approx(utility, abs=2e-3)
    assert float(objective.episode_utility(objective.init_dual(), totals)) == pytest.approx(utility, abs=1e-4)


@settings(max_examples=25)
@given(steps, st.sampled_from([0.1, 0.3, 1.0]))
def test_ser_racc_pays_the_ser_reward(episode, weight):
    racc, _ = rewards_of(METHODS["ser_racc"].build(weight=weight), episode)
    plain, _ = rewards_of(METHODS["ser"].build(weight=weight), episode)
    by_hand = [task_reward - weight * 10.0 * cost for task_reward, cost in episode]
    # the increment of a running sum is exact up to the rounding of that sum
    np.testing.assert_allclose(racc, by_hand, atol=1e-3)
    np.testing.assert_allclose(plain, by_hand, atol=1e-3)


def test_penalty_and_unconstrained_rewards():
    episode = [(1.0, 0), (2.0, 1), (0.5, 2)]
    assert rewards_of(METHODS["erm"].build(), episode)[0] == pytest.approx([1.0, -8.0, -19.5])
    assert rewards_of(METHODS["unconstrained"].build(), episode)[0] == pytest.approx([1.0, 2.0, 0.5])


@pytest.mark.parametrize(("enforcement", "ends_at"), [("absolute", 1), ("calculated", 4), ("heuristic", None)])
def test_enforcement_ends_at_the_first_and_at_the_fourth(enforcement, ends_at):
    objective = METHODS["erm"].build(enforcement=enforcement)
    ended = [bool(objective.ends_episode(accrued(0.0, v))) for v in range(8)]
    first = ended.index(True) if True in ended else None
    assert first == ends_at


def test_no_other_method_of_the_paper_ends_an_episode():
    assert [name for name in PAPER if METHODS[name].ends_episode is not Objective.ends_episode] == ["erm"]
    for name, method in METHODS.items():
        if method.ends_episode is Objective.ends_episode:
            objective = method.build(FILES, **sample_settings(name))
            assert not bool(objective.ends_episode(accrued(5.0, 100.0))), name


def finished(costs, unfinished=2):
    violations = np.array([*costs, *([99.0] * unfinished)], np.float32)[None]
    ended = np.array([[True] * len(costs) + [False] * unfinished])
    return Finished(jnp.asarray(ended), jnp.asarray(violations))


def test_eq4_by_hand():
    lagrangian = METHODS["lagrangian"].build(budget=0.5, lambda_lr=0.02, lambda_max=1.0)
    assert float(lagrangian.next_dual(jnp.float32(0.1), finished([1, 2, 0]))) == pytest.approx(0.1 + 0.02 * 0.5)
    assert float(lagrangian.next_dual(jnp.float32(0.004), finished([0, 0]))) == 0.0  # clipped at zero
    assert float(lagrangian.next_dual(jnp.float32(0.99), finished([5]))) == 1.0  # and at λ_max
    rewards, _ = rewards_of(lagrangian, [(1.0, 0), (1.0, 2)], dual=jnp.float32(3.0))
    assert rewards == pytest.approx([1.0, -5.0])


@pytest.mark.parametrize("name", ["lagrangian", "pid_lagrangian", "cvar", "chance"])
def test_an_empty_window_holds_the_dual(name):
    objective = METHODS[name].build(budget=1.0)
    dual = objective.next_dual(objective.init_dual(), finished([4, 4, 4]))
    held = objective.next_dual(dual, finished([]))
    for a, b in zip(_leaves(dual), _leaves(held)):
        np.testing.assert_array_equal(a, b)
        assert np.isfinite(a).all()


def _leaves(tree):
    import jax

    return jax.tree.leaves(tree)


def test_accrued_features():
    esr = METHODS["esr"].build(budget=1)
    np.testing.assert_allclose(esr.features(accrued(25.0, 1.0), env_inputs=10), [0.5, 0.2])
    np.testing.assert_allclose(esr.features(accrued(1e6, 1e6), env_inputs=10), [5.0, 5.0])
    np.testing.assert_allclose(esr.features(accrued(0.0, 0.0), env_inputs=10), [0.0, 0.0])
    assert METHODS["ser"].build(weight=1).features(accrued(25.0, 1.0), env_inputs=10).shape == (0,)


def test_stated_utilities_of_the_paper():
    strict, budget = METHODS["esr"].build(budget=0), METHODS["esr"].build(budget=2)
    assert (strict.rho_u, strict.sharpness) == (10.0, 12.0)
    assert (budget.rho_u, budget.sharpness) == (1.0, 12.0)
    assert (float(strict.gate(0.5)), float(budget.gate(2.5))) == (0.5, 0.5)  # where the tolerance lies


def test_saute_keeps_the_earned_return_and_pays_nothing_afterwards():
    rewards, _ = rewards_of(METHODS["saute"].build(budget=1), [(1.0, 0), (2.0, 1), (3.0, 1), (4.0, 0)])
    assert rewards == pytest.approx([1.0, 2.0, 0.0, 0.0])


def test_cvar_and_pid_by_hand():
    cvar = METHODS["cvar"].build(budget=1.0)
    dual = cvar.next_dual(cvar.init_dual(), finished([0, 2, 4, 0]))
    # q = 0: constraint = 0 + mean(0, 2, 4, 0) / 0.1 = 15, λ = 0.05 (15 - 1); all costs are >= q, q = 0.05 (1 - 0.1)
    assert float(dual.multiplier) == pytest.approx(0.7)
    assert float(dual.quantile) == pytest.approx(0.045)
    pid = METHODS["pid_lagrangian"].build(budget=1.0)
    dual = pid.next_dual(pid.init_dual(), finished([3, 3]))
    # error 2: P = 0.05 * 2, I = 0.01 * 2, D = 3 - 1
    assert float(dual.multiplier) == pytest.approx(0.1 * 0.1 + 0.02 + 0.01 * 2)


def test_rewards_of_cvar_and_pid_by_hand():
    """PID: (r - 3 v) / (1 + 3); CVaR: r - 2 / 0.1 for each violation beyond q = 1."""
    pid, cvar = METHODS["pid_lagrangian"].build(budget=1.0), METHODS["cvar"].build(budget=1.0)
    rewards, _ = rewards_of(pid, [(1.0, 1), (2.0, 0)], dual=replace(pid.init_dual(), multiplier=jnp.float32(3.0)))
    assert rewards == pytest.approx([-0.5, 0.5])
    dual = replace(cvar.init_dual(), multiplier=jnp.float32(2.0), quantile=jnp.float32(1.0))
    rewards, _ = rewards_of(cvar, [(1.0, 1), (1.0, 2)], dual=dual)
    assert rewards == pytest.approx([1.0, 1.0 - 2.0 * 2 / 0.1])


def test_pid_ignores_a_falling_cost():
    """Error -0.5 after costs of 1: P = 0.05 * -0.5, I = 1 - 0.005, D = 0."""
    pid = METHODS["pid_lagrangian"].build(budget=1.0)
    dual = pid.next_dual(replace(pid.init_dual(), integral=jnp.float32(1.0)), finished([0, 1]))
    assert float(dual.multiplier) == pytest.approx(0.1 * 0.05 * -0.5 + 0.995)


def test_chance_constraint_charges_the_step_that_breaks_the_budget():
    chance = METHODS["chance"].build(budget=1)
    rewards, _ = rewards_of(chance, [(1.0, 1), (1.0, 1), (1.0, 1)], dual=jnp.float32(7.0))
    assert rewards == pytest.approx([1.0, -6.0, 1.0])


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("lagrangian", {"budget": -1}, "budget=-1 is out of range; budget must be a number, at least 0"),
        ("ser", {}, "needs weight"),
        ("ser", {"weight": 1, "colour": 2}, "no setting 'colour'"),
        ("erm", {"enforcement": "mild"}, "enforcement 'mild' is unknown"),
    ],
)
def test_wrong_settings_are_refused(method, given, words):
    with pytest.raises(ConfigError, match=words):
        check(METHODS[method], given, method)


def test_the_integral_of_pid_is_never_negative():
    """A long time below the budget must not offset later violations."""
    pid = METHODS["pid_lagrangian"].build(budget=1.0, kp=0.0, ki=0.1, kd=0.0)
    dual = pid.init_dual()
    for _ in range(5):
        dual = pid.next_dual(dual, finished([0, 0]))
    assert float(dual.integral) == 0.0
    assert float(pid.next_dual(dual, finished([3])).multiplier) == pytest.approx(0.1 * 2)


@pytest.mark.parametrize("sharpness", [1.0, 4.0, 12.0])
def test_the_gate_has_the_given_sharpness(sharpness):
    esr = METHODS["esr"].build(budget=1, sharpness=sharpness)
    assert float(esr.gate(1.0)) == pytest.approx(1 / (1 + np.exp(-0.5 * sharpness)), rel=1e-5)
    assert float(esr.u(30.0, -20.0)) == pytest.approx(30 / (1 + np.exp(0.5 * sharpness)) - 2, rel=1e-4)
