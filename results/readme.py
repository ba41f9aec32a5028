"""Write the blocks of README, docs/ and results/*/README.md that contain numbers, from committed files.

A page requests a block with two lines, and this script writes everything between them:

    <!-- lead: written by results/readme.py -->
    <!-- to here -->

`python results/readme.py` writes all blocks of all pages, `python results/readme.py --list` names them, and
`make results-check` fails if a page differs.  Several pages may request the same block: its links are relative to the
root of the repository here, and to the page there.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import board
import numpy as np
import pandas as pd
import seconds

from perepisode import legacy, metrics
from perepisode.benchmark import leaderboard
from perepisode.config import PAPER_SEEDS
from perepisode.evaluation import episodes
from perepisode.paper_comparison import numbers
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.formatting import count, in_words, listed, number, p_equals, percent, plus_minus
from perepisode.runs import write_atomically

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGES = ("README.md", "docs/**/*.md", "results/*/README.md")
BLOCK = re.compile(
    r"^<!-- (?P<name>[^\n]+?): written by results/readme\.py -->\n(?P<text>.*?)^<!-- to here -->$", re.M | re.S
)
BEGIN = re.compile(r"^<!-- [^\n]+?: written by results/readme\.py -->$", re.M)
BENCHES = "h200_engine", "cpu", "h200", "doors_h200"


def blocks(results: Path) -> dict[str, Callable[[], str]]:
    """Every block by name; `results` contains the folders that `keep` filled."""
    long, craftax, scaled = (results / name for name in ("paper_length", "craftax", "loud"))
    return {
        "lead": lambda: lead(long),
        "paper length": lambda: at_length(long),
        "paper length: scale": lambda: _scale(long),
        "paper length: table": lambda: "\n".join(_beside_the_paper(long)),
        "paper length: in short": lambda: _in_short(long),
        "paper length: caveats": lambda: _caveats(long),
        "measured": lambda: measured(long),
        "measured: speed": _speed,
        "measured: same game": _same_game,
        "measured: learning": _learning,
        "measured: detector": lambda: _detector(long),
        "comparison": lambda: comparison(craftax),
        "comparison: scale": lambda: _scale(craftax),
        "comparison: table": lambda: "\n".join(_agents(craftax)),
        "comparison: in short": lambda: _in_short(craftax),
        "comparison: caveats": lambda: _caveats(craftax),
        "loud": lambda: loud(scaled),
        "loud: table": lambda: "\n".join(_agents(scaled, _trained_there(scaled))),
        "loud: in short": lambda: _in_short(scaled),
        "made": lambda: made(long),
        "confirmed": lambda: confirmed(scaled),
        "rho_u": _rho_u,
        "claims: in short": board.in_short,
        "claims: known": board.known,
        "claims: board": board.table,
        "claims: details": board.details,
        "claims: runs": board.made,
        "verdicts: power": power,
        "leaderboard": lambda: leaderboard.markdown(leaderboard.boards(HERE / "benchmark")).rstrip(),
        "wrappers: optima": _optima,
        "wrappers: traps": _traps,
        "preferences: curve": _labels_needed,
        "preferences: trained": _trained_on_labels,
        "preferences: agreement": _agreement,
        "preferences: refused": _refused,
    }


def pages() -> list[Path]:
    return sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})


def write(results: Path) -> None:
    for path, before, after in _rewritten(results):
        if before != after:
            write_atomically(path, after)


def differ(results: Path) -> list[str]:
    """The blocks that differ from what this script writes."""
    found = []
    for path, before, after in _rewritten(results):
        own = zip(BLOCK.finditer(before), BLOCK.finditer(after), strict=True)
        found += [f"{path.relative_to(ROOT)}, the block {one['name']!r}" for one, other in own if one[0] != other[0]]
    return found


def _rewritten(results: Path) -> Iterator[tuple[Path, str, str]]:
    """Each page that requests a block, as it is and as it should be."""
    known = {name: cache(text) for name, text in blocks(results).items()}  # once for all pages
    for path in pages():
        before = path.read_text(encoding="utf-8")
        if asked := BEGIN.findall(before):
            if len(BLOCK.findall(before)) != len(asked):
                raise ValueError(f"{path}: a block has no line '<!-- to here -->'")
            yield path, before, BLOCK.sub(lambda found, path=path: _block(found, known, path), before)


def _block(found: re.Match, known: dict[str, Callable[[], str]], page: Path) -> str:
    if found["name"] not in known:
        raise ValueError(f"{page}: no block {found['name']!r}; there are {', '.join(known)}")
    text = relinked(known[found["name"]](), page.parent)
    return f"{found[0].partition(chr(10))[0]}\n{text}\n<!-- to here -->"


def relinked(text: str, folder: Path) -> str:
    """Links written from the root of the repository, as a page in `folder` has them."""

    def relative(found: re.Match) -> str:
        target, hash_, anchor = found[1].partition("#")
        return f"]({os.path.relpath(ROOT / target, folder).replace(os.sep, '/')}{hash_}{anchor})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", relative, text)


# ---- three agents at three quarters of the paper's steps ----------------------------------------------------

NAMES = ("ESR (k=1)", "Lagrangian (d=0.5)", "SER (w=0.1)")
EXACT, ITS_WAY = "first episodes, exact", "as the paper measures"
PLACES = {"the paper": "the paper", ITS_WAY: "ours, measured the paper's way", EXACT: "ours, every kill counted"}


def lead(kept: Path) -> str:
    """The three main numbers, with their scale."""
    again = pd.read_csv(kept / "report" / "data" / "papers_table_no_killing.csv")
    found = {(row["agent"], row["measured"]): row for _, row in again.iterrows()}
    ours, theirs, in_its_way = ([found[name, where] for name in NAMES] for where in (EXACT, "the paper", ITS_WAY))
    runs = pd.read_csv(kept / "report" / "data" / "runs.csv")
    (steps,), seeds = set(runs["steps"]), runs["seed"].nunique()
    over, printed, alike = (listed([percent(row["p_over_1"]) for row in rows]) for rows in (ours, theirs, in_its_way))
    returns = listed([number(row["return"], 1) for row in ours])
    return (
        f"**ESR (k=1), the Lagrangian (d=0.5) and SER (w=0.1) kill more than one passive creature in {over} of their "
        f"episodes, with mean returns of {returns}.** {_verdicts(kept)} Each agent "
        f"has {in_words(seeds)} training seeds of {count(steps)} steps and "
        f"{runs.groupby('agent')['episodes'].sum().min():,} evaluation episodes, in which every kill is counted. The "
        f"paper trains three seeds for {count(numbers.STEPS)} steps, uses a detector that misses some kills, and "
        f"reports {printed}. Measured the paper's way, over the episodes that end within a window of 4096 steps, ours "
        f"are {alike}. [What agrees with the paper and what does not](docs/results/paper-length.md)."
    )


def _verdicts(kept: Path) -> str:
    """What is known of the tails and of the returns, in a sentence."""
    pairs = pd.read_csv(kept / "report" / "data" / "pairs_no_killing.csv")
    assert pairs["tails_differ"].all()
    assert set(pairs["other"]) == {"ESR (k=1)"}, "ESR has the lighter tail in every pair"
    rivals = listed([f"{row.agent} (p {p_equals(row.p)})" for row in pairs.itertuples()])
    returns = {"undecided": "whether mean returns differ is undecided", "equivalent": "mean returns are equivalent"}
    (verdict,) = set(pairs["return_verdict"])
    return f"ESR has a lighter tail than {rivals}; {returns[verdict]}."


def power() -> str:
    """What the primary test finds, and how often it is wrong."""
    alarms, found, again, unequal = (
        pd.read_csv(HERE / "verdicts" / f"{name}.csv")
        for name in ("false_alarms", "power", "largest_again", "unequal_episodes")
    )
    case = found[(found["case"] == "catastrophes") & (found["agents"] == 4)].set_index("seeds")
    after, before = ([f"{case.loc[seeds, rule]:.0f} %" for seeds in (5, 10)] for rule in ("after", "before"))
    worst = unequal.loc[unequal["after"].idxmax()]
    return (
        f"Among identical agents, {alarms['after'].mean():.1f} % of tables claim a difference on average over "
        f"{len(alarms)} designs (2, 4 and 8 agents; 3, 5 and 8 seeds; counts, light- and heavy-tailed costs). The "
        f"largest of these rates, simulated again with ten times the tables, are at most {again['after'].max():.1f} %. "
        f"If one agent has many more episodes than the other (2000 and 300 per seed), the largest rate is "
        f"{worst['after']:.1f} % ({worst['law']}). One agent of four with the same mean, and catastrophes in 2 % of "
        f"its episodes, is found in {after[0]} of tables with 5 seeds and in {after[1]} with 10. Welch's test on the "
        f"plain CVaR, the rule of version 0.1, finds it in {before[0]} and {before[1]}."
    )


def at_length(kept: Path) -> str:
    """The paper's table next to ours, the figure, the answer in short and the caveats."""
    return "\n".join(
        [
            _scale(kept),
            "",
            "P(≥1) and P(>1) are the shares of episodes with any kill and with more than one. CVaR 10 % is the "
            "mean number of kills over the worst 10 % of episodes. ± is a 95 % interval over seeds.",
            "",
            *_beside_the_paper(kept),
            "",
            "![Share of episodes by number of kills, the paper's and ours]"
            "(results/paper_length/report/figures/beside_the_paper_no_killing.svg)",
            "",
            "*Bars and dots: ours, every kill counted. Diamonds: the paper's, by its detector, which misses some "
            "kills; for the Lagrangian the paper reports only the total share with more than one kill.*",
            "",
            *_answer(kept),
        ]
    )


