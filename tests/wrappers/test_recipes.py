"""The recipes of examples/budget: their agents reach the exact optimum of their utility within 3 %."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "wrappers" / "optima.csv"
LIBRARY = {
    "sb3_ppo": "stable_baselines3",
    "sb3_recurrent": "sb3_contrib",
    "cleanrl_ppo": "torch",
    "rejax_ppo": "rejax",
    "purejaxrl_ppo": "distrax",
    "brax_ppo": "brax",
}


@pytest.fixture
def optima(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), str(ROOT / "examples" / "budget"), *sys.path])
    return import_module("wrapper_optima")


def test_the_committed_table_holds_what_the_page_claims():
    rows = pd.read_csv(TABLE)
    assert (rows["utility"] >= 0.97 * rows["exact_utility"]).all()
    for (_, _), own in rows.groupby(["recipe", "budget"]):
        assert own["seed"].tolist() == [1, 2, 3]
    assert rows.query("budget == 1")["recipe"].nunique() >= 4
    assert rows.query("budget == 2")["recipe"].nunique() >= 1


def test_the_committed_optima_are_exact(optima):
    pytest.importorskip("gymnasium")
    for budget, own in pd.read_csv(TABLE).groupby("budget"):
        assert own["exact_utility"].to_numpy() == pytest.approx(optima.optimum(budget).utility, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("recipe", "budget"), [*((recipe, 1) for recipe in LIBRARY), ("sb3_ppo", 2)])
def test_a_recipe_reaches_the_optimum(optima, recipe, budget, seed):
    if find_spec(LIBRARY[recipe]) is None:
        pytest.skip(f"{LIBRARY[recipe]} is not installed")
    row = optima.measure(recipe, budget, seed)
    assert row["utility"] >= 0.97 * row["exact_utility"]
