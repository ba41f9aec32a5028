"""Where statistics end and drawing begins."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import perepisode.report.statistics as statistics


@pytest.mark.processes
def test_statistics_draw_nothing():
    names = [path.stem for path in Path(statistics.__file__).parent.glob("*.py")]
    assert "matched" in names
    code = "import json, sys\n" + "".join(f"import perepisode.report.statistics.{name}\n" for name in names)
    code += "print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    rooms = ("statistics", "style", "formatting", "cost_measure")
    allowed = tuple(f"perepisode.report.{room}" for room in rooms)
    elsewhere = [name for name in loaded if name.startswith("perepisode.report.") and not name.startswith(allowed)]
    assert elsewhere == []
    assert not {"matplotlib", "jinja2"} & set(loaded)