def _beside_the_paper(kept: Path) -> list[str]:
    """The paper's table next to ours, measured in two ways."""
    again = pd.read_csv(kept / "report" / "data" / "papers_table_no_killing.csv")
    rows = [row for _, row in again.iterrows() if row["measured"] in PLACES]
    return [
        "| Agent | | Return | P(≥1) | P(>1) | CVaR 10 % |",
        "|---|---|---:|---:|---:|---:|",
        *(
            f"| {row['agent'] if row['measured'] == 'the paper' else ''} "
            f"| {PLACES[row['measured']]} "
            f"| {plus_minus(row['return'], row['return_ci'])} | {percent(row['p_any'], row['p_any_ci'])} "
            f"| {percent(row['p_over_1'], row['p_over_1_ci'])} | {plus_minus(row['cvar'], row['cvar_ci'])} |"
            for row in rows
        ),
    ]


def made(kept: Path) -> str:
    """Seeds, seconds, device and commands."""
    packs = _packs(kept)
    runs = seconds.runs(kept.glob("curves/*"))
    lines = ["| seed | steps | training | evaluation in 64, in 512 environments | device |", "|---:|---|---:|---:|---|"]
    for pack in packs:
        own = [run for run in runs if run["seed"] == pack["seed"]]
        (device,), took = {_device(run) for run in own}, pack["seconds"]
        lines.append(
            f"| {pack['seed']} | {len(own)} × {own[0]['total_timesteps']:,} | {took['train']:,} s "
            f"| {took['judge 64']} s, {took['judge 512']} s | {device} |"
        )
    for pack in packs:
        lines += ["", f"Seed {pack['seed']}, {pack['how']}{':' if pack['commands'] else '.'}"]
        lines += ["", "```", *pack["commands"], "```"] if pack["commands"] else []
    return "\n".join(lines)


