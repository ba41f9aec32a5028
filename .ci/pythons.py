"""Prints one interpreter per line for every other supported Python version that this machine has."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
SUPPORTED = [words[-1] for name in PROJECT["classifiers"] if (words := name.split(" :: "))[0] == "Programming Language"]


def interpreter(version: str) -> Path | None:
    """The first on PATH or in pyenv that runs, has this version and can create virtual environments."""
    check = f"import ensurepip, sys; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    on_path = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for python in [*on_path, *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]:
        # a pyenv shim on PATH may exist without the version that it stands for
        if python.exists() and subprocess.run([python, "-c", check], capture_output=True).returncode == 0:
            return python
    return None


if __name__ == "__main__":
    for version in SUPPORTED:
        if version != "{}.{}".format(*sys.version_info):
            if found := interpreter(version):
                print(found)
            else:
                print(f"no Python {version} here: nothing is tested on it", file=sys.stderr)
