"""Curves and distilled utilities as training writes them, and tables that are out of the ordinary."""

import json

import numpy as np
import pandas as pd
import pytest
import synthetic

import perepisode
from perepisode.report import page
from perepisode.report.statistics import curves, distilled


def test_curves_are_grouped_by_method_and_arm(tmp_path):
    synthetic.curves(tmp_path, updates=20)
    groups = curves.group(curves.read([tmp_path]))
    assert [curve.seed for curve in groups["esr", "k=1"]] == sorted(synthetic.SEEDS)
    assert np.isnan(groups["esr", "k=1"][0].values["lambda"]).all()
    assert np.isfinite(groups["lagrangian", "d=1"][0].values["lambda"]).all()


def test_a_line_cut_short_is_skipped(tmp_path):
    folder = synthetic.curves(tmp_path, updates=20)[0]
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"update": 20, "steps": 1')
    (curve,) = curves.read([folder / "metrics.jsonl"])
    assert len(curve.steps) == 20


def test_smoothing_keeps_a_straight_line_and_thinning_the_ends(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"method": "ser", "arm": "w=1", "dilemma": "d", "seed": 1}))
    rows = ({"steps": step, "return": step / 2, "violations": 0.0, "lambda": None} for step in range(5000))
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (curve,) = curves.read([tmp_path])
    assert len(curve.steps) <= 2 * curves.MAX_ROWS
    assert curve.at("return", np.array([0.0, 2500.0])) == pytest.approx([0.0, 1250.0], abs=30)


def test_folders_without_curves_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"no metrics\.jsonl"):
        curves.read([tmp_path])
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"run\.json cannot be read"):
        curves.read([tmp_path])


def test_distilled_utility_by_hand(tmp_path):
    layers = [{"kernel": [[1.0], [0.5]], "bias": [0.1]}, {"kernel": [[3.0]], "bias": [0.2]}]
    stored = {"inputs_mean": [10.0, -5.0], "inputs_std": [5.0, 2.0], "layers": layers, "offset": 0.3, "scale": 2.0}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"kind": "distilled", **stored}))
    name, utility, top = distilled.read(path)
    hidden = np.tanh((12.0 - 10.0) / 5.0 + 0.5 * (-10.0 + 5.0) / 2.0 + 0.1)
    assert utility(12.0, 1)[0] == pytest.approx((3.0 * hidden + 0.2 - 0.3) * 2.0)
    assert (name, top) == ("mine", 22.5)


def test_a_file_that_is_not_a_utility_is_rejected(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"is not a distilled utility: it has no .inputs_mean."):
        distilled.read(path)


def small_table(arms):
    """Two seeds of ten episodes for each (method, arm): return."""
    rows = [
        {"method": method, "arm": arm, "seed": seed, "return": earned + seed + 0.2 * i, "violations": i % 3}
        for (method, arm), earned in arms.items()
        for seed in (1, 2)
        for i in range(10)
    ]
    return pd.DataFrame(rows)


def test_returns_below_zero_are_reported(tmp_path):
    """Costs as returns, as in many control tasks; the rivals are far away, which a caveat says."""
    table = small_table({("esr", "k=1"): -20.0, ("ser", "w=1"): -40.0, ("lagrangian", "d=1"): -10.0})
    table.to_csv(tmp_path / "a.csv", index=False)
    text = page.build(tmp_path / "a.csv", tmp_path / "out").read_text()
    apart = "SER (w=1) −37.60, Lagrangian (d=1) −7.60 (uncorrected p\u00a0&lt;\u00a00.05)"
    assert f"Mean return is not matched to that of ESR (k=1) (−17.60): {apart}" in text
    assert "collapsed" not in text


def test_a_seed_that_collapsed_is_told_from_one_that_varies(tmp_path):
    """A third below the median and further from the other seeds than these are apart; returns may be negative."""
    draw = np.random.default_rng(0)

    def caveats(*means):
        rows = [{"method": "PPO", "seed": seed, "return": mean + each, "cost": draw.random()}
                for seed, mean in enumerate(means) for each in (-1.0, 1.0) * 5]  # fmt: skip
        return [text for text in perepisode.report(pd.DataFrame(rows), quiet=True).caveats if "collapsed" in text]

    assert caveats(30, 31, 12, 29) == ["PPO: seed 2 collapsed (return 12.0 against a median of 29.5)."]
    assert caveats(-200, -198, -300, -205) == ["PPO: seed 2 collapsed (return −300.0 against a median of −202.5)."]
    assert not caveats(-281, -275, -274, -276)
    assert not caveats(0.1, -0.2, 0.3, -0.1)  # a third of a median near zero is nothing


def test_a_discount_that_is_not_known_sets_an_agent_apart_from_its_twin_alone(tmp_path):
    table = small_table({("esr", "k=1"): 20.0, ("ser", "w=1"): 20.0, ("ser", "w=2"): 19.0})
    table["gamma"] = np.where(table["arm"] == "w=2", np.nan, 0.99)
    twin = table[table["arm"] == "w=1"].assign(gamma=np.nan, seed=table["seed"] + 10)
    pd.concat([table, twin]).to_csv(tmp_path / "a.csv", index=False)
    text = page.build(tmp_path / "a.csv", tmp_path / "out").read_text()
    assert "SER (w=2)" in text
    assert "SER (w=1)" in text
    assert "SER (w=1, γ unknown)" in text
    assert "nan" not in pd.read_csv(tmp_path / "out" / "data" / "apart_violations.csv")["agent"].item()
