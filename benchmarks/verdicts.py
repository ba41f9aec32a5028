"""False alarms and power of the verdicts in `perepisode.evaluation.verdicts`, before and after, on made-up tables.

    nice python benchmarks/verdicts.py                # all tables of results/verdicts, twenty minutes on one core
    nice python benchmarks/verdicts.py candidates     # one of them, and the page

Seeds of one agent differ, as trained agents do: each seed scales what an episode costs by a lognormal number of its
own (`SPREADS`), and the rate of catastrophes differs between seeds too.  *Before* is the report's rule up to 0.2:
Welch's test of CVaR 10 % over seeds.  *After* is the primary test, `verdicts.tail_tests`.  Both compare all pairs of
agents and are corrected by Holm.

The tables of one cell are judged together, by the same functions that `tail_tests` calls
(tests/evaluation/test_verdicts.py checks that both ways agree).
"""

import argparse
import csv
import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, stdtr

from perepisode import metrics
from perepisode.evaluation import compare, verdicts

OUT = Path(__file__).parents[1] / "results" / "verdicts"
TABLES, BATCH = 2000, 2e7  # tables per cell; numbers that are drawn at once
WORDS = (verdicts.EQUIVALENT, verdicts.DIFFERENT, verdicts.UNDECIDED)
SPREADS = {"alike": 0.03, "differ": 0.15, "differ much": 0.5}
Draw = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]  # scales[..., seed, 1] → costs[..., seed, episode]


# ---- made-up agents -----------------------------------------------------------------------------------------


def rare_counts(generator, scale, episodes):
    return generator.poisson(0.15 * scale, (*scale.shape[:-1], episodes)).astype(float)


def counts(generator, scale, episodes):
    return generator.poisson(1.5 * scale, (*scale.shape[:-1], episodes)).astype(float)


def light_costs(generator, scale, episodes):
    return scale * generator.gamma(2.4, 10.0, (*scale.shape[:-1], episodes))


def lognormal_costs(generator, scale, episodes):
    return scale * generator.lognormal(2.5, 1.2, (*scale.shape[:-1], episodes))


def pareto_costs(generator, scale, episodes):
    return 10 * scale * (1 + generator.pareto(2.2, (*scale.shape[:-1], episodes)))


def uneven_catastrophes(generator, scale, episodes):
    """Two catastrophes in a hundred episodes on average; the rate of a seed varies by a half of that."""
    rate = 0.02 * generator.gamma(4.0, 0.25, scale.shape)
    return scale * _catastrophic(generator, scale, episodes, rate)


def even(generator, scale, episodes):
    """Mean 20: the ordinary agents of examples/catastrophes."""
    return scale * generator.lognormal(math.log(20) - 0.83**2 / 2, 0.83, (*scale.shape[:-1], episodes))


def catastrophes(generator, scale, episodes):
    """Mean 20, of which two episodes in a hundred make most: the fourth agent of examples/catastrophes."""
    return scale * _catastrophic(generator, scale, episodes, 0.02)


def _catastrophic(generator, scale, episodes, rate):
    shape = (*scale.shape[:-1], episodes)
    harm = generator.lognormal(math.log(640) - 1.25**2 / 2, 1.25, shape)
    ordinary = generator.lognormal(math.log(7.35) - 0.6**2 / 2, 0.6, shape)
    return np.where(generator.random(shape) < rate, harm, ordinary)


def twice_costs(generator, scale, episodes):
    """Mean 24 and worst tenth 116; `light_costs` have 24 and 58."""
    shape = (*scale.shape[:-1], episodes)
    struck = generator.random(shape) < 0.1
    return scale * np.where(struck, generator.gamma(12.0, 9.8, shape), generator.gamma(2.0, 6.8, shape))


def twice_counts(generator, scale, episodes):
    """Mean 1.5 and worst tenth 8.4; `counts` have 1.5 and 4.2."""
    shape = (*scale.shape[:-1], episodes)
    struck = generator.random(shape) < 0.1
    return np.where(struck, generator.poisson(8.3 * scale, shape), generator.poisson(0.744 * scale, shape)) * 1.0


def bursts(generator, scale, episodes):
    """Mean 0.15, nearly all in one episode of twenty; `rare_counts` spread it evenly."""
    shape = (*scale.shape[:-1], episodes)
    struck = generator.random(shape) < 0.05
    return np.where(struck, generator.poisson(2.8 * scale, shape), generator.poisson(0.01 * scale, shape)) * 1.0


