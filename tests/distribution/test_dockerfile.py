"""The Dockerfile.  `.ci/package.py` lints it with hadolint, and `.ci/dockerfile.py` runs its commands."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
STAGES = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)", TEXT, re.M | re.S))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_there_is_an_image_for_cpus_and_one_for_gpus():
    assert list(STAGES) == ["wheel", "base", "cuda", "cpu"]  # the last one is built by default
    for stage, extra in (("cuda", "cuda"), ("cpu", "train")):
        assert f'"$1[{extra}]"' in STAGES[stage]
        assert extra in PROJECT["optional-dependencies"]


def test_images_have_a_supported_python_and_the_tested_versions():
    versions = re.findall(r"^FROM python:([\d.]+)-slim", TEXT, re.M)
    assert len(set(versions)) == 1
    assert f"Programming Language :: Python :: {versions[0]}" in PROJECT["classifiers"]
    installs = re.findall(r"pip install.*", TEXT)
    assert len(installs) == 2
    assert all("--constraint /wheels/requirements.lock" in command for command in installs)
    assert all("--no-cache-dir" in command for command in re.findall(r"pip \w+.*", TEXT))


def test_images_do_not_run_as_root():
    for stage in ("cuda", "cpu"):
        assert re.findall(r"^USER (.*)", STAGES[stage], re.M)[-1] == "1000:1000"


def test_what_is_built_from_is_what_the_wheel_needs():
    """No secrets, results or caches reach the build; the source distribution needs no more."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert kept == {"src", "README.md", "LICENSE", "pyproject.toml", "hatch_build.py", "requirements.lock"}
    assert all((ROOT / name).exists() for name in kept)
    copied = re.findall(r"^COPY (?!--from)(\S+)", TEXT, re.M)
    assert set(copied) <= {".", *kept}