def _packs(kept: Path) -> list[dict]:
    """The durations of each program, in order of training."""
    found = [json.loads(path.read_text()) for path in sorted(kept.glob("packs/*.json"))]
    return sorted(found, key=lambda pack: PAPER_SEEDS.index(pack["seed"]) if "seed" in pack else 0)


def _device(run: dict) -> str:
    return run["device"].split(": ")[1].split(" x ")[0]


# ---- speed, sameness, learning, detectors -------------------------------------------------------------------


def measured(kept: Path) -> str:
    return "\n".join([_speed(), _same_game(), _learning(), _detector(kept)])


def _speed() -> str:
    gpu, cpu, training, doors = (json.loads((HERE / "bench" / f"{name}.json").read_text()) for name in BENCHES)

    def ratio(bench: dict, num_envs: int) -> float:
        rows = map(legacy.upgrade_bench, bench["engine"])
        (found,) = [row for row in rows if (row["what"], row["num_envs"]) == ("engine", num_envs)]
        return found["times_upstream"]

    def rate(runs: int) -> str:
        (found,) = [row for row in training["training"] if row["runs"] == runs]
        return f"{found['steps_per_second'] / 1e6:.2f} M"

    (theirs,) = [one.value for one in numbers.NUMBERS if one.what == "training steps a second (H100)"]
    return (
        f"- **Speed.** On one {gpu['device']} the Craftax engine is {ratio(gpu, 1024):.0f} times as fast as upstream, "
        f"the `craftax` package, with 1024 environments, and {ratio(gpu, 8192):.0f} times with 8192; with resets and "
        "observations, through `perepisode.interop.gymnax`, "
        f"{doors['doors'][0]['times_upstream']:.0f} times with 1024. Training runs at {rate(16)} "
        f"environment steps per second with 16 runs in one program, {rate(3)} with 3, and {rate(1)} with 1; the paper "
        f"reports {theirs / 1e3:.0f} k for one run on an H100. On two CPU cores the engine is "
        f"{ratio(cpu, 64):.1f} × as fast with 64 environments. "
        "[The performance log](docs/development/performance.md) has the tables and what was tried."
    )


