"""From recorded episodes to a trained agent through the labels of simulated raters.  Writes results/preferences/.

    python benchmarks/preferences.py pool        train and evaluate the agents whose episodes are labelled
    python benchmarks/preferences.py curve       how many labels are needed, active against random pairs
    python benchmarks/preferences.py train       distil the lenient rater's labels and train on five seeds
    python benchmarks/preferences.py agreement   κ and α of noisy raters
    python benchmarks/preferences.py refused     a pool whose worst episode has one violation: the refused fit
    python results/readme.py                     the tables of results/preferences/README.md

The lenient rater tolerates two violations: its true utility is ESR (expected scalarised returns) with k = 2 and no
penalty within the budget, whose exact optimum on `temptation` is known.
"""

import argparse
import os
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the fits are small; threads would wait for each other

import numpy as np
import pandas as pd

from perepisode import safe_io
from perepisode.config import ConfigError, EvalConfig
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation, exact
from perepisode.evaluation import distill, episodes
from perepisode.methods.esr import Esr
from perepisode.preferences import fit, raters
from perepisode.preferences import labels as labels_file
from perepisode.preferences.pairs import PairChooser
from perepisode.runs import Run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "preferences"
DILEMMA, BUDGET = "temptation", 2
SIZES = (25, 50, 100, 200, 400)
MOST = 10  # violations of an episode that the dynamic programme allows
POOL_WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.45)
STEPS, SEEDS, LABELS = 480_000, (1, 2, 3, 4, 5), 200


def truth(returns: np.ndarray, violations: np.ndarray) -> np.ndarray:
    """The lenient rater's utility, smoothed as in Eq. 5."""
    return np.asarray(Esr(BUDGET, rho_u=0.0).u(returns, -10.0 * violations))


def optimum() -> exact.Exact:
    return exact.esr_optimum(Temptation(), truth, MOST)


def of_policy_for(u) -> exact.Exact:
    """The exact optimal policy for a fitted utility, judged by the rater's own."""
    return exact.esr_optimum(Temptation(), u, MOST, judged_by=truth)


def distance(counts: np.ndarray, others: np.ndarray) -> float:
    """Total variation between two distributions of the violation count."""
    size = max(len(counts), len(others))
    return float(0.5 * np.abs(np.pad(counts, (0, size - len(counts))) - np.pad(others, (0, size - len(others)))).sum())


def run_of(method: str, seed: int = 1, steps: int = 250_000, **settings) -> Run:
    return Run("temptation", DILEMMA, method, settings, seed, 1.0, steps, config=TEMPTATION_PPO)


def trained(runs: list[Run], out: Path, files: dict[str, bytes] | None = None) -> pd.DataFrame:
    """The first episodes of these agents."""
    from perepisode.evaluation.rollout import Agent, evaluate_agents
    from perepisode.training.train import TrainingOptions, train

    folders = train(runs, TrainingOptions(out, chunk=50, files=files or {}))
    table = evaluate_agents([Agent.of(folder) for folder in folders], EvalConfig(256, 40, 12))
    return table[table["in_first"]].reset_index(drop=True)


def pool(work: Path) -> None:
    """Episodes of the unconstrained agent and of SER (scalarised expected returns) agents at six weights."""
    runs = [run_of("unconstrained"), *(run_of("ser", weight=weight) for weight in POOL_WEIGHTS)]
    table = trained(runs, work / "pool")
    table = table[table["env_index"] < 64].reset_index(drop=True)
    episodes.write(table, work / "pool.parquet")
    found = table.groupby("arm")["violations"].value_counts().unstack(fill_value=0)
    write_csv(found.reset_index(), "pool.csv")


def curve(work: Path, seeds: int) -> None:
    """Regret of the optimal policy for a utility fitted to so many labels, with active and with random pairs."""
    table, best, rows = episodes.read(work / "pool.parquet"), optimum(), []
    unlabelled = of_policy_for(lambda r, v: r + 0.0 * v)
    for seed in range(seeds):
        for strategy in ("active", "random"):
            chooser = PairChooser(table, DILEMMA, seed, strategy)
            labels = raters.simulate(table, chooser, raters.LENIENT, max(SIZES), seed=seed)
            for size in SIZES:
                fitted = fit.fit(labels[:size], monotone=True, ensemble=0)
                policy = of_policy_for(fitted.u)
                rows.append({
                    "strategy": strategy, "seed": seed, "labels": size,
                    "regret": (best.utility - policy.utility) / (best.utility - unlabelled.utility),
                    "total_variation": distance(policy.counts, best.counts), "p_over": policy.p_over(BUDGET),
                    "orders_pool": orders(fitted, table),
                })  # fmt: skip
            print(pd.DataFrame(rows[-len(SIZES) :]).round(4).to_string(index=False), flush=True)
    write_csv(pd.DataFrame(rows), "curve.csv")


def orders(fitted: fit.Preferences, table: pd.DataFrame) -> float:
    """Share of random pairs of the pool that the fitted utility orders as the rater does, without ties."""
    returns, counts = table["return"].to_numpy(float), table["violations"].to_numpy(float)
    a, b = np.random.default_rng(99).integers(len(table), size=(2, 5000))
    rule = distill.preferred(returns[a], counts[a], returns[b], counts[b], raters.LENIENT.tolerance)
    own = np.sign(fitted.u(returns[a], counts[a]) - fitted.u(returns[b], counts[b]))
    return float((own == rule)[rule != 0].mean())


