"""The first screen: the headline with its numbers, and the other findings, each in a sentence."""

from collections.abc import Iterator
from dataclasses import dataclass

from perepisode import metrics
from perepisode.evaluation import compare, verdicts
from perepisode.evaluation.verdicts import EQUIVALENT, Equivalence
from perepisode.report import caveats
from perepisode.report.formatting import (
    difference,
    factor,
    in_words,
    listed,
    number,
    p_equals,
    percent,
    plus_minus,
    share_interval,
)
from perepisode.report.headline import Card, statement, untested
from perepisode.report.statistics import frontiers, matched, pairs
from perepisode.report.statistics.pairs import Compared, Pair
from perepisode.report.statistics.points import Episodes, Point, View, stated
from perepisode.report.style import dilemma_name, look

MAX_STATED = 4  # pairs with a sentence of their own; the table has all
MAX_LISTED = 8  # agents in one sentence
LARGE = 20  # ratio of tails: a larger one is not estimated
MANY_SEEDS = 50  # per agent: a larger number is not estimated


@dataclass(frozen=True)
class Finding:
    headline: str
    means: str  # the end of the headline: what is known of the means
    pictures: tuple[str, ...]  # figures that show it, the best first
    sentences: list[str]
    cards: list[Card]
    caveats: list[str]
    compared: list[dict]  # plain data for programs: for each dilemma the measure, its agents and every pair


def find(episodes: Episodes, views: list[View]) -> Finding:
    """The findings on the first binding dilemma, a sentence for each other dilemma, and all caveats."""
    ordered = sorted(views, key=lambda view: (matched.focal(view) is None, view.binds is False))
    first = ordered[0]
    chosen = matched.focal(first)
    if chosen is None:
        raise ValueError("no finished episode under any protocol; evaluate for longer")
    of_first, rivals = pairs.compared(first), matched.partners(first, chosen)
    clear = statement(first, chosen, of_first)
    sentences = [*_pair_view(first, of_first), *_power_view(of_first), *_limit_view(first, chosen, rivals)]
    sentences += [*_level_view(first, chosen, rivals), *_mean_view(first), *_cost_view(first, chosen, rivals)]
    sentences += _detector_view(episodes, first)
    for view in ordered[1:]:
        if view.binds is not False and (other := matched.focal(view)) is not None:
            headline = statement(view, other, pairs.compared(view)).text
            sentences.append(f"{dilemma_name(view.dilemma)}: {headline}")
    name = f"{dilemma_name(first.dilemma)}: " if len(views) > 1 else ""
    all_caveats = caveats.all_of(episodes, views, first, of_first)
    data = [_plain(view) for view in ordered]
    return Finding(name + clear.text, clear.means, clear.pictures, sentences, clear.cards, all_caveats, data)


def _pair_view(view: View, compared: Compared) -> Iterator[str]:
    """A sentence for each pair with a difference, or for the clearest one, and one sentence for the rest."""
    if compared.pairs and not compared.tested:
        yield _untested_sentence(view, compared)
        return
    ordered = pairs.by_clarity(compared.pairs)
    differ = [pair for pair in ordered if pair.differ]
    stated_pairs = (differ if compared.chosen_by != pairs.BY_DATA else differ[:MAX_STATED]) or ordered[:1]
    yield from (_pair_sentence(view, pair) for pair in stated_pairs)
    rest = [pair for pair in ordered if pair not in stated_pairs]
    if compared.chosen_by == pairs.BY_DATA:
        found = f"{in_words(len(differ)) if differ else 'none'} differ{'s' * (len(differ) == 1)}"
        if compared.tested > 1:
            yield f"Of the {compared.tested} pairs that were tested, {found} significantly in the tails."
    elif rest:
        first, written = rest[0].one, view.measure.plus_minus
        own = f"{first.label} ({view.measure.cvar_heading} {written(*first.tail[:2])})"
        others = (f"{pair.other.label} {written(*pair.other.tail[:2])} ({_test(pair)})" for pair in rest)
        yield f"No difference in tails was found between {own} and {', '.join(others)}."


