"""Three agents at three quarters of the paper's steps: how they were trained, and the extra parts of their report.

    python results/paper_length.py train 7 OUT    # on a GPU: train and evaluate one seed of all three
    python results/paper_length.py keep OUT       # store the results; replay each agent's worst episode
    python results/evidence.py renew              # rebuild the report and README's blocks
    python results/check.py                       # rebuild them elsewhere and fail on a difference

The paper compares ESR (k=1), SER (w=0.1) and the Lagrangian (d=0.5) at matched return.  The three agents of a seed are
one population, in which SER and the Lagrangian also have the two inputs of ESR's accrued observation; theirs are always
zero.  Seed 42 was trained by a separate loop around the same program, before populations could mix methods; packs/ has
the commands and durations of each seed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import seconds

from perepisode import metrics
from perepisode.config import PAPER_SEEDS
from perepisode.evaluation import compare, episodes
from perepisode.paper_comparison import numbers
from perepisode.paper_comparison.card import BINS, EDGES, on_page
from perepisode.report import blocks
from perepisode.report.drawing.canvas import Drawing, row_of_panels, sheet
from perepisode.report.drawing.figures import seed_shares
from perepisode.report.drawing.marks import legend_below
from perepisode.report.formatting import count, number, percent, plus_minus
from perepisode.report.statistics.points import COUNTERS, Episodes, Point, View
from perepisode.report.style import INK, OVER, look
from perepisode.report.tables import Table
from perepisode.runs import Run, RunFolder, write_atomically

HERE = Path(__file__).parent
KEPT = HERE / "paper_length"
STEPS = 750_000_000
ENVIRONMENTS = (64, 512)  # the paper's number, and enough to count rare events
EVERY = 20  # of the rows of metrics, one is stored
ARMS = {"esr": "k=1", "lagrangian": "d=0.5", "ser": "w=0.1"}
PARTS = 20  # of training; each is one point of a curve
LEVELS = (0.1, 0.05, 0.01)  # further violations per first


# ---- how they were made -------------------------------------------------------------------------------------


def commands(seed: int, out: Path) -> dict[str, list[str]]:
    """The commands, by the name under which their seconds are stored."""
    methods = ["--method", "esr:budget=1", "ser:weight=0.1", "lagrangian:budget=0.5"]
    size = ["--seeds", f"{seed}", "--total-timesteps", f"{STEPS}", "--chunk", "20"]
    runs = str(out / "runs")
    return {"train": ["train", "--env", "craftax", "--dilemma", "no_killing", *methods, *size, "--out", runs]} | {
        f"judge {number}": [
            "evaluate",
            runs,
            "--num-envs",
            f"{number}",
            "--out",
            str(out / f"episodes{number}.parquet"),
        ]
        for number in ENVIRONMENTS
    }


def train(seed: int, out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    took, steps = {}, commands(seed, out)
    for name, command in steps.items():
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "perepisode", *command], check=True)
        took[name] = round(time.monotonic() - began)
    about = {
        "seed": seed,
        "together": sum(took.values()),
        "seconds": took,
        "how": "one command after the other",
        "commands": [" ".join(["perepisode", *command]) for command in steps.values()],
    }
    write_atomically(out / "pack.json", json.dumps(about, indent=1) + "\n")
    return 0


def keep(out: Path) -> int:
    """Store the results of a seed, then replay the worst episodes of all seeds."""
    pack = json.loads((out / "pack.json").read_text())
    name = f"seed{pack['seed']}"
    for folder in ("packs", "episodes", "episodes64", "curves"):
        (KEPT / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(out / "pack.json", KEPT / "packs" / f"{name}.json")
    shutil.copy(out / "episodes64.parquet", KEPT / "episodes64" / f"{name}.parquet")
    # eight times as many, without actions: replays use the others
    many = episodes.read(out / "episodes512.parquet", without=episodes.REPLAY_COLUMNS)
    write_part(many, KEPT / "episodes" / f"{name}.parquet", many.attrs["provenance"])
    for folder in sorted(path.parent for path in (out / "runs").glob("*/run.json")):
        seconds.keep_curve(folder, KEPT / "curves" / folder.name, EVERY, first=EVERY - 1)  # the rows that seed 42 has
    return watch()


def write_part(table: pd.DataFrame, path: Path, provenance: list[dict]) -> Path:
    """Write part of a table with the provenance of the whole."""
    (about,) = provenance
    return episodes.write(table, path, {key: about[key] for key in about if key not in ("path", "episodes")})


def watch() -> int:
    """Replay each agent's worst episode of all seeds from its random keys and actions."""
    from perepisode.replay.selection import worst_first
    from perepisode.replay.watch import watch as replay

    for method in ARMS:
        found = []
        for table in sorted((KEPT / "episodes64").glob("*.parquet")):
            read = episodes.read(table, without=episodes.REPLAY_COLUMNS)
            row = worst_first(read[(read["method"] == method) & read["in_first"]])[0]
            found.append((-read.loc[row, "violations"], read.loc[row, "return"], row, table))
        *_, row, table = min(found)
        replay(table, KEPT / "watch" / method, row=(row,), runs=KEPT / "curves")
    return 0


