"""Without the `train` extra, reports, listing and planning work; other commands print in one line what they need."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perepisode
from perepisode import benchmark, cli, lazy
from perepisode.evaluation import episodes
from perepisode.preferences import labels
from perepisode.preferences.raters import LENIENT
from tests.preferences.made_up import judged, plane

pytestmark = pytest.mark.processes

SOURCE = Path(perepisode.__file__).parents[1]
PROJECT = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
MISSING = ("jax", "jaxlib", "optax", "craftax", "orbax", "safetensors", "flax", "tensorstore", "chex")
AS_IF_NOT_INSTALLED = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {MISSING}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""
EACH = """
import contextlib, io, json, sys
from perepisode.cli import main

found = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            found.append([end.code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(found))
"""
WORKS = {
    "--help": "evaluate",
    "train --help": "--budget",
    "matrix": "183 runs",
    "study plan": "183 runs in",
    "study plan --env temptation": "63 runs in",
    "study submit --dry-run --out cluster": "submit.sh",
    "study status --out cluster": "0 of 183 runs",
    "agents": "no_killing/esr-k1",
    "agents card no_killing/esr-k1": "must not be used",
    "version": "perepisode",
    "report table.csv": "wrote report/index.html",
    "distill --labels labels.jsonl --monotone --out u.json": "wrote u.json",
    "report table.csv --runs no_killing/esr-k1 --out curves": "wrote curves/index.html",
    "benchmark": "temptation-v1: At most 5",
    "benchmark verify result.json": "counts      not verified: replaying the episodes needs jax, optax, craftax, orbax",
    "benchmark temptation recorded.parquet": "wrote benchmark/temptation-v1.recorded.s1.",
    "benchmark leaderboard benchmark": "wrote leaderboard.md and leaderboard.html",
}
NEEDS = {
    "train": "train",
    "evaluate no_killing/esr-k1": "evaluate",
    "benchmark no_killing no_killing/esr-k1": "benchmark",
    "distill table.csv": "distill",
    "watch table.csv": "watch",
    "bench": "bench",
    "demo": "demo",
    "study run --env temptation": "study run",
    "agents export run --out mine.safetensors": "agents export",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[int, str, str]]:
    """Exit code, stdout and stderr of every command, in one process without the libraries for training."""
    home = tmp_path_factory.mktemp("light")
    (home / "missing").mkdir()
    (home / "missing" / "sitecustomize.py").write_text(AS_IF_NOT_INSTALLED)
    rows = [f"{name},{seed},{seed + 1.5},{(seed + i) % 3}" for name in "ab" for seed in (1, 2) for i in range(4)]
    (home / "table.csv").write_text("\n".join(["method,seed,return,violations", *rows]))
    recorded(home)
    for one in judged(LENIENT, *plane(), 30):
        labels.append(home / "labels.jsonl", one)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (home / "missing", SOURCE)))}
    commands = [*WORKS, *NEEDS]
    command = [sys.executable, "-c", EACH, json.dumps([line.split() for line in commands])]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(commands, map(tuple, json.loads(done.stdout.splitlines()[-1]))), strict=True)


def recorded(home: Path) -> None:
    """A recorder's table under a protocol, and a result made of it."""
    fixed = benchmark.find("temptation")
    table = pd.DataFrame({"env_index": np.repeat(range(64), 12), "episode_index": np.tile(range(12), 64)})
    table = table.assign(episode_key=fixed.episode_keys, method="recorded", seed=1, total_timesteps=1, length=40)
    table = table.assign(environment="temptation", dilemma="temptation", trained_on=fixed.id, violations=0)
    table = table.assign(env_settings=json.dumps(dict(fixed.env_settings)), actions=bytes(40), **{"return": 30.0})
    episodes.write(table, home / "recorded.parquet")
    benchmark.evaluate("temptation", [home / "recorded.parquet"], home / "result.json", log=lambda _: None)


@pytest.mark.parametrize("line", WORKS)
def test_reports_and_planning_work_without_them(answers, line):
    code, out, err = answers[line]
    assert (code, err) == (0, "")
    assert WORKS[line] in out


@pytest.mark.parametrize("line", NEEDS)
def test_other_commands_print_what_they_need(answers, line):
    code, out, err = answers[line]
    assert (code, out) == (2, "")
    assert err == (
        f"perepisode: perepisode {NEEDS[line]} needs jax, optax, craftax, orbax and safetensors; "
        "run: pip install 'perepisode[train]'\n"
    )


def test_a_missing_library_is_reported_wherever_it_is_imported(capsys):
    """For example in a plugin environment that is traced while a study is planned."""

    def traced():
        raise ModuleNotFoundError("No module named 'jax.numpy'", name="jax.numpy")

    assert cli.run(traced) == 2
    message = "this needs jax; run: pip install 'perepisode[train]'"
    assert capsys.readouterr().err == f"perepisode: {message}\n"
    with pytest.raises(ModuleNotFoundError):  # any other missing module is a bug
        cli.run(lambda: (_ for _ in ()).throw(ModuleNotFoundError("No module named 'x'", name="x")))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", requirement)[0] for requirement in requirements}


def test_the_message_lists_the_libraries_of_the_extra():
    train = names(PROJECT["optional-dependencies"]["train"])
    assert {name.removesuffix("-checkpoint") for name in train} == {*lazy.TRAINING, "pillow"}
    assert not train & names(PROJECT["dependencies"])
    assert all("perepisode[train]" in PROJECT["optional-dependencies"][name] for name in ("cuda", "dev"))


def test_the_lock_pins_every_requirement():
    """Except those of the adapters to libraries that depend on torch and of two large trackers: tests skip them."""
    locks = [SOURCE.parent / name for name in ("requirements.lock", "requirements-docs.lock")]
    locked = {line.split("==")[0].lower() for lock in locks for line in lock.read_text().splitlines()}
    large = ("sb3", "morl", "trainers", "wandb", "mlflow")
    extras = [extra for name, extra in PROJECT["optional-dependencies"].items() if name not in large]
    required = names(PROJECT["dependencies"]).union(*map(names, extras))
    assert required - {"perepisode"} <= locked