LAWS: dict[str, tuple[Draw, float]] = {  # of agents that are all alike, and the limit of P(> limit)
    "rare counts": (rare_counts, 0),
    "counts": (counts, 3),
    "light-tailed costs": (light_costs, 50),
    "lognormal costs": (lognormal_costs, 100),
    "Pareto costs": (pareto_costs, 50),
    "catastrophes": (uneven_catastrophes, 100),
}


class Case(NamedTuple):
    """One agent that has a heavier tail than the others, which are alike and have the same mean."""

    others: Draw
    odd: Draw
    spread: float
    episodes: int = 300


CASES = {
    "catastrophes": Case(even, catastrophes, 0.02),
    "catastrophes, seeds differ": Case(even, uneven_catastrophes, 0.15),
    "catastrophes, 1000 episodes": Case(even, catastrophes, 0.02, 1000),
    "twice the tail, counts": Case(counts, twice_counts, 0.15),
    "twice the tail, counts, 100 episodes": Case(counts, twice_counts, 0.15, 100),
    "twice the tail, costs": Case(light_costs, twice_costs, 0.15),
    "twice the tail, costs, 100 episodes": Case(light_costs, twice_costs, 0.15, 100),
    "bursts of rare counts": Case(rare_counts, bursts, 0.15),
}


def draw(case: Case, seeds: list[int], tables: int, *key: object) -> Iterator[list[np.ndarray]]:
    """Batches of tables: of each agent costs[table, seed, episode]; the last agent is the odd one."""
    generator = np.random.default_rng(zlib.crc32(repr((*key, seeds, case.episodes)).encode()))
    size = max(1, int(BATCH / (sum(seeds) * case.episodes)))
    for start in range(0, tables, size):
        number, agents = min(size, tables - start), []
        for index, own in enumerate(seeds):
            law = case.odd if index == len(seeds) - 1 else case.others
            scale = generator.lognormal(0.0, case.spread, (number, own, 1))
            agents.append(law(generator, scale, case.episodes))
        yield agents


# ---- tests on batches of tables -----------------------------------------------------------------------------

Judged = tuple[np.ndarray, np.ndarray]  # p[pair, table], direction[pair, table]: 1 if the second is heavier


def by_primary(agents: list[np.ndarray]) -> Judged:
    """`verdicts.tail_tests` on a batch."""
    levels = verdicts.tail_levels(agents[0].shape[-1])
    cvars = [verdicts.level_cvars(agent, levels) for agent in agents]
    totals = [(agent.sum((1, 2)), (agent > 0).sum((1, 2))) for agent in agents]

    def pair(i: int, j: int) -> Judged:
        (total_a, often_a), (total_b, often_b) = totals[i], totals[j]
        added = verdicts.offsets(total_a + total_b, often_a + often_b, levels, agents[0].shape[-1])[:, None]
        return verdicts.combined(*(np.log(cvars[index] + added).swapaxes(1, 2) for index in (i, j)))

    return each_pair(len(agents), pair)


def by_welch(agents: list[np.ndarray], alpha: float = 0.1, log: bool = False) -> Judged:
    """Today's rule; or the same on the logarithm at some level."""
    size = metrics.tail_size(agents[0].shape[-1], alpha)
    cvars = [np.partition(agent, agent.shape[-1] - size)[..., agent.shape[-1] - size :].mean(-1) for agent in agents]
    if log:
        cvars = [np.log(cvar + 1 / size) for cvar in cvars]
    return each_pair(len(agents), lambda i, j: welch(cvars[i], cvars[j]))


def by_share(agents: list[np.ndarray], limit: float) -> Judged:
    """`verdicts.share_tests` on a batch."""
    over = [(agent > limit).sum(-1) for agent in agents]
    episodes = [np.full(agent.shape[1], agent.shape[2]) for agent in agents]

    def pair(i: int, j: int) -> Judged:
        p = verdicts.exceedance_p(over[i], episodes[i], over[j], episodes[j])
        return p, np.sign(over[j].mean(-1) - over[i].mean(-1))

    return each_pair(len(agents), pair)