def _untested_sentence(view: View, compared: Compared) -> str:
    """One seed per agent: numbers of these trained agents, and no claim about their methods."""
    points = list(dict.fromkeys(point for pair in compared.pairs for point in pair[:2]))[:MAX_LISTED]
    tails = listed(f"{point.label} {view.measure.text(point.tail.mean)}" for point in points)
    returns = listed(number(point.mean_return, 1) for point in points)
    return f"{view.measure.cvar_heading} of these trained agents: {tails}; their mean returns are {returns}."


def _test(pair: Pair) -> str:
    return f"p {p_equals(pair.p)}" if stated(pair.p) else untested(pair)


def _pair_sentence(view: View, pair: Pair) -> str:
    """The tails of a pair, their test, and what is known of its means."""
    measure, oriented = view.measure, pair.oriented
    high, low = oriented.other, oriented.one
    text = f"{high.label} and {low.label}"
    if pair.differ:
        text = f"{high.label} has a heavier tail than {low.label}"
    elif stated(pair.p):
        text = f"No difference in tails was found between {high.label} and {low.label}"
    tails = [f"{measure.cvar_heading} {measure.plus_minus(*high.tail[:2])} against {measure.plus_minus(*low.tail[:2])}"]
    if pair.level.level != measure.alpha:
        deep = pair.level.level
        both = (measure.plus_minus(*point.cvar_at(deep)[:2]) for point in (high, low))
        tails.append(f"most clearly in the {measure.worst(deep)}, {' against '.join(both)}")
    if pair.differ and not pair.supported:
        both = (percent(point.interval(metrics.p_any).mean) for point in (high, low))
        tails.append(f"{measure.p_any} {' against '.join(both)}")
    means = [
        f"return {difference(oriented.returns.difference, oriented.returns.half)}{_verdict(pair.returns)}",
        f"{measure.name} {measure.difference(oriented.means.difference, oriented.means.half)}{_verdict(pair.means)}",
    ]
    return f"{text} ({_test(pair)}): {'; '.join(tails)}. Differences of means: {', '.join(means)}."


def _verdict(means: Equivalence) -> str:
    """The verdict in brackets; a significant difference within the margin is said to be within it."""
    if not stated(means.half):
        return ""
    return f" ({means.verdict}{', though it differs significantly' if within_margin(means) else ''})"


def within_margin(means: Equivalence) -> bool:
    return means.verdict == EQUIVALENT and means.detectable


def _power_view(compared: Compared) -> Iterator[str]:
    """How many seeds would settle what these do not: of the clearest pair without a verdict on its tails."""
    open_pairs = [pair for pair in pairs.by_clarity(compared.pairs) if stated(pair.p) and not pair.differ]
    if not open_pairs or open_pairs[0].tail.p == 1:  # nothing that more seeds like these could show
        return
    pair = open_pairs[0]
    samples = [point.tail_sample for point in pair.oriented[:2]]
    plan = verdicts.tail_plan(*samples, comparisons=compared.tested, alpha=pair.one.measure.alpha)
    seeds = sorted({len(point.seeds) for point in pair[:2]})
    many = " and ".join(map(str, seeds))
    found = f"a tail {factor(plan.ratio)} as heavy"
    if plan.ratio > LARGE:
        found = f"only a tail more than {LARGE} times as heavy"
    needed = f"about {plan.seeds}" if plan.seeds and plan.seeds <= MANY_SEEDS else f"more than {MANY_SEEDS}"
    power = f"{100 * verdicts.POWER:.0f} %"
    yield (
        f"With {many} seeds per agent that vary like these, {found} is found with a probability of {power}. The "
        f"clearest contrast without a verdict, {pair.heavier.label} against {pair.lighter.label}, would need {needed} "
        "seeds per agent."
    )