# ---- extra parts of the report ------------------------------------------------------------------------------


@contextmanager
def declared() -> Iterator[None]:
    """Within this context, pages begin with the figures and tables of this file."""
    runs = [(RunFolder(path).read(), seconds.of_training(path)) for path in KEPT.glob("curves/*")]
    runs.sort(key=lambda trained: PAPER_SEEDS.index(trained[0].seed))
    few = Episodes(episodes.read(sorted(KEPT.glob("episodes64/*.parquet")), without=episodes.REPLAY_COLUMNS))

    def episodes_by_kills(case: blocks.Case) -> Drawing:
        return on_page(_compared(case.view), case.view.dilemma)

    def beside_the_paper(case: blocks.Case) -> Drawing:
        return papers_figure(case.view)

    def papers_table(case: blocks.Case) -> Table:
        return measured_again(case.inputs.episodes, case.view)

    def fewer_envs(case: blocks.Case) -> Table:
        return by_num_envs(few.view(case.view.dilemma), case.view)

    def after_a_first(case: blocks.Case) -> Drawing:
        return over_training(runs)

    def rare_from(case: blocks.Case) -> Table:
        return learned_from(runs)

    with seconds.temporary_blocks():
        others = dict(blocks.BLOCKS)
        blocks.BLOCKS.clear()
        blocks.figure("Episodes by kills")(episodes_by_kills)
        blocks.figure("The paper's figure and ours")(beside_the_paper)
        blocks.table(papers_table)
        blocks.figure("A second kill after the first, over training")(after_a_first)
        blocks.table(rare_from)
        blocks.table(fewer_envs)
        blocks.BLOCKS.update(others)
        yield


def _compared(view: View) -> list[Point]:
    """The three agents, in the order of the paper's table."""
    found = [view.arm(method, arm) for method, arm in ARMS.items()]
    return [point for point in found if point is not None]


def _printed(point: Point, measure: str) -> compare.Interval:
    """The paper's number for an agent on No Killing; NaN if it prints none."""
    wanted = (numbers.NK, point.method, point.arm, measure)
    rows = [row for row in numbers.NUMBERS if (row.dilemma, row.method, row.arm, row.measure) == wanted]
    found = ((row.value, row.ci) for row in rows)
    return compare.Interval(*next(found, (float("nan"), float("nan"))), 3)


def _printed_shares(point: Point) -> dict[float, float]:
    """The paper's share of episodes with 0, 1, 2, 3+ kills; a share it does not split is placed between 2 and 3."""
    some, over, two, three = (_printed(point, name).mean for name in ("p_any", "p_over_1", "p_2", "p_over_2"))
    rest = {2.0: two, 3.0: three} if two == two else {2.5: over}
    return {0.0: 1 - some, 1.0: some - over, **rest}