def each_pair(agents: int, test: Callable[[int, int], Judged]) -> Judged:
    p, direction = zip(*(test(i, j) for i, j in itertools.combinations(range(agents), 2)))
    return np.array(p), np.array(direction)


def welch(a: np.ndarray, b: np.ndarray) -> Judged:
    p, _, _ = verdicts._welch(a, b, capped=False)
    return p, np.sign(b.mean(-1) - a.mean(-1))


def holm(p: np.ndarray) -> np.ndarray:
    """`compare.holm` of p[pair, table]."""
    order = np.argsort(p, axis=0)
    steps = np.take_along_axis(p, order, 0) * np.arange(len(p), 0, -1)[:, None]
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, np.minimum(1, np.maximum.accumulate(steps, axis=0)), 0)
    return corrected


def flagged(judged: Judged, agents: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each table: whether any two agents are told apart, and whether the last is called heavier than another."""
    p, direction = judged
    found = holm(p) < verdicts.SIGNIFICANT
    last = [number for number, (_, j) in enumerate(itertools.combinations(range(agents), 2)) if j == agents - 1]
    return found.any(0), (found & (direction > 0))[last].any(0)


def wrongly(judged: Judged, agents: int) -> np.ndarray:
    """Of each table with an odd agent: whether any two of the others, which are alike, are told apart."""
    found = holm(judged[0]) < verdicts.SIGNIFICANT
    others = [number for number, (_, j) in enumerate(itertools.combinations(range(agents), 2)) if j < agents - 1]
    return found[others].any(0)


# ---- candidates ---------------------------------------------------------------------------------------------


def pooled_counts(a: np.ndarray, b: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each seed: episodes above the level that this share of the pair's episodes exceeds."""
    both = np.concatenate([one.reshape(len(one), -1) for one in (a, b)], axis=1)
    rank = both.shape[1] - 1 - max(1, round(share * both.shape[1]))
    level = np.partition(both, rank, axis=1)[:, rank][:, None, None]
    return (a > level).sum(-1), (b > level).sum(-1)


def by_exceedance(agents: list[np.ndarray], share: float = 0.01) -> Judged:
    """Welch's test on square roots of the counts above a pooled level."""

    def pair(i: int, j: int) -> Judged:
        return welch(*(np.sqrt(one) + np.sqrt(one + 1) for one in pooled_counts(agents[i], agents[j], share)))

    return each_pair(len(agents), pair)


def by_quasi_binomial(agents: list[np.ndarray], share: float = 0.01) -> Judged:
    """F test of the deviance over a dispersion of at least one."""
    episodes = agents[0].shape[-1]

    def log_likelihood(over: np.ndarray, rate: np.ndarray) -> np.ndarray:
        rate = np.clip(rate, 1e-12, 1 - 1e-12)[:, None]
        return (over * np.log(rate) + (episodes - over) * np.log1p(-rate)).sum(1)

    def pair(i: int, j: int) -> Judged:
        over = pooled_counts(agents[i], agents[j], share)
        rates = [one.mean(1) / episodes for one in over]
        both = np.concatenate(over, axis=1)
        deviance = sum(log_likelihood(one, rate) for one, rate in zip(over, rates))
        deviance = 2 * (deviance - log_likelihood(both, both.mean(1) / episodes))
        pearson = 0.0
        for one, rate in zip(over, rates):
            rate = np.clip(rate, 1e-9, 1 - 1e-9)[:, None]
            pearson = pearson + ((one - episodes * rate) ** 2 / (episodes * rate * (1 - rate))).sum(1)
        freedom = both.shape[1] - 2
        t = np.sqrt(np.maximum(deviance, 0) / np.maximum(pearson / freedom, 1))
        return 2 * stdtr(freedom, -t), np.sign(rates[1] - rates[0])

    return each_pair(len(agents), pair)


def by_beta_binomial(agents: list[np.ndarray], share: float = 0.01) -> Judged:
    """Likelihood ratio of beta-binomial counts with one overdispersion, against chi squared; by a grid."""
    episodes = agents[0].shape[-1]
    rates = np.geomspace(2e-4, 0.2, 50)[:, None]
    concentration = np.geomspace(3, 1e5, 25)
    first, second = rates * concentration, (1 - rates) * concentration

    def log_likelihood(over: np.ndarray) -> np.ndarray:  # [rate, concentration]
        over = over[:, None, None]
        beta = gammaln(over + first) + gammaln(episodes - over + second) - gammaln(episodes + first + second)
        return (beta - gammaln(first) - gammaln(second) + gammaln(first + second)).sum(0)

    def pair(i: int, j: int) -> Judged:
        over_a, over_b = pooled_counts(agents[i], agents[j], share)
        deviance = np.empty(len(over_a))
        for table, counted in enumerate(zip(over_a, over_b)):
            a, b = map(log_likelihood, counted)
            deviance[table] = 2 * ((a.max(0) + b.max(0)).max() - (a + b).max())
        p = 2 * stdtr(1e9, -np.sqrt(np.maximum(deviance, 0)))
        return p, np.sign(over_b.mean(1) - over_a.mean(1))

    return each_pair(len(agents), pair)


def _log_cvars(agents: list[np.ndarray], levels: np.ndarray) -> list[np.ndarray]:
    return [np.log(verdicts.level_cvars(agent, levels) + 1 / agent.shape[-1] / levels) for agent in agents]


def by_permutation(agents: list[np.ndarray]) -> Judged:
    """Exact permutation of a pair's seeds between the two agents; the statistic is the mean log CVaR 2 %."""
    logs = [log[..., 0] for log in _log_cvars(agents, np.array([0.02]))]

    def pair(i: int, j: int) -> Judged:
        both, size = np.concatenate([logs[i], logs[j]], axis=1), logs[i].shape[1]
        if math.comb(both.shape[1], size) > 2e4:
            chosen = np.random.default_rng(0).random((20000, both.shape[1])).argsort(1)[:, :size]
        else:
            chosen = np.array(list(itertools.combinations(range(both.shape[1]), size)))
        member = np.zeros((len(chosen), both.shape[1]))
        np.put_along_axis(member, chosen, 1.0, 1)
        other = both.shape[1] - size
        apart = abs((both.sum(1)[:, None] - both @ member.T) / other - both @ member.T / size)
        observed = logs[j].mean(1) - logs[i].mean(1)
        return (apart >= abs(observed)[:, None] - 1e-9).mean(1), np.sign(observed)

    return each_pair(len(agents), pair)


def by_max_type(agents: list[np.ndarray], permutations: int = 400) -> Judged:
    """Westfall and Young: the largest |t| over pairs and levels against permutations of all seeds of the table."""
    levels = verdicts.tail_levels(agents[0].shape[-1])
    logs = np.concatenate(_log_cvars(agents, levels), axis=1)  # [table, seed, level]
    ends = np.cumsum([0, *(agent.shape[1] for agent in agents)])
    orders = [np.arange(ends[-1]), *(np.random.default_rng(k).permutation(ends[-1]) for k in range(permutations))]

    def statistics(order: np.ndarray) -> np.ndarray:  # t[pair, table, level]
        parts = [logs[:, order[start:stop]] for start, stop in itertools.pairwise(ends)]
        found = []
        for a, b in itertools.combinations(parts, 2):
            error = a.var(1, ddof=1) / a.shape[1] + b.var(1, ddof=1) / b.shape[1]
            found.append((b.mean(1) - a.mean(1)) / np.sqrt(error + 1e-12))
        return np.array(found)

    observed = statistics(orders[0])
    largest = np.array([abs(statistics(order)).max((0, 2)) for order in orders])
    strongest = np.take_along_axis(observed, abs(observed).argmax(-1)[..., None], -1)[..., 0]
    p = (largest[:, None] >= abs(strongest) - 1e-9).mean(0)
    return p / len(observed), np.sign(strongest)  # corrected already: `flagged` would correct once more


def by_bootstrap(agents: list[np.ndarray], resamples: int = 600) -> Judged:
    """Hierarchical bootstrap, seeds and then episodes, of the difference of mean log CVaR 2 %."""
    generator, level = np.random.default_rng(0), np.array([0.02])
    drawn = []
    for agent in agents:
        tables, seeds, episodes = agent.shape
        values = np.empty((tables, resamples))
        for table in range(tables):
            chosen = agent[table][generator.integers(seeds, size=(resamples, seeds))]
            picks = generator.integers(episodes, size=chosen.shape)
            (log,) = _log_cvars([np.take_along_axis(chosen, picks, -1)], level)
            values[table] = log[..., 0].mean(1)
        drawn.append(values)

    def pair(i: int, j: int) -> Judged:
        apart = drawn[j] - drawn[i]
        return 2 * np.minimum((apart <= 0).mean(1), (apart >= 0).mean(1)), np.sign(apart.mean(1))

    return each_pair(len(agents), pair)


CANDIDATES: dict[str, Callable[[list[np.ndarray]], Judged]] = {
    "Welch, CVaR 10 % (before)": by_welch,
    "Welch, log CVaR 10 %": lambda agents: by_welch(agents, 0.1, log=True),
    "Welch, log CVaR 2 %": lambda agents: by_welch(agents, 0.02, log=True),
    "Welch, log CVaR 1 %": lambda agents: by_welch(agents, 0.01, log=True),
    "**log CVaR at 10, 2, 1, 0.5 %, combined (after)**": by_primary,
    "Welch, √count above the pair's 99 % quantile": by_exceedance,
    "quasi-binomial F, the same counts": by_quasi_binomial,
    "beta-binomial likelihood ratio, the same counts": by_beta_binomial,
    "exact permutation of a pair's seeds, log CVaR 2 %": by_permutation,
    "largest t over pairs and levels, permuted seeds": by_max_type,
    "hierarchical bootstrap, log CVaR 2 %": by_bootstrap,
}
SLOW = {by_beta_binomial: 4, by_max_type: 4, by_bootstrap: 20}  # one in so many tables


# ---- the tables ---------------------------------------------------------------------------------------------


def rate(found: list[np.ndarray]) -> float:
    return round(100 * float(np.concatenate(found).mean()), 2)


def false_alarms(tables: int = TABLES) -> Iterator[dict]:
    for (name, (law, limit)), (spread, size), episodes in itertools.product(LAWS.items(), SPREADS.items(), (300, 2000)):
        if episodes == 2000 and spread != "differ":
            continue
        for seeds, agents in itertools.product((3, 5, 8, (3, 8)), (2, 4, 8)):
            each = list(itertools.islice(itertools.cycle(np.atleast_1d(seeds).tolist()), agents))
            number = tables if episodes == 300 else tables // 2
            found: list[list[np.ndarray]] = [[], [], []]
            for batch in draw(Case(law, law, size, episodes), each, number, "alike", name, spread):
                for into, judged in zip(found, (by_welch(batch), by_primary(batch), by_share(batch, limit))):
                    into.append(flagged(judged, agents)[0])
            row = {"law": name, "seeds differ": spread, "episodes": episodes}
            row |= {"seeds": " and ".join(map(str, np.atleast_1d(seeds))), "agents": agents, "tables": number}
            yield row | dict(zip(("before", "after", "share"), map(rate, found)))


def largest_again(tables: int = TABLES) -> Iterator[dict]:
    """The cells of `false_alarms` above 5.5 %, with ten times the tables and draws of their own.

    The largest of some hundred cells is large by chance as well; a second draw is free of that choice.
    """
    for row in read("false_alarms"):
        if max(float(row["after"]), float(row["share"])) <= 5.5:
            continue
        law, limit = LAWS[row["law"]]
        case, agents = Case(law, law, SPREADS[row["seeds differ"]], int(row["episodes"])), int(row["agents"])
        each = list(itertools.islice(itertools.cycle(map(int, row["seeds"].split(" and "))), agents))
        found: list[list[np.ndarray]] = [[], [], []]
        for batch in draw(case, each, 10 * tables, "again", row["law"]):
            for into, judged in zip(found, (by_welch(batch), by_primary(batch), by_share(batch, limit))):
                into.append(flagged(judged, agents)[0])
        yield row | {"tables": 10 * tables} | dict(zip(("before", "after", "share"), map(rate, found)))


def unequal_episodes(tables: int = TABLES) -> Iterator[dict]:
    """Agents alike, of which every other has 2000 episodes per seed and the rest 300; through the public functions."""
    for (name, (law, limit)), agents in itertools.product(LAWS.items(), (2, 4)):
        found: list[list[bool]] = [[], [], []]
        for batch in draw(Case(law, law, 0.15, 2000), [5] * agents, tables, "unequal", name):
            for table in range(len(batch[0])):
                made = [list(agent[table][:, : 300 if index % 2 else 2000]) for index, agent in enumerate(batch)]
                tails = [[metrics.cvar(seed) for seed in agent] for agent in made]
                pairs = itertools.combinations(tails, 2)
                before = compare.holm([compare.welch(*pair).p for pair in pairs])
                after = [test.corrected for test in verdicts.tail_tests(made)]
                share = [test.corrected for test in verdicts.share_tests(made, limit)]
                for into, p in zip(found, (before, after, share)):
                    into.append(min(p) < verdicts.SIGNIFICANT)
        row = {"law": name, "seeds": 5, "agents": agents, "tables": len(found[0])}
        yield row | dict(zip(("before", "after", "share"), (rate([np.array(one)]) for one in found)))


def power(tables: int = TABLES) -> Iterator[dict]:
    for (name, case), agents, seeds in itertools.product(CASES.items(), (2, 4, 8), (3, 5, 8, 10, 15)):
        if seeds > 8 and not name.startswith("catastrophes"):
            continue
        found: list[list[np.ndarray]] = [[], [], []]
        for batch in draw(case, [seeds] * agents, tables, "odd", name):
            before, after = by_welch(batch), by_primary(batch)
            found[0].append(flagged(before, agents)[1])
            found[1].append(flagged(after, agents)[1])
            found[2].append(wrongly(after, agents))
        row = {"case": name, "episodes": case.episodes, "agents": agents, "seeds": seeds, "tables": tables}
        yield row | dict(zip(("before", "after", "wrong after"), map(rate, found)))


def candidates(tables: int = TABLES) -> Iterator[dict]:
    """Four agents and 300 episodes: power in two cases, and false alarms where seeds of heavy tails differ."""
    settings = {
        "catastrophes, 5 seeds": (CASES["catastrophes"], 5, True),
        "catastrophes, 10 seeds": (CASES["catastrophes"], 10, True),
        "twice the tail, counts, 3 seeds": (CASES["twice the tail, counts"], 3, True),
        "twice the tail, counts, 5 seeds": (CASES["twice the tail, counts"], 5, True),
        "alike: catastrophes, 5 seeds": (Case(uneven_catastrophes, uneven_catastrophes, 0.15), 5, False),
        "alike: counts, 5 seeds": (Case(counts, counts, 0.5), 5, False),
    }
    for name, test in CANDIDATES.items():
        row: dict = {"test": name}
        for setting, (case, seeds, odd) in settings.items():
            number = tables // SLOW.get(test, 1)
            found, others = [], []
            for batch in draw(case, [seeds] * 4, number, "candidates", setting):
                judged = test(batch)
                if test is by_max_type:
                    p, direction = judged
                    judged = np.where(p * len(p) < verdicts.SIGNIFICANT, 0.0, 1.0), direction
                found.append(flagged(judged, 4)[int(odd)])
                others.append(wrongly(judged, 4))
            row[setting] = rate(found)
            if case is CASES["catastrophes"]:
                row[f"{setting}: others told apart"] = rate(others)
        yield row


def share_intervals(tables: int = TABLES) -> Iterator[dict]:
    """How often the 95 % interval of P(> limit) covers the truth; seeds' shares follow a beta law."""
    for share, correlation, (seeds, episodes) in itertools.product(
        (0.002, 0.02, 0.2, 0.5), (0.0, 0.01, 0.05), ((3, 300), (5, 300), (8, 300), (5, 2000))
    ):
        generator = np.random.default_rng([round(1e4 * share), round(1e3 * correlation), seeds, episodes])
        rates = np.full((tables, seeds), share)
        if correlation:
            size = (1 - correlation) / correlation
            rates = generator.beta(share * size, (1 - share) * size, rates.shape)
        over, total = generator.binomial(episodes, rates), np.full(seeds, episodes)
        found = [verdicts._share(one, total) for one in over]
        covered = [np.array([one.low <= share <= one.high for one in found])]
        width = float(np.median([one.high - one.low for one in found]))
        row = {"share": share, "correlation within seeds": correlation, "seeds": seeds, "episodes": episodes}
        yield row | {"tables": tables, "covered": rate(covered), "median width": round(width, 4)}


def equivalences(tables: int = TABLES) -> Iterator[dict]:
    """The three words by true difference and seeds; seeds have standard deviation one."""
    for margin, apart, seeds in itertools.product((1.0, 2.0), (0.0, 0.5, 1.0, 2.0, 4.0), (3, 5, 10, 20)):
        generator = np.random.default_rng([round(10 * margin), round(10 * apart), seeds])
        a, b = generator.normal(0.0, 1.0, (tables, seeds)), generator.normal(apart, 1.0, (tables, seeds))
        found = [verdicts.equivalence(*pair, margin).verdict for pair in zip(a, b)]
        row = {"margin": margin, "true difference": apart, "seeds": seeds, "tables": tables}
        yield row | {word: round(100 * found.count(word) / tables, 2) for word in WORDS}


STAGES = {
    "candidates": candidates,
    "power": power,
    "false_alarms": false_alarms,
    "largest_again": largest_again,
    "unequal_episodes": unequal_episodes,
    "share_intervals": share_intervals,
    "equivalence": equivalences,
}


# ---- the page -----------------------------------------------------------------------------------------------


def read(name: str) -> list[dict]:
    path = OUT / f"{name}.csv"
    return list(csv.DictReader(path.open())) if path.exists() else []


def table_of(rows: list[dict], columns: dict[str, str]) -> str:
    """Rows as a Markdown table; `columns` maps headings to fields, those with a % are written in per cent."""

    def cell(row: dict, field: str) -> str:
        return f"{float(row[field[:-1]]):.1f} %" if field.endswith("%") else str(row[field])

    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(cell(row, field) for field in columns.values())} |\n" for row in rows)


