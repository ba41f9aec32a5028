"""The source distribution and the wheel that is built from it, without a network."""

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Distribution(NamedTuple):
    wheel: Path
    source: Path  # the unpacked source distribution


@pytest.fixture(scope="session")
def distribution(tmp_path_factory) -> Distribution:
    home = tmp_path_factory.mktemp("distribution")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(home)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (archive,) = home.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(home, filter="data")
    source = home / archive.name.removesuffix(".tar.gz")
    subprocess.run([*build, "-t", "wheel"], cwd=source, check=True, capture_output=True)
    (wheel,) = home.glob("*.whl")
    return Distribution(wheel, source)
