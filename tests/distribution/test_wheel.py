"""The wheel has the package and nothing else, and works installed outside the clone."""

import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.xdist_group("wheel")
ROOT = Path(__file__).parents[2]
EVALUATE = "evaluate no_killing/esr-k1 --num-envs 2 --num-steps 32 --episodes-per-env 1 --out e.parquet"


def test_the_wheel_has_exactly_the_files_of_the_package(distribution):
    committed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/perepisode"]
    listed = subprocess.run(committed, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone of the repository")
    with ZipFile(distribution.wheel) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert inside == {name.removeprefix("src/") for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    needed = ("report/template.html", "replay/player.js", "preferences/label.css", "study/stage.sbatch", "py.typed")
    assert {f"perepisode/{name}" for name in needed} <= inside
    assert len([name for name in inside if name.endswith(".safetensors")]) >= 3


def test_the_wheel_is_small_and_has_no_pickles(distribution):
    assert distribution.wheel.stat().st_size < 30e6
    with ZipFile(distribution.wheel) as wheel:
        kinds = {Path(name).suffix for name in wheel.namelist()}
    assert not kinds & {".pkl", ".pickle", ".pbz2", ".pyc", ".ipynb", ".parquet"}


@pytest.fixture(scope="module")
def installed(distribution, tmp_path_factory):
    """`perepisode` from a wheel in a new virtual environment, with this one's packages but not the clone's source."""
    home = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(home / "venv")}))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(purelib), str(distribution.wheel)], check=True)
    # dependencies are found here; nested .pth files are not followed, which excludes the clone's source
    (purelib / "packages.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (home / "elsewhere").mkdir()

    def run(*arguments: str) -> str:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [str(home / "venv" / "bin" / "python"), "-m", "perepisode.cli", *arguments]
        done = subprocess.run(command, cwd=home / "elsewhere", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [str(home / "venv" / "bin" / "python"), "-c", "import perepisode; print(perepisode.__file__)"]
    found = subprocess.run(where, cwd=home / "elsewhere", capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(home)), found
    return run


@pytest.mark.processes
def test_a_wheel_lists_the_agents_and_their_cards(installed):
    listed = installed("agents")
    for name in ("no_killing/esr-k1", "no_killing/lagrangian-d0.5", "no_killing/ser-w0.1"):
        assert name in listed
        assert "must not be used" in installed("agents", "card", name)


@pytest.mark.processes
def test_a_wheel_verifies_results_and_builds_a_leaderboard(installed):
    home = ROOT / "results" / "benchmark"
    (result,) = home.glob("temptation/temptation-v1.temptation.esr.k=1.s42.*.json")
    verified = installed("benchmark", "verify", str(result))
    assert "counts      verified: 768 episodes replayed" in verified
    assert "wrote leaderboard.md" in installed("benchmark", "leaderboard", str(home))


@pytest.mark.slow
def test_a_wheel_evaluates_and_replays_an_agent(installed):
    assert "wrote e.parquet" in installed(*EVALUATE.split())
    assert installed("watch", "e.parquet", "--worst", "1").count("reproduced exactly") == 1