def train(work: Path) -> None:
    """Labels of the lenient rater → `perepisode distill --labels --monotone` → esr_distilled on five seeds."""
    table, path = episodes.read(work / "pool.parquet"), work / "lenient.jsonl"
    labels = raters.simulate(table, PairChooser(table, DILEMMA, seed=0), raters.LENIENT, LABELS)
    path.unlink(missing_ok=True)
    for label in labels:
        labels_file.append(path, label)
    content = fit.distill_labels([path], work / "utility.json", monotone=True).read_bytes()
    files = {safe_io.digest(content): content}
    runs = [run_of("esr_distilled", seed, STEPS, utility=safe_io.digest(content)) for seed in SEEDS]
    rows = [{"agent": "exact optimum", **measured(best := optimum(), best)}]
    programme = of_policy_for(fit.fit(labels, monotone=True, ensemble=0).u)
    rows += [{"agent": "exact optimum of the fitted utility", **measured(programme, best)}]
    for seed, own in trained(runs, work / "trained", files).groupby("seed"):
        counts = np.bincount(own["violations"]) / len(own)
        utility = float(truth(own["return"].to_numpy(float), own["violations"].to_numpy(float)).mean())
        found = exact.Exact(float(own["return"].mean()), utility, counts)
        rows.append({"agent": f"seed {seed}", **measured(found, best), "episodes": len(own)})
    print(pd.DataFrame(rows).round(4).to_string(index=False))
    write_csv(pd.DataFrame(rows), "trained.csv")


def measured(found: exact.Exact, best: exact.Exact) -> dict[str, float]:
    shares = np.pad(found.counts, (0, 3))[:3]
    return {
        "return": found.mean_return,
        "utility": found.utility,
        "utility_share": found.utility / best.utility,
        **{f"p_{count}": share for count, share in enumerate(shares)},
        "p_over": found.p_over(BUDGET),
        "total_variation": distance(found.counts, best.counts),
    }


def agreement_of_raters(work: Path) -> None:
    """Agreement within a rater and between two, who flip an answer with probability p."""
    table, rows = episodes.read(work / "pool.parquet"), []
    for p in (0.0, 0.1, 0.2, 0.5):
        labels = []
        for number, name in enumerate(("A", "B")):
            chooser = PairChooser(table, DILEMMA, seed=7, strategy="random", repeat_share=0.4)
            rater = raters.Noisy(raters.LENIENT, p)
            labels = raters.simulate(table, chooser, rater, 300, name, seed=number, labels=labels)
        for kind, one in (("within", fit.agreement.within(labels)), ("between", fit.agreement.between(labels))):
            rows.append({"flips": p, "agreement": kind, **one.to_json()})
    print(pd.DataFrame(rows).round(3).to_string(index=False))
    write_csv(pd.DataFrame(rows), "agreement.csv")


def refused(work: Path) -> None:
    """Made-up pools whose worst episode has one violation, which pays, and a rater who looks at the return only.

    Return and violations rise together, so labels hardly say which of the two the rater likes.
    """
    rows = []
    for pay in (3, 6):
        for seed in range(20):
            labels = labels_of_thin_pool(pay, seed)
            found = fit.fit(labels, monotone=False, ensemble=0).inversions
            monotone = fit.fit(labels, monotone=True, ensemble=0).inversions
            inside, outside = ([one for one in found if one.supported is where] for where in (True, False))
            rows.append({
                "pay": pay, "seed": seed, "refused": bool(inside), "inverted_outside": bool(outside),
                "three_above_one": any((one.fewer, one.more) == (1, 3) for one in outside),
                "monotone_inverted": bool(monotone),
            })  # fmt: skip
    write_csv(pd.DataFrame(rows), "refused.csv")
    print(pd.DataFrame(rows).groupby("pay").mean())
    first = next(row for row in rows if row["refused"] and row["three_above_one"])
    path = work / "thin.jsonl"
    path.unlink(missing_ok=True)
    for label in labels_of_thin_pool(first["pay"], first["seed"]):
        labels_file.append(path, label)
    try:
        fit.distill_labels([path], RESULTS / "refused.json")
    except ConfigError as error:
        (RESULTS / "refused.txt").write_text(f"{error}\n")
        print(error)


def labels_of_thin_pool(pay: float, seed: int) -> list[labels_file.Label]:
    random = np.random.default_rng(seed)
    violations = (random.random(300) < 0.5).astype(int)
    returns = 36 + pay * violations + random.normal(0, 2, 300)
    columns = {"method": "made up", "seed": 1, "return": returns, "violations": violations, "dilemma": DILEMMA}
    table = episodes.complete(pd.DataFrame(columns))
    return raters.simulate(table, PairChooser(table, DILEMMA, seed, "random"), raters.RETURN_ONLY, 120)


def write_csv(table: pd.DataFrame, name: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    table.to_csv(RESULTS / name, index=False, float_format="%.6g")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pool", "curve", "train", "agreement", "refused"))
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "preferences")
    parser.add_argument("--seeds", type=int, default=6, help="of the curve")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    steps = {"pool": pool, "train": train, "agreement": agreement_of_raters, "refused": refused}
    steps["curve"] = partial(curve, seeds=given.seeds)
    steps[given.what](given.work)


if __name__ == "__main__":
    main()
