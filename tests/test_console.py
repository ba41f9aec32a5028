"""Tables on pseudo-terminals of several widths, and plain tables elsewhere."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import perepisode
from perepisode import console

COLUMNS = {
    "Agent": ["SER (w=0.1)", "ESR (k=1, trained on paper detector)", "[bold]安全[/bold]"],
    "Return": ["26.01\u00a0±\u00a00.46", "23.23\u00a0±\u00a05.48", "−4"],
    "Length": ["300", "323", "9"],
    "Violations": ["0.55\u00a0±\u00a00.06", "0.05\u00a0±\u00a00.05", "\x1b[2J"],
    "CVaR 10 %": ["2.01\u00a0±\u00a00.96", "0.46\u00a0±\u00a00.47", "1"],
    "Worst": ["5", "2", "1"],
}
PRIORITY = ["Return", "Violations", "CVaR 10 %", "Worst"]
PROGRAM = f"from perepisode import console; console.table({COLUMNS!r}, {PRIORITY!r}); console.echo('a sentence ' * 12)"


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        # names take 18 columns in two lines and 36 in one; Return 2 + 12, Violations and CVaR 2 + 11, Worst 2 + 5
        (31, ["Agent"]),
        (32, ["Agent", "Return"]),
        (57, ["Agent", "Return", "Violations"]),
        (58, ["Agent", "Return", "Violations", "CVaR 10 %"]),
        (65, ["Agent", "Return", "Violations", "CVaR 10 %", "Worst"]),
        (90, ["Agent", "Return", "Violations", "CVaR 10 %", "Worst"]),
        (91, list(COLUMNS)),  # Length 2 + 6, beside names in one line
    ],
)
def test_a_narrow_table_drops_the_least_important_columns(width, kept):
    assert console.fitting(COLUMNS, PRIORITY, width) == kept


def on_a_terminal(columns: int, **environment: str) -> list[str]:
    """The lines that a terminal of this width receives, without escape sequences."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    path = str(Path(perepisode.__file__).parents[1])
    known |= {"TERM": "xterm-256color", "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **environment}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=there, env=known) as process:
        os.close(there)
        text = b""
        while part := _read(here):
            text += part
    os.close(here)
    assert process.returncode == 0
    return re.sub("\x1b\\[[0-9;]*m", "", text.decode()).splitlines()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux reports the closed other side this way
        return b""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("columns", "environment", "headings"),
    [
        (60, {}, "Agent Return Violations CVaR 10 %"),
        (60, {"TERM": "dumb"}, "Agent Return Violations CVaR 10 %"),
        (80, {"NO_COLOR": "1"}, "Agent Return Violations CVaR 10 % Worst"),
        (100, {}, "Agent Return Length Violations CVaR 10 % Worst"),
        (12, {}, "Agent"),
    ],
)
def test_a_terminal_gets_the_columns_that_fit_and_no_number_is_broken(columns, environment, headings):
    lines = on_a_terminal(columns, **environment)
    assert " ".join(lines[0].split()) == headings
    assert max(map(len, lines)) <= columns
    shown = "\n".join(lines)
    assert "\x1b" not in shown  # the cells cannot control the terminal
    if "Violations" in headings:
        assert [shown.count(cell) for cell in COLUMNS["Violations"]] == [1, 1, 0]
        assert r"\x1b[2J" in shown
        assert "[bold]安全[/bold]" in shown
    assert " ".join(shown.split()).endswith(("a sentence " * 12).strip())


def test_a_pipe_gets_every_column_and_each_row_on_a_line(capsys):
    console.table(COLUMNS, PRIORITY)
    console.echo("a sentence " * 12, "bold")
    header, first, *_, sentence = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", header) == list(COLUMNS)
    assert re.split(r"  +", first) == [cells[0] for cells in COLUMNS.values()]
    assert sentence == "a sentence " * 12


def test_ascii_is_enough(monkeypatch):
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, encoding="ascii"))
    console.write_anything()
    print("26.01\u00a0±\u00a00.46 (0\u202f–\u202f1) −4 P(≥1) 安全", flush=True)
    assert held.getvalue() == b"26.01 +- 0.46 (0 - 1) -4 P(>=1) ??\n"


def test_a_program_without_output_prints_nowhere(monkeypatch):
    """Started with standard output closed."""
    monkeypatch.setattr(sys, "stdout", None)
    console.write_anything()
    console.table(COLUMNS, PRIORITY)
    console.echo("a sentence")