def worst(rows: list[dict], by: tuple[str, ...], of: tuple[str, ...]) -> list[dict]:
    """For each group the mean and the largest of each rate."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[field] for field in by), []).append(row)
    found = []
    for key, members in groups.items():
        row: dict = dict(zip(by, key))
        for field in of:
            values = [float(member[field]) for member in members]
            row[field] = f"{np.mean(values):.1f} % ({max(values):.1f} %)"
        found.append(row)
    return found


RULES = {"before": "before", "after": "after", "P(> limit)": "share"}
RATES = {"before": "before%", "after": "after%"}


def page() -> str:
    alarms, powers, tried = read("false_alarms"), read("power"), read("candidates")
    cells = [float(row["after"]) for row in alarms]
    over = sum(cell > 6 for cell in cells)
    verb = "is" if over == 1 else "are"
    by_size = worst(alarms, ("seeds", "agents"), tuple(RULES.values()))
    by_law = worst(alarms, ("law", "seeds differ", "episodes"), tuple(RULES.values()))
    laws = {"cost of an episode": "law", "seeds of an agent": "seeds differ", "episodes": "episodes"}
    unequal = {"cost of an episode": "law", "agents": "agents", "tables": "tables"}
    four = [row for row in powers if row["agents"] == "4"]
    rest = [row for row in powers if row["agents"] != "4" and row["seeds"] in ("3", "5", "10")]
    found = {**RATES, "others told apart": "wrong after%"}
    settings = {field: f"{field}%" for row in tried[:1] for field in list(row)[1:]}
    shares = {"share": "share", "correlation": "correlation within seeds", "seeds": "seeds", "episodes": "episodes"}
    words = {field: field for field in ("margin", "true difference", "seeds")}
    words |= {word: f"{word}%" for word in WORDS}
    return f"""# Verdicts: false alarms and power

