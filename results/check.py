"""Does everything that is claimed still follow from what is committed?  `make results-check`.

Rebuilds the report on the trained agents from its tables, README's parts that hold numbers and the table of the
search over ν, and fails on any difference; also compares the learning curves.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import evidence
import pandas as pd
import readme

HERE = Path(__file__).parent
TEXTS = ("*.md", "*.html", "data/*.csv")


def same(committed: Path, rebuilt: Path) -> bool:
    """Every word and number; but not the paths of drawings, nor the last digits, which another processor rounds."""
    if not (committed.exists() and rebuilt.exists()):
        return False
    if committed.suffix != ".csv":
        one, other = (re.sub(r"<svg.*?</svg>", "", path.read_text(), flags=re.DOTALL) for path in (committed, rebuilt))
        return one == other
    try:
        pd.testing.assert_frame_equal(pd.read_csv(committed), pd.read_csv(rebuilt), rtol=1e-9, atol=1e-12)
    except AssertionError:
        return False
    return True


def reports() -> list[str]:
    """What of the report and of README does not come out as committed."""
    kept = evidence.KEPT
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "report"
        for name in ("episodes", "curves", "packs", "watch"):
            (Path(folder) / name).symlink_to(kept / name)
        evidence.report(Path(folder), again)
        committed, rebuilt = (
            {str(path.relative_to(root)) for kind in TEXTS for path in root.glob(kind)}
            for root in (kept / "report", again)
        )
        names = sorted(committed | rebuilt)
        wrong = [f"{kept.name}/report/{name}" for name in names if not same(kept / "report" / name, again / name)]
        print(f"{kept.name}: {len(names)} files of its report, {len(wrong)} differ")
        wrong += [f"README.md, the part {first}" for first in readme.differ(Path(folder))]
    return wrong


def curves() -> list[str]:
    """The learning curve against the public one, and bf16 against fp32."""
    script = HERE.parent / "benchmarks" / "learning_curve.py"
    sides = [HERE / "learning_curve" / name for name in ("bf16", "fp32")]
    done = subprocess.run([sys.executable, script, sides[0], "--beside", sides[1]], capture_output=True, text=True)
    print("\n".join(done.stdout.splitlines()[-2:]))
    return [] if done.returncode == 0 else ["learning_curve"]


def search() -> list[str]:
    """The table of the search over ν."""
    home = HERE / "search"
    command = [sys.executable, home / "nu.py", "table", home / "nu", home / "learner"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return [] if table in (home / "README.md").read_text() else ["search/README.md"]


def main() -> int:
    wrong = [*curves(), *search(), *reports()]
    for name in wrong:
        print(f"not as committed: {name}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
