"""Check that every published number follows from the committed files: `make results-check`.

Rebuilds the reports on the trained agents, the blocks of README and of the documentation that contain numbers, and the
table of the search over ν and the leaderboard, and fails on any difference; also compares the learning curves and
replays the benchmark's results on the miniature.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import evidence
import pandas as pd
import readme

from perepisode.benchmark import leaderboard, verify

HERE = Path(__file__).parent
TEXTS = ("*.md", "*.html", "*.json", "data/*.csv", "tables/*.tex")
ELSEWHERE = re.compile(r"<svg.*?</svg>|Made with [^<]*|\"made_with\": \{.*?\}", re.DOTALL)  # differs between machines


def same(committed: Path, rebuilt: Path) -> bool:
    """Compare text and numbers, except SVG paths, versions, and the last digits, which depend on the processor."""
    if not (committed.exists() and rebuilt.exists()):
        return False
    if committed.suffix != ".csv":
        one, other = (ELSEWHERE.sub("", path.read_text()) for path in (committed, rebuilt))
        return one == other
    try:
        pd.testing.assert_frame_equal(pd.read_csv(committed), pd.read_csv(rebuilt), rtol=1e-9, atol=1e-12)
    except AssertionError:
        return False
    return True


def reports() -> list[str]:
    """The files of the reports, of README and of the documentation that differ from the committed ones."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for home in evidence.HOMES:
            name, own = home.kept.name, Path(folder) / home.kept.name
            own.mkdir()
            for part in (path for path in home.kept.iterdir() if path.name != "report"):
                (own / part.name).symlink_to(part)
            again = own / "report"
            evidence.report(home, again)
            committed, rebuilt = (
                {str(path.relative_to(root)) for kind in TEXTS for path in root.glob(kind)}
                for root in (home.kept / "report", again)
            )
            names = sorted(committed | rebuilt)
            differ = [f"{name}/report/{one}" for one in names if not same(home.kept / "report" / one, again / one)]
            print(f"{name}: {len(names)} files of its report, {len(differ)} differ")
            wrong += differ
        wrong += readme.differ(Path(folder))
    return wrong


def curves() -> list[str]:
    """The learning curve against the public one, and bf16 against fp32 and against the earlier, slower trainer."""
    script, wrong = HERE.parent / "benchmarks" / "learning_curve.py", []
    for beside in ("fp32", "bf16_before"):
        sides = [HERE / "learning_curve" / name for name in ("bf16", beside)]
        done = subprocess.run([sys.executable, script, sides[0], "--beside", sides[1]], capture_output=True, text=True)
        print("\n".join(done.stdout.splitlines()[-2:]))
        wrong += [] if done.returncode == 0 else [f"learning_curve beside {beside}"]
    return wrong


def benchmark() -> list[str]:
    """The leaderboard, and the replays of all results on the miniature; Craftax would take minutes for each."""
    home, wrong = HERE / "benchmark", []
    with tempfile.TemporaryDirectory() as folder:
        rebuilt = leaderboard.write(home, Path(folder) / "leaderboard.md")
        wrong += [f"benchmark/{path.name}" for path in rebuilt if not same(home / path.name, path)]
    replayed = sorted((home / "temptation").glob("*.json"))
    for path in replayed:
        found = {check.what: check.verified for check in verify(path, log=lambda _: None)}
        wrong += [] if found["counts"] else [f"benchmark/temptation/{path.name}, its counts"]
    print(f"benchmark: leaderboard, and {len(replayed)} results replayed")
    return wrong


def search() -> list[str]:
    """The table of the search over ν."""
    home = HERE / "search"
    command = [sys.executable, home / "nu.py", "table", home / "nu", home / "learner"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return [] if table in (home / "README.md").read_text() else ["search/README.md"]


def main() -> int:
    wrong = [*curves(), *search(), *benchmark(), *reports()]
    for name in wrong:
        print(f"differs from what is committed: {name}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