def _same_game() -> str:
    last = (HERE / "exactness" / "engine_exactness.txt").read_text().splitlines()[-1]
    steps, fields = _found(r"(\d+) steps, (\d+) fields compared; fields that differ: none", last)
    tallies = [
        json.loads((HERE / "distributions" / f"{name}.json").read_text())[name] for name in ("random", "trained")
    ]
    episodes = min(count for tally in tallies for count in tally["episodes"])
    chances = " and ".join(number(min(tally["p"].values()) * len(tally["p"]), 1) for tally in tallies)
    return (
        f"- **The same game.** Fed upstream's random draws, the engine equals upstream bit for bit in all {fields} "
        f"fields over {int(steps):,} steps on all nine floors. With its own draws, no significant difference was "
        f"found in {episodes:,} episodes of a random policy and as many of a trained agent (smallest p value times the "
        f"number of tests, as Bonferroni corrects it: {chances})."
    )


def _learning() -> str:
    script, runs = HERE.parent / "benchmarks" / "learning_curve.py", HERE / "learning_curve" / "bf16"
    output = subprocess.run([sys.executable, script, runs], capture_output=True, text=True, check=True).stdout
    first, most = _found(r"largest difference from ([\d,]+) steps on: ([\d.]+ %)", output)
    kept = seconds.runs(runs.glob("*"))
    (steps,) = {run["total_timesteps"] for run in kept}
    return (
        f"- **The same learning.** The return of the unconstrained agent with the paper's hyperparameters ({len(kept)} "
        f"seeds in one program, bf16, {steps / 1e6:.1f} M steps each) is within {most} of that of the public recurrent "
        f"PPO of Craftax_Baselines at every point from {int(first.replace(',', '')) / 1e6:.0f} M steps on "
        "(`python benchmarks/learning_curve.py`)."
    )


def _detector(kept: Path) -> str:
    missed = pd.read_csv(kept / "report" / "data" / "missed_no_killing.csv")
    share = np.average(missed["missed_share"], weights=missed["violations"])
    return (
        "- **Exact counts.** A detector that compares states, such as the paper's, misses a kill if another creature "
        f"spawns into the same slot in the same step: {percent(float(share))} of the "
        f"{missed['violations'].sum():,.0f} kills of the agents trained for the paper's comparison. Every row of an "
        "episodes table has both counts."
    )


def _found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"no {pattern!r} in {text[-200:]!r}")
    return match.groups()


# ---- the paper's comparison ---------------------------------------------------------------------------------


