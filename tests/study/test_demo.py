"""The demo: its studies, its exact optima, and its three numbers for agents of a known policy."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from perepisode import agents
from perepisode.environments.temptation import Temptation
from perepisode.evaluation import episodes
from perepisode.study import demo, exact, plan

EPISODES = 3000


def test_the_miniature_has_every_method_control_budget_and_the_gamma_1_ablation():
    study = demo.studies(craftax=False)["temptation"]
    runs = [member.run() for task in study.tasks for member in task.members]
    assert {run.method for run in runs} == {
        "unconstrained", "erm", "ser", "lagrangian", "esr", "esr_distilled", "ser_racc",
    }  # fmt: skip
    assert {run.arm for run in runs if run.method == "esr"} == {"k=0", "k=1", "k=2", "k=4"}
    assert {(run.method, run.gamma) for run in runs if run.gamma == 1} == {("esr", 1.0), ("esr_distilled", 1.0)}
    assert {run.seed for run in runs} == {42, 123, 7}
    assert {task.kind for task in study.tasks} == {"train", "distill", "exact", "report"}


def test_the_craftax_study_evaluates_every_bundled_agent_then_replays_and_reports(tmp_path):
    study = demo.studies(craftax=True)["craftax"]
    assert sorted(study.agents) == sorted(agents.names())
    assert [task.kind for task in study.tasks] == ["evaluate", "evaluate", "replay", "report"]
    assert study.runs == 0
    plan.save(study, tmp_path)
    assert plan.load(tmp_path) == study


def test_a_study_of_other_agents_is_another_study():
    ids = {plan.compose_evaluation("craftax", [names]).id for names in (["a"], ["b"], ["a", "b"])}
    assert len(ids) == 3


def test_the_closing_lines_about_the_bundled_agents(tmp_path):
    """Episodes by hand: two of ten SER episodes have two kills; the other agents have one or none per episode."""
    counts = {"esr-k1": [0, 1] * 5, "lagrangian-d0.5": [0] * 5 + [1] * 5, "ser-w0.1": [0] * 2 + [1] * 6 + [2] * 2}
    tables = []
    for name, violations in counts.items():
        run = agents.find_one(f"no_killing/{name}").read()
        about = {"environment": run.env, "dilemma": run.dilemma, "run": run.id, "method": run.method, "arm": run.arm}
        about |= {"value": run.value, "seed": run.seed, "gamma": run.gamma, "steps": run.total_timesteps}
        tables.append(pd.DataFrame({**about, "return": 30.0 + np.array(violations), "violations": violations}))
    episodes.write(pd.concat(tables, ignore_index=True), tmp_path / "craftax" / "episodes" / "evaluate-01.parquet")
    first, _, _, *rows, verdict, listed, svg, png = demo.craftax_text(tmp_path).replace("\u00a0", " ").splitlines()
    assert first.startswith("Craftax, No Killing: 10 episodes per agent")
    assert [[cell.strip() for cell in row.split("  ") if cell] for row in rows] == [
        ["ESR (k=1)", "30.5 (33.8, 34.2)", "0.0 % (0.3, 0.4)", "1.00 (1.03, 1.04)"],
        ["Lagrangian (d=0.5)", "30.5 (33.5, 34.3)", "0.0 % (0.8, 1.3)", "1.00 (1.08, 1.14)"],
        ["SER (w=0.1)", "31.0 (34.6, 35.3)", "20.0 % (13.0, 13.8)", "2.00 (2.16, 2.20)"],
    ]
    shares = "SER (w=0.1) 20.0 %, Lagrangian (d=0.5) 0.0 %, ESR (k=1) 0.0 %"
    assert verdict == "Episodes in which more than one passive creature is killed:"
    assert listed == f"{shares}; one seed each."
    assert max(map(len, (first, *rows))) <= 80
    for line, ending in ((svg, ".svg"), (png, ".png")):
        path = tmp_path / f"card{ending}"
        assert line == f"wrote {path}"
        assert path.stat().st_size > 10_000


def test_exact_optima_are_what_the_report_reads(tmp_path):
    items = json.loads(exact.write(tmp_path / "exact.json", "temptation").read_text())
    budgets = {item["label"]: item for item in items if item["kind"] == "esr"}
    assert set(budgets) == {"k=0", "k=1", "k=2", "k=4"}
    for k in (0, 1, 2, 4):
        assert budgets[f"k={k}"]["p_over"] == pytest.approx(0.0, abs=1e-9)
        assert sum(budgets[f"k={k}"]["distribution"]) == pytest.approx(1.0, abs=1e-6)
    assert budgets["k=1"]["return"] == pytest.approx(33.34, abs=0.01)
    matched = next(item for item in items if item["label"].endswith("matched to k=1"))
    assert matched["return"] == pytest.approx(budgets["k=1"]["return"])
    assert matched["cvar"] == pytest.approx(2.44, abs=0.01)


def test_no_weight_is_so_heavy_that_no_gain_is_worth_it():
    assert max(Temptation.sweep.weights) * 10 < 5.0


def play(random: np.random.Generator, price: float, most: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Returns and counts of episodes in which the agent takes every gain above `price`, at most `most` of them."""
    gains = np.where(random.random((EPISODES, 40)) < 0.1, random.uniform(0, 5, (EPISODES, 40)), 0.0)
    taken = (gains > price) & (np.cumsum(gains > price, axis=1) <= most)
    return 30.0 + (gains * taken).sum(axis=1), taken.sum(axis=1)


def test_three_numbers_for_agents_of_a_known_policy(tmp_path):
    random = np.random.default_rng(0)
    arms = [("ser", f"w={price / 10:g}", price, 40) for price in (2.0, 3.0, 3.9, 4.1)]
    arms += [("esr", "k=1", 3.2, 1), ("unconstrained", "", 0.0, 40)]
    tables = []
    for method, arm, price, most in arms:
        for seed in (42, 123, 7):
            returns, counts = play(random, price, most)
            about = {
                "method": method,
                "arm": arm,
                "seed": seed,
                "gamma": Temptation.sweep.gamma,
                "run": f"{method}{arm}{seed}",
            }
            tables.append(pd.DataFrame({**about, "return": returns, "violations": counts}))
    episodes.write(pd.concat(tables, ignore_index=True), tmp_path / "episodes" / "train-01.parquet")
    found = demo.headlines(tmp_path)
    assert found["esr_cvar"] == 1.0
    assert found["esr_over"] == 0.0
    assert found["linear_cvar"] == pytest.approx(found["exact_linear_cvar"], rel=0.05)
    assert found["linear_over"] > 0.1
    assert found["excess"] - found["excess_half"] < 0.1
    assert json.loads((tmp_path / "headlines.json").read_text()) == found
    text = demo.headline_text(found)
    assert len(text.splitlines()) == 3
    assert "ESR (k=1) averages 1.00 violations per episode in its worst 10 % of episodes" in text
