"""The plan of the paper's claims: every rule is one that can be evaluated, every agent one that can be trained."""

import shlex
import tomllib
from pathlib import Path

import pytest

from perepisode import cli
from perepisode.environments import ENVIRONMENTS

PATH = Path(__file__).parents[1] / "results" / "claims" / "plan.toml"
PLAN = tomllib.loads(PATH.read_text(encoding="utf-8"))
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
    scale = PLAN["scales"][pack["scale"]]
    runs, later = [], 0
    for agent in pack["agents"]:
        if agent.endswith(" matched") or agent == "esr_distilled":
            later += len(scale["seeds"])  # its setting, or its utility, is known only after other runs
            continue
        method, *options = shlex.split(agent)
        seeds = [] if "--seeds" in options else ["--seeds", *map(str, scale["seeds"])]
        words = ["train", "--env", "craftax", "--dilemma", pack["dilemma"], "--method", method, *options, *seeds]
        runs += cli.parsed([*words, "--total-timesteps", str(scale["total_timesteps"])]).runs()[0]
    assert len({run.id for run in runs}) == len(runs)
    minutes = {"short": 13 * -(-(len(runs) + later) // 16), "long": 26 * -(-(len(runs) + later) // 3)}
    assert pack["gpu_minutes"] == minutes[pack["scale"]]