def comparison(kept: Path) -> str:
    """Scale, one table, one figure, the answer in short and the caveats."""
    return "\n".join(
        [
            _scale(kept),
            "",
            *_agents(kept),
            "",
            "![CVaR 10 % against mean violations](results/craftax/report/figures/tail_no_killing.svg)",
            "",
            "*Agents with equal mean violations differ only in height. The dotted line is the CVaR of independent "
            "violations.*",
            "",
            *_answer(kept),
        ]
    )


def _answer(kept: Path) -> list[str]:
    """The answer in short, and its caveats."""
    return [_in_short(kept), "", "Caveats:", "", _caveats(kept)]


def _caveats(kept: Path) -> str:
    return (kept / "report" / "report.md").read_text().split("Caveats:\n")[1].split("\n## ")[0].strip()


def _agents(kept: Path, only: set[tuple[str, str]] | None = None) -> list[str]:
    """All agents of the report, or those of these methods and arms."""
    agents = pd.read_csv(kept / "report" / "data" / "complete_no_killing.csv")
    counted = CostMeasure().plus_minus
    chosen = agents[[only is None or pair in only for pair in zip(agents["method"], agents["arm"])]]
    return [
        "| Agent | Return | Violations | P(≥1) | P(>1) | CVaR 10 % | Worst |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {one.agent} | {plus_minus(one.task_return, one.return_ci)} "
            f"| {counted(one.violations, one.violations_ci)} | {percent(one.p_any)} "
            f"| {percent(one.p_over_1)} | {counted(one.cvar, one.cvar_ci)} | {number(one.worst, 0)} |"
            for one in chosen.rename(columns={"return": "task_return"}).itertuples()
        ),
    ]


def _in_short(kept: Path) -> str:
    written = (kept / "report" / "report.md").read_text()
    return written.split("### In short\n")[1].split("\n### ")[0].split("\n## ")[0].strip()


def _scale(kept: Path) -> str:
    runs = seconds.runs(kept.glob("curves/*"))
    packs = _packs(kept)
    took = [pack.get("together", pack["seconds"]) for pack in packs]
    steps, devices = {run["total_timesteps"] for run in runs}, {_device(run) for run in runs}
    return (
        f"{len(runs)} runs of {' and '.join(f'{one:,}' for one in sorted(steps))} steps (the paper's have 10⁹), "
        f"{in_words(len({run['seed'] for run in runs}))} seeds per agent, trained on exact counts unless stated "
        f"otherwise, in {len(packs)} programs that took {listed([f'{of / 60:.0f}' for of in took])} minutes on one "
        f"{' or '.join(sorted(devices))}, including compilation and evaluation."
    )


# ---- scaled observations ------------------------------------------------------------------------------------


def loud(kept: Path) -> str:
    """The same comparison with the scaled observation, in short."""
    runs = seconds.runs(kept.glob("curves/*"))
    (steps,) = {run["total_timesteps"] for run in runs}
    agents = pd.read_csv(kept / "report" / "data" / "complete_no_killing.csv")
    new = _trained_there(kept)
    seeds = agents.loc[[pair in new for pair in zip(agents["method"], agents["arm"])], "seeds"]
    return "\n".join(
        [
            f"{len(runs)} further runs of {steps:,} steps, trained and evaluated like the "
            "[eleven agents at the same length](docs/results/shorter-training.md); the rows of SER and the Lagrangian "
            f"include the seeds trained there. {seeds.min()} to {seeds.max()} seeds per agent.",
            "",
            *_agents(kept, new),
            "",
            _in_short(kept),
        ]
    )


def _trained_there(kept: Path) -> set[tuple[str, str]]:
    """Method and arm of the runs that a folder stores itself."""
    return {(run["method"], run["arm"]) for run in seconds.runs(kept.glob("curves/*"))}


