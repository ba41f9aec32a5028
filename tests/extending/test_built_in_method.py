"""A file put into `methods/` is a method of the package: no list changes, neither in the package nor in the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perepisode

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
FRUGAL = '''
"""A fee for each violation that grows with those before it."""

from __future__ import annotations

from perepisode.lazy import jax
from perepisode.methods import accrued_obs
from perepisode.methods.objective import ConstraintType, Objective, register_method, task_reward
from perepisode.settings import setting


@register_method
class Frugal(Objective):
    """r = r_ext - f (v'^2 - v^2)."""

    fee: jax.Array | float = setting(help="f, the fee for the first violation", above=0)
    tariff: str = setting("quadratic", "how the fee grows", choices=("quadratic", "linear"))
    accrued_obs: str = accrued_obs.setting("paper")

    name, label = "frugal", "Frugal"
    swept, symbol, constraint, swept_values = "fee", "f", ConstraintType.PRICE, (0.5, 2)

    def reward(self, dual, before, after):
        return task_reward(before, after) - self.fee * (after.violations**2 - before.violations**2)
'''
# the tests that look at every method
ENUMERATING = (
    "tests/study/test_matrix.py", "tests/training/test_objectives.py", "tests/training/test_accrued_obs.py",
    "tests/report/test_style.py", "tests/test_layers.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Environment variables of a process that imports a copy of the package with one more method."""
    copy = tmp_path_factory.mktemp("package")
    source = Path(perepisode.__file__).parent
    shutil.copytree(source, copy / "perepisode", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "perepisode" / "methods" / "frugal.py").write_text(FRUGAL)
    return {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "100"}


def python(environment: dict[str, str], *arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    return answer.stdout


def test_its_settings_are_options_and_it_is_trained_like_any_other(environment):
    assert "--fee VALUE ..." in python(environment, "-m", "perepisode", "train", "--help")
    listed = python(environment, "-m", "perepisode", "matrix", "--extra-baselines", "--format", "csv")
    arms = {line.split(",")[5] for line in listed.splitlines() if ",frugal," in line}
    assert arms == {"f=0.5", "f=2"}


def test_the_tests_of_every_method_cover_it_without_a_change(environment):
    tests = python(
        environment, "-m", "pytest", "-m", "not slow", "-n", "0", "-p", "no:cacheprovider", "-vv", *ENUMERATING
    )
    assert "test_every_method_with_an_accrued_observation_can_choose_it[frugal] PASSED" in tests
