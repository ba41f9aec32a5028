"""How soon and how well an agent learns to stop after a first violation: tables of the report on scaled observations.

Up to its budget, ESR pays the same for a violation as SER; they differ in whether a second violation follows the first.
`after_a_first` counts that for every agent.  `rarer_from` gives, for each run of ESR (k=1), the training steps after
which second violations are rarer than 1 % of firsts, for the paper's ν and for the scaled one.  `of_its_return`
compares ESR (k=2), whose return the other methods reach too, with the arm of each that is nearest in return.

During training only the sums of violations and of episodes with any are known.  Their ratio minus one is the mean
number of further violations after a first, and no less than the share of firsts that a second follows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from perepisode import legacy, metrics
from perepisode.evaluation import compare, episodes
from perepisode.report import blocks
from perepisode.report.formatting import count, number, p_value, percent, plus_minus
from perepisode.report.statistics.points import Episodes, Point, View
from perepisode.report.tables import Table
from perepisode.runs import Run, RunFolder, write_atomically
from perepisode.zoo.registry import BUNDLED

RARE = 0.01  # further violations per first
WINDOW = 0.1  # share of a run to pool: one update ends about 200 episodes, few of which have a first
LONG = BUNDLED / "no_killing" / "esr-k1"  # the bundled agent: the paper's ν, trained for 7.5 times as long


# ---- sums over training -------------------------------------------------------------------------------------


def tally(lines: list[str], every: int) -> str:
    """Sums over every so many rows of a metrics.jsonl, as CSV: thinned rows have too few firsts to resolve 1 %."""
    rows = sums(lines)
    together = rows.groupby(np.arange(len(rows)) // every)
    return together.agg({name: "last" if name == "steps" else "sum" for name in rows}).to_csv(index=False)


def keep_curve(folder: Path, into: Path, every: int, first: int = 0) -> None:
    """Store run.json, thinned metrics and sums over all rows; metrics that are thinned already are copied."""
    into.mkdir(exist_ok=True)
    shutil.copy(folder / "run.json", into)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    if len(lines) == RunFolder(folder).read().updates:
        write_atomically(into / "tally.csv", tally(lines, every))
        lines = lines[first::every]
    write_atomically(into / "metrics.jsonl", "\n".join(lines) + "\n")


def runs(folders: Iterable[Path]) -> list[dict]:
    """The configurations of stored runs, in today's names."""
    return [legacy.upgrade_run(json.loads((folder / "run.json").read_text())) for folder in sorted(folders)]


def sums(lines: Iterable[str]) -> pd.DataFrame:
    """For each row: steps, episodes, those with a violation, violations and, if known, episodes with a second one."""
    rows = [row for row in map(json.loads, lines) if row["episodes"]]
    means = {"firsts": "p_any", "violations": "violations", "seconds": "p_over_1"}
    table = pd.DataFrame({name: [row[name] for row in rows] for name in ("steps", "episodes")})
    for name, mean in means.items():
        if all(mean in row for row in rows):
            table[name] = (table["episodes"] * [row[mean] or 0.0 for row in rows]).round().astype(int)
    return table


def of_training(folder: Path) -> pd.DataFrame:
    """All episodes of a stored run if it has a tally, else those of its stored metrics."""
    tallied = folder / "tally.csv"
    return pd.read_csv(tallied) if tallied.exists() else sums((folder / "metrics.jsonl").read_text().splitlines())


def window(rows: pd.DataFrame, end: float, total: float) -> tuple[int, int, int]:
    """Episodes, firsts and further violations in the window that ends at this step."""
    seen = rows[(rows["steps"] > end - WINDOW * total) & (rows["steps"] <= end)]
    firsts = int(seen["firsts"].sum())
    return int(seen["episodes"].sum()), firsts, int(seen["violations"].sum()) - firsts


def share(firsts: int, further: int) -> float:
    return further / firsts if firsts else float("nan")


def below_from(rows: pd.DataFrame, total: float, rare: float = RARE) -> float:
    """Steps from which the share stays below `rare` to the end; NaN if it does not, or is unknown."""
    since = float("nan")
    for end in rows.loc[rows["steps"] >= WINDOW * total, "steps"]:
        _, firsts, further = window(rows, end, total)
        if not share(firsts, further) < rare:
            since = float("nan")
        elif since != since:
            since = float(end)
    return since


# ---- the tables -----------------------------------------------------------------------------------------


@contextmanager
def declared(kept: list[Path]) -> Iterator[None]:
    """Within this context, pages include these tables; `kept` are all folders that `keep` filled."""
    trained = [
        (RunFolder(path).read(), of_training(path)) for folder in kept for path in sorted(folder.glob("curves/*"))
    ]
    files = [table for folder in kept for table in sorted((folder / "episodes").glob("*.parquet"))]
    evaluated = Episodes(episodes.read(files, without=episodes.REPLAY_COLUMNS))

    def second_violations(case: blocks.Case) -> Table:
        return after_a_first(case, evaluated, trained)

    def rarer(case: blocks.Case) -> Table:
        return rarer_from(evaluated.view(case.view.dilemma, case.view.protocol), trained)

    def equal_return(case: blocks.Case) -> Table:
        return of_its_return(case.view)

    with temporary_blocks():
        for table in (equal_return, second_violations, rarer):
            blocks.table(table)
        yield