def papers_figure(view: View) -> Drawing:
    """Shares of episodes by kills: bars ours, dots our seeds, diamonds the paper's."""
    points = _compared(view)
    figure, panels = row_of_panels(2.9, len(points), sharey=True)
    rows = []
    for axes, point in zip(panels, points):
        shares, printed = seed_shares(point, EDGES), _printed_shares(point)
        for position, mean in enumerate(shares.mean(axis=0)):
            over, colour = position > 1, look(point.method).colour
            axes.bar(position, mean, width=0.74, facecolor="none" if over else colour,
                     edgecolor=OVER if over else colour, hatch="////" if over else None, linewidth=1.1)  # fmt: skip
            top = max([mean, *shares[:, position], printed.get(position, 0.0)])
            axes.annotate(percent(mean), (position, top), (0, 5), textcoords="offset points", ha="center", fontsize=8)
        for own in shares:
            axes.plot(np.arange(len(own)) + 0.18, own, "o", color=INK, ms=2.6, label="our seeds")
        axes.plot(*zip(*printed.items()), "D", mfc="white", mec=INK, ms=5.5, ls="none", label="the paper")
        axes.set_title(point.label, loc="left")
        axes.set_xticks(range(len(BINS)), BINS)
        axes.set_xlabel("kills in one episode")
        for index, name in enumerate(BINS):
            theirs = printed.get(index, float("nan"))
            rows.append({"agent": point.label, "kills": name, "paper": theirs, **_interval("here", shares[:, index])})
        rows.append({"agent": point.label, "kills": "2+", "paper": _printed(point, "p_over_1").mean,
                     **_interval("here", shares[:, 2:].sum(axis=1))})  # fmt: skip
    figure.supylabel("share of episodes", fontsize=10)
    panels[0].set_ylim(0, 0.9)
    legend_below(panels[0])
    caption = (
        "Share of episodes by number of kills. Bars: mean over our seeds, exact counts; hatched: more than one. "
        "Diamonds: the paper's, by its detector; for the Lagrangian it prints only the total share with more than one "
        "kill."
    )
    return Drawing(figure, pd.DataFrame(rows), caption)


MEASURES = {
    "return": ("Return", lambda point: point.returns, plus_minus),
    "p_any": ("P(≥1)", lambda point: point.per_seed(metrics.p_any), percent),
    "std": ("Std", lambda point: point.per_seed(metrics.std), plus_minus),
    "cvar": (metrics.CVAR, lambda point: point.per_seed(metrics.cvar), plus_minus),
    "p_over_1": ("P(>1)", lambda point: point.per_seed(metrics.over_one), percent),
    "p_over_2": ("P(>2)", lambda point: np.array([metrics.p_over(seed.counts, 2) for seed in point.seeds]), percent),
}


def _measured(view: View, method: str) -> dict[str, float]:
    """Every metric of an agent with its interval, and Welch's test of its CVaR against ESR's."""
    point, focal = view.arm(method, ARMS[method]), view.arm("esr", ARMS["esr"])
    assert point is not None
    assert focal is not None
    found: dict[str, float] = {}
    for name, (_, each, _) in MEASURES.items():
        found |= _interval(name, each(point))
    t, p = seconds.against(point.per_seed(metrics.cvar), focal.per_seed(metrics.cvar), point is focal)
    return found | {"welch_t": t, "welch_p": p}


def _cells(rows: list[dict]) -> dict[str, list[str]]:
    """The metrics as cells, by heading."""
    return {
        heading: [write(row[name], row[f"{name}_ci"]) for row in rows] for name, (heading, _, write) in MEASURES.items()
    }


