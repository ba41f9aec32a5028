"""Packing and the plan: what trains together, what fits in memory, and the dependencies of tasks."""

import json
import os
from collections import Counter
from dataclasses import replace

import pytest
import tiny

from perepisode.config import ConfigError
from perepisode.study import listing, matrix, packing, plan

H200 = packing.Device("gpu", 1, 139 * packing.GIB)
GUESS = packing.BenchResult(1e6)


def test_every_run_is_in_exactly_one_pack_and_packs_share_structure():
    runs = matrix.paper() + matrix.flat(matrix.extra_baselines(matrix.of("craftax")))
    packs = packing.pack(runs, 8)
    assert sorted(run.id for pack in packs for run in pack) == sorted(run.id for run in runs)
    for pack in packs:
        assert len(pack) <= 8
        assert len({run.structure for run in pack}) == 1
    assert len(packing.pack(matrix.paper(), 8)) == 23  # a few dozen programs, not 183


def test_the_runs_of_a_pack_can_share_one_program():
    """Every pack passes the check of training."""
    from perepisode.training.train import check

    for pack in packing.pack(matrix.paper() + matrix.flat(matrix.extra_baselines(matrix.of("craftax"))), 8):
        check(pack)


def test_packs_are_even():
    sizes = [len(pack) for pack in packing.pack(matrix.families(matrix.of("craftax"))["ser"], 8)]
    assert sum(sizes) == 45
    assert max(sizes) - min(sizes) <= 1


def test_any_methods_share_a_program():
    def shared(method, **settings):
        return tiny.run(method, 5, **settings).structure

    structures = {
        shared("ser", weight=1),
        shared("esr", budget=1),
        shared("esr", budget=1, accrued_obs="scaled"),
        shared("saute"),
    }
    assert len(structures) == 1
    assert shared("esr", budget=1) != tiny.run("esr", 6, budget=1).structure


def test_runs_of_another_length_or_size_are_in_another_pack():
    short, long = ([tiny.run("ser", updates, weight=weight) for weight in (0.1, 1, 3)] for updates in (5, 6))
    wide = [replace(run, config=replace(run.config, hidden_size=2 * run.config.hidden_size)) for run in short]
    mixed = [run for trio in zip(long, short, wide) for run in trio]
    assert {frozenset(run.id for run in pack) for pack in packing.pack(mixed, 16)} == {
        frozenset(run.id for run in runs) for runs in (short, long, wide)
    }


def test_packs_with_the_same_methods_share_one_program():
    """Ninety runs in six packs: 36 of two methods and 18 of one are six, six and three in each."""
    others = [run for run in matrix.paper() if run.method in ("lagrangian", "esr", "ser_racc")]
    packs = packing.pack(others, 16)
    held = [Counter(run.method for run in pack) for pack in packs]
    assert held == [Counter(lagrangian=6, esr=6, ser_racc=3)] * 6
    assert packing.programs(packs) == 1
    assert packing.programs([packs[0], packs[1][:-1]]) == 2
    assert packing.programs([*packs, matrix.paper()[:15]]) == 2


def test_the_plan_states_how_many_programs_are_compiled():
    """Five packs of the pools, equal but for an unconstrained run or two; six equal packs; two equal packs."""
    text = listing.plan_text(plan.compose(matrix.paper(), 16), GUESS, H200, 1)
    assert "methods share programs: 4 to compile for 13 packs; with each method by itself: 8 for 16" in text