@contextmanager
def temporary_blocks() -> Iterator[None]:
    """Within this context, declared figures and tables are temporary."""
    before = dict(blocks.BLOCKS)
    try:
        yield
    finally:
        blocks.BLOCKS.clear()
        blocks.BLOCKS.update(before)


def of_its_return(view: View) -> Table:
    """ESR (k=2, scaled obs), and the arm of every other method whose return is nearest."""
    focal = next(point for point in view.main if (point.method, point.arm) == ("esr", "k=2, scaled obs"))
    nearest = [
        min((p for p in view.main if p.method == method), key=lambda p: abs(p.mean_return - focal.mean_return))
        for method in dict.fromkeys(point.method for point in view.main)
        if method not in ("esr", "unconstrained")
    ]
    rows = []
    for point in (focal, *nearest):
        row: dict = {"agent": point.label, "seeds": len(point.seeds), "episodes": point.episodes}
        row["apart"] = point.mean_return / focal.mean_return - 1
        for name, each in (
            ("return", lambda p: p.returns),
            ("violations", lambda p: p.per_seed(metrics.mean)),
            ("cvar", lambda p: p.per_seed(metrics.cvar)),
            ("p_over_1", lambda p: p.per_seed(metrics.over_one)),
        ):
            row[name], row[f"{name}_ci"], _ = compare.t_interval(each(point))
            _, row[f"{name}_p"] = against(each(point), each(focal), point is focal)
        rows.append(row)
    frame = pd.DataFrame(rows)
    shown = {
        "Agent": list(frame["agent"]),
        "Return": [plus_minus(*pair) for pair in zip(frame["return"], frame["return_ci"])],
        "relative": ["" if not value else percent(value) for value in frame["apart"]],
        "Violations": [plus_minus(*pair) for pair in zip(frame["violations"], frame["violations_ci"])],
        metrics.CVAR: [plus_minus(*pair) for pair in zip(frame["cvar"], frame["cvar_ci"])],
        "p": list(map(_p, frame["cvar_p"])),
        "P(>1)": [percent(*pair) for pair in zip(frame["p_over_1"], frame["p_over_1_ci"])],
        "its p": list(map(_p, frame["p_over_1_p"])),
    }
    note = (
        f"{focal.label} and the arm of every other method nearest to it in return; relative: the difference as a share "
        "of its return. ± is the 95 % t interval over seeds, p is from Welch's test against the first row, not "
        "corrected for the number of tests. This budget was chosen after the evaluation: of the three, it is the one "
        "whose return the others reach."
    )
    methods = [point.method for point in (focal, *nearest)]
    title = "At the return of ESR with a budget of two"
    return Table(f"of_its_return_{view.dilemma}", title, note, shown, frame, methods, wide=True)


def after_a_first(case: blocks.Case, evaluated: Episodes, runs: list[tuple[Run, pd.DataFrame]]) -> Table:
    """Second violations of the report's agents, and of those that differ from them only in ν."""
    wanted = {(point.method, str(point.value)) for point in case.view.main}
    view = evaluated.view(case.view.dilemma, case.view.protocol)
    points = [point for point in view.main if (point.method, str(point.value)) in wanted]
    trained = {run.id: window(rows, run.total_timesteps, run.total_timesteps)[1:] for run, rows in runs}

    def during_training(point: Point) -> np.ndarray:
        return np.array([share(*trained[seed.run]) for seed in point.seeds])

    rows = []
    for point in points:
        some = np.array([(seed.counts > 0).sum() for seed in point.seeds])
        more = np.array([(seed.counts > 1).sum() for seed in point.seeds])
        ends = during_training(point)
        over, focal = (agent.per_seed(metrics.over_one) for agent in (point, case.chosen))
        row: dict = {"agent": point.label, "seeds": len(point.seeds), "episodes": point.episodes}
        row |= {"firsts": int(some.sum()), "seconds": int(more.sum()), "share": more.sum() / some.sum()}
        row |= {"least": (more / some).min(), "most": (more / some).max()}
        row["p_over_1"], row["p_over_1_ci"], _ = compare.t_interval(over)
        row["over_t"], row["over_p"] = against(over, focal, point.label == case.chosen.label)
        row["training"], row["training_ci"], _ = compare.t_interval(ends)
        row |= {"training_least": ends.min(), "training_most": ends.max()}
        own = during_training(case.chosen)
        row["training_t"], row["training_p"] = against(ends, own, point.label == case.chosen.label)
        rows.append(row)
    frame = pd.DataFrame(rows)
    shown = {
        "Agent": list(frame["agent"]),
        "P(>1)": [percent(*pair) for pair in zip(frame["p_over_1"], frame["p_over_1_ci"])],
        "p": list(map(_p, frame["over_p"])),
        "Seconds / firsts": [f"{row.seconds} / {row.firsts}" for row in frame.itertuples()],
        "Share": [percent(value) for value in frame["share"]],
        "by seed": list(map(_span, frame["least"], frame["most"])),
        "Further per first, training": [_ratio(*pair) for pair in zip(frame["training"], frame["training_ci"])],
        "its seeds": [
            f"{number(least, 3)} – {number(most, 3)}"
            for least, most in zip(frame["training_least"], frame["training_most"])
        ],
        "its p": list(map(_p, frame["training_p"])),
    }
    note = (
        "Firsts: evaluation episodes with a violation; seconds: those of them with another one; their share pools all "
        "seeds. Further per first: violations after the first of an episode, in the last tenth of training, divided by "
        "firsts; mean over seeds. It may exceed 1, and in expectation is no less than the share. ± is the 95 % t "
        "interval over seeds, p is from Welch's test against "
        f"{case.chosen.label}, each for the number before it. Agents without “scaled obs” in their name have the "
        "paper's ν (ESR, SER+R_acc) or no accrued observation (the others)."
    )
    methods = [point.method for point in points]
    name = f"second_violations_{case.view.dilemma}"
    return Table(name, "Does a second violation follow the first?", note, shown, frame, methods, wide=True)


