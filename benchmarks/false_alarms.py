"""How often a report claims a difference in CVaR between identical agents, and how often it finds a true one.

    python benchmarks/false_alarms.py > results/false_alarms.md        # half an hour next to other work

Every file is a simulated table of agents with several seeds and episodes per seed.  Seeds of one agent differ, as those
of trained agents do: each seed scales the distribution of the costs per episode by its own random factor.  In the first
table all agents have the same distribution, so every claim is false.  In the second, one agent has the same mean as the
others and twice their CVaR, so a claim about it is true.  The comparison is the report's own (`statistics.pairs`).
"""

import argparse
import itertools
from collections.abc import Callable

import numpy as np

from perepisode.evaluation import compare
from perepisode.report.cost_measure import NAN, CostMeasure
from perepisode.report.statistics import matched, pairs
from perepisode.report.statistics.points import Point, Seed, View

EPISODES = 100
SPREAD = 0.15  # of the seeds of one agent, as a share of their mean
SEEDS, AGENTS = (3, 8), (2, 3, 4, 8)
Law = Callable[[np.random.Generator, float], np.ndarray]  # of one seed's episodes, with the seed's scale


def rare_counts(generator: np.random.Generator, scale: float) -> np.ndarray:
    return generator.poisson(0.15 * scale, EPISODES).astype(float)


def counts(generator: np.random.Generator, scale: float) -> np.ndarray:
    return generator.poisson(1.5 * scale, EPISODES).astype(float)


def lognormal_costs(generator: np.random.Generator, scale: float) -> np.ndarray:
    return scale * generator.lognormal(2.5, 1.2, EPISODES)


def pareto_costs(generator: np.random.Generator, scale: float) -> np.ndarray:
    return 10 * scale * (1 + generator.pareto(2.2, EPISODES))


def catastrophes(generator: np.random.Generator, scale: float) -> np.ndarray:
    """Small costs, and in two episodes of a hundred one of about 500."""
    struck = generator.random(EPISODES) < 0.02
    return scale * np.where(struck, generator.gamma(5.0, 100.0, EPISODES), generator.gamma(2.0, 5.0, EPISODES))


LAWS: tuple[Law, ...] = (rare_counts, counts, lognormal_costs, pareto_costs, catastrophes)


def even_costs(generator: np.random.Generator, scale: float) -> np.ndarray:
    """Mean 24, worst tenth 58."""
    return scale * generator.gamma(2.4, 10.0, EPISODES)


def twice_the_tail(generator: np.random.Generator, scale: float) -> np.ndarray:
    """Mean 24, worst tenth twice that of `even_costs`."""
    struck = generator.random(EPISODES) < 0.1
    return scale * np.where(struck, generator.gamma(12.0, 9.8, EPISODES), generator.gamma(2.0, 6.8, EPISODES))


def agent(name: str, law: Law, seeds: int, generator: np.random.Generator) -> Point:
    """A trained agent: returns of about 30, and one sample of the distribution per seed."""
    unknown, found = np.full(EPISODES, NAN), []
    for seed in range(seeds):
        costs = law(generator, float(generator.lognormal(0.0, SPREAD)))
        returns = generator.normal(generator.normal(30.0, 1.0), 4.0, EPISODES)
        found.append(Seed(seed, f"{name} {seed}", NAN, costs, returns, unknown, unknown, {}))
    budget = 1.0 if name == "esr" else NAN
    measure = CostMeasure.of((seed.counts for seed in found), NAN, 0.1, "cost")
    return Point(name, "", budget, NAN, "exact", True, "", tuple(found), measure)


def table(laws: list[Law], seeds: int, generator: np.random.Generator, focal: bool = False) -> View:
    """One agent per distribution; with `focal` the first has a per-episode budget, so it is specified in advance."""
    names = ["esr" if focal and not index else f"agent {index}" for index in range(len(laws))]
    points = tuple(agent(name, law, seeds, generator) for name, law in zip(names, laws))
    return View("violations", "first", "exact", points, points[0].measure, True)


def claims(view: View) -> list[pairs.Pair]:
    """The pairs for which the report claims a higher CVaR."""
    return [pair for pair in pairs.compared(view) if pair.differ]


def uncorrected(view: View) -> bool:
    """What went before: the lightest tail tested against each other one, without a correction."""
    chosen = min(view.main, key=lambda point: point.tail.mean)
    tests = [compare.welch(point.tails, chosen.tails) for point in view.main if point is not chosen]
    return any(test.p < pairs.SIGNIFICANT for test in tests)


def false_alarms(law: Law, agents: int, seeds: int, files: int, focal: bool = False, seed: int = 0) -> tuple[int, int]:
    """Of so many files of agents that are alike: those with a claim, and those with one by the uncorrected rule."""
    generator = np.random.default_rng([seed, agents, seeds, LAWS.index(law), focal])
    views = (table([law] * agents, seeds, generator, focal) for _ in range(files))
    found = [(bool(claims(view)), uncorrected(view)) for view in views]
    return sum(claimed for claimed, _ in found), sum(before for _, before in found)


def power(agents: int, seeds: int, files: int, focal: bool = False, seed: int = 0) -> int:
    """Of so many files with one agent of twice the tail: those that say so of the first agent and that one."""
    generator = np.random.default_rng([seed, agents, seeds, 99, focal])
    laws: list[Law] = [even_costs] * (agents - 1) + [twice_the_tail]
    found = 0
    for _ in range(files):
        view = table(laws, seeds, generator, focal)
        heavy = view.main[-1] if view.main[-1].method != "esr" else view.main[0]
        found += any(
            pair.heavier is heavy and matched.is_matched(matched.VIOLATIONS, *pair[:2]) for pair in claims(view)
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5000, help="simulated tables per row")
    files = parser.parse_args().files
    print("# False alarms and power\n")
    about = f"{files} simulated tables per row, {EPISODES} episodes per seed"
    print(f"By `benchmarks/false_alarms.py --files {files}`: {about}.\n")
    print("## Identical agents: tables with a falsely claimed higher CVaR\n")
    print("| distribution | seeds | agents | all matched pairs | agent specified in advance | earlier rule |")
    print("|---|---:|---:|---:|---:|---:|")
    for law, seeds, agents in itertools.product(LAWS, SEEDS, AGENTS):
        pairwise, before = false_alarms(law, agents, seeds, files)
        fixed, _ = false_alarms(law, agents, seeds, files, focal=True)
        shares = " | ".join(f"{100 * one / files:.1f} %" for one in (pairwise, fixed, before))
        print(f"| {law.__name__.replace('_', ' ')} | {seeds} | {agents} | {shares} |", flush=True)
    print("\nEarlier rule: the agent with the lowest CVaR against every other one, uncorrected.")
    print("\n## One agent with the same mean and twice the CVaR: tables that claim it\n")
    print("| seeds | agents | all matched pairs | agent specified in advance |\n|---:|---:|---:|---:|")
    for seeds, agents in itertools.product(SEEDS, AGENTS):
        found = [power(agents, seeds, files, focal) for focal in (False, True)]
        print(f"| {seeds} | {agents} | {' | '.join(f'{100 * one / files:.0f} %' for one in found)} |", flush=True)


if __name__ == "__main__":
    main()
