"""The paper's matrix: the number of runs, which ones, and their fixed ids."""

import hashlib
import json

import pytest

from perepisode.config import PAPER_SEEDS, ConfigError
from perepisode.methods import METHODS, PAPER, ConstraintType, Objective
from perepisode.methods.objective import register_method
from perepisode.settings import setting
from perepisode.study import matrix

PAPER_COUNTS = {
    "erm": 30,
    "ser": 45,
    "lagrangian": 36,
    "esr": 18,
    "budget": 18,
    "ser_racc": 18,
    "gamma1": 18,
}


def test_the_paper_has_183_distinct_runs_by_family():
    assert {name: len(runs) for name, runs in matrix.families(matrix.of("craftax")).items()} == PAPER_COUNTS
    assert len({run.id for run in matrix.paper()}) == sum(PAPER_COUNTS.values()) == 183


def test_every_run_is_valid_and_at_the_papers_scale():
    for run in matrix.paper():
        run.checked()
        assert run.total_timesteps == 10**9
        assert run.config.num_envs == 1024
    assert {run.seed for run in matrix.paper()} == set(PAPER_SEEDS)


def test_families_have_the_runs_of_the_paper():
    found = matrix.families(matrix.of("craftax"))
    assert {run.arm for run in found["erm"]} == {"", "absolute", "calculated", "heuristic"}
    assert {run.value for run in found["ser"]} == {0.1, 0.3, 1, 3, 10}
    assert {run.value for run in found["lagrangian"]} == {0.5, 1, 2, 4}
    assert {(run.dilemma, run.value) for run in found["budget"]} == {
        (dilemma, k) for dilemma in ("no_killing", "sustainability") for k in (1, 2, 4)
    }
    assert {run.gamma for run in found["gamma1"]} == {1.0}
    assert {run.gamma for name, runs in found.items() if name != "gamma1" for run in runs} == {0.99}


def test_ids_are_the_same_on_every_machine():
    """With other ids, results trained under the old ones would no longer be found."""
    ids = sorted(run.id for run in matrix.paper())
    assert hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16] == "620195e4000efd16"


def test_the_miniature_has_the_same_families():
    found = matrix.families(matrix.of("temptation"))
    assert list(found) == list(PAPER_COUNTS)
    assert {run.env for run in matrix.flat(found)} == {"temptation"}


def test_baselines_beyond_the_paper_are_not_among_the_183():
    extra = matrix.flat(matrix.extra_baselines(matrix.of("craftax")))
    assert {run.method for run in extra} == set(METHODS) - set(PAPER) >= {"saute", "pid_lagrangian", "cvar", "chance"}
    assert not {run.id for run in extra} & {run.id for run in matrix.paper()}
    for run in extra:
        run.checked()


def declared(**attributes) -> str:
    """The name of a method with one required setting, a price."""
    fields = {"__annotations__": {"fee": float}, "fee": setting(help="price of a violation", low=0)}
    names = {"name": "priced", "label": "Priced", "swept": "fee", "symbol": "p", "constraint": ConstraintType.PRICE}
    return register_method(type("Priced", (Objective,), {**fields, **names, **attributes})).name


@pytest.fixture
def clean(monkeypatch):
    """Nothing that the test registers stays."""
    for name in METHODS:
        monkeypatch.setitem(METHODS, name, METHODS[name])
    yield
    METHODS.pop("priced", None)


def test_a_method_sweeps_the_values_that_it_declares(clean):
    extra = matrix.extra_baselines(matrix.of("craftax"))["priced"] if declared(swept_values=(2, 50)) else []
    assert {run.value for run in extra} == {2, 50}
    study_budgets = {run.value for run in matrix.extra_baselines(matrix.of("craftax"))["cvar"]}
    assert study_budgets == {1, 2, 4}


def test_a_price_without_values_is_refused_instead_of_given_the_weights_of_ser(clean):
    declared()
    with pytest.raises(ConfigError, match="priced has no values of fee to sweep; declare swept_values in its class"):
        matrix.extra_baselines(matrix.of("craftax"))


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("no_killing,esr", 15),  # k = 0, the same at γ = 1, and k = 1, 2, 4, with three seeds each
        ("no_killing,sustainability,lagrangian", 24),
        ("gamma1", 18),
        ("k=1", 6),
        ("esr_distilled", 18),
        ("budget, k=2, no_killing", 3),
    ],
)
def test_filters(words, count):
    assert len(matrix.flat(matrix.only(matrix.families(matrix.of("craftax")), words))) == count


@pytest.mark.parametrize(
    ("words", "message"),
    [("no_kiling", "'no_kiling' is unknown"), ("temptation", "another --env"), ("k=1,ser", "matches no run")],
)
def test_wrong_filters_are_refused(words, message):
    with pytest.raises(ConfigError, match=message) as refused:
        matrix.only(matrix.families(matrix.of("craftax")), words)
    assert "\n" not in str(refused.value)


def test_scale_is_a_choice():
    scaled = matrix.of("craftax", total_timesteps=10**7, seeds=(1, 2))
    runs = matrix.flat(matrix.families(scaled))
    assert len(runs) == 122
    assert {run.total_timesteps for run in runs} == {10**7}
    with pytest.raises(ConfigError, match="twice"):
        matrix.of("craftax", seeds=(1, 1))
    with pytest.raises(ConfigError, match="'minecraft' is unknown; choose from craftax"):
        matrix.of("minecraft")


def test_distilled_arms_bring_their_pool():
    everything = matrix.paper()
    chosen = [run for run in everything if run.method == "esr_distilled" and run.dilemma == "sustainability"]
    runs = matrix.with_pools(chosen, everything)
    methods = {run.method for run in runs}
    assert methods == {"unconstrained", "erm", "ser", "esr_distilled"}
    assert len(runs) == len(chosen) + 3 + 9 + 15


def test_a_utilitys_label_names_its_pool():
    runs = matrix.paper()
    labels = {run.dilemma: run.method_settings["utility"] for run in runs if run.method == "esr_distilled"}
    assert len(set(labels.values())) == 3
    for dilemma, label in labels.items():
        assert label == matrix.utility_label(reversed(matrix.pool_of(runs, dilemma)))
