"""Distillation: labels by hand, the ordering of the fitted utility, and a pool without violations."""

import json

import numpy as np
import pandas as pd
import pytest

from perepisode.config import ConfigError
from perepisode.evaluation import distill, episodes
from perepisode.methods import esr_distilled
from perepisode.methods.esr_distilled import Distilled


@pytest.mark.parametrize(
    ("a", "b", "better"),
    [
        ((20, 0), (40, 1), 1),  # within tolerance beats beyond it, whatever the return
        ((20, 0), (21, 0), -1),  # within: higher return
        ((40, 3), (10, 2), -1),  # beyond: fewer violations first
        ((40, 2), (10, 2), 1),  # then higher return
        ((20, 0), (20, 0), 0),
    ],
)
def test_the_rule_by_hand(a, b, better):
    values = np.array(a, float), np.array(b, float)
    assert distill.preferred(*values[0], *values[1], tolerance=0.5) == better
    assert distill.preferred(*values[1], *values[0], tolerance=0.5) == -better


def test_pairs_obey_rule_and_monotonicity():
    random = np.random.default_rng(0)
    returns, counts = random.normal(30, 5, 400), random.poisson(1.0, 400).astype(float)
    winners, losers = distill.labelled_pairs(random, returns, counts, 3000, 0.5)
    order = distill.preferred(winners[:, 0], -winners[:, 1] / 10, losers[:, 0], -losers[:, 1] / 10, 0.5)
    assert (order == 1).all()  # monotonicity pairs obey the rule too
    assert len(winners) > 2000


def table_of(returns, counts, path, dilemma="temptation"):
    columns = {
        "method": "ser",
        "arm": "w=0.1",
        "seed": 1,
        "environment": "temptation",
        "dilemma": dilemma,
        "gamma": 0.99,
        "return": returns,
        "violations": counts.astype(int),
        f"violations_{dilemma}": counts.astype(int),
    }
    return episodes.write(pd.DataFrame(columns), path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    random = np.random.default_rng(1)
    counts = random.binomial(4, 0.4, 1500)
    returns = random.normal(28, 4, 1500) + 2.5 * counts
    home = tmp_path_factory.mktemp("distilled")
    said = []
    path = distill.distill(
        [table_of(returns, counts, home / "pool.parquet")], "temptation", home / "u.json", log=said.append
    )
    return esr_distilled.read(path.read_bytes()), json.loads(path.read_text()), said


def test_the_fit_is_zero_at_nothing_and_in_game_units(fitted):
    utility, _, _ = fitted
    assert float(utility(0.0, 0.0)) == pytest.approx(0.0, abs=1e-5)
    slope = float(utility(40.0, 0.0) - utility(25.0, 0.0)) / 15.0
    assert slope == pytest.approx(1.0, rel=0.35)


def test_the_fit_has_the_cliff_and_falls_with_every_violation(fitted):
    utility, plain, said = fitted
    values = [float(utility(30.0, -10.0 * v)) for v in range(5)]
    assert (np.diff(values) < 0).all()
    assert float(utility(20.0, 0.0)) > float(utility(38.0, -10.0))
    assert plain["about"]["held_out_agreement"] > 0.97
    assert not any("warning" in line for line in said)


def test_a_pool_without_harm_is_named(tmp_path):
    random = np.random.default_rng(2)
    counts = np.zeros(600)
    counts[:3] = 1
    said = []
    distill.distill(
        [table_of(random.normal(36, 2, 600), counts, tmp_path / "pool.parquet")],
        "temptation",
        tmp_path / "u.json",
        log=said.append,
    )
    assert "only 3 of 600 pool episodes violate" in said[0]
    assert "only 3 of 600" in json.loads((tmp_path / "u.json").read_text())["about"]["warning"]


def test_wrong_input_is_refused(tmp_path):
    path = table_of(np.ones(9), np.ones(9), tmp_path / "pool.parquet")
    with pytest.raises(ConfigError, match="violations_lying"):
        distill.pool([path], "lying")
    for content in (b"{}", b"{", b"[]", b"\xff"):
        with pytest.raises(ConfigError, match="create one with `perepisode distill`"):
            esr_distilled.read(content)


def test_eq6_by_hand():
    utility = Distilled(np.zeros(2), np.ones(2), (np.array([[1.0], [0.0]], "f4"),), (np.zeros(1, "f4"),))  # u = R_ext
    winners, losers = np.array([[2.0, 0.0]], "f4"), np.array([[0.5, 0.0]], "f4")
    assert float(distill.bradley_terry(utility, winners, losers)) == pytest.approx(np.log1p(np.exp(-1.5)))