By `benchmarks/verdicts.py`, on made-up tables; the numbers of every cell are in the CSV files of this folder.

**Before** is Welch's test of CVaR 10 % (the mean over the worst 10 % of episodes) over seeds, the rule of the report
up to 0.2. **After** is the primary test of `perepisode.evaluation.verdicts`: Welch's test on the logarithm of the CVaR
at 10, 2, 1 and 0.5 % over seeds, combined over the four levels by Cauchy's rule, in both directions. Both compare all
pairs of agents and are corrected by Holm. Seeds are the unit of replication throughout.

## False alarms: agents that are all alike

Share of tables in which any two agents are told apart: the mean over cells and, in brackets, the largest cell. A cell
has {TABLES} tables (half as many for 2000 episodes), so that a rate of 5 % is known to within 1 %. Of the {len(cells)}
cells of the primary test the largest is {max(cells, default=math.nan):.1f} %, and {over} {verb} above 6 %. “3 and 8”:
every other agent has 3 seeds, the rest 8. P(> limit) is the test of `verdicts.share_tests` at one limit per law.

{table_of(by_size, {"seeds": "seeds", "agents": "agents", **RULES})}
Seeds scale the cost of an episode by a lognormal number with a standard deviation of
{", ".join(f"{size:g} ({name})" for name, size in SPREADS.items())}. The rate of catastrophes also varies by half.

