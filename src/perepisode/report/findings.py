"""The first screen: the finding in words and numbers, and each caveat that the data calls for."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perepisode import metrics
from perepisode.config import Learner
from perepisode.environments import WORLDS
from perepisode.evaluation import compare
from perepisode.report import measuring
from perepisode.report.statistics import frontiers, matched, paper_numbers
from perepisode.report.statistics.points import PROTOCOLS, Episodes, Point, View
from perepisode.report.style import dilemma_name, look
from perepisode.report.words import count, number, p_value, percent, plus_minus
from perepisode.settings import differing, of

FEW_SEEDS = 5
COLLAPSED = 0.7  # a seed below this share of its siblings' median return
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Card:
    """One agent on the first screen."""

    label: str
    method: str
    cvar: str
    detail: str


@dataclass(frozen=True)
class Finding:
    headline: str
    sentences: list[str]
    cards: list[Card]
    caveats: list[str]


def find(episodes: Episodes, views: list[View]) -> Finding:
    """The finding on the first dilemma that binds, a sentence for each other, and all caveats."""
    ordered = sorted(views, key=lambda view: (matched.focal(view) is None, view.binds is False))
    first = ordered[0]
    chosen = matched.focal(first)
    if chosen is None:
        raise ValueError("no finished episode under any protocol; evaluate for longer")
    rivals = matched.partners(first, chosen)
    sentences = [*_mean_view(first), *_tail_view(first, chosen, rivals), *_cost_view(first, chosen, rivals)]
    sentences += _detector_view(episodes, first)
    for view in ordered[1:]:
        if view.binds is not False and (other := matched.focal(view)) is not None:
            text = _tail_sentence(view, other, matched.partners(view, other))
            sentences.append(f"{dilemma_name(view.dilemma)}: {text}")
    cards = [_card(point, chosen) for point in (chosen, *rivals)]
    caveats = [*_tail_caveats(first, chosen, rivals), *_study_caveats(views)]
    caveats += [*_protocol_caveats(episodes, views), *_run_caveats(episodes, views)]
    return Finding(_headline(first, chosen, rivals), sentences, cards, caveats)


def _headline(view: View, chosen: Point, rivals: list[Point]) -> str:
    own, name = _worst(chosen), dilemma_name(view.dilemma)
    if not rivals:
        mean = number(chosen.interval(metrics.mean).mean)
        return f"{name}: {chosen.label} averages {mean} violations an episode, and {own} in its worst tenth."
    others = [point.tail.mean for point in rivals]
    span = number(others[0]) if len(others) == 1 else f"{number(min(others))} to {number(max(others))}"
    nearest, verb = ("agent", "commits") if len(others) == 1 else ("agents", "commit")
    returns = ""
    if matched.unmatched(view, chosen, rivals):
        each = [point.mean_return for point in rivals]
        theirs = dict.fromkeys(number(value, 1) for value in (min(each), max(each)))
        returns = f" ({' to '.join(theirs)} against {number(chosen.mean_return, 1)})"
    return (
        f"{name}: in its worst tenth of episodes {chosen.label} commits {own} violations; "
        f"the {nearest} nearest in return{returns} {verb} {span}."
    )


def _worst(point: Point) -> str:
    return point.harm.pair(*point.tail[:2])


def _mean_view(view: View) -> Iterator[str]:
    """Whether ESR's means lie on the other methods' frontier: by distance, since hypervolume also fills gaps."""
    areas = frontiers.hypervolumes(view)
    if not areas:
        return
    gain = next(iter(areas.values()))["gain"]
    text = f"On average: adding ESR changes the hypervolume of the mean frontier by {percent(gain)}"
    short = frontiers.short_of_frontier(view)
    placed = {label: value for label, value in short.items() if value == value}
    beyond = [label for label in short if label not in placed]
    if not placed:
        yield f"{text}; none of its agents has violations that the other methods' frontier has too."
        return
    span = dict.fromkeys(number(0.0 - round(value, 1), 1) for value in (max(placed.values()), min(placed.values())))
    text += f", and its agents' returns differ from that of the other methods' frontier by {' to '.join(span)}"
    if beyond:
        text += f" ({', '.join(beyond)} beyond its ends)"
    halves = {point.label: point.gained.half for point in view.main}
    if any(-value > halves[label] for label, value in placed.items()):
        verdict = "ESR lies above it, and a tail difference may be a better optimum"
    elif any(value > halves[label] for label, value in placed.items()):
        verdict = "ESR lies below it, which is the price of its tail or a want of training"
    else:
        verdict = "the methods share one frontier, and means cannot tell them apart"
    yield f"{text}; {verdict}."


def _tail_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    if rivals:
        yield f"Per episode: {_tail_sentence(view, chosen, rivals)}"
    if chosen.budget == chosen.budget:
        shares = [(point.label, matched.tail(point, chosen).p_over) for point in (chosen, *rivals)]
        listed = ", ".join(f"{label} {percent(*share[:2])}" for label, share in shares)
        yield f"Episodes over the budget of {chosen.budget:g}: {listed}."
    if matched.unmatched(view, chosen, rivals):
        reads = [matched.interpolated(view, chosen, rival.method) for rival in rivals]
        if listed := _listed(reads, chosen):
            level = number(chosen.mean_return, 1)
            yield f"Interpolated to return {level} exactly, the worst-tenth mean is {listed}.{_beyond(reads)}"
    if (even := matched.even(view, chosen)) is not None:
        yield _same_mean_sentence(view, even)


def _same_mean_sentence(view: View, even: matched.Even) -> str:
    """Agents that are equally ethical on average, per episode."""
    tails = [f"{look(read.method).label} {plus_minus(*read.tail.cvar[:2])}" for read in even.reads if read.tail]
    text = f"At the same mean of {number(even.level)} violations an episode the worst-tenth mean is {', '.join(tails)}"
    if view.harm.whole:
        alone, least = map(view.harm.text, (view.harm.independent(even.level), view.harm.least(even.level)))
        text += f"; if violations fell independently of each other it would be {alone}, and it cannot be below {least}"
    return f"{text}.{_beyond(even.reads)}"


def _beyond(reads: list[matched.Interpolated]) -> str:
    beyond = [f"{look(read.method).label} ({read.between})" for read in reads if read.tail is None]
    return f" Not reached by {', '.join(beyond)}." if beyond else ""


def _listed(reads: list[matched.Interpolated], chosen: Point) -> str:
    """Worst-tenth mean of each method that reaches the level, its share over budget, its test."""
    texts = []
    for method, _, tail in reads:
        if tail is None:
            continue
        text = f"{look(method).label} {plus_minus(*tail.cvar[:2])}"
        if chosen.budget == chosen.budget:
            text += f" with {percent(*tail.p_over[:2])} over budget"
        if tail.against_focal is not None:
            text += f" (t = {number(tail.against_focal.t, 1)}, p {_p(tail.against_focal.p)})"
        texts.append(text)
    return "; ".join(texts)


def _tail_sentence(view: View, chosen: Point, rivals: list[Point]) -> str:
    """Worst-decile means at matched return with Welch's test, each rival judged on its own."""
    judged = []
    for rival in rivals:
        test = compare.welch(rival.tails, chosen.tails)
        if test.p != test.p:
            verdict = "one seed, no test"
        else:
            found = "not distinguishable"
            if test.p < SIGNIFICANT:
                found = "heavier tail" if test.difference > 0 else "lighter tail"
            verdict = f"{found}, t = {number(test.t, 1)}, p {_p(test.p)}"
        judged.append(f"{rival.label} {_worst(rival)} ({verdict})")
    level = number(chosen.mean_return, 1)
    at = "nearest to" if matched.unmatched(view, chosen, rivals) else "at"
    return f"worst-tenth mean {at} return {level}: {chosen.label} {_worst(chosen)}; {'; '.join(judged)}."