def test_a_pack_that_does_not_fit_is_refused_with_the_largest_that_does():
    run = matrix.paper()[0]
    fits = packing.largest(run, H200, GUESS)
    with pytest.raises(ConfigError, match=rf"the largest that fits is --pack {fits}"):
        packing.size_for(run, H200, GUESS, fits + 1)
    assert packing.size_for(run, H200, GUESS, fits) == fits
    with pytest.raises(ConfigError, match="one run needs about"):
        packing.size_for(run, replace(H200, memory=packing.GIB // 8), GUESS)


def test_the_fastest_size_of_a_benchmark_is_limited_to_what_fits():
    """The benchmark may come from a device with more memory."""
    run = matrix.paper()[0]
    measured = packing.BenchResult(1e6, 139 * packing.GIB / 10, runs=16)
    assert packing.largest(run, H200, measured) == 8
    assert packing.size_for(run, H200, measured) == 8
    assert packing.size_for(run, H200, replace(measured, runs=4)) == 4


def test_measured_memory_is_preferred_to_the_estimate():
    run = matrix.paper()[0]
    assert packing.largest(run, H200, packing.BenchResult(1e6, 139 * packing.GIB / 10)) == 8


def test_packs_fit_the_smallest_gpu_that_is_used(tmp_path, monkeypatch):
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\nprintf '81920\\n40960\\n81920\\n'\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert packing.this_machine() == packing.Device("gpu", 3, 40 * packing.GIB)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert packing.this_machine() == packing.Device("gpu", 2, 80 * packing.GIB)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert packing.this_machine().kind == "cpu"


def test_bench_figures(tmp_path):
    run, path = matrix.paper()[0], tmp_path / "bench.json"
    rows = [
        {"runs": 3, "num_envs": 1024, "hidden_size": 512, "steps_per_second": 1.0e6, "peak_bytes": 3e9},
        {"runs": 8, "num_envs": 1024, "hidden_size": 512, "steps_per_second": 1.5e6, "peak_bytes": 6e9},
        {"runs": 16, "num_envs": 1024, "hidden_size": 512, "steps_per_second": 1.4e6, "peak_bytes": 8e9},
        {"runs": 32, "num_envs": 64, "hidden_size": 512, "steps_per_second": 9e6, "peak_bytes": 9e9},
    ]
    path.write_text(json.dumps({"training": rows}))
    bench = packing.bench_of(path, run)
    assert (bench.steps_per_second, bench.runs, bench.bytes_per_run) == (1.5e6, 8, 0.5e9)
    assert packing.size_for(run, H200, bench) == 8
    path.write_text(json.dumps({"training": rows[3:]}))
    with pytest.raises(ConfigError, match="measure again"):
        packing.bench_of(path, run)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="not a benchmark"):
        packing.bench_of(path, run)


def test_distilled_packs_wait_for_the_packs_of_their_own_pool():
    study = plan.compose(matrix.paper(), 8)
    runs = {run.id: run for run in matrix.paper()}
    for task in study.of_kind("distill"):
        pool = {run.id for run in matrix.pool_of(runs.values(), task.dilemma)}
        inside = {one.name for one in study.of_kind("train") if pool & {member.id for member in one.members}}
        assert set(task.after) == inside
    late = [task for task in study.of_kind("train") if task.after]
    assert {member.plain["method"] for task in late for member in task.members} == {"esr_distilled"}
    for task in late:
        assert set(task.after) == {f"distill-{member.plain['dilemma']}" for member in task.members}
    assert set(study.task("report").after) == {task.name for task in study.tasks} - {"report"}


def test_a_study_reads_back_as_it_was_written(tmp_path):
    study = tiny.study(late_updates=5)
    assert plan.save(study, tmp_path) == study
    assert plan.load(tmp_path) == study
    assert [member.run().id for task in study.tasks for member in task.members] == [
        member.id for task in study.tasks for member in task.members
    ]


def test_a_study_keeps_its_packs(tmp_path):
    """A later start, perhaps on another device, resumes the half-trained populations."""
    first = plan.save(plan.compose(matrix.paper(), 8), tmp_path)
    assert plan.save(plan.compose(matrix.paper(), 16), tmp_path) == first


def test_the_folder_of_another_study_is_refused(tmp_path):
    plan.save(tiny.study(20), tmp_path)
    with pytest.raises(ConfigError, match="holds another study"):
        plan.save(tiny.study(30), tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="not empty"):
        plan.save(tiny.study(20), elsewhere)
    with pytest.raises(ConfigError, match="holds no study"):
        plan.load(elsewhere)
