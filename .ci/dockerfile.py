"""Runs the commands of the Dockerfile without Docker: `python .ci/dockerfile.py` (the image `cpu`) or `... cuda`.

Each stage is a new virtual environment of the Python that its image names.  Absolute folders of the Dockerfile become
temporary ones, the build context is what .dockerignore lets through, and the entry point runs without root's rights.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pythons

ROOT = Path(__file__).resolve().parents[1]


def instructions(stage: str) -> list[tuple[str, str]]:
    """Of this stage, after those of the stages that it is built from or copies from."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
    found: list[tuple[str, str]] = []
    for word, rest in re.findall(r"^([A-Z]+) (.*)$", re.sub(r"\\\n\s*", "", text), re.M):
        if word == "FROM":
            wanted = rest.split()[-1] in (stage, "wheel", "base")
        found += [(word, rest)] if wanted else []
    return found


def build(stage: str, home: Path) -> list[str]:
    """Runs the instructions; returns the command line of the entry point, as the image's user."""
    context, here, environment, user = home / "context", home, dict(os.environ), []
    environment.pop("PYTHONPATH", None)
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            source, target = ROOT / line[1:], context / line[1:]
            context.mkdir(exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)

    def placed(text: str) -> str:
        """Absolute folders of the image in the temporary folder."""
        return re.sub(r"(?<![\w.$])/(source|wheels|work)\b", rf"{home}/\1", text)

    entry: list[str] = []
    for word, rest in instructions(stage):
        if word == "FROM" and rest.startswith("python:"):
            version = rest.removeprefix("python:").split("-")[0]
            venv = home / f"venv-{rest.split()[-1]}"
            python = pythons.interpreter(version) or sys.exit(f"no Python {version} here")
            subprocess.run([python, "-m", "venv", venv], check=True)
            environment["PATH"] = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        elif word == "WORKDIR":
            here = Path(placed(rest))
            here.mkdir(exist_ok=True)
        elif word == "COPY" and not rest.startswith("--from"):  # other stages share this folder
            source, target = rest.split()
            target = here if target == "." else Path(placed(target))
            target.mkdir(exist_ok=True)
            copy = partial(shutil.copytree, dirs_exist_ok=True) if source == "." else shutil.copy
            copy(context / source, target)
        elif word == "ENV":
            environment.update(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "RUN":
            print(f"RUN {rest}", flush=True)
            subprocess.run(["sh", "-c", placed(rest)], cwd=here, env=environment, check=True)
        elif word == "USER" and os.getuid() == 0:  # who, as in the image, may not write next to the packages
            subprocess.run(["chmod", "-R", "a-w", venv], check=True)
            user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
    os.environ.update(environment)
    os.chdir(here)
    return [*user, *entry]


with tempfile.TemporaryDirectory() as folder:
    entry = build(sys.argv[1] if len(sys.argv) > 1 else "cpu", Path(folder))
    for words in (
        "--help",
        "train --env temptation --method esr:budget=1 --total-timesteps 20000 --out out",
        "evaluate out --num-envs 8 --num-steps 80",
        "report out/episodes.parquet --runs out",
        "agents card no_killing/esr-k1",
    ):
        print(f"perepisode {words}", flush=True)
        subprocess.run([*entry, *words.split()], check=True, stdout=subprocess.DEVNULL)
    os.chdir(ROOT)
