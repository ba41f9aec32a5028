"""Which accrued observation ν teaches ESR (expected scalarised returns) its budget within 10⁸ steps?

    python results/search/nu.py list                       # the candidates and the predictions
    python results/search/nu.py train OUT --population nu  # on a GPU: 16 runs, [--steps 1e8] [--seeds ...] [--tiny]
    python results/search/nu.py table OUT [OUT ...]        # prediction, measurement, decision; needs no JAX
    python results/search/nu.py check                      # tiny, on a CPU: is it the package's training?

With the paper's ν = [R/50, v/5], ESR k=1 on No Killing starts to use its budget after 2.5 × 10⁸ steps, and until then
commits a second violation in a tenth of the episodes with a first.  An input weight starts at about 0.016 and a
violation changes the paper's ν by 0.2, so the network hardly sees it.  The goal is a ν with which the same training,
after 10⁸ steps, commits a second violation in under 2 % of the episodes with a first and uses its budget: P(>= 1) is
0.3 or more.

A candidate is a vector of gains on a fixed basis (`candidate_obs.BASIS`): R/50, v/5, a thermometer 1(v >= 1), ...,
1(v >= 5), the remaining budget (k - v)/(k + 0.5), and 1(v <= k).  A gain of zero omits an entry, so all candidates
share one program and, for each seed, initial weights and environments.  The heads can have gains too (`head_gains`),
and γ and the value clip can differ per candidate; everything else is the paper's training.  The tuning seeds 1001 and
1002 are used for nothing else.

`train` appends, every 20 updates, one line per run to OUT/metrics.jsonl: the last update's row and, under "chunk", sums
over all episodes of these updates.  It evaluates at the end: the first three episodes of each of 512 environments,
OUT/episodes.parquet, without the columns for replays.  OUT/log.txt has its output.  No policy is stored, so it cannot
resume: SIGTERM stops it after the current chunk, SIGUSR1 also evaluates.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pandas as pd

from perepisode import metrics

WIDTH, STEPS = 9, 5
TUNING_SEEDS = (1001, 1002)
CHUNK = 20  # updates between two lines of the metrics
EVERY = 60.0  # seconds between two lines of the log
POOLED = 5  # chunks of training that the table pools
SECOND, ANY = 0.02, 0.3  # criteria: second violations per first, below; P(>= 1), at least
NO_CLIP = 1e9


def gains(returns=0.0, share=0.0, steps=0.0, remaining=0.0, within=0.0) -> tuple[float, ...]:
    """A gain for each entry of candidate_obs.BASIS."""
    return (float(returns), float(share), *[float(steps)] * STEPS, float(remaining), float(within))


def loud(gain: float, returns: float | None = None) -> tuple[float, ...]:
    """R/50, v/5 and the thermometer at one gain; the return's may differ."""
    return gains(gain if returns is None else returns, gain, gain)


PAPER = gains(1, 1)


@dataclass(frozen=True)
class Candidate:
    predicted: str  # before the run
    gains: tuple[float, ...]
    head_gains: tuple[float, ...] = gains()
    gamma: float = 0.99
    value_clip: float = 0.2

    @property
    def numbers(self) -> np.ndarray:
        """The swept setting."""
        return np.array([*self.gains, *self.head_gains, self.value_clip], np.float32)


