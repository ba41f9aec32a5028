"""Agents against the exact optima of Temptation: the committed table, and slowly the training behind it."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
COMMITTED, COST_CRITICS = (
    pd.read_csv(ROOT / "results" / "agents" / f"{name}.csv") for name in ("optima", "cost_critics")
)


def near_the_optimum(table: pd.DataFrame) -> bool:
    """Within 2 % in every run; the Lagrangian also keeps its mean budget of 1."""
    held = table.loc[table["method"] == "lagrangian", "violations"]
    return bool(table["share"].between(0.98, 1.02).all() and held.between(0.85, 1.1).all())


def test_the_committed_runs_are_near_their_optima():
    assert set(COMMITTED["agent"]) == {"ppo_gru", "ppo_mlp", "pqn_gru"}
    assert set(COMMITTED.groupby(["agent", "method"])["seed"].nunique()) == {5}
    assert near_the_optimum(COMMITTED)
    assert not near_the_optimum(COMMITTED.assign(share=COMMITTED["share"] - 0.02))


def near_the_frontier(table: pd.DataFrame) -> bool:
    """Within 2 % in every run, and near the mean budget of 1 over the seeds of each method."""
    held = table.groupby(["agent", "method"])["violations"].mean()
    return bool(table["share"].between(0.98, 1.02).all() and held.between(0.85, 1.15).all())


def test_the_committed_methods_with_a_cost_critic_are_near_the_frontier():
    counts = COST_CRITICS.groupby(["agent", "method"])["seed"].nunique()
    assert set(counts) == {5}
    assert len(counts) == 10
    assert near_the_frontier(COST_CRITICS)
    assert not near_the_frontier(COST_CRITICS.assign(violations=COST_CRITICS["violations"] + 0.2))


@pytest.mark.slow
def test_training_the_methods_with_a_cost_critic_again_is_near_the_frontier(tmp_path):
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "agents.py"))
    given = (benchmark[name] for name in ("COST_CRITICS", "COST_CRITIC_STEPS", "COST_CRITIC_SETTINGS"))
    table = benchmark["measured"]("ppo_mlp", (1, 2, 3, 4, 5), tmp_path, *given)
    assert len(table) == 25
    assert near_the_frontier(table)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo_mlp", "pqn_gru"])
def test_training_again_is_near_the_optima(agent, tmp_path):
    measured = runpy.run_path(str(ROOT / "benchmarks" / "agents.py"))["measured"]
    table = measured(agent, (1, 2, 3, 4, 5), tmp_path)
    assert len(table) == 15
    assert near_the_optimum(table)