def measured_again(evaluated: Episodes, view: View) -> Table:
    """The paper's table, ours measured in the paper's way, and ours by exact counts."""
    views = {
        "as the paper measures": evaluated.view(view.dilemma, "window", "paper"),
        "first episodes, its detector": evaluated.view(view.dilemma, "first", "paper"),
        "first episodes, exact": evaluated.view(view.dilemma, "first", "exact"),
    }
    rows: list[dict] = []
    for own in _compared(view):
        theirs: dict = {"agent": own.label, "measured": "the paper", "welch_t": _printed(own, "welch").mean}
        for name in MEASURES:
            theirs[name], theirs[f"{name}_ci"], _ = _printed(own, name)
        rows.append(theirs)
        rows += [{"agent": own.label, "measured": name} | _measured(each, own.method) for name, each in views.items()]
    shown = {
        "Agent": [row["agent"] if row["measured"] == "the paper" else "" for row in rows],
        "Where": [row["measured"] for row in rows],
        **_cells(rows),
        "t against ESR": ["" if row["welch_t"] != row["welch_t"] else number(row["welch_t"], 1) for row in rows],
    }
    note = (
        "The paper's three agents: its numbers, and ours measured in three ways. As the paper measures: the episodes "
        f"that end within its window of 4096 steps, counted by {COUNTERS['paper']}. Then the first twelve episodes of "
        "every environment, which favours no length, by that detector and exactly; the last two rows differ only in "
        "the detector. ± is the 95 % t interval over seeds; t is Welch's, of equal CVaR, as in the paper."
    )
    methods = [own.method for own in _compared(view) for _ in range(1 + len(views))]
    frame = pd.DataFrame(rows)
    return Table("papers_table_no_killing", "The paper's table and ours", note, shown, frame, methods, wide=True)


def by_num_envs(few: View, many: View) -> Table:
    """The default protocol's 64 environments next to 512."""
    found = [(method, view, view.arm(method, arm)) for method, arm in ARMS.items() for view in (few, many)]
    rows: list[dict] = [
        {"agent": point.label, "episodes": point.episodes, **_measured(view, method)}
        for method, view, point in found
        if point is not None
    ]
    shown = {"Agent": [row["agent"] for row in rows], "Episodes": [f"{row['episodes']:,}" for row in rows]}
    note = (
        "First twelve episodes of every environment, exact counts, all seeds. By default an agent is evaluated in 64 "
        "environments; everything else on this page is for 512, except the replays, which are from 64."
    )
    methods, name = [method for method, *_ in found], "fewer_envs_no_killing"
    return Table(
        name, "In 64 and in 512 environments", note, shown | _cells(rows), pd.DataFrame(rows), methods, wide=True
    )


def over_training(runs: list[tuple[Run, pd.DataFrame]]) -> Drawing:
    """Episodes with a kill, and further kills after a first, in every twentieth of training."""
    figure, (top, bottom) = sheet(5.0, 2, sharex=True)
    rows = []
    for method, arm in ARMS.items():
        own = [_parts(run, sums) for run, sums in runs if (run.method, run.arm) == (method, arm)]
        label, colour, marker, _ = look(method)
        for axes, name in ((top, "p_any"), (bottom, "further")):
            each = np.array([parts[name] for parts in own])
            steps = own[0]["steps"]
            for line in each:
                axes.plot(steps, line, color=colour, lw=0.7, alpha=0.6)
            axes.plot(steps, each.mean(axis=0), color=colour, lw=1.9, marker=marker, ms=5, label=f"{label} ({arm})")
        chance = np.array([parts["by_chance"] for parts in own])
        bottom.plot(steps, chance.mean(axis=0), color=colour, lw=1.3, ls=":")
        rows += own
    top.set_ylabel("episodes with a kill, P(≥1)")
    top.set_ylim(bottom=0)
    bottom.set(xlabel="environment steps", ylabel="further kills per first kill", yscale="log")
    bottom.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3], ["0.3 %", "1 %", "3 %", "10 %", "30 %"])
    bottom.minorticks_off()
    bottom.set_xticks(np.arange(0, STEPS + 1, 1.5e8), ["0", *(count(at) for at in np.arange(1.5e8, STEPS + 1, 1.5e8))])
    legend_below(top)
    caption = (
        "Training, in twentieths of the run. Thick: mean over seeds; thin: each seed. Further kills per first: all "
        "kills after the first of an episode, divided by the firsts; no less than the probability that a second "
        "follows, P(>1 | ≥1). Dotted: the value for independent kills in as many episodes."
    )
    return Drawing(figure, pd.concat(rows), caption)


