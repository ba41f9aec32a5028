"""Kill −9 at random moments, then the same command again: is anything lost, or any result different?

    python benchmarks/killed.py out/killed --kills 30 --seed 1        # a quarter of an hour on two cores

Each command runs once without interruption.  Then, for every kill, it starts in a new folder, is killed with all its
processes after a random share of its duration, and is started again.  Its results must equal those of the uninterrupted
run bit for bit: policies, metrics (without the clock), tables, utilities, pages.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

SMALL = ["--set", "num_envs=16", "num_steps=40", "hidden_size=8", "num_minibatches=2", "update_epochs=2"]
STUDY = ["--env", "temptation", "--only", "esr_distilled", "--seeds", "1", "--steps", "4e4"]  # with its pool
COMMANDS = {
    "train": ["train", "--weight", "0.1", "0.3", "--method", "ser", "--seeds", "1", "2", "--steps", "2e5",
              "--chunk", "4", "--checkpoint-seconds", "0.5", "--out", "runs", *SMALL],
    "evaluate": ["evaluate", "runs", "--num-envs", "64", "--num-steps", "2000", "--episodes-per-env", "40"],
    "study run": ["study", "run", *STUDY, "--out", "study", "--pack", "5", "--workers", "2",
                  "--checkpoint-seconds", "1"],
    "report": ["report", "runs/episodes.parquet", "--runs", "runs", "--out", "report"],
}  # fmt: skip


def launch(home: Path, command: str) -> subprocess.Popen:
    """Start a command in its own session, so that it can be killed with its child processes."""
    with open(home / "log", "a") as log:
        words = [sys.executable, "-m", "perepisode", *COMMANDS[command]]
        return subprocess.Popen(words, cwd=home, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def run_to_end(home: Path, command: str) -> float:
    """Seconds that the command takes."""
    start = time.monotonic()
    code = launch(home, command).wait()
    assert code == 0, f"{command} ended with {code}: {(home / 'log').read_text()[-2000:]}"
    return time.monotonic() - start


def killed(home: Path, command: str, after: float) -> bool:
    """Kill the command after some seconds; returns False if it had already ended."""
    process = launch(home, command)
    try:
        process.wait(after)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def results_in(home: Path) -> dict[str, str]:
    """The digest of every result, by file name."""
    digests = {}
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        name = str(path.relative_to(home))
        if path.name in ("log", "lock") or any(part in ("tasks", "populations") for part in path.parts):
            continue
        if path.name == "metrics.jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            content = json.dumps([{key: row[key] for key in row if key != "clock"} for row in rows]).encode()
        elif path.suffix == ".parquet":
            content = pd.read_parquet(path).to_json(double_precision=15, default_handler=str).encode()
        else:
            content = path.read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
    return digests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str((arguments.out / "compiled").resolve()))
    random_numbers, seconds, expected = random.Random(arguments.seed), {}, {}
    uninterrupted = arguments.out / "uninterrupted"
    uninterrupted.mkdir(parents=True)
    ready = {}
    for command in COMMANDS:
        shutil.copytree(uninterrupted, before := arguments.out / f"before {command}")
        ready[command] = before
        run_to_end(uninterrupted, command)  # compiles
        shutil.rmtree(uninterrupted)
        shutil.copytree(before, uninterrupted)
        seconds[command] = run_to_end(uninterrupted, command)
        expected[command] = results_in(uninterrupted)
        print(f"{command}: {seconds[command]:.1f} s uninterrupted, {len(expected[command])} files", flush=True)
    kills = dict.fromkeys(COMMANDS, 0)
    while sum(kills.values()) < arguments.kills:
        command = list(COMMANDS)[sum(kills.values()) % len(COMMANDS)]
        home = arguments.out / "killed"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(ready[command], home)
        after = random_numbers.uniform(0.05, 0.98) * seconds[command]
        if not killed(home, command, after):
            continue  # it ended earlier than before; try another moment
        before_restart = len(results_in(home))
        run_to_end(home, command)
        found = results_in(home)
        names = found.keys() | expected[command].keys()
        wrong = sorted(name for name in names if found.get(name) != expected[command].get(name))
        kills[command] += 1
        verdict = "equal" if not wrong else f"NOT EQUAL: {', '.join(wrong[:5])}"
        print(
            f"{command} killed after {after:.1f} s with {before_restart} files: {len(found)} files, {verdict}",
            flush=True,
        )
        assert not wrong
    listed = ", ".join(f"{count} of {command}" for command, count in kills.items())
    print(f"{sum(kills.values())} kills ({listed}): nothing lost, every result equal bit for bit")


if __name__ == "__main__":
    main()
