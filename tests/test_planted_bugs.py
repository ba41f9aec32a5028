"""The list of planted bugs (benchmarks/planted_bugs.py) follows the code."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.processes
def test_the_code_and_the_tests_of_every_planted_bug_are_found():
    program = Path(__file__).parents[1] / "benchmarks" / "planted_bugs.py"
    check = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
