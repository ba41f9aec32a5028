"""The commands `matrix`, `study` and `demo`: output, one-line errors, and no device started."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys

import pytest
import tiny

from perepisode.algorithms import fitting
from perepisode.cli import main, parsed
from perepisode.study import packing, plan


def call(capsys, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    seen = capsys.readouterr()
    return ended.value.code, seen.out, seen.err


def test_matrix_as_json_csv_and_table(capsys):
    code, out, _ = call(capsys, "matrix", "--format", "json")
    assert code == 0
    assert len({run["id"] for run in json.loads(out)}) == 183
    _, out, _ = call(capsys, "matrix", "--format", "csv", "--only", "no_killing,esr", "--seeds", "1", "--steps", "1e6")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["arm"], row["gamma"], row["total_timesteps"]) for row in rows] == [
        ("k=0", "0.99", "1000000"),
        ("k=1", "0.99", "1000000"),
        ("k=2", "0.99", "1000000"),
        ("k=4", "0.99", "1000000"),
        ("k=0", "1.0", "1000000"),
    ]
    _, out, _ = call(capsys, "matrix")
    assert "183 runs of 1e+09 steps: erm 30 + ser 45 + lagrangian 36 + esr 18 + budget 18 + ser_racc 18" in out


@pytest.fixture
def gpus(monkeypatch):
    """The GPUs that the driver reports: none, until the test adds some."""
    found: list[int] = []
    monkeypatch.setattr(fitting, "gpu_memories", lambda: found)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found


def test_the_plan_states_hours_and_memory(capsys, gpus):
    code, out, _ = call(capsys, "study", "plan", "--memory", "139", "--gpus", "4")
    assert code == 0
    assert "183 runs in 13 packs, 1.83e+11 steps; packed for 139 GiB per gpu" in out
    hours = "23.1 hours on one NVIDIA H200, at 2,200,000 steps/s as measured there; 5.8 hours on 4 of them"
    assert hours in out  # 1.83e11 / 2.2e6 / 3600 = 23.11
    gpus += [80 * packing.GIB] * 2
    _, out, _ = call(capsys, "study", "plan")
    assert "packed for 80 GiB per gpu" in out
    assert "23.1 hours on one NVIDIA H200, at 2,200,000 steps/s as measured there; 11.6 hours on 2 of them" in out


def test_without_a_gpu_the_plan_has_no_column_of_hours(capsys, gpus, tmp_path):
    _, out, _ = call(capsys, "study", "plan", "--memory", "24")
    assert "hours" not in out.splitlines()[0]
    assert "hours are not known: there is no GPU here; one NVIDIA H200 takes 23.1 hours at 2,200,000 steps/s" in out
    assert "to measure this machine: perepisode bench --num-envs 1024 --hidden-size 512, then --bench FILE" in out
    row = {"runs": 2, "num_envs": 1024, "hidden_size": 512, "steps_per_second": 5e3, "peak_bytes": 2e9}
    (tmp_path / "bench.json").write_text(json.dumps({"device": "cpu", "training": [row]}))
    _, out, _ = call(capsys, "study", "plan", "--memory", "24", "--bench", str(tmp_path / "bench.json"))
    assert "hours" in out.splitlines()[0]
    assert "10166.7 hours at 5,000 steps/s, measured on cpu (" in out  # 1.83e11 / 5e3 / 3600
    _, out, _ = call(capsys, "study", "plan", "--env", "temptation")
    assert "about 5 minutes at 100,000 steps/s, which is a guess" in out  # 63 x 480,000 / 1e5 / 60 = 5.04


@pytest.mark.parametrize(
    "words", [[], ["--extra-baselines", "--gpus", "8"], ["--env", "temptation", "--extra-baselines"]]
)
def test_the_plan_fits_a_hundred_columns(capsys, gpus, words):
    _, out, _ = call(capsys, "study", "plan", "--memory", "80", *words)
    assert max(map(len, out.splitlines())) <= 100


def test_the_plan_names_the_command_that_runs_what_it_planned(capsys, gpus, tmp_path):
    """Without the options that select and pack the runs, the command would start the whole matrix."""
    row = {"runs": 2, "num_envs": 1024, "hidden_size": 512, "steps_per_second": 5e3, "peak_bytes": 2e9}
    (tmp_path / "my bench.json").write_text(json.dumps({"device": "cpu", "training": [row]}))
    words = [
        *("--env", "craftax", "--out", str(tmp_path / "my study"), "--only", "no_killing,saute"),
        *("--total-timesteps", "123456789", "--seeds", "5", "6"),
        *("--extra-baselines", "--pack", "2", "--memory", "40.5"),
        *("--bench", str(tmp_path / "my bench.json")),
    ]
    code, out, _ = call(capsys, "study", "plan", *words, "--gpus", "3")  # --gpus is an option of the plan alone
    assert code == 0
    command = out.splitlines()[-1].removeprefix("next: ")
    assert shlex.split(command) == ["perepisode", "study", "run", *words]
    planned, run = (parsed(["study", action, *words]).action for action in ("plan", "run"))
    assert run.study() == planned.study()
    assert run.study().runs == 6  # three budgets and two seeds

    _, out, _ = call(capsys, "study", "plan", "--env", "temptation", "--memory", "80")
    assert out.splitlines()[-1] == "next: perepisode study run --env temptation --out study --memory 80"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["matrix", "--only", "no_kiling"], "'no_kiling' is unknown"),
        (["matrix", "--env", "minecraft"], "env 'minecraft' is unknown; choose from craftax, temptation"),
        (["study", "plan", "--steps", "10"], "steps=10 is less than one rollout"),
        (["study", "plan", "--pack", "500", "--memory", "80"], "the largest that fits is --pack"),
        (["study", "plan", "--bench", "nowhere.json"], "is not a benchmark"),
        (["study", "plan", "--pack", "-3"], "pack=-3 is out of range; pack must be a whole number, at least 0"),
        (["study", "plan", "--steps", "nan"], "steps=nan is out of range"),
        (["study", "submit", "--time", "yesterday", "--dry-run"], "--time yesterday is not a time limit"),
        (["study", "submit", "--host-memory", "much", "--dry-run"], "--host-memory much is not an amount of memory"),
        (["demo", "--workers", "-2"], "workers=-2 is out of range"),
        (["bench", "--num-envs", "0"], "num_envs=0 is out of range; num_envs must be a whole number, at least 1"),
        (["study", "status", "--out", "nowhere"], "holds no study"),
    ],
)
def test_invalid_input_is_one_clear_line(capsys, words, message):
    code, _, err = call(capsys, *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_submitting_needs_slurm(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = call(capsys, "study", "submit", "--slurm", "--out", str(tmp_path / "study"))
    assert code == 2
    assert "no SLURM on this machine" in err
    code, out, _ = call(capsys, "study", "submit", "--slurm", "--dry-run", "--out", str(tmp_path / "study"))
    assert code == 0
    assert "submit.sh" in out


def test_another_studys_folder_is_refused(capsys, tmp_path):
    plan.save(tiny.study(), tmp_path)
    code, _, err = call(capsys, "study", "run", "--out", str(tmp_path))
    assert code == 2
    assert "holds another study" in err


@pytest.mark.processes
@pytest.mark.parametrize("words", [["matrix"], ["study", "plan"], ["study", "submit", "--dry-run"]])
def test_planning_starts_no_device_and_imports_neither_environments_nor_tables(tmp_path, words):
    """These imports would make it slow; methods need only the module of JAX."""
    code = (
        "import sys\n"
        "from perepisode.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as ended: assert ended.code == 0\n"
        "import jax._src.xla_bridge as bridge\n"
        "assert not bridge._backends, bridge._backends\n"
        "slow = {'craftax', 'flax', 'optax', 'orbax', 'scipy', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    answer = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