CANDIDATES = {
    # population "nu": scale and parts
    "paper": Candidate("P(≥1) .03 to .06, a second in 5 to 15 %: as committed at 10⁸", PAPER),
    "gain10": Candidate("P(≥1) .1 to .5, differing between seeds; a second in under 1 %: as at 9 × 10⁷", loud(10)),
    "gain30": Candidate("P(≥1) .3 to .6, a second in under 1 %; return as gain10", loud(30)),
    "gain100": Candidate("a second in under 1 %, P(≥1) .1 to .5, return 1 to 2 lower: coarse steps", loud(100)),
    "gain30_no_return": Candidate("as gain30; return .5 lower, for it no longer knows what is at stake", loud(30, 0)),
    "quiet30": Candidate("P(≥1) .3 to .6, a second in under 1 %, the best return of all", loud(30, 1)),
    "gain30_long": Candidate("P(≥1) .4 to .7, it sees what a kill is good for; return 1 lower", loud(30), gamma=0.997),
    "remaining10": Candidate(
        "a violation moves it by 6.7, so between gain 3 and 10: P(≥1) .05 to .3, a second in 0 to 3 %",
        gains(1, 0, 0, remaining=10),
    ),
    "remaining30": Candidate("moved by 20: P(≥1) .2 to .5, a second in under 1 %", gains(1, 0, 0, remaining=30)),
    "share30": Candidate(
        "moved by 6: P(≥1) .05 to .2, a second in 0 to 4 %: loudness counts, not the code", gains(0, 30)
    ),
    # population "learner": which inputs, and the clip of the value; to be revised after "nu"
    "paper_beside": Candidate(
        "heads' weights start five times larger: P(≥1) .05 to .15, a second in 2 to 8 %", PAPER, PAPER
    ),
    "quiet10_beside": Candidate("as gain30: P(≥1) .3 to .6, a second in under 1 %", loud(10, 1), loud(10, 1)),
    "only_beside10": Candidate("as gain30; the memory need not carry it", gains(), loud(10, 1)),
    "only_beside3": Candidate("as gain10 or a little better", gains(), loud(3, 1)),
    "paper_free_value": Candidate("as paper: the critic's speed is not what is missing", PAPER, value_clip=NO_CLIP),
    "quiet10_free_value": Candidate(
        "P(≥1) .2 to .6: what a first is worth is learnt sooner", loud(10, 1), value_clip=NO_CLIP
    ),
    "quiet30_free_value": Candidate(
        "as quiet10_free_value or better; return .5 higher", loud(30, 1), value_clip=NO_CLIP
    ),
    "quiet30_value1": Candidate("between quiet30 and quiet30_free_value", loud(30, 1), value_clip=1.0),
    "quiet10_long": Candidate("P(≥1) .2 to .6, return 1 lower than gain10", loud(10, 1), gamma=0.997),
}

ONE = TUNING_SEEDS[:1]
POPULATIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "nu": {
        "paper": ONE,
        "gain10": TUNING_SEEDS,
        "gain30": TUNING_SEEDS,
        "gain100": TUNING_SEEDS,
        "gain30_no_return": TUNING_SEEDS,
        "quiet30": TUNING_SEEDS,
        "gain30_long": TUNING_SEEDS,
        "remaining10": ONE,
        "remaining30": ONE,
        "share30": ONE,
    },
    "learner": {
        "paper_beside": TUNING_SEEDS,
        "quiet10_beside": TUNING_SEEDS,
        "only_beside10": TUNING_SEEDS,
        "only_beside3": ONE,
        "paper_free_value": ONE,
        "quiet10_free_value": TUNING_SEEDS,
        "quiet30_free_value": TUNING_SEEDS,
        "quiet30_value1": TUNING_SEEDS,
        "quiet10_long": TUNING_SEEDS,
    },
}


def chosen(names: str, seeds: tuple[int, ...] | None) -> list[tuple[str, int]]:
    """Candidates and seeds of populations or candidates, joined by commas; `seeds` replaces their own."""
    pairs = []
    for name in names.split(","):
        if name not in POPULATIONS and name not in CANDIDATES:
            sys.exit(f"{name!r} is unknown; choose from {', '.join([*POPULATIONS, *CANDIDATES])}")
        for candidate, own in POPULATIONS.get(name, {name: TUNING_SEEDS}).items():
            pairs += [(candidate, seed) for seed in seeds or own]
    return list(dict.fromkeys(pairs))


# ---- training -----------------------------------------------------------------------------------------------


def runs_of(pairs: list[tuple[str, int]], steps: float, tiny: bool) -> list:
    import candidate_obs

    from perepisode.config import PPOConfig
    from perepisode.runs import Run

    assert len(candidate_obs.BASIS) == WIDTH
    config = (
        PPOConfig(num_envs=16, num_steps=8, num_minibatches=2, hidden_size=32, precision="fp32")
        if tiny
        else PPOConfig()
    )
    if any(any(CANDIDATES[name].head_gains) for name, _ in pairs):
        candidate_obs.condition_heads()
    runs = []
    for name, seed in pairs:
        c = CANDIDATES[name]
        candidate_obs.CANDIDATES[name] = c.numbers
        settings = {"candidate": name}
        runs.append(
            Run(
                "craftax",
                "no_killing",
                "esr_candidate",
                settings,
                seed,
                c.gamma,
                total_timesteps=int(steps),
                config=config,
            )
        )
    return runs