def rarer_from(view: View, runs: list[tuple[Run, pd.DataFrame]]) -> Table:
    """ESR (k=1) run by run, the paper's ν first, then the longer run of it."""
    counts = {seed.run: seed.counts for point in view.main for seed in point.seeds}
    rows = [
        _row(
            run.method_settings.get("accrued_obs", "paper"),
            run.seed,
            run.total_timesteps,
            own,
            np.bincount(counts[run.id].astype(int)),
        )
        for run, own in runs
        if (run.method, run.method_settings.get("budget")) == ("esr", 1) and run.id in counts
    ]
    long = legacy.upgrade_agent(json.loads(LONG.with_suffix(".json").read_text()))
    own, run = sums(LONG.with_suffix(".metrics.jsonl").read_text().splitlines()), long["run"]
    rows.append(_row("paper", run["seed"], run["total_timesteps"], own, long["evaluation"]["distribution"]))
    frame = pd.DataFrame(sorted(rows, key=lambda row: (row["accrued_obs"] != "paper", row["steps"], row["seed"])))
    rare = percent(RARE, digits=0)
    shown = {
        "Run": [f"{row.accrued_obs} ν, seed {row.seed}" for row in frame.itertuples()],
        "Steps": [count(value) for value in frame["steps"]],
        f"Below {rare} from": ["–" if value != value else f"{value / 1e6:.0f} M" for value in frame["rare_from"]],
        "Further / firsts": [f"{row.further} / {row.firsts}" for row in frame.itertuples()],
        "Share": [percent(value) for value in frame["share"]],
        "P(≥1)": [percent(value) for value in frame["p_any"]],
        "Evaluation: seconds / firsts": [f"{row.eval_seconds} / {row.eval_firsts}" for row in frame.itertuples()],
        "P(≥1), evaluation": [percent(value) for value in frame["eval_p_any"]],
    }
    note = (
        "ESR (k=1). Further violations after a first are pooled over a tenth of the run; “from” is the end of the "
        f"tenth from which on they stay below {rare} of the firsts; a dash: not by the end. The next three columns are "
        "of the last tenth of training, the last two of the evaluation. With the scaled ν every training episode is "
        "counted; with the paper's, those of one update in sixteen or fewer, so that a single further violation can "
        "matter. The longest run is the bundled agent."
    )
    return Table("rarer_from_no_killing", "When does a second violation become rare?", note, shown, frame)


def _row(accrued_obs: str, seed: int, total: int, own: pd.DataFrame, evaluated: Sequence[int] | np.ndarray) -> dict:
    seen, firsts, further = window(own, total, total)
    return {
        "accrued_obs": accrued_obs,
        "seed": seed,
        "steps": total,
        "rare_from": below_from(own, total),
        "episodes": seen,
        "firsts": firsts,
        "further": further,
        "share": share(firsts, further),
        "p_any": firsts / seen,
        "eval_episodes": int(sum(evaluated)),
        "eval_firsts": int(sum(evaluated[1:])),
        "eval_seconds": int(sum(evaluated[2:])),
        "eval_p_any": sum(evaluated[1:]) / sum(evaluated),
    }


def against(one: np.ndarray, other: np.ndarray, same: bool) -> tuple[float, float]:
    """Welch's t and p; NaN for the agent itself."""
    if same:
        return float("nan"), float("nan")
    test = compare.welch(one, other)
    return test.t, test.p


def _ratio(mean: float, half: float) -> str:
    """ "0.029 ± 0.022", or "0.005 (0 – 0.012)": a mean number is never negative."""
    if half > mean:
        return f"{number(mean, 3)} (0 – {number(mean + half, 3)})"
    return plus_minus(mean, half, 3)


def _p(p: float) -> str:
    return "" if p != p else p_value(p)


def _span(least: float, most: float) -> str:
    return f"{number(100 * least, 1)} – {percent(most)}"
