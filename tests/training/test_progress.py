"""What is said while runs train: the pace of now, compiling by its name, lines that fit sixty columns."""

import io

from rich.console import Console

from perepisode.environments.temptation import MINIATURE
from perepisode.runs import Run
from perepisode.training import progress

STEPS = MINIATURE.steps_per_update  # 2560
RUNS = [
    Run("temptation", "temptation", method, settings, seed, 1.0, 100 * STEPS, learner=MINIATURE)
    for method, settings in (("pid_lagrangian", {"budget": 0.75}), ("esr", {"budget": 1, "told": "loud"}))
    for seed in (42, 123)
]
ROW = {"return": 30.0, "violations": 1.0, "worst_decile": 12.5, "lambda": None}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_the_pace_is_that_of_the_last_half_minute():
    """Two updates a second for fifty seconds, then one in two seconds: 4 x 2560 steps an update of four runs."""
    clock = Clock()
    pace = progress.Pace(RUNS, 10, clock)
    assert str(pace) == "10/100 updates"
    for done in range(12, 62, 2):
        clock.now += 1
        pace.note(done)
    assert str(pace) == "60/100 updates · 20,480 steps/s · 0:20 left"
    for done in range(61, 81):
        clock.now += 2
        pace.note(done)
    assert str(pace) == "80/100 updates · 5,120 steps/s · 0:40 left"
    clock.now += 400  # the machine slept: the two last looks lie further apart than the window
    pace.note(90)
    assert str(pace) == "90/100 updates · 256 steps/s · 6:40 left"
    pace.note(100)
    assert str(pace).endswith("steps/s")


def test_plain_lines_name_compiling_and_leave_it_out_of_the_pace(capsys):
    clock = Clock()
    plain = progress.PlainLines(clock=clock)
    plain.start(RUNS, 0)
    clock.now += 41
    plain.compiled()
    for done in range(10, 101, 10):
        clock.now += 20
        plain.update(done, [[ROW], [{**ROW, "return": 34.0}], [ROW], [{**ROW, "violations": None}]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "training 4 runs of 256,000 steps each",
        "0/100 updates · compiling",
        "compiled in 41 s",
        "10/100 updates · 5,120 steps/s · 3:00 left",  # ten updates of 4 x 2560 steps in twenty seconds
    ]
    assert [line.split()[0] for line in lines if "/100" in line] == ["0/100", "10/100", "40/100", "70/100", "100/100"]
    assert lines[-2:] == [
        "  pid_lagrangian d=0.75 γ=1  return 32.0  violations 1.00",
        "  esr k=1, told loud γ=1     return 30.0  violations 1.00",
    ]
    assert max(map(len, lines)) <= 60


def test_the_live_table_fits_sixty_columns():
    live = progress.LiveTable()
    live.runs, live.done, live.rows = RUNS, 0, [[{**ROW, "lambda": 99.99}]] * 4
    live.pace, live.began = None, progress.time.monotonic() - 41.3
    console = Console(file=io.StringIO(), width=60)
    console.print(live._table())
    assert "0/100 updates · compiling 41 s" in console.file.getvalue()
    live.pace = progress.Pace(RUNS, 0, clock := Clock())
    clock.now += 10
    live.pace.note(50)
    console = Console(file=io.StringIO(), width=60)
    console.print(live._table())
    text = console.file.getvalue()
    assert "50/100 updates · 51,200 steps/s · 0:10 left" in text
    assert "…" not in text
    assert text.count("99.99") == text.count("12.50") == 4