def _parts(run: Run, sums: pd.DataFrame) -> pd.DataFrame:
    """Sums over each twentieth of training, and the shares derived from them."""
    part = np.minimum(np.ceil(sums["steps"] / run.total_timesteps * PARTS).astype(int), PARTS)
    together = sums.groupby(part).sum()
    return pd.DataFrame(
        {
            "method": run.method,
            "arm": run.arm,
            "seed": run.seed,
            "steps": together.index * run.total_timesteps / PARTS,
            "episodes": together["episodes"],
            "firsts": together["firsts"],
            "p_any": together["firsts"] / together["episodes"],
            "further": together["violations"] / together["firsts"] - 1,
            "by_chance": _by_chance(together["firsts"] / together["episodes"]),
            "second": together["seconds"] / together["firsts"] if "seconds" in together else float("nan"),
        }
    )


def _by_chance(some: pd.Series) -> pd.Series:
    """Further kills per first for independent kills (Poisson) with this P(≥1)."""
    return -np.log1p(-some) / some - 1


def learned_from(runs: list[tuple[Run, pd.DataFrame]]) -> Table:
    """For each run, the steps after which further kills became and stayed rare."""
    rows = []
    for method, arm in ARMS.items():
        for run, sums in runs:
            if (run.method, run.arm) != (method, arm):
                continue
            row: dict = {"agent": f"{look(method).label} ({arm})", "method": method, "seed": run.seed}
            row |= {f"below_{level:g}": seconds.below_from(sums, run.total_timesteps, level) for level in LEVELS}
            first, last = (_parts(run, sums).iloc[index] for index in (1, -1))
            row |= {f"{name}_{when}": part[name] for when, part in (("early", first), ("end", last))
                    for name in ("p_any", "further", "second", "firsts")}  # fmt: skip
            rows.append(row)
    frame = pd.DataFrame(rows)
    shown = {"Agent": list(frame["agent"]), "Seed": list(map(str, frame["seed"]))}
    for level in LEVELS:
        own = frame[f"below_{level:g}"]
        shown[f"Below {percent(level, digits=0)} from"] = ["–" if at != at else f"{at / 1e6:.0f} M" for at in own]
    shown["P(≥1), end"] = [percent(value) for value in frame["p_any_end"]]
    shown["Further per first, end"] = [number(value, 3) for value in frame["further_end"]]
    shown["Second per first, end"] = [percent(value) for value in frame["second_end"]]
    note = (
        "Training steps from which further kills per first, pooled over a tenth of the run, stay below a level to the "
        "end; a dash: not by the end. The last three columns are of the last twentieth; “second per first” is P(>1) / "
        "P(≥1). For seed 42, one update in twenty is known, and not the number of episodes with a second kill."
    )
    methods, name = list(frame.pop("method")), "rare_from_no_killing"
    return Table(name, "When does a second kill become rare?", note, shown, frame, methods, wide=True)


def _interval(name: str, values: np.ndarray) -> dict[str, float]:
    mean, half, _ = compare.t_interval(values)
    return {name: mean, f"{name}_ci": half}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("seed", type=int)
    training.add_argument("out", type=Path)
    commands.add_parser("keep").add_argument("out", type=Path)
    given = parser.parse_args()
    return train(given.seed, given.out) if given.command == "train" else keep(given.out)


if __name__ == "__main__":
    sys.exit(main())
