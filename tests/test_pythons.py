"""The places that state the supported Pythons agree, CI finds their interpreters, and test groups share a process."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORTED = [f"3.{minor}" for minor in range(100) if f"3.{minor}.1" in SpecifierSet(PROJECT["requires-python"])]


def test_classifiers_and_readme_name_the_supported_pythons():
    stated = [name for name in PROJECT["classifiers"] if name.startswith("Programming Language")]
    assert stated == [f"Programming Language :: Python :: {version}" for version in SUPPORTED]
    stated = re.search(r"With Python (.*?):\n", (ROOT / "README.md").read_text())
    assert stated
    assert re.findall(r"[\d.]+\d", stated[1]) == SUPPORTED


def test_ci_finds_every_other_python_that_runs(tmp_path):
    for folder, ending in (("broken", 127), ("sound", 0)):
        (tmp_path / folder).mkdir()
        for version in SUPPORTED[:-1]:
            python = tmp_path / folder / f"python{version}"
            python.write_text(f"#!/bin/sh\nexit {ending}\n")
            python.chmod(0o755)
    path = os.pathsep.join(str(tmp_path / folder) for folder in ("nowhere", "broken", "sound"))
    environment = {**os.environ, "PATH": path, "PYENV_ROOT": str(tmp_path / "pyenv")}
    command = [sys.executable, ROOT / ".ci" / "pythons.py"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    own = "{}.{}".format(*sys.version_info)
    assert answer.stdout.split() == [f"{tmp_path}/sound/python{v}" for v in SUPPORTED[:-1] if v != own]
    assert (SUPPORTED[-1] in answer.stderr) == (SUPPORTED[-1] != own)


@pytest.mark.xdist_group("together")
def test_one_process_runs_all_tests_of_a_group(request):
    """pytest 9.2 ignores the group names of pytest-xdist 3.8, so shared fixtures would be set up twice."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("there is only one process")
    assert request.node.nodeid.endswith("@together")
