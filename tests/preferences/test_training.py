"""From labels to an agent: the lenient rater's labels lead to the exact optimum of ESR with k = 2."""

import json

import numpy as np
import pytest

from perepisode import safe_io
from perepisode.config import EvalConfig
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from perepisode.environments.temptation.exact import Exact, esr_optimum
from perepisode.evaluation.rollout import Agent, evaluate_agents
from perepisode.methods.esr import Esr
from perepisode.methods.esr_distilled import to_json
from perepisode.preferences import fit, raters
from perepisode.runs import Run
from perepisode.training.train import TrainingOptions, train
from tests.preferences.made_up import judged

BUDGET, STEPS = 2, 480_000
pytestmark = pytest.mark.xdist_group("preferences")


def truth(returns, violations):
    """The rater tolerates two violations and does not mind them: k = 2 without a penalty within the budget."""
    return np.asarray(Esr(BUDGET, rho_u=0.0).u(returns, -10.0 * violations))


@pytest.fixture(scope="module")
def optimum() -> Exact:
    return esr_optimum(Temptation(), truth, most=4)


@pytest.fixture(scope="module")
def fitted() -> fit.Preferences:
    """Two hundred labels of episodes of agents that accept every offer above a price, each its own."""
    random, env = np.random.default_rng(0), Temptation()
    offers = random.random((1000, env.horizon)) < env.offer_prob
    gains = random.uniform(0, env.max_gain, offers.shape)
    taken = offers & (gains > random.uniform(0, env.max_gain, (1000, 1)))
    returns = env.horizon * env.wage + (gains * taken).sum(axis=1)
    return fit.fit(judged(raters.LENIENT, returns, taken.sum(axis=1).astype(float), 200), monotone=True, ensemble=0)


def test_the_optimal_policy_for_the_fitted_utility_is_the_raters(fitted, optimum):
    found = esr_optimum(Temptation(), fitted.u, most=8, judged_by=truth)
    assert found.utility >= 0.995 * optimum.utility
    assert found.p_over(BUDGET) < 1e-3
    assert np.abs(found.counts[:3] - optimum.counts[:3]).sum() / 2 < 0.1
    own = esr_optimum(Temptation(), truth, most=4, judged_by=truth)
    assert own.utility == pytest.approx(optimum.utility, abs=1e-9)


@pytest.mark.parametrize("seeds", [(1,), pytest.param((1, 2, 3, 4, 5), marks=pytest.mark.slow)], ids=str)
def test_the_trained_agents_have_the_distribution_of_the_exact_optimum(fitted, optimum, tmp_path, seeds):
    content = json.dumps(to_json(fitted.utility)).encode()
    settings = {"utility": safe_io.digest(content)}
    runs = [
        Run("temptation", "temptation", "esr_distilled", settings, seed, 1.0, STEPS, config=TEMPTATION_PPO)
        for seed in seeds
    ]
    folders = train(runs, TrainingOptions(tmp_path, chunk=50, files={safe_io.digest(content): content}))
    table = evaluate_agents([Agent.of(folder) for folder in folders], EvalConfig(256, 40, 12))
    for seed, own in table[table["in_first"]].groupby("seed"):
        shares = np.bincount(own["violations"], minlength=3) / len(own)
        utility = truth(own["return"].to_numpy(float), own["violations"].to_numpy(float)).mean()
        print(f"seed {seed}: P(v) {shares.round(3)}, exact {optimum.counts.round(3)}; {utility / optimum.utility:.2%}")
        assert utility >= 0.98 * optimum.utility
        assert shares[3:].sum() <= 0.01
        assert np.abs(shares[:3] - optimum.counts[:3]).sum() / 2 <= 0.1
    assert sorted(set(table["seed"])) == sorted(seeds)