def begin(runs):
    """Program, population and state of these runs before their first update."""
    import candidate_obs
    import jax

    from perepisode.training import train, update

    program, members = train.prepare(train.check(runs))
    if all(run.method == "esr_candidate" for run in runs):
        members = candidate_obs.with_value_clip(members)
    params = update.initial_params(program, members, [run.seed for run in runs])
    return program, members, jax.jit(lambda m, p: update.init(program, m, p))(members, params)


def train(out: Path, names: str, steps: float, seeds: tuple[int, ...] | None, tiny: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    if (out / "metrics.jsonl").exists():
        sys.exit(f"{out} contains another search; give a new folder")
    with open(out / "log.txt", "a", buffering=1) as log_file:

        def log(line: str) -> None:
            print(line, flush=True)
            log_file.write(line + "\n")

        _train(out, chosen(names, seeds), steps, tiny, log)


def _train(out: Path, pairs, steps: float, tiny: bool, log) -> None:
    import jax

    from perepisode.compilation import use_cache
    from perepisode.training import train
    from perepisode.training.train import Signals, run_chunk

    use_cache()
    chunk = 1 if tiny else CHUNK
    runs = runs_of(pairs, 256 if tiny else steps, tiny)
    began = time.monotonic()
    log(f"{len(runs)} runs of {runs[0].total_timesteps:.3g} steps on {jax.devices()[0].device_kind}")
    program, members, state = begin(runs)
    log(f"begun after {time.monotonic() - began:.0f} s; {program.updates} updates of {len(runs)} runs")
    done, first, logged = 0, None, -math.inf
    with Signals() as stop, open(out / "metrics.jsonl", "a") as file:
        while done < program.updates and not stop.asked:
            length, start = min(chunk, program.updates - done), time.monotonic()
            state, seen = run_chunk(program, chunk, members, state, length)
            seen = {name: value[:length] for name, value in jax.device_get(seen).items()}
            now = time.monotonic()
            last = [own[-1] for own in train.metric_rows(runs, done, seen, now - start)]
            done += length
            rows = [
                {"candidate": run.arm, "seed": run.seed, "gamma": run.gamma, **row, **_chunk(seen, i)}
                for i, (run, row) in enumerate(zip(runs, last))
            ]
            file.write("".join(json.dumps(row) + "\n" for row in rows))  # in one piece: never part of a chunk
            file.flush()
            first = first or (now, done)  # the first chunk also compiled
            if now - logged >= EVERY or done == program.updates:
                logged = now
                per_run = (done - first[1]) * program.config.steps_per_update
                rate = len(runs) * per_run / max(now - first[0], 1e-9)
                log(
                    f"{now - began:.0f} s {done}/{program.updates} {rate / 1e6:.3f} M/s | "
                    + " | ".join(map(_line, rows))
                )
    asked = stop.asked
    log(f"{'stopped by ' + asked if asked else 'trained'} after {done} updates, {time.monotonic() - began:.0f} s")
    if asked and asked != "SIGUSR1":
        log("not evaluated")
        return
    params, trained = jax.device_get(state.params), done * program.config.steps_per_update
    alive = np.asarray(state.alive)
    del state
    for run, fine in zip(runs, alive):
        if not fine:
            log(f"{run.arm} s{run.seed} diverged: evaluated before that")
    evaluate_agents(out, runs, params, trained, tiny, log)
    log(f"all done after {time.monotonic() - began:.0f} s")


def _chunk(seen: dict[str, np.ndarray], run: int) -> dict:
    """Sums over all episodes that ended in a chunk, for a line of the metrics."""
    counts = seen["counts"][:, run].sum(axis=0)
    counts = [int(n) for n in counts[: np.flatnonzero(counts).max(initial=-1) + 1]]
    episodes = int(seen["episodes"][:, run].sum())
    mean = float(seen["return_sum"][:, run].sum()) / episodes if episodes else None
    return {"chunk": {"episodes": episodes, "return": mean, "counts": counts, **shares(counts)}}


def shares(counts: list[int]) -> dict:
    """P(>= 1), P(> 1) and their ratio from a histogram; None without episodes."""
    episodes, some, more = sum(counts), sum(counts[1:]), sum(counts[2:])
    return {
        "p_any": some / episodes if episodes else None,
        "p_more": more / episodes if episodes else None,
        "second_of_first": more / some if some else None,
    }


def _line(row: dict) -> str:
    of = row["chunk"]
    return (
        f"{row['candidate']} s{row['seed']} R {_number(of['return'], 1)} any {_number(of['p_any'], 3)} "
        f"second {_number(of['second_of_first'], 3)}"
    )


def evaluate_agents(out: Path, runs, params, trained: int, tiny: bool, log) -> None:
    """The package's evaluation of every run, in one program."""
    import jax

    from perepisode.evaluation import episodes, rollout
    from perepisode.runs import versions
    from perepisode.training.train import weights

    protocol = rollout.EvalConfig(4, 64, 1) if tiny else rollout.EvalConfig(512, rollout.CHUNK, 3)
    agents = [rollout.Agent(run, weights(jax.tree.map(lambda x, i=i: x[i], params)), out) for i, run in enumerate(runs)]
    began = time.monotonic()
    table = rollout.evaluate_agents(agents, protocol, log)
    table = table[table["in_first"]].drop(columns=list(episodes.REPLAY_COLUMNS))
    table["steps"] = trained
    about = {"protocol": vars(protocol), "versions": versions(), "device": jax.devices()[0].device_kind}
    episodes.write(table, out / "episodes.parquet", about)
    log(f"evaluated {len(table)} episodes, {time.monotonic() - began:.0f} s")
    log(measured(table).to_string(index=False, float_format=lambda x: f"{x:.4f}"))


# ---- results ------------------------------------------------------------------------------------------------


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """One row per evaluated run, in the order of CANDIDATES."""
    rows = []
    for (candidate, seed), own in table.groupby(["arm", "seed"]):
        v = own["violations"].to_numpy()
        some, more = int((v > 0).sum()), int((v > 1).sum())
        rows.append(
            {
                "candidate": candidate,
                "seed": seed,
                "episodes": len(v),
                "return": own["return"].mean(),
                "mean v": v.mean(),
                "P(>=1)": some / len(v),
                "P(>1)": more / len(v),
                "second of first": more / some if some else math.nan,
                "CVaR 10 %": metrics.cvar(v),
            }
        )
    found = pd.DataFrame(rows)
    place = {name: i for i, name in enumerate(CANDIDATES)}
    return found.sort_values(["candidate", "seed"], key=lambda c: c.map(place) if c.name == "candidate" else c)


def moments(rows: list[dict]) -> tuple[float, float]:
    """Steps from which second violations per first stay below SECOND, and at which P(>= 1) first reaches ANY.

    Pools `POOLED` chunks: a single one has few episodes with a first.  Without any first, the share is unknown and does
    not count as below.
    """
    below, reached = math.nan, math.nan
    for i in range(POOLED - 1, len(rows)):
        counts = [row["chunk"]["counts"] for row in rows[i - POOLED + 1 : i + 1]]
        of = shares([sum(together) for together in zip_longest(*counts, fillvalue=0)])
        steps = rows[i]["steps"]
        if of["second_of_first"] is None or of["second_of_first"] >= SECOND:
            below = math.nan
        elif math.isnan(below):
            below = steps
        if math.isnan(reached) and (of["p_any"] or 0) >= ANY:
            reached = steps
    return below, reached


def table(folders: list[Path]) -> str:
    """Prediction, measurement, decision: a Markdown table of all these folders, candidate by candidate."""
    lines = [
        "| candidate | seed | predicted | return | mean v | P(≥1) | P(>1) | second of first | CVaR 10 % "
        f"| second < {SECOND:.0%} from | P(≥1) ≥ {ANY} at | kept |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    found = []
    for folder in folders:
        metrics: dict[tuple[str, int], list[dict]] = {}
        for line in (folder / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            metrics.setdefault((row["candidate"], row["seed"]), []).append(row)
        evaluated = {}
        if (folder / "episodes.parquet").exists():
            for row in measured(pd.read_parquet(folder / "episodes.parquet")).to_dict("records"):
                evaluated[row["candidate"], row["seed"]] = row
        found += [(key, rows, evaluated.get(key, {})) for key, rows in metrics.items()]
    place = {name: i for i, name in enumerate(CANDIDATES)}
    for (name, seed), rows, row in sorted(found, key=lambda x: (place.get(x[0][0], 99), x[0])):
        below, reached = moments(rows)
        digits = {"return": 2, "mean v": 3, "P(>=1)": 3, "P(>1)": 4, "second of first": 4, "CVaR 10 %": 3}
        cells = [_number(row.get(column), n) for column, n in digits.items()]
        kept = "not evaluated"
        if row:
            kept = "yes" if row["second of first"] < SECOND and row["P(>=1)"] >= ANY else "no"
        predicted = CANDIDATES[name].predicted if name in CANDIDATES else ""
        when = [_number(x / 1e6, 0, " M") for x in (below, reached)]
        lines.append("| " + " | ".join([name, str(seed), predicted, *cells, *when, kept]) + " |")
    return "\n".join(lines)


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}{unit}"


# ---- is it the same training? -------------------------------------------------------------------------------


def alike() -> None:
    """The candidate "paper" observes the same as the package's ESR, and others observe BASIS."""
    import candidate_obs

    from perepisode.methods import METHODS, Accrued

    def features(name, accrued):
        return np.asarray(candidate_obs.EsrCandidate(CANDIDATES[name].numbers).features(accrued))

    accrued = Accrued(np.float32([0, 12.3, 30, 400]), np.float32([0, 1, 2, 30]))
    paper = METHODS["esr"].build(budget=1).features(accrued, env_inputs=0)
    np.testing.assert_array_equal(features("paper", accrued), np.pad(paper, [(0, 0), (0, WIDTH - 2)]))
    # at R = 30, v = 2, k = 1: R/50, v/5, the thermometer
    np.testing.assert_allclose(features("quiet30", accrued)[2], [0.6, 12, 30, 30, 0, 0, 0, 0, 0], rtol=1e-6)
    remaining = features("remaining30", accrued)[:, candidate_obs.BASIS.index("remaining")]
    np.testing.assert_allclose(remaining, [20, 0, -20, -150], rtol=1e-6)


def check() -> None:
    """Two tiny updates: the candidate "paper" against the package's ESR, padded with zeros; then the same candidate
    with heads that see no features, and one whose heads see ν."""
    import candidate_obs
    import jax

    from perepisode.runs import Run
    from perepisode.training.train import run_chunk, weights

    seed = TUNING_SEEDS[1]  # its agents earn something in these few steps, so that ν is not zero

    def after(runs):
        """Each run's weights after two updates, and how much its weights on R/50 changed."""
        program, members, state = begin(runs)
        before = np.asarray(state.params.embedding[-1])[:, 0]
        state, _ = run_chunk(program, 2, members, state, 2)
        moved = np.abs(np.asarray(state.params.embedding[-1])[:, 0] - before).max(axis=-1)
        return [weights(jax.tree.map(lambda x, i=i: np.asarray(x[i]), state.params)) for i in range(len(runs))], moved

    def apart(one, other):
        """The largest difference of a weight that both have."""
        return max(float(np.abs(value - other[name][: len(value)]).max()) for name, value in one.items())

    alike()
    candidate_obs.pad_features()
    mine = runs_of([("paper", seed)], 256, tiny=True)
    own = [Run("craftax", "no_killing", "esr", {"budget": 1}, seed, total_timesteps=256, config=mine[0].config)]
    ([a], moved), ([b], _) = after(mine), after(own)
    print(f"paper against the package's ESR: {apart(a, b):.1e}; the weights on R/50 changed by {moved[0]:.1e}")
    ([c, d], _) = after(runs_of([("paper", seed), ("paper_beside", seed)], 256, tiny=True))
    print(f"heads without features: {apart(a, c):.1e}; heads with ν: {apart(a, d):.1e}")
    if apart(a, b) > 0 or moved[0] == 0 or apart(a, c) > 1e-5 or apart(a, d) <= apart(a, c):
        sys.exit("not the same training")
    print("the same training")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("check")
    command = commands.add_parser("train")
    command.add_argument("out", type=Path)
    command.add_argument("--population", default="nu", help="populations or candidates, joined by commas")
    command.add_argument("--steps", type=float, default=1e8)
    command.add_argument("--seeds", type=int, nargs="+", help="instead of the population's own")
    command.add_argument("--tiny", action="store_true", help="two updates of small runs, to try it")
    command = commands.add_parser("table")
    command.add_argument("folders", type=Path, nargs="+")
    a = parser.parse_args()
    if a.command == "train":
        train(a.out, a.population, a.steps, tuple(a.seeds) if a.seeds else None, a.tiny)
    elif a.command == "table":
        print(table(a.folders))
    elif a.command == "check":
        check()
    else:
        for name, population in POPULATIONS.items():
            print(f"{name}: {sum(map(len, population.values()))} runs")
            for candidate, seeds in population.items():
                print(f"  {candidate} {seeds}: {CANDIDATES[candidate].predicted}")


if __name__ == "__main__":
    main()
