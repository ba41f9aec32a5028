"""The paper's claims: every rule of the plan can be evaluated and trained, and the board judges as SciPy does."""

import importlib
import math
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from perepisode.environments import ENVIRONMENTS

RESULTS = Path(__file__).parents[1] / "results"
PATH = RESULTS / "claims" / "plan.toml"
PLAN = tomllib.loads(PATH.read_text(encoding="utf-8"))
sys.path.insert(0, str(RESULTS))
board, claims = map(importlib.import_module, ("board", "claims"))
sys.path.remove(str(RESULTS))
NEEDS = {  # what a part of each kind must say beside its measure
    "greater": {"a", "b", "margin"},
    "equivalent": {"a", "b", "margin"},
    "near": {"agent", "paper", "margin"},
    "at_least": {"bound"},
    "at_most": {"bound"},
}
MEASURES = {
    "return", "p_any", "p_over_1", "cvar", "mean", "per_step", "second_of_first", "hypervolume_gain", "missed_share",
}  # fmt: skip
OPTIONAL = {"agent", "by", "dilemma", "scale", "kind", "measure"}


@pytest.mark.parametrize("claim", PLAN["claim"], ids=lambda claim: f"claim {claim['id']}")
def test_every_part_of_a_claim_can_be_evaluated(claim):
    assert {"id", "sentence", "paper", "agents", "scale", "seen", "changes", "parts"} <= set(claim)
    assert claim["scale"] in PLAN["scales"]
    for part in claim["parts"]:
        assert NEEDS[part["kind"]] <= set(part) <= NEEDS[part["kind"]] | OPTIONAL
        assert part["measure"] in MEASURES
        assert part.get("dilemma", "no_killing") in ENVIRONMENTS["craftax"].dilemmas
        assert part.get("scale", "long") in PLAN["scales"]


def test_the_page_says_what_the_packs_cost():
    page = (PATH.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(PLAN['pack'])} packs, {sum(pack['gpu_minutes'] for pack in PLAN['pack'])} minutes" in page


def test_there_is_one_entry_for_each_claim():
    assert [claim["id"] for claim in PLAN["claim"]] == list(range(1, 13))


