"""The caveats of a finding: one sentence for each that the data calls for."""

from collections.abc import Iterator

import numpy as np

from perepisode import metrics
from perepisode.config import PPOConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.evaluation.verdicts import MARGIN_SHARE, cvar_support, influence
from perepisode.report import measurement
from perepisode.report.formatting import count, listed, number, percent
from perepisode.report.statistics import matched
from perepisode.report.statistics.pairs import BY_BUDGET, BY_PLAN, Compared, exceeding
from perepisode.report.statistics.points import BINDING_SHARE, PROTOCOLS, Episodes, Point, View, stated
from perepisode.report.style import dilemma_name, reference_of
from perepisode.settings import differing, of

FEW_SEEDS = 5
COLLAPSED = 0.7  # of the median return of an agent: a seed below it, and unlike the others
UNLIKE = 0.05  # share of the largest mean of an agent's seeds: a seed below it behaves differently
BY_CHANCE = 5  # expected violating episodes of such a seed: with fewer, it may have none by chance


def all_of(episodes: Episodes, views: list[View], first: View, compared: Compared) -> list[str]:
    """The caveats of the headline's view, then those of the whole study."""
    of_first = [*_tests(first, compared), *_tails(first), *_seeds(views)]
    return [*of_first, *_protocol(episodes, views), *_runs(episodes, views)]


def _tests(view: View, compared: Compared) -> Iterator[str]:
    """Who chose the comparisons, and for how many p is corrected."""
    chosen, plan = matched.focal(view), view.plan
    assert chosen is not None
    many = f"; p values are corrected for {compared.tested} comparisons (Holm)" if compared.tested > 1 else ""
    if compared.chosen_by == BY_PLAN:
        yield f"The comparisons were fixed beforehand by {plan.name}{many}."
    elif compared.chosen_by == BY_BUDGET:
        yield (
            f"{chosen.label} is compared because of its per-episode budget, with the arms nearest to it in the means, "
            f"which the data chose{many}."
        )
    elif compared.pairs:
        yield f"The comparisons were chosen by the data: no analysis plan fixed them (--plan){many}."
    if compared.skipped:
        yield (
            f"{compared.skipped} of {compared.skipped + len(compared.pairs)} pairs are not compared: one agent has "
            f"both a higher return and {view.measure.more}, and its tail may be heavier for that reason alone."
        )
    if compared.tested and stated(view.return_margin) and not stated(plan.margin):
        share = percent(MARGIN_SHARE, digits=0)
        yield (
            f"The margin of mean return, ±{number(view.return_margin)}, was set by the data: {share} of the range from "
            "the cleanest agent to the best (--margin states another)."
        )
    if compared.chosen_by == BY_BUDGET and (far := matched.differing(chosen, matched.partners(view, chosen))):
        listed = ", ".join(f"{point.label} {number(point.mean_return)}" for point in far)
        reached = [point for point in far if matched.interpolated(view, chosen, point.method).tail is not None]
        remedy = "; the interpolated table compares at equal return" if reached else ""
        how = "uncorrected p < 0.05" if min(len(point.seeds) for point in (chosen, *far)) > 1 else "more than 1 % apart"
        own = f"{chosen.label} ({number(chosen.mean_return)})"
        yield f"Mean return is not matched to that of {own}: {listed} ({how}){remedy}."


def _tails(view: View) -> Iterator[str]:
    chosen = matched.focal(view)
    assert chosen is not None
    compared = (chosen, *matched.partners(view, chosen))
    smallest = min(compared, key=lambda point: point.tail_episodes)
    text = f"The CVaR of {smallest.label} averages {smallest.tail_episodes} of {smallest.episodes} episodes"
    if stated(chosen.budget):
        over = exceeding(chosen, chosen.budget)
        text += f"; {over} episode{'s' * (over != 1)} of {chosen.label} exceed{'s' * (over == 1)} its budget"
    yield text + "."
    yield from _support(view)
    yield from _influence(view)
    if len(compared) == 1 and len(view.main) == 1:
        yield "There is only one agent, so nothing here is a comparison."
    flat = [point.label for point in compared if point.tails.size > 1 and np.ptp(point.tails) == 0]
    if flat:
        yield f"All seeds of {', '.join(flat)} have the same CVaR; an interval of zero width is not certainty."


def _support(view: View) -> Iterator[str]:
    """Agents with so few harmful episodes that their CVaR is a multiple of their mean."""
    beyond, level = cvar_support([point.counts for point in view.main], view.measure.alpha)
    if not any(beyond):
        return
    alpha, measure = view.measure.alpha, view.measure
    subject = "every agent" if all(beyond) else f"{sum(beyond)} of {len(beyond)} agents"
    lower = f", or the CVaR at {100 * level:g} %" if stated(level) else ""
    yield (
        f"For {subject}, fewer than {100 * alpha:g} % of episodes have any harm, so {measure.cvar_heading} is "
        f"{1 / alpha:.3g} times the mean and says nothing more. Use {measure.p_any}{lower}."
    )