def confirmed(kept: Path) -> str:
    """The result of the search's choice on other seeds."""
    runs = pd.read_csv(kept / "report" / "data" / "rarer_from_no_killing.csv").query("accrued_obs == 'scaled'")
    returns = pd.read_csv(kept / "report" / "data" / "runs.csv").query("agent == 'ESR (k=1, scaled obs)'")
    behind = returns.loc[returns["return"].idxmin()]
    used = [f"{share:.2f}".removeprefix("0") for share in (*runs["eval_p_any"], runs["eval_p_any"].mean())]
    second = int(runs["eval_seconds"].sum())
    return (
        f"On {len(runs)} new seeds ({', '.join(map(str, runs['seed']))}), one of the two criteria holds. ESR with the "
        f"scaled observation commits a second violation in {second} of {runs['eval_firsts'].sum()} evaluation "
        f"episodes with a first ({runs['eval_episodes'].sum()} episodes in all), below the required 2 %. P(≥1) "
        f"reaches the required 0.3 in {(runs['eval_p_any'] >= 0.3).sum()} seeds only: it is {', '.join(used[:-2])} "
        f"and {used[-2]}, on average {used[-1]}. The return of seed {behind['seed']} is lower than that of the others "
        f"({number(behind['return'], 1)})."
    )


def _rho_u() -> str:
    """How often ESR (k=1) uses its budget with ρ_u = 1 and with ρ_u = 0.1."""
    rows = {}
    for rho_u, folder in ((1, "loud"), (0.1, "rho_u")):
        table = episodes.read(HERE / folder / "episodes", without=episodes.REPLAY_COLUMNS)
        own = table[table["in_first"] & (table["method"] == "esr") & table["arm"].str.startswith("k=1")]
        counts = own.groupby("seed")["violations"]
        rows[rho_u] = counts.agg(any=metrics.p_any, second=metrics.over_one, episodes="size").sort_values("any")
    paper, small = rows.values()
    assert set(paper.index) == set(small.index)
    shares = {rho_u: listed([percent(share) for share in own["any"]]) for rho_u, own in rows.items()}
    return (
        f"In Craftax (No Killing, k = 1, `accrued_obs=scaled`, 10⁸ steps, {in_words(len(paper))} seeds), ESR with the "
        f"paper's ρ_u = 1 kills in {shares[1]} of the episodes of each seed, and with ρ_u = 0.1 in {shares[0.1]}. A "
        f"second kill remains rare: {percent(small['second'].min())} to {percent(small['second'].max())} of episodes."
    )


# ---- a per-episode budget in other libraries ----------------------------------------------------------------

TRAINERS = {
    "sb3_ppo": "Stable-Baselines3 PPO",
    "sb3_recurrent": "sb3-contrib RecurrentPPO",
    "cleanrl_ppo": "CleanRL's ppo.py",
    "rejax_ppo": "rejax PPO",
    "purejaxrl_ppo": "purejaxrl's ppo.py",
    "brax_ppo": "Brax PPO",
}


def _optima() -> str:
    """Each trainer's agents against the exact optimum of their utility."""
    rows = pd.read_csv(HERE / "wrappers" / "optima.csv")
    head = ["| trainer | k | utility, by seed | of the optimum | return | P(>k) |", "|---|---:|---|---|---:|---:|"]
    lines = []
    for budget, of_budget in rows.groupby("budget"):
        best = of_budget.iloc[0]
        lines.append(
            f"| *exact optimum* | {budget} | *{best['exact_utility']:.2f}* | | *{best['exact_return']:.2f}* "
            f"| *{percent(best['exact_over_budget'])}* |"
        )
        for recipe in (name for name in TRAINERS if name in set(of_budget["recipe"])):
            own = of_budget[of_budget["recipe"] == recipe].sort_values("seed")
            share = own["utility"] / own["exact_utility"]
            lines.append(
                f"| {TRAINERS[recipe]} | {budget} | {', '.join(f'{value:.2f}' for value in own['utility'])} "
                f"| {100 * share.min():.1f} to {100 * share.max():.1f} % | {own['return'].mean():.2f} "
                f"| {percent(own['over_budget'].mean())} |"
            )
    (seeds,) = {tuple(sorted(own["seed"])) for _, own in rows.groupby(["recipe", "budget"])}
    (steps,), (episodes,) = set(rows["steps"]), set(rows["episodes"])
    scale = (
        f"Seeds {listed([str(seed) for seed in seeds])}, {steps:,} steps each; {episodes:,} evaluation episodes per "
        "agent, actions sampled. Return and P(>k) are means over seeds."
    )
    return "\n".join([*head, *lines, "", scale])


