"""Does everything that is claimed still follow from what is committed?  `make results-check`.

Rebuilds every report under results/ from its tables and fails on any difference; runs the comparisons behind the
claims about learning and about the engine's distributions.
"""

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

import evidence

HERE = Path(__file__).parent
TEXTS = ("*.md", "*.html", "data/*.csv")


def reports() -> list[str]:
    """Reports that do not come out as committed."""
    wrong = []
    for kept in sorted(path.parent for path in HERE.glob("*/episodes")):
        with tempfile.TemporaryDirectory() as folder:
            again = Path(folder)
            evidence.report(kept, again)
            committed, rebuilt = (
                {str(path.relative_to(root)) for kind in TEXTS for path in root.glob(kind)}
                for root in (kept / "report", again)
            )
            names = sorted(committed | rebuilt)
            _, differing, missing = filecmp.cmpfiles(kept / "report", again, names, shallow=False)
            wrong += [f"{kept.name}/report/{name}" for name in (*differing, *missing)]
            print(f"{kept.name}: {len(names)} files of its report, {len(differing) + len(missing)} differ")
    return wrong


def curves() -> list[str]:
    """The learning curve against the public one, and bf16 against fp32."""
    script = HERE.parent / "benchmarks" / "learning_curve.py"
    sides = [HERE / "learning_curve" / name for name in ("bf16", "fp32")]
    done = subprocess.run([sys.executable, script, sides[0], "--beside", sides[1]], capture_output=True, text=True)
    print("\n".join(done.stdout.splitlines()[-2:]))
    return [] if done.returncode == 0 else ["learning_curve"]


def main() -> int:
    wrong = [*curves(), *reports()]
    for name in wrong:
        print(f"not as committed: {name}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
