"""Agents against the exact optima of Temptation: the committed table, and slowly the training behind it."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
COMMITTED = pd.read_csv(ROOT / "results" / "agents" / "optima.csv")


def near_the_optimum(table: pd.DataFrame) -> bool:
    """Within 2 % in every run; the Lagrangian also keeps its mean budget of 1."""
    held = table.loc[table["method"] == "lagrangian", "violations"]
    return bool(table["share"].between(0.98, 1.02).all() and held.between(0.85, 1.1).all())


def test_the_committed_runs_are_near_their_optima():
    assert set(COMMITTED["agent"]) == {"ppo_gru", "ppo_mlp", "pqn_gru"}
    assert set(COMMITTED.groupby(["agent", "method"])["seed"].nunique()) == {5}
    assert near_the_optimum(COMMITTED)
    assert not near_the_optimum(COMMITTED.assign(share=COMMITTED["share"] - 0.02))


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo_mlp", "pqn_gru"])
def test_training_again_is_near_the_optima(agent, tmp_path):
    measured = runpy.run_path(str(ROOT / "benchmarks" / "agents.py"))["measured"]
    table = measured(agent, (1, 2, 3, 4, 5), tmp_path)
    assert len(table) == 15
    assert near_the_optimum(table)