{table_of(by_law, {**laws, **RULES})}
The largest of many cells is large by chance too. The cells in which the primary test or the test of P(> limit) is
above 5.5 %, drawn afresh with ten times the tables:

{table_of(read("largest_again"), {**laws, "seeds": "seeds", "agents": "agents", **RATES, "P(> limit)": "share%"})}
Every other agent with 2000 episodes per seed, the rest with 300; five seeds each. Seeds with 2000 episodes are cut into
subsets of 300, and the tests of all subsets are combined. Averaging a seed's subsets instead would make one agent known
much better than the other, and Welch's test then errs with heavy tails: 6.8 % with Pareto costs and two agents.

{table_of(read("unequal_episodes"), {**unequal, **RATES, "P(> limit)": "share%"})}
## Power: one agent of the same mean with a heavier tail

Share of tables in which the odd agent is found to have a heavier tail than at least one of the others, and in which
two of the others, which are alike, are told apart. “Catastrophes” is the case of `examples/catastrophes`: mean 20 for
all, and one agent with catastrophes of 640 in 2 % of its episodes. Four agents:

{table_of(four, {"case": "case", "episodes": "episodes", "seeds": "seeds", **found})}
Two and eight agents:

{table_of(rest, {"case": "case", "agents": "agents", "seeds": "seeds", **found})}
## How the primary test was chosen