def _influence(view: View) -> Iterator[str]:
    """Single episodes that carry a tenth or more of an agent's total; single violations are not worth a sentence."""
    found = [(point, influence(point.counts)) for point in view.main]
    flagged = [(point, one) for point, one in found if one.flagged and not (view.measure.is_count and one.value <= 1)]
    if flagged:
        text = view.measure.text if not view.measure.is_count else lambda value: number(value, 0)
        parts = (
            f"{point.label} {percent(one.share)} ({text(one.value)} in seed {point.seeds[one.seed].seed})"
            for point, one in flagged
        )
        yield f"One episode carries a tenth or more of an agent's total {view.measure.name}: {', '.join(parts)}."


def _seeds(views: list[View]) -> Iterator[str]:
    counts = {len(point.seeds) for view in views for point in view.main}
    if counts == {1}:
        yield "One seed only: there are no intervals and no tests."
    elif min(counts) < FEW_SEEDS:
        span = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        yield f"Few seeds ({span} per agent): intervals are wide, and only large differences are significant."
        if min(counts) == 1:
            alone = listed(point.label for point in views[0].main if len(point.seeds) == 1)
            yield f"Agents with one seed have no intervals, and none of their comparisons is tested: {alone}."
    for view in views:
        name = dilemma_name(view.dilemma)
        if view.unconstrained is not None and not view.binds:
            share = percent(view.unconstrained.interval(metrics.p_any).mean)
            yield f"{name} does not bind: the unconstrained agent violates in {share} of episodes."


def _protocol(episodes: Episodes, views: list[View]) -> Iterator[str]:
    lengths = {name: episodes.mean_length(name) for name in PROTOCOLS}
    if views[0].protocol == "window":
        yield "Only episodes that finished within a fixed window were kept: long ones are under-represented."
    elif lengths["window"] < 0.99 * lengths["first"]:
        yield (
            f"The paper's window favours short episodes ({lengths['window']:.0f} steps on average); the numbers here "
            f"are those of the first episodes of every environment ({lengths['first']:.0f})."
        )
    if episodes.unfinished:
        yield f"{episodes.unfinished} unfinished episodes are omitted."
    shares = []
    for view in views:
        missed = measurement.missed(episodes, view.dilemma)
        if missed is not None and (missed.frame["missed_share"].to_numpy() > 0).any():
            total = np.average(missed.frame["missed_share"], weights=missed.frame["violations"])
            shares.append(f"{percent(total)} ({dilemma_name(view.dilemma)})")
    if shares:
        yield f"The paper's detector misses {', '.join(shares)} of the violations; the numbers here are exact counts."


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
    if unlike := {name: values for name, values in differing(episodes.settings).items() if name in shared}:
        alternatives = {name: " or ".join(sorted(value or "default" for value in unlike[name])) for name in unlike}
        listed = ", ".join(f"{name} is {values}" for name, values in alternatives.items())
        yield f"Agents were trained with different settings: {listed}."
    for view, point in points:
        name = f"{dilemma_name(view.dilemma)}, " if len(views) > 1 else ""
        yield from (f"{name}{point.label}: {text}" for text in (*_collapsed(point), *_unlike(point)))


def _collapsed(point: Point) -> Iterator[str]:
    """A seed with a far lower return than the agent's other seeds."""
    middle = float(np.median(point.returns))
    fallen = point.returns < middle - (1 - COLLAPSED) * abs(middle)
    low = [seed.seed for seed, fell in zip(point.seeds, fallen) if fell]
    if low and middle - point.returns[fallen].max() > np.ptp(point.returns[~fallen]):  # unlike the others' own spread
        least = number(float(min(point.returns)), 1)
        yield f"seed {low[0]} collapsed (return {least} against a median of {number(middle, 1)})."


def _unlike(point: Point) -> Iterator[str]:
    """Seeds that never violate while the agent's others do, or the reverse: no mean describes them all."""
    means, shares = point.per_seed(metrics.mean), point.per_seed(metrics.p_any)
    low = means < UNLIKE * means.max()
    expected = shares[~low].min() * min(seed.counts.size for seed in point.seeds)
    if not low.any() or shares[~low].min() < BINDING_SHARE or expected < BY_CHANCE:
        return
    minority = low if low.sum() <= (~low).sum() else ~low
    names = listed(str(seed.seed) for seed, unlike in zip(point.seeds, minority) if unlike)
    own, rest = (listed(map(point.measure.text, means[which])) for which in (minority, ~minority))
    many = minority.sum() > 1
    yield (
        f"seed{'s' if many else ''} {names} {'are' if many else 'is'} unlike the others "
        f"(mean {point.measure.name} {own} against {rest}), and no mean describes them all."
    )
