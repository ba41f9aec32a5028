"""Builds the source distribution and the wheel, checks both and installs the wheel: `make package`.

    python .ci/package.py                                 # what CI runs: the light extras on every supported Python
    python .ci/package.py --extras train label sb3        # other extras: the keys of WORKS

Every installation is in a new environment, and the commands run in an empty folder outside the clone.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check")
TABLE = ROOT / "examples" / "costs" / "episodes.csv"
TRAIN = "perepisode train --env temptation --method esr:budget=1 --total-timesteps 20000 --out out"
GYMNAX = """
import jax
from perepisode.interop import gymnax
from perepisode.interop.jax_recorder import JaxRecorder
env, params = gymnax.make("temptation", step_api="5-tuple")
keys = jax.random.split(jax.random.key(0), 4)
_, state = jax.vmap(env.reset, (0, None))(keys, params)
step = lambda state, _: jax.vmap(env.step, (0, 0, 0, None))(keys, state, jax.numpy.ones(4, int), params)[1::3]
info = jax.lax.scan(step, state, None, 80)[1]
JaxRecorder(env, "jax.parquet", method="takes", seed=0).add(info).write()
"""
GYMNASIUM = """
import sys, gymnasium
from perepisode.wrappers import EpisodeBudget
from perepisode.interop.recorder import record
class Cost(gymnasium.Wrapper):
    def step(self, action):
        *step, info = self.env.step(action)
        return *step, {**info, "cost": 1}
env = record(EpisodeBudget(Cost(gymnasium.make("CartPole-v1")), budget=3), "cart.parquet", method="left", seed=0)
env.reset(seed=0)
while not env.complete:
    step = env.step(0)
assert step[-1]["utility"] < 4  # nine violations, three allowed
assert "jax" not in sys.modules
env.close()
"""
SB3 = """
from stable_baselines3 import PPO
from perepisode.interop import sb3
assert PPO("MlpPolicy", sb3.make("temptation", 4), n_steps=20, batch_size=80).learn(160).num_timesteps == 160
"""
LABEL = """
import re, subprocess, urllib.request
words = ["perepisode", "label", "out/episodes.parquet", "--rater", "ci", "--no-browser"]
server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    for line in server.stdout:
        if found := re.search(r"http://127[^ ]*", line):
            assert b"<title" in urllib.request.urlopen(found[0].strip()).read()
            break
    else:
        raise SystemExit("the server gave no address")
finally:
    server.terminate()
"""
WRITTEN = "out/episodes.parquet"
EPISODES = "perepisode evaluate out --num-envs 8 --num-steps 80"
# extra → what must work with it, as words of a command line or as Python
WORKS: dict[str, list[str]] = {
    "": [
        "perepisode --help",
        "perepisode agents",
        "perepisode benchmark",
        f"perepisode report {TABLE} --cost-limit 25",
    ],
    "gymnasium": [GYMNASIUM, "perepisode report cart.parquet"],
    "train": [TRAIN, EPISODES, f"perepisode report {WRITTEN} --runs out", f"perepisode watch {WRITTEN}"],
    "label": [TRAIN, EPISODES, LABEL],
    "gymnax": [GYMNAX, "perepisode report jax.parquet"],
    "sb3": [SB3],
    "train,tensorboard": [f"{TRAIN} --track tensorboard", EPISODES],
    "train,wandb": [f"{TRAIN} --track wandb", EPISODES],
    "train,mlflow": [f"{TRAIN} --track mlflow", EPISODES],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", nargs="*", default=["", "gymnasium"], help="'' is none")
    parser.add_argument("--pythons", nargs="*", default=pythons(), help="interpreters")
    parser.add_argument("--pip", nargs="*", default=[], help="further words for pip install, such as a build of torch")
    arguments = parser.parse_args()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    tools = Path(sys.executable).parent
    run([sys.executable, "-m", "build", "--outdir", dist, ROOT], ROOT)
    run([sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir())], ROOT)
    run([tools / "hadolint", ROOT / "Dockerfile"], ROOT)
    (wheel,) = dist.glob("*.whl")
    print(*(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB" for path in sorted(dist.iterdir())), sep="\n")
    for python in arguments.pythons:
        for extra in arguments.extras:
            install(wheel, python, extra, arguments.pip)


def pythons() -> list[str]:
    others = subprocess.run([sys.executable, ROOT / ".ci" / "pythons.py"], capture_output=True, text=True, check=True)
    return [sys.executable, *others.stdout.split()]


def install(wheel: Path, python: str, extra: str, more: list[str]) -> None:
    """Installs the wheel with one extra in an empty environment, and runs what must work there."""
    with tempfile.TemporaryDirectory() as folder:
        home, environment = Path(folder), Path(folder) / "venv"
        run([python, "-m", "venv", environment], home)
        start = time.monotonic()
        wanted = f"{wheel}[{extra}]" if extra else wheel
        run([environment / "bin" / "python", *PIP, "install", "-q", wanted, *more], home)
        seconds = time.monotonic() - start
        run([environment / "bin" / "python", *PIP, "check"], home)
        (home / "elsewhere").mkdir()
        for command in WORKS[extra]:
            words = command.split() if command.startswith("perepisode") else ["python", "-c", command]
            run([environment / "bin" / words[0], *words[1:]], home / "elsewhere", environment / "bin")
        size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
        version = subprocess.run([python, "-V"], capture_output=True, text=True).stdout.split()[1]
        print(f"Python {version}, {extra or 'no extra'}: installed in {seconds:.0f} s, {size / 1e9:.2f} GB", flush=True)


def run(command: list, folder: Path, path: Path | None = None) -> None:
    """Runs it with `path` first on PATH; its output is shown only if it fails."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PEREPISODE_PLUGINS")}
    environment["WANDB_MODE"] = "offline"
    environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}" if path else environment["PATH"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=folder, env=environment, **pipes)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\nended with code {done.returncode}")


if __name__ == "__main__":
    main()