def _traps() -> str:
    """What each way of getting it wrong costs."""
    rows = pd.read_csv(HERE / "wrappers" / "traps.csv")
    head = ["| | seeds | utility | optimum | return | violations | P(>1) |", "|---|---:|---:|---:|---:|---:|---:|"]
    lines = [
        f"| {own['note'].iloc[0]} | {len(own)} | {own['utility'].mean():.2f} | {own['exact_utility'].iloc[0]:.2f} "
        f"| {own['return'].mean():.2f} | {own['violations'].mean():.2f} | {percent(own['over_budget'].mean())} |"
        for _, own in rows.groupby("case", sort=False)
    ]
    return "\n".join([*head, *lines])


# ---- preferences from people, simulated ---------------------------------------------------------------------


def _labels_needed() -> str:
    """Active against random pairs."""
    rows = pd.read_csv(HERE / "preferences" / "curve.csv")
    lines = [
        "| | distance | | loss | | order | |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        "| labels | active | random | active | random | active | random |",
    ]
    for size, of_size in rows.groupby("labels"):
        cells = [
            f"{number(own['total_variation'].mean(), 3)} ({number(own['total_variation'].max(), 2)})"
            for _, own in of_size.groupby("strategy")
        ]
        for column in ("regret", "orders_pool"):
            cells += [percent(own[column].mean()) for _, own in of_size.groupby("strategy")]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Mean over {rows['seed'].nunique()} seeds; in brackets the largest distance."])


def _trained_on_labels() -> str:
    """Five seeds beside the exact optimum."""
    rows = pd.read_csv(HERE / "preferences" / "trained.csv")
    head = [
        "| agent | P(0) | P(1) | P(2) | P(> 2) | return | utility, of the optimum | distance |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines = [
        f"| {row['agent']} | {' | '.join(percent(row[name]) for name in ('p_0', 'p_1', 'p_2', 'p_over'))} "
        f"| {number(row['return'])} | {percent(row['utility_share'])} | {number(row['total_variation'], 3)} |"
        for _, row in rows.iterrows()
    ]
    return "\n".join([*head, *lines])


def _agreement() -> str:
    """κ and α of raters who flip answers."""
    rows = pd.read_csv(HERE / "preferences" / "agreement.csv")
    head = [
        "| answers flipped | agreement | coefficient | 95 % interval | same answer | pairs |",
        "|---:|---|---:|---|---:|---:|",
    ]
    names = {"within": "within a rater, Cohen's κ", "between": "between two, Krippendorff's α"}
    lines = [
        f"| {percent(row['flips'], digits=0)} | {names[row['agreement']]} | {number(row['coefficient'])} "
        f"| {number(row['low'])} to {number(row['high'])} | {percent(row['equal_share'])} | {row['pairs']} |"
        for _, row in rows.iterrows()
    ]
    return "\n".join([*head, *lines])


def _refused() -> str:
    """How often a fit is inverted in a thin pool, and the sentence that refuses it."""
    rows = pd.read_csv(HERE / "preferences" / "refused.csv")
    lines = [
        f"- A violation pays {pay}: {own['refused'].sum()} of {len(own)} fits are refused, "
        f"{own['inverted_outside'].sum()} are inverted outside the support, and {own['monotone_inverted'].sum()} with "
        "`--monotone`."
        for pay, own in rows.groupby("pay")
    ]
    sentence = (HERE / "preferences" / "refused.txt").read_text().strip()
    return "\n".join([*lines, "", f"> perepisode: {sentence}"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the blocks, and the pages that hold each")
    if parser.parse_args().list:
        for name in blocks(HERE):
            marker = f"<!-- {name}: written by results/readme.py -->"
            print(f"{name}: {', '.join(str(p.relative_to(ROOT)) for p in pages() if marker in p.read_text()) or '-'}")
    else:
        write(HERE)