def _cost_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    free = view.unconstrained
    if free is not None and chosen is not free:
        gaps = [(point.label, compare.gap(free.gained, point.gained)) for point in (chosen, *rivals)]
        listed = ", ".join(f"{label} {plus_minus(*gap[:2])}" for label, gap in gaps)
        yield f"Return given up against the unconstrained agent ({number(free.mean_return, 1)}): {listed}."


def _detector_view(episodes: Episodes, view: View) -> Iterator[str]:
    """What agents that were trained on another detector really do, beside what that detector saw them do."""
    if not episodes.has(view.dilemma, "paper"):
        return
    noticed = {point.label: point for point in episodes.view(view.dilemma, view.protocol, "paper").apart}
    for point in (point for point in view.apart if point.detector == "paper"):
        real, seen = matched.tail(point, point), matched.tail(noticed[point.label], point)
        text = (
            f"{point.label}: its worst tenth has {plus_minus(*real.cvar[:2])} violations by the exact count and "
            f"{plus_minus(*seen.cvar[:2])} by the one it was trained on"
        )
        if point.budget == point.budget:
            over, noted = percent(real.p_over.mean), percent(seen.p_over.mean)
            text += f"; {over} of episodes are over its budget, {noted} by that one"
        twin = view.arm(point.method, point.arm)
        if twin is not None:
            text += f". Trained on exact counts: {_worst(twin)}"
        yield text + "."


def _card(point: Point, chosen: Point) -> Card:
    values = matched.tail(point, chosen)
    parts = [f"return {number(values.returns.mean, 1)}", f"P(≥1) {number(values.p_any.mean)}"]
    if chosen.budget == chosen.budget:
        parts.append(f"over {chosen.budget:g}: {percent(values.p_over.mean)}")
    detail = " · ".join(part.replace(" ", "\u00a0") for part in parts)  # a part stays on one line
    return Card(point.label, point.method, _worst(point), detail)


