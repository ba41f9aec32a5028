"""What a reader must know before trusting a finding: each caveat that the data calls for, in one sentence."""

from collections.abc import Iterator

import numpy as np

from perepisode import metrics
from perepisode.config import PPOConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.report import measurement
from perepisode.report.formatting import count, number, percent
from perepisode.report.statistics import matched
from perepisode.report.statistics.pairs import Pair
from perepisode.report.statistics.points import BINDING_SHARE, PROTOCOLS, Episodes, Point, View
from perepisode.report.style import dilemma_name, reference_of
from perepisode.settings import differing, of

FEW_SEEDS = 5
COLLAPSED = 0.7  # a seed below this share of its siblings' median return
UNLIKE = 0.05  # of the largest mean of an agent's seeds: below it a seed does not do what the others do
BY_CHANCE = 5  # episodes with harm that a seed would have had if it did: fewer may be missed by chance


def all_of(episodes: Episodes, views: list[View], first: View, found: list[Pair]) -> list[str]:
    """Those of the view that the headline is about, then those of the whole study."""
    told = [*_tests(first, found), *_tails(first), *_studied(views)]
    return [*told, *_protocol(episodes, views), *_runs(episodes, views)]


def _tests(view: View, found: list[Pair]) -> Iterator[str]:
    """What was fixed beforehand, and for how many comparisons p is corrected."""
    chosen, tested = matched.focal(view), sum(pair.p == pair.p for pair in found)
    assert chosen is not None
    if not matched.fixed(view) and len(view.main) > 1:
        yield (
            f"No agent was fixed beforehand. {chosen.label} comes first in figures because the data gave it the "
            "lightest tail; tests compare all pairs at the same mean."
        )
    if tested > 1:
        yield f"p values are corrected for {tested} comparisons (Holm)."
    if matched.fixed(view) and (apart := matched.unmatched(chosen, matched.partners(view, chosen))):
        listed = ", ".join(f"{point.label} {number(point.mean_return)}" for point in apart)
        reached = [point for point in apart if matched.interpolated(view, chosen, point.method).tail is not None]
        remedy = "; the interpolated table compares at the same one" if reached else ""
        yield f"Not the same return as {chosen.label} ({number(chosen.mean_return)}): {listed}{remedy}."


def _tails(view: View) -> Iterator[str]:
    chosen = matched.focal(view)
    assert chosen is not None
    compared = (chosen, *matched.partners(view, chosen))
    smallest = min(compared, key=lambda point: point.tail_episodes)
    text = f"The CVaR of {smallest.label} rests on {smallest.tail_episodes} of {smallest.episodes} episodes"
    if chosen.budget == chosen.budget:
        over = sum(int((seed.counts > chosen.budget).sum()) for seed in chosen.seeds)
        text += f"; {over} episodes of {chosen.label} are over its budget"
    yield text + "."
    if len(compared) == 1:
        yield "No other method to match with, so nothing here is a comparison at equal return."
    flat = [point.label for point in compared if point.tails.size > 1 and np.ptp(point.tails) == 0]
    if flat:
        yield f"All seeds of {', '.join(flat)} have the same CVaR; an interval of zero is not certainty."


def _studied(views: list[View]) -> Iterator[str]:
    counts = {len(point.seeds) for view in views for point in view.main}
    if counts == {1}:
        yield "One seed only: no interval and no test is possible, and none is shown."
    elif min(counts) < FEW_SEEDS:
        span = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        yield f"Few seeds ({span} an agent): intervals are wide, and only large differences are found."
    for view in views:
        name = dilemma_name(view.dilemma)
        if view.unconstrained is not None and not view.binds:
            share = percent(view.unconstrained.interval(metrics.p_any).mean)
            yield f"{name} does not bind: the unconstrained agent violates in {share} of episodes."


def _protocol(episodes: Episodes, views: list[View]) -> Iterator[str]:
    lengths = {name: episodes.mean_length(name) for name in PROTOCOLS}
    if views[0].protocol == "window":
        yield "Only episodes that finished inside a fixed window were kept: long ones are under-represented."
    elif lengths["window"] < 0.99 * lengths["first"]:
        yield (
            f"The paper's window favours short episodes ({lengths['window']:.0f} steps on average); numbers here are "
            f"of the first episodes of every world ({lengths['first']:.0f})."
        )
    if episodes.unfinished:
        yield f"{episodes.unfinished} unfinished episodes are left out."
    shares = []
    for view in views:
        missed = measurement.missed(episodes, view.dilemma)
        if missed is not None and (missed.frame["missed_share"].to_numpy() > 0).any():
            total = np.average(missed.frame["missed_share"], weights=missed.frame["violations"])
            shares.append(f"{percent(total)} ({dilemma_name(view.dilemma)})")
    if shares:
        yield f"The paper's detector misses {', '.join(shares)} of the violations; ours are exact counts."


def _runs(episodes: Episodes, views: list[View]) -> Iterator[str]:
    points = [(view, point) for view in views for point in view.main]
    steps = sorted(
        {
            seed.total_timesteps
            for _, point in points
            for seed in point.seeds
            if seed.total_timesteps == seed.total_timesteps
        }
    )
    if len(steps) > 1:
        yield f"Agents were trained for different numbers of steps, from {count(steps[0])} to {count(steps[-1])}."
    reference = reference_of(episodes.environment)
    if steps and reference and (caveat := reference.caveat(steps[-1])):
        yield caveat
    env = ENVIRONMENTS.get(episodes.environment)
    shared = {*of(PPOConfig), *(of(env) if env else ())}
    if unlike := {name: told for name, told in differing(episodes.settings).items() if name in shared}:
        said = {name: " or ".join(sorted(one or "left out" for one in told)) for name, told in unlike.items()}
        listed = ", ".join(f"{name} is {values}" for name, values in said.items())
        yield f"Not all agents were trained alike: {listed}."
    for view, point in points:
        name = f"{dilemma_name(view.dilemma)}, " if len(views) > 1 else ""
        yield from (f"{name}{point.label}: {text}" for text in (*_collapsed(point), *_unlike(point)))


def _collapsed(point: Point) -> Iterator[str]:
    """A seed that never learned what its siblings did."""
    middle = float(np.median(point.returns))
    low = [seed.seed for seed, value in zip(point.seeds, point.returns) if value < COLLAPSED * middle]
    if low:
        least = number(float(min(point.returns)), 1)
        yield f"seed {low[0]} collapsed (return {least} against a median of {number(middle, 1)})."


def _unlike(point: Point) -> Iterator[str]:
    """Seeds that never do harm while their siblings do, or the other way round: no mean describes them all."""
    means, shares = point.each(metrics.mean), point.each(metrics.p_any)
    low = means < UNLIKE * means.max()
    expected = shares[~low].min() * min(seed.counts.size for seed in point.seeds)
    if not low.any() or shares[~low].min() < BINDING_SHARE or expected < BY_CHANCE:
        return
    few = low if low.sum() <= (~low).sum() else ~low
    names = " and ".join(str(seed.seed) for seed, one in zip(point.seeds, few) if one)
    own, rest = (" and ".join(map(point.harm.text, means[which])) for which in (few, ~few))
    many = few.sum() > 1
    yield (
        f"seed{'s' if many else ''} {names} {'are' if many else 'is'} unlike the others (mean {point.harm.name} {own} "
        f"against {rest}), and no mean describes them all."
    )