def _limit_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    """The share of episodes over the limit or the budget, with intervals and tests against the focal agent."""
    level = chosen.allowed
    if not stated(level):
        return
    limited = stated(view.measure.limit)
    points = list(view.main[:MAX_LISTED]) if limited else [chosen, *rivals]
    points = [chosen, *(point for point in points if point is not chosen)]
    tests = {}
    if len(points) > 1:
        agents, against = [point.counts for point in points], [(0, index) for index in range(1, len(points))]
        tests = dict(zip(points[1:], verdicts.share_tests(agents, level, against)))
    parts = []
    for point in points:
        test = f", p {p_equals(tests[point].corrected)}" if point in tests and stated(tests[point].corrected) else ""
        share = share_interval(*verdicts.share(point.counts, level))
        parts.append(f"{point.label} {share}{test}")
    text = f"Episodes over the {'limit' if limited else 'budget'} of {level:g}: {'; '.join(parts)}."
    if any(stated(test.p) for test in tests.values()):
        corrected = f", corrected for {len(tests)} comparisons" if len(tests) > 1 else ""
        text += f" The p values are against {chosen.label}{corrected}; they are secondary."
    yield text


def _level_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    """Frontiers interpolated to exactly one level."""
    if matched.differing(chosen, rivals):
        reads = [matched.interpolated(view, chosen, rival.method) for rival in rivals]
        if tails := _listed(view, reads, chosen):
            level = number(chosen.mean_return, 1)
            yield f"{view.measure.cvar_heading} interpolated to a return of {level}: {tails}.{_not_reached(reads)}"
    if (equal := matched.at_equal_mean(view, chosen)) is not None:
        yield _equal_mean_sentence(view, equal)


def _equal_mean_sentence(view: View, equal: matched.EqualMeanComparison) -> str:
    measure, level = view.measure, view.measure.text(equal.level)
    tails = [
        f"{look(read.method).label} {measure.plus_minus(*read.tail.cvar[:2])}" for read in equal.reads if read.tail
    ]
    text = f"{measure.cvar_heading} interpolated to equal mean {measure.name} of {level}: {', '.join(tails)}"
    if measure.is_count:
        alone, least = map(measure.text, (measure.independent_cvar(equal.level), measure.least_cvar(equal.level)))
        text += f" (independent {measure.events} would give {alone}; {least} is the least possible)"
    return f"{text}.{_not_reached(equal.reads)}"


def _not_reached(reads: list[matched.Interpolated]) -> str:
    missing = [f"{look(read.method).label} ({read.between})" for read in reads if read.tail is None]
    return f" Not reached by {', '.join(missing)}." if missing else ""


def _listed(view: View, reads: list[matched.Interpolated], chosen: Point) -> str:
    """The CVaR of each method that reaches the level, and its share of episodes over the budget."""
    texts = []
    for method, _, tail in reads:
        if tail is not None:
            over = f" ({percent(tail.p_over.mean)} of episodes over)" if chosen.allowed == chosen.allowed else ""
            texts.append(f"{look(method).label} {view.measure.plus_minus(*tail.cvar[:2])}{over}")
    own = f", {chosen.label} {view.measure.plus_minus(*chosen.tail[:2])}"
    return ", ".join(texts) + own if texts else ""


def _mean_view(view: View) -> Iterator[str]:
    """Whether ESR's means lie on the other methods' frontier: by distance, since hypervolume also fills gaps."""
    areas = frontiers.hypervolumes(view)
    if not areas:
        return
    gain = f"ESR adds {percent(next(iter(areas.values()))['gain'])} of hypervolume"
    short = frontiers.short_of_frontier(view)
    reached = {label: value for label, value in short.items() if value == value}
    if not reached:
        yield f"On average: the other methods' frontier does not reach the violations of any ESR agent; {gain}."
        return
    span = dict.fromkeys(number(0.0 - round(value, 1), 1) for value in (max(reached.values()), min(reached.values())))
    halves = {point.label: point.return_interval.half for point in view.main}
    above, below = ([label for label, value in reached.items() if sign * value > halves[label]] for sign in (-1, 1))
    verdict = "no ESR agent was found to lie off the other methods' frontier"
    if off := above or below:
        why = (
            "a lower CVaR may come from better optimisation"
            if above
            else "the price of a lower CVaR, or short training"
        )
        verdict = (
            f"{listed(off)} {'lies' if len(off) == 1 else 'lie'} {'above' if above else 'below'} the other methods' "
            f"frontier by more than the 95 % interval of the return ({why})"
        )
    missing = [label for label in short if label not in reached]
    ends = f"; {listed(missing)} {'lies' if len(missing) == 1 else 'lie'} beyond its ends" if missing else ""
    yield f"On average: {verdict}; ESR's returns differ from it by {' to '.join(span)}{ends}; {gain}."