def _tail_caveats(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    smallest = min((chosen, *rivals), key=lambda point: point.tail_episodes)
    text = f"The CVaR of {smallest.label} rests on {smallest.tail_episodes} of {smallest.episodes} episodes"
    if chosen.budget == chosen.budget:
        over = sum(int((seed.counts > chosen.budget).sum()) for seed in chosen.seeds)
        text += f"; {over} episodes of {chosen.label} are over its budget"
    yield text + "."
    if apart := matched.unmatched(view, chosen, rivals):
        listed = ", ".join(f"{point.label} {number(point.mean_return)}" for point in apart)
        reached = [point for point in apart if matched.interpolated(view, chosen, point.method).tail is not None]
        remedy = "the interpolated table compares at the exact return" if reached else "no frontier reaches it"
        yield f"Not truly matched: {listed} against {number(chosen.mean_return)} of {chosen.label}; {remedy}."
    if not rivals:
        yield "No other method to match with, so nothing here is a comparison at equal return."
    seen = [(point, point.tails) for point in (chosen, *rivals)]
    flat = [point.label for point, tails in seen if tails.size > 1 and np.ptp(tails) == 0]
    if flat:
        yield f"All seeds of {', '.join(flat)} have the same CVaR; an interval of zero is not certainty."


def _study_caveats(views: list[View]) -> Iterator[str]:
    counts = {len(point.seeds) for view in views for point in view.main}
    if counts == {1}:
        yield "One seed only: no interval and no test is possible, and none is shown."
    elif min(counts) < FEW_SEEDS:
        span = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        yield f"Few seeds ({span} an agent): intervals are wide, and their width is itself uncertain."
    for view in views:
        name = dilemma_name(view.dilemma)
        if view.unconstrained is None:
            yield f"{name}: no unconstrained agent, so no gap and no share of its return."
        elif not view.binds:
            share = percent(view.unconstrained.interval(metrics.p_any).mean)
            yield (
                f"{name} does not bind: the unconstrained agent violates in {share} of episodes, "
                "so its frontier carries no signal."
            )


def _protocol_caveats(episodes: Episodes, views: list[View]) -> Iterator[str]:
    lengths = {name: episodes.mean_length(name) for name in PROTOCOLS}
    if views[0].protocol == "window":
        yield "Only episodes that finished inside a fixed window were kept: long ones are under-represented."
    elif lengths["window"] < 0.99 * lengths["first"]:
        yield (
            f"The paper's window keeps episodes of {lengths['window']:.0f} steps on average, the "
            f"first episodes of every world have {lengths['first']:.0f}: it favours short ones. "
            "Numbers here use the latter."
        )
    if episodes.unfinished:
        yield f"{episodes.unfinished} unfinished episodes are left out."
    shares = []
    for view in views:
        missed = measuring.missed(episodes, view.dilemma)
        if missed is not None and (missed.frame["missed_share"].to_numpy() > 0).any():
            total = np.average(missed.frame["missed_share"], weights=missed.frame["violations"])
            shares.append(f"{percent(total)} ({dilemma_name(view.dilemma)})")
    if shares:
        yield f"The paper's detector misses {', '.join(shares)} of the violations; ours are exact counts."


def _run_caveats(episodes: Episodes, views: list[View]) -> Iterator[str]:
    points = [(view, point) for view in views for point in view.main]
    steps = sorted({seed.steps for _, point in points for seed in point.seeds if seed.steps == seed.steps})
    if len(steps) > 1:
        yield f"Agents were trained for different numbers of steps, from {count(steps[0])} to {count(steps[-1])}."
    if steps and paper_numbers.of_world(episodes.environment) and steps[-1] < paper_numbers.STEPS:
        scale = f"{count(steps[-1])} steps against the paper's {count(paper_numbers.STEPS)}"
        yield f"Trained for {scale}: returns are not comparable."
    world = WORLDS.get(episodes.environment)
    shared = {*of(Learner), *(of(world) if world else ())}
    if unlike := {name: told for name, told in differing(episodes.settings).items() if name in shared}:
        said = {name: " or ".join(sorted(one or "left out" for one in told)) for name, told in unlike.items()}
        listed = ", ".join(f"{name} is {values}" for name, values in said.items())
        yield f"Not all agents were trained alike: {listed}."
    for view, point in points:
        middle = float(np.median(point.returns))
        low = [seed.seed for seed, value in zip(point.seeds, point.returns) if value < COLLAPSED * middle]
        if low:
            yield (
                f"{dilemma_name(view.dilemma)}, {point.label}: seed {low[0]} collapsed (return "
                f"{number(float(min(point.returns)), 1)} against a median of {number(middle, 1)})."
            )


def _p(p: float) -> str:
    return p_value(p) if p < 0.001 else f"= {p_value(p)}"