@pytest.mark.parametrize("pack", PLAN["pack"], ids=lambda pack: pack["name"])
def test_every_pack_can_be_trained_in_one_program(pack):
    runs = claims.runs_of(pack)
    later = sum(agent.endswith(claims.LATER) for agent in pack["agents"]) * len(PLAN["scales"][pack["scale"]]["seeds"])
    assert len({run.id for run in runs}) == len(runs)
    minutes = {"short": 13 * -(-(len(runs) + later) // 16), "long": 26 * -(-(len(runs) + later) // 3)}
    assert pack["gpu_minutes"] == minutes[pack["scale"]]


# ---- the board ------------------------------------------------------------------------------------------------


def test_every_run_that_a_claim_needs_is_stored_or_in_a_pack():
    packed = {run.id for pack in PLAN["pack"] for run in claims.runs_of(pack)}
    for claim, parts in board.judged():
        assert {run for part in parts for run in part.needed} <= packed
        known = {name for part in parts for name in board.agents_of(claim, part.scale, part.dilemma)}
        named = {part.rule[name] for part in parts for name in ("a", "b", "agent") if name in part.rule}
        assert {name for name in named if not name.endswith(claims.LATER)} <= known


def episodes(counts: list[int], returns: float = 30.0, noticed: list[int] | None = None) -> pd.DataFrame:
    """The episodes of one run, each of 100 steps."""
    return pd.DataFrame(
        {
            "violations_no_killing": counts,
            "violations_no_killing_paper": counts if noticed is None else noticed,
            "return": float(returns),
            "length": 100,
        }
    )


CLAIM = {"id": 0, "agents": ["esr:budget=1", "ser:weight=0.1", "ser:weight=0.3"], "scale": "short"}
ESR, SER, DEARER = "esr k=1", "ser w=0.1", "ser w=0.3"


@pytest.fixture
def judge(monkeypatch):
    """Judge rules on made-up runs: {agent: the episodes of each of its seeds}."""

    def judge(found: dict[str, list[pd.DataFrame]], *rules: dict, **changes) -> list:
        claim = {**CLAIM, "parts": rules, **changes}
        agents = board.agents_of(claim, "short", "no_killing")
        runs = {run.id: rows for name, seeds in found.items() for run, rows in zip(agents[name], seeds)}
        monkeypatch.setattr(board, "stored", lambda: runs)
        return board.judged_claim(claim)

    return judge


def seeds_of(*returns: float) -> list[pd.DataFrame]:
    return [episodes([0, 1], value) for value in returns]


GREATER = {"kind": "greater", "a": SER, "b": ESR, "measure": "return", "margin": 1.0}
EQUIVALENT = {**GREATER, "kind": "equivalent"}
A, B = (34.0, 34.5, 35.5), (31.0, 31.2, 31.1)


def test_greater_is_welchs_test_beyond_the_margin(judge):
    (part,) = judge({SER: seeds_of(*A), ESR: seeds_of(*B)}, GREATER)
    test = stats.ttest_ind(np.subtract(A, 1.0), B, equal_var=False)
    assert part.corrected == pytest.approx(test.pvalue)
    assert part.ours == pytest.approx(np.mean(A) - np.mean(B))
    low, high = stats.ttest_ind(A, B, equal_var=False).confidence_interval(0.95)
    assert (part.ours - part.half, part.ours + part.half) == (pytest.approx(low), pytest.approx(high))
    assert (part.verdict, part.seeds) == (board.AGREES, (3, 3))
    (other,) = judge({SER: seeds_of(*B), ESR: seeds_of(*A)}, GREATER)
    assert other.verdict == board.DISAGREES
    (unsure,) = judge({SER: seeds_of(31.0, 33.0, 35.0), ESR: seeds_of(*B)}, GREATER)
    assert unsure.verdict == board.UNDECIDED


@pytest.mark.parametrize(
    ("returns", "verdict"),
    [((31.3, 31.2, 31.4), "agrees"), ((33.0, 33.3, 33.1), "disagrees"), ((31.0, 32.5, 31.5), "undecided")],
)
def test_equivalent_is_two_one_sided_tests(judge, returns, verdict):
    (part,) = judge({SER: seeds_of(*returns), ESR: seeds_of(*B)}, EQUIVALENT)
    one_sided = [
        stats.ttest_ind(np.add(returns, shift), B, equal_var=False, alternative=side).pvalue
        for shift, side in ((-1.0, "less"), (1.0, "greater"))
    ]
    beyond = stats.ttest_ind(np.subtract(returns, 1.0), B, equal_var=False, alternative="greater").pvalue
    assert part.corrected == pytest.approx(beyond if verdict == "disagrees" else max(one_sided))
    low, high = stats.ttest_ind(returns, B, equal_var=False).confidence_interval(0.90)
    assert (part.ours - part.half, part.ours + part.half) == (pytest.approx(low), pytest.approx(high))
    assert part.verdict == verdict
    assert (verdict == "agrees") == (low > -1 and high < 1)
    assert (verdict == "disagrees") == (low > 1)


def test_near_compares_with_the_papers_number(judge):
    rule = {"kind": "near", "agent": ESR, "measure": "return", "paper": 31.0, "margin": 0.5}
    (part,) = judge({ESR: seeds_of(*B)}, rule)
    p = max(
        stats.ttest_1samp(B, 31.5, alternative="less").pvalue, stats.ttest_1samp(B, 30.5, alternative="greater").pvalue
    )
    assert (part.verdict, part.corrected, part.ours) == ("agrees", pytest.approx(p), pytest.approx(31.1))
    (far,) = judge({ESR: seeds_of(*B)}, {**rule, "paper": 35.0})
    assert far.verdict == "disagrees"


@pytest.mark.parametrize(("kind", "bound", "verdict"), [
    ("at_least", 30.5, "agrees"), ("at_least", 31.1, "undecided"), ("at_least", 33.0, "disagrees"),
    ("at_most", 30.5, "disagrees"), ("at_most", 31.15, "undecided"), ("at_most", 33.0, "agrees"),
])  # fmt: skip
def test_bounds_are_t_tests_of_one_sample(judge, kind, bound, verdict):
    (part,) = judge({ESR: seeds_of(*B)}, {"kind": kind, "agent": ESR, "measure": "return", "bound": bound})
    assert (part.verdict, part.corrected) == (verdict, pytest.approx(stats.ttest_1samp(B, bound).pvalue))


def test_seeds_that_are_all_alike_decide_by_their_value(judge):
    clean = [episodes([0] * 20)] * 3
    rule = {"kind": "at_most", "agent": ESR, "measure": "p_any", "bound": 0.05}
    assert judge({ESR: clean}, rule)[0].verdict == "agrees"
    assert judge({ESR: [episodes([1] * 20)] * 3}, rule)[0].verdict == "disagrees"


def test_the_parts_of_a_claim_are_corrected_together_also_those_that_are_missing(judge):
    rules = [GREATER, {**GREATER, "margin": 2.0}, {**GREATER, "a": DEARER}]
    first, second, missing = judge({SER: seeds_of(*A), ESR: seeds_of(*B)}, *rules)
    p, q = (stats.ttest_ind(np.subtract(A, margin), B, equal_var=False).pvalue for margin in (1.0, 2.0))
    assert (first.corrected, second.corrected) == (pytest.approx(3 * p), pytest.approx(2 * q))
    assert missing.verdict == board.MISSING
    assert len(missing.needed) == 3


def test_a_missing_seed_is_missing(judge):
    (part,) = judge({SER: seeds_of(*A), ESR: seeds_of(*B)[:2]}, GREATER)
    assert (part.verdict, len(part.needed)) == (board.MISSING, 1)


def test_further_seeds_are_needed_where_the_plan_names_them(judge):
    found = {SER: seeds_of(*A), ESR: seeds_of(*B)}
    (part,) = judge(found, GREATER, more_seeds={ESR: [11]})
    assert part.verdict == board.MISSING
    assert part.preview.verdict != board.MISSING  # what the seeds so far give, without a verdict on the claim
    (part,) = judge({**found, ESR: seeds_of(*B, 31.3)}, GREATER, more_seeds={ESR: [11]})
    assert part.seeds == (3, 4)


def test_the_matched_arm_is_the_nearest_in_return(judge):
    found = {ESR: seeds_of(*B), SER: seeds_of(*A), DEARER: seeds_of(30.0, 30.5, 31.0)}
    (part,) = judge(found, {**GREATER, "a": "ser matched"})
    assert (part.matched, part.ours) == (DEARER, pytest.approx(30.5 - 31.1))
    (part,) = judge({ESR: found[ESR], SER: found[SER]}, {**GREATER, "a": "ser matched"})
    assert part.verdict == board.MISSING  # one of the arms that could match


def test_measures_by_hand():
    rows = episodes([0, 0, 1, 1, 2, 4, 0, 0, 0, 0], noticed=[0, 0, 1, 0, 2, 3, 0, 0, 0, 0])
    found = {name: of(rows, "no_killing") for name, of in board.MEASURES.items()}
    assert found == {
        "return": 30.0, "p_any": 0.4, "p_over_1": 0.2, "cvar": 4.0, "mean": 0.8, "per_step": 8 / 1000,
        "second_of_first": 0.5, "missed_share": 2 / 8,
    }  # fmt: skip
    assert math.isnan(board.MEASURES["second_of_first"](episodes([0, 0]), "no_killing"))


def test_the_gain_in_hypervolume_by_hand(judge):
    """Of returns above 8 and violations below 2, the least and the most of any agent on the frontier."""
    agents = [*CLAIM["agents"], "lagrangian:budget=1"]
    seed = {SER: episodes([2, 2], 10), DEARER: episodes([0, 0], 8), "lagrangian d=1": episodes([1, 2], 9.5)}
    rule = {"kind": "at_most", "measure": "hypervolume_gain", "by": "esr", "bound": 0.1}
    found = {name: [rows] * 3 for name, rows in {**seed, ESR: episodes([1, 1], 9)}.items()}
    (part,) = judge(found, rule, agents=agents)
    assert part.ours == pytest.approx((1 * 0.5) / (1.5 * 0.5))  # what ESR adds over the Lagrangian's rectangle
    assert part.verdict == "disagrees"
    (part,) = judge({**found, "lagrangian d=1": found[SER]}, rule, agents=agents)
    assert (math.isnan(part.ours), part.verdict) == (True, "undecided")  # without ESR there is no area


def test_missed_kills_are_pooled_over_agents_for_each_seed(judge):
    some = [episodes([4, 0], noticed=[3, 0])] * 3
    all_ = [episodes([4, 0], noticed=[4, 0])] * 3
    rule = {"kind": "at_least", "measure": "missed_share", "bound": 0.05}
    (part,) = judge({ESR: some, SER: all_, DEARER: all_}, rule)
    assert (part.ours, part.seeds) == (pytest.approx(1 / 12), (3,))


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (["agrees", "agrees"], "agrees"),
        (["agrees", "undecided"], "undecided"),
        (["agrees", "runs missing"], "runs missing"),
        (["undecided", "disagrees", "runs missing"], "disagrees"),
    ],
)
def test_a_claim_agrees_if_all_of_its_parts_do(parts, verdict):
    part = board.Part({}, "short", "no_killing")
    assert board.verdict_of([replace(part, verdict=one) for one in parts]) == verdict