def _cost_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    free = view.unconstrained
    if free is not None and chosen is not free:
        gaps = [(point.label, compare.gap(free.return_interval, point.return_interval)) for point in (chosen, *rivals)]
        losses = ", ".join(f"{label} {plus_minus(*gap[:2])}" for label, gap in gaps)
        yield f"Return lost relative to the unconstrained agent ({number(free.mean_return, 1)}): {losses}."


def _detector_view(episodes: Episodes, view: View) -> Iterator[str]:
    """Agents that were trained on the paper's detector, by exact counts and by that detector."""
    if not episodes.has(view.dilemma, "paper"):
        return
    measure = view.measure
    by_detector = {point.label: point for point in episodes.view(view.dilemma, view.protocol, "paper").variants}
    for point in (point for point in view.variants if point.detector == "paper" and point.label in by_detector):
        exact, detected = matched.tail(point, point), matched.tail(by_detector[point.label], point)
        text = (
            f"{point.label}: {measure.cvar_heading} is {measure.plus_minus(*exact.cvar[:2])} by exact counts and "
            f"{measure.plus_minus(*detected.cvar[:2])} by the detector that it was trained on"
        )
        if point.allowed == point.allowed:
            over, seen = percent(exact.p_over.mean), percent(detected.p_over.mean)
            text += f"; by the same two counts, {over} and {seen} of its episodes exceed its budget"
        main = view.arm(point.method, point.arm)
        if main is not None:
            text += f". Trained on exact counts, {measure.cvar_heading} is {measure.plus_minus(*main.tail[:2])}"
        yield text + "."


# ---- as data ------------------------------------------------------------------------------------------------


def _plain(view: View) -> dict:
    """A dilemma's comparisons as plain data; unknown numbers are NaN."""
    measure, chosen, compared = view.measure, matched.focal(view), pairs.compared(view)
    agents = []
    for point in view.main:
        means = {"return": point.return_interval, measure.name: point.interval(metrics.mean), "cvar": point.tail}
        agents.append(
            {
                "agent": point.label,
                "seeds": len(point.seeds),
                "episodes": point.episodes,
                **{name: {"mean": mean.mean, "half_width": mean.half} for name, mean in means.items()},
            }
        )
    return {
        "dilemma": view.dilemma,
        "measured": measure.name,
        "whole_counts": measure.is_count,
        "limit": measure.limit,
        "alpha": measure.alpha,
        "first_agent": chosen.label if chosen else None,
        "comparisons_chosen_by": compared.chosen_by,
        "primary_measure": view.plan.measure,
        "p_corrected_for": compared.tested,
        "return_margin": view.return_margin,
        "agents": agents,
        "pairs": [_plain_pair(pair.oriented) for pair in pairs.by_clarity(compared.pairs)],
    }


def _plain_pair(pair: Pair) -> dict:
    """Differences are the agent with the heavier tail minus the other."""
    name = pair.one.measure.name
    return {
        "heavier": pair.other.label,
        "lighter": pair.one.label,
        "tails_differ": bool(pair.differ),
        "p": pair.p,
        "levels": [{"alpha": at.level, "heavier": at.b, "lighter": at.a, "p": at.p} for at in pair.tail.levels],
        "ratio": pair.ratio,
        "means": {
            part: {
                "verdict": means.verdict,
                "difference": means.difference,
                "half_width": means.half,
                "margin": means.margin,
            }
            for part, means in (("return", pair.returns), (name, pair.means))
        },
        "over_limit": pair.over and {
            "difference": pair.over.difference,
            "low": pair.over.low,
            "high": pair.over.high,
            "p": pair.over.corrected,
        },
    }  # fmt: skip