Four agents, 300 episodes; {TABLES} tables a cell, {TABLES // 4} for the beta-binomial test and for permutations of all
seeds, {TABLES // 20} for the bootstrap. Power, except “others told apart” and “alike”, which are false alarms.

{table_of(tried, {"test": "test", **settings})}
- A test of CVaR 10 % loses its power to the size of single catastrophes. The logarithm takes most of that away.
- Deeper levels see rare catastrophes. The stated level sees tails that end at a bound, where the worst episodes of all
  agents are equal. The combination needs no choice between them and costs little against the best single level.
- Counts above a pooled level see catastrophes, and little else with few seeds or few episodes.
- A bootstrap with five seeds understates their spread, and so does a beta-binomial likelihood ratio against its
  asymptotic law: both raise false alarms.
- Exact permutation of a pair's seeds has more power with 4 × 5 seeds: its smallest p, 2 / 252, times six comparisons is
  0.048. With 3 + 3 seeds it cannot reach p < 0.1, and among eight agents of 5 seeds it can find nothing.
- Permuting all seeds of a table has the most power and is right if all agents are alike. Beside one agent that is not,
  it tells the others apart far too often.

## Intervals of P(> limit)

How often the 95 % interval covers the truth. Seeds' own shares follow a beta law with this correlation within seeds.
Coverage fails where nearly all that exceeds the limit falls into rare seeds (0.002 at a correlation of 0.01
or more): seeds that were not trained cannot be seen in those that were.

{table_of(read("share_intervals"), {**shares, "covered": "covered%", "median width": "median width"})}
## Equivalent, different, undecided

Seeds with standard deviation one. *Equivalent* is wrong at a true difference equal to the margin or beyond, and
*different* at none: both in at most 5 % of cases.

{table_of(read("equivalence"), words)}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stages = f"{', '.join(STAGES)}, or page, which reads the CSV files; all by default"
    parser.add_argument("stages", nargs="*", default=list(STAGES), metavar="stage", help=stages)
    parser.add_argument("--tables", type=int, default=TABLES, help="made-up tables per cell")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for name in (stage for stage in arguments.stages if stage != "page"):
        with (OUT / f"{name}.csv").open("w", newline="") as file:
            writer = None
            for row in STAGES[name](arguments.tables):
                if writer is None:
                    writer = csv.DictWriter(file, list(row), lineterminator="\n")
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
        print(f"wrote {OUT / f'{name}.csv'}", flush=True)
    (OUT / "README.md").write_text(page())


if __name__ == "__main__":
    main()
