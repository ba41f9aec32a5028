"""Kill −9 of the whole demo at random moments, started again each time: does it end as if nothing had happened?

    make demo                                                     # the uninterrupted one, in out/demo
    python benchmarks/interrupted_demo.py out/killed out/demo     # another 13 minutes on two cores

Fails if a finished run is touched again, or if any episode or training metric differs from the uninterrupted demo's.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

MOMENTS = ((20, 150), (20, 200), (60, 300))  # seconds after each start, from which one is drawn
DEMO = ("-m", "perepisode", "demo", "--out")


def finished(out: Path) -> dict[Path, int]:
    """When each finished run was marked as done."""
    return {path: path.stat().st_mtime_ns for path in out.glob("*/runs/*/done")}


def interrupt(out: Path, seed: int) -> int:
    """Start the demo, kill it, three times; then let it end.  The number of runs that were done before a kill."""
    generator, known = random.Random(seed), {}
    for low, high in MOMENTS:
        seconds = generator.uniform(low, high)
        process = subprocess.Popen([sys.executable, *DEMO, str(out)], stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds)
        assert process.poll() is None, "it ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)  # the demo leads a session of its own, its workers with it
        process.wait()
        known |= finished(out)
        print(f"killed after {seconds:.0f} s; {len(known)} runs done", flush=True)
    subprocess.run([sys.executable, *DEMO, str(out)], check=True)
    again = [path for path, when in known.items() if finished(out)[path] != when]
    assert not again, f"trained twice: {again}"
    return len(known)


def rows(folder: Path) -> list[dict]:
    """Training metrics but for the clock."""
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "clock"} for row in read]


def compare(one: Path, other: Path) -> None:
    """Every episodes table bit for bit, every line of training metrics."""
    tables, runs = (
        sorted(path.relative_to(one) for path in one.glob(kind)) for kind in ("*/episodes/*", "*/runs/*/done")
    )
    assert tables
    episodes = 0
    for name in tables:
        left, right = pd.read_parquet(one / name), pd.read_parquet(other / name)
        pd.testing.assert_frame_equal(left, right, check_exact=True)
        episodes += len(left)
    for name in runs:
        assert rows((one / name).parent) == rows((other / name).parent), name
    print(f"{len(tables)} tables, {episodes} episodes and the metrics of {len(runs)} runs are equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("uninterrupted", type=Path)
    parser.add_argument("--seed", type=int, default=11)
    given = parser.parse_args()
    done = interrupt(given.out, given.seed)
    compare(given.uninterrupted, given.out)
    print(f"{done} runs were done before a kill, and none of them was trained again")


if __name__ == "__main__":
    main()
