"""What is said while runs train: the pace of now, compiling by its name, lines that fit sixty columns."""

import io
import itertools
from dataclasses import replace

import pytest
from rich.console import Console

from perepisode.environments.temptation import TEMPTATION_PPO
from perepisode.runs import Run
from perepisode.training import progress

STEPS = TEMPTATION_PPO.steps_per_update  # 2560
RUNS = [
    Run("temptation", "temptation", method, settings, seed, 1.0, 100 * STEPS, config=TEMPTATION_PPO)
    for method, settings in (("pid_lagrangian", {"budget": 0.75}), ("esr", {"budget": 1, "accrued_obs": "scaled"}))
    for seed in (42, 123)
]
ROW = {"return": 30.0, "violations": 1.0, "cvar": 12.5, "lambda": None}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_the_pace_covers_the_last_30_seconds():
    """Two updates per second for 50 seconds, then one per two seconds; an update of four runs is 4 x 2560 steps."""
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
    clock.now += 400  # the machine slept: the last two notes are further apart than the window
    pace.note(90)
    assert str(pace) == "90/100 updates · 256 steps/s · 6:40 left"
    pace.note(100)
    assert str(pace).endswith("steps/s")


def test_plain_lines_report_compilation_and_exclude_it_from_the_pace(capsys):
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
        "  esr k=1, scaled obs γ=1    return 30.0  violations 1.00",
    ]
    assert max(map(len, lines)) <= 60


@pytest.fixture(autouse=True)
def sixty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "40")


def rendered(live) -> list[str]:
    """The lines on the terminal."""
    console = Console(file=io.StringIO(), width=60)
    console.print(live.render())
    return console.file.getvalue().splitlines()


def test_the_live_table_fits_sixty_columns():
    clock = Clock()
    live = progress.LiveTable(clock=clock)
    live.prepare(RUNS, 0)
    clock.now += 41.3
    bar, speed, *_ = rendered(live)
    assert bar.endswith(" 0 % · compiling 41 s")
    assert speed == "0/100 updates"
    live.rows, live.pace = [[{**ROW, "lambda": 99.99}]] * 4, progress.Pace(RUNS, 0, clock)
    clock.now += 10
    live.pace.note(50)
    bar, speed, *table = rendered(live)
    assert bar == 14 * "█" + 14 * "░" + " 50 % · 0:10 elapsed · 0:10 left"
    assert speed == "50/100 updates · 51,200 steps/s"
    text = "\n".join(table)
    assert "…" not in text
    assert text.count("99.99") == text.count("12.50") == 4
    assert max(map(len, [bar, speed, *table])) <= 60


def test_the_remaining_time_counts_down_between_notes_and_excludes_compilation():
    """Ten updates in 20 seconds; 9 seconds later, before the next note, the remaining time is 9 seconds less."""
    clock = Clock()
    live = progress.LiveTable(clock=clock)
    live.prepare(RUNS, 40)  # resumed
    clock.now += 300  # compiling
    live.pace = progress.Pace(RUNS, 40, clock)
    assert rendered(live)[0].endswith(" 40 % · 0:00 elapsed")
    clock.now += 20
    live.pace.note(50)
    assert rendered(live)[0].endswith(" 50 % · 0:20 elapsed · 1:40 left")
    clock.now += 9
    assert rendered(live)[0].endswith(" 50 % · 0:29 elapsed · 1:31 left")
    clock.now += 1000
    assert rendered(live)[0].endswith(" 50 % · 17:09 elapsed · 0:00 left")
    live.pace.note(100)
    assert rendered(live)[0].endswith("100 % · 17:09 elapsed")


def test_long_times_leave_room_for_the_bar():
    clock = Clock()
    live = progress.LiveTable(clock=clock)
    live.prepare(RUNS, 0)
    live.pace = progress.Pace(RUNS, 0, clock)
    clock.now += 99 * 3600
    live.pace.note(1)
    bar = rendered(live)[0]
    assert bar.endswith(" 1 % · 99:00:00 elapsed · 9801:00:00 left")
    assert bar.count("░") > 10


def test_more_runs_than_lines_are_shown_as_means(monkeypatch):
    monkeypatch.setenv("LINES", "9")
    live = progress.LiveTable(clock=Clock())
    live.prepare(RUNS, 0)
    live.rows = [[{**ROW, "return": value}] for value in (1.0, 2.0, 5.0, 7.0)]
    lines = rendered(live)
    assert len(lines) <= 9
    assert [line.split()[-4] for line in lines if "γ=1" in line] == ["1.5", "6.0"]
    monkeypatch.setenv("LINES", "10")
    assert sum("γ=1" in line for line in rendered(live)) == 4


def test_a_mean_over_seeds_counts_zeros_and_no_missing_values():
    rows = [{"violations": 0.0, "return": None}, {"violations": 1.0, "return": 3.0}, {"violations": 4.0}]
    found = progress.by_arm(["a", "a", "b"], rows)
    assert [(row["violations"], row["return"]) for row in found.values()] == [(0.5, 3.0), (4.0, None)]


def swept(**settings) -> Run:
    return replace(RUNS[2], config=replace(TEMPTATION_PPO, **settings))


def test_arms_that_differ_in_a_setting_have_distinct_labels(capsys):
    """Two values of a setting that is not part of the label, two seeds each, and another arm."""
    runs = [replace(swept(ent_coef=value), seed=seed) for value in (0.1, 0.2) for seed in (42, 123)]
    assert progress.labels([*runs, RUNS[0]]) == [
        "esr k=1, scaled obs γ=1, ent_coef=0.1",
        "esr k=1, scaled obs γ=1, ent_coef=0.1",
        "esr k=1, scaled obs γ=1, ent_coef=0.2",
        "esr k=1, scaled obs γ=1, ent_coef=0.2",
        "pid_lagrangian d=0.75 γ=1",
    ]
    assert progress.labels(runs[:2], among=runs) == ["esr k=1, scaled obs γ=1, ent_coef=0.1"] * 2  # trained in turn
    assert progress.labels(runs[:2]) == ["esr k=1, scaled obs γ=1"] * 2
    plain = progress.PlainLines(clock=Clock())
    plain.start(runs, 0)
    plain.compiled()
    plain.update(10, [[{**ROW, "return": value}] for value in (1.0, 2.0, 5.0, 7.0)])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "  esr k=1, scaled obs γ=1, ent_coef=0.1  return 1.5  violations 1.00",
        "  esr k=1, scaled obs γ=1, ent_coef=0.2  return 6.0  violations 1.00",
    ]


def test_gamma_and_detector_distinguish_labels_too():
    kinds = itertools.product((0.9, 0.99), ("exact", "paper"))
    names = progress.labels([replace(RUNS[0], gamma=gamma, detector=detector) for gamma, detector in kinds])
    assert names[1] == "pid_lagrangian d=0.75, gamma=0.9, detector=paper"
    assert len(set(names)) == 4
