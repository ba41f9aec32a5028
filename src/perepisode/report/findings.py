"""The first screen: a verdict, three numbers, and what else the data says, each in a sentence."""

from collections.abc import Iterator
from dataclasses import dataclass

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.report import caveats
from perepisode.report.formatting import few, number, p_value, percent, plus_minus, times
from perepisode.report.statistics import frontiers, matched, pairs
from perepisode.report.statistics.matched import RETURN, VIOLATIONS, Axis
from perepisode.report.statistics.pairs import Pair
from perepisode.report.statistics.points import Episodes, Point, View
from perepisode.report.style import dilemma_name, look

MAX_STATED = 4  # pairs in sentences of their own; the table has all
MAX_LISTED = 8  # agents in one sentence
LARGE = 1.5  # times the lighter tail: below it the difference is given in per cent


@dataclass(frozen=True)
class Card:
    """One number on the first screen; `method` is that of the agent it belongs to, if it is one's."""

    label: str
    method: str
    value: str
    unit: str
    detail: str


@dataclass(frozen=True)
class Finding:
    headline: str
    sentences: list[str]
    cards: list[Card]
    caveats: list[str]
    compared: list[dict]  # plain data for programs: of each dilemma what was measured, and every pair


def find(episodes: Episodes, views: list[View]) -> Finding:
    """The finding on the first dilemma that binds, a sentence for each other, and all caveats."""
    ordered = sorted(views, key=lambda view: (matched.focal(view) is None, view.binds is False))
    first = ordered[0]
    chosen = matched.focal(first)
    if chosen is None:
        raise ValueError("no finished episode under any protocol; evaluate for longer")
    compared = {view.dilemma: pairs.compared(view) for view in views}
    found, rivals = compared[first.dilemma], matched.partners(first, chosen)
    headline = _headline(first, chosen, found)
    sentences = [*_pair_view(first, found), *_limit_view(first, chosen, rivals), *_level_view(first, chosen, rivals)]
    sentences += [*_mean_view(first), *_cost_view(first, chosen, rivals), *_detector_view(episodes, first)]
    for view in ordered[1:]:
        if view.binds is not False and (other := matched.focal(view)) is not None:
            sentences.append(f"{dilemma_name(view.dilemma)}: {_headline(view, other, compared[view.dilemma])}")
    name = f"{dilemma_name(first.dilemma)}: " if len(views) > 1 else ""
    told = caveats.all_of(episodes, views, first, found)
    data = [_plain(view, compared[view.dilemma]) for view in ordered]
    return Finding(name + headline, sentences, _cards(first, chosen, found), told, data)


def _plain(view: View, found: list[Pair]) -> dict:
    """A dilemma's comparisons as plain data; what is not known is NaN."""
    harm, chosen = view.harm, matched.focal(view)
    told = []
    for pair in (pair.turned for pair in pairs.in_order(found)):
        gaps = {"return": pair.returns, harm.name: pair.means, "cvar": pair.tails}
        told.append(
            {
                "heavier": pair.other.label,
                "lighter": pair.one.label,
                "same_return": pair.at_one(RETURN),
                f"same_{harm.name}": pair.at_one(VIOLATIONS),
                "differences": {name: {"mean": gap.mean, "half_width": gap.half} for name, gap in gaps.items()},
                "ratio": pair.ratio,
                "p": pair.p,
                "tails_differ": bool(pair.differ),
            }
        )
    agents = []
    for point in view.main:
        means = {"return": point.gained, harm.name: point.interval(metrics.mean), "cvar": point.tail}
        agents.append(
            {
                "agent": point.label,
                "seeds": len(point.seeds),
                "episodes": point.episodes,
                **{name: {"mean": one.mean, "half_width": one.half} for name, one in means.items()},
            }
        )
    return {
        "dilemma": view.dilemma,
        "measured": harm.name,
        "whole_counts": harm.whole,
        "limit": harm.limit,
        "cvar_fraction": harm.alpha,
        "first_agent": chosen.label if chosen else None,
        "fixed_beforehand": matched.fixed(view),
        "p_corrected_for": sum(pair.p == pair.p for pair in found),
        "agents": agents,
        "pairs": told,
    }


# ---- the verdict --------------------------------------------------------------------------------------------


def _headline(view: View, chosen: Point, found: list[Pair]) -> str:
    level = [pair for pair in found if pair.at_one(RETURN)] if matched.fixed(view) else []
    if len(level) > 1:
        return _verdict_on(view, chosen, level)
    if (clear := pairs.clearest(found)) is not None:
        return _verdict(view, *clear)
    own, mean = view.harm.pair(*chosen.tail[:2]), view.harm.text(VIOLATIONS.of(chosen))
    if len(view.main) == 1:
        return f"{chosen.label} {view.harm.done(mean)} an episode on average, and {own} in its {view.harm.tail}."
    if matched.fixed(view) and found:
        near = min((pair.other for pair in found), key=lambda point: abs(point.mean_return - chosen.mean_return))
        returns = f"{number(near.mean_return, 1)} against {number(chosen.mean_return, 1)}"
        return (
            f"No agent has the return of {chosen.label}; the nearest is {near.label} ({returns}). In its "
            f"{view.harm.tail} of episodes {chosen.label} {view.harm.done(own)}, {near.label} "
            f"{view.harm.pair(*near.tail[:2])}."
        )
    light, heavy = (pick(view.main, key=lambda point: point.tail.mean) for pick in (min, max))
    return (
        f"No two agents have the same mean return or {view.harm.name}. {light.label} has the lightest tail: it "
        f"{view.harm.done(view.harm.text(light.tail.mean))} in its {view.harm.tail} of episodes; {heavy.label} has the "
        f"heaviest, {view.harm.text(heavy.tail.mean)}."
    )


def _verdict_on(view: View, chosen: Point, level: list[Pair]) -> str:
    """The agent that was fixed beforehand against all that have its return."""
    harm, tails = view.harm, [pair.other.tail.mean for pair in level]
    start = "Equal mean return" if all(pair.close(RETURN) for pair in level) else "Mean returns not told apart"
    own = f"{chosen.label} {harm.done(harm.text(chosen.tail.mean))}"
    sides = {pair.lighter is chosen for pair in level if pair.differ}
    weight = "a lighter" if sides == {True} else "a heavier"
    if all(pair.differ for pair in level) and len(sides) == 1:
        others = "both others" if len(level) == 2 else f"all {few(len(level))} others"
        judged = f"{weight} tail than {others}"
    elif not sides:
        tested = any(pair.p == pair.p for pair in level)
        judged = "tails not told apart" if tested else f"{_untested(level[0])}, no test"
    else:
        differ = sorted((pair for pair in level if pair.differ), key=lambda pair: -pair.other.tail.mean)
        less = "less" if harm.name == "cost" else "fewer"
        words = [("more" if pair.lighter is chosen else less, pair.other) for pair in differ]
        said = [f"{other.label} {word} ({harm.text(other.tail.mean)})" for word, other in words]
        same = [pair.other for pair in level if not pair.differ]
        if len(same) == 1:
            said += [f"{same[0].label} not told apart from it ({harm.text(same[0].tail.mean)})"]
        elif same:
            said += [f"{few(len(same))} others not told apart from it"]
        judged, many = "mixed tails", f"{few(len(differ))} of {few(len(level))} others"
        if len(sides) == 1:
            judged = f"{weight} tail than {many}"
        return f"{start}, {judged}: {own} in its {harm.tail} of episodes; {', '.join(said)}."
    span = f"{harm.text(min(tails))} to {harm.text(max(tails))}"
    return f"{start}, {judged}: {own} in its {harm.tail} of episodes, the others {span}."


def _verdict(view: View, pair: Pair, axis: Axis) -> str:
    """Two agents: what they have in common, how many times the one's tail is the other's, and the numbers."""
    harm, level = view.harm, "return" if axis is RETURN else view.harm.name
    heavy, light = pair.heavier, pair.lighter
    means = [number(axis.of(one), 1) if axis is RETURN else harm.text(axis.of(one)) for one in (heavy, light)]
    start = f"Equal mean {level}" if pair.close(axis) else f"Mean {level} not told apart"
    amounts = f"{heavy.label} {harm.done(harm.text(heavy.tail.mean))} in its {harm.tail} of episodes, {light.label} "
    amounts += f"{harm.text(light.tail.mean)} (mean {level} {means[0]} and {means[1]})"
    return f"{start}, {_judged(pair)}: {amounts}."


def _judged(pair: Pair) -> str:
    more = f"{times(pair.ratio)} the tail" if LARGE <= pair.ratio < float("inf") else "a heavier tail"
    if pair.ratio < LARGE:
        more = f"a tail {percent(pair.ratio - 1, digits=0)} heavier"
    if pair.differ:
        return more
    if pair.p == pair.p or pair.ratio == 1:
        return "tails not told apart"
    return f"{more} ({_untested(pair)}, no test)"


def _untested(pair: Pair) -> str:
    return "one seed" if min(len(pair.one.seeds), len(pair.other.seeds)) == 1 else "seeds all alike"


def _cards(view: View, chosen: Point, found: list[Pair]) -> list[Card]:
    """The two tails of the verdict and how many times the one is the other; without a pair the tails there are."""
    clear = pairs.clearest(found)
    if clear is None:
        rest = [pair.other for pair in found] or [point for point in view.main if point is not chosen]
        return [_card(point, chosen.allowed) for point in (chosen, *rest[:2])]
    pair, harm = clear[0].turned, view.harm
    tails = [_card(point, chosen.allowed) for point in (pair.other, pair.one)]
    told = f"p {_p(pair.p)}, corrected" if pair.p == pair.p else "no test"
    value = f"{pair.ratio:.1f} ×" if pair.ratio < float("inf") else "–"
    unit = f"the tail of {pair.one.label}" + ("" if pair.differ or pair.p != pair.p else ", not told apart")
    detail = f"difference {harm.change(*pair.tails[:2])} · {told}"
    return [*tails, Card("How much heavier", pair.other.method, value, unit, detail)]


def _card(point: Point, level: float) -> Card:
    """An agent's tail; `level` is what an episode may have."""
    harm = point.harm
    parts = [f"mean {harm.text(VIOLATIONS.of(point))}", f"return {number(point.mean_return, 1)}"]
    if level == level:
        over = percent(point.interval(lambda counts: metrics.p_over(counts, level)).mean)
        parts.append(f"over {level:g}: {over}")
    elif harm.whole:
        parts.append(f"{harm.any} {percent(point.interval(metrics.p_any).mean)}")
    detail = " · ".join(part.replace(" ", "\u00a0") for part in parts)  # a part stays on one line
    return Card(point.label, point.method, harm.pair(*point.tail[:2]), f"{harm.each} in the {harm.tail}", detail)


# ---- what else the data says --------------------------------------------------------------------------------


def _pair_view(view: View, found: list[Pair]) -> Iterator[str]:
    """Those that differ, or else the one that says most; the others in one sentence."""
    ordered, fixed = pairs.in_order(found), matched.fixed(view)
    differ = [pair for pair in ordered if pair.differ]
    told = (differ if fixed else differ[:MAX_STATED]) or ordered[:1]
    yield from (_pair_sentence(view, pair) for pair in told)
    rest = [pair for pair in ordered if pair not in told]
    if rest and fixed:
        each = [f"{pair.other.label} {view.harm.pair(*pair.other.tail[:2])} ({_tested(pair)})" for pair in rest]
        how = "Not told apart from" if any(pair.p == pair.p for pair in rest) else "Also beside"
        yield f"{how} {rest[0].one.label} by their tails: {', '.join(each)}."
    elif rest:
        many = f"{len(differ) or 'none'} differ in their tails"
        yield f"Of {len(found)} pairs at the same mean return or {view.harm.name}, {many}."


def _tested(pair: Pair) -> str:
    return f"p {_p(pair.p)}" if pair.p == pair.p else f"{_untested(pair)}, no test"


def _pair_sentence(view: View, pair: Pair) -> str:
    """Two tails, their difference, and whether the two agents are at one level."""
    harm, turned = view.harm, pair.turned
    heavy, light = turned.other, turned.one
    tails = f"{harm.pair(*heavy.tail[:2])} against {harm.pair(*light.tail[:2])} in the {harm.tail}"
    text = f"{heavy.label} and {light.label}"
    if pair.differ:
        text = f"{heavy.label} has a heavier tail than {light.label}"
    elif pair.p == pair.p:
        text += " are not told apart by their tails"
    gaps = {
        RETURN: f"return {_change(*turned.returns[:2])}",
        VIOLATIONS: f"{harm.name} {harm.change(*turned.means[:2])}",
    }
    apart = [f"{gap} (the same)" if pair.at_one(axis) else gap for axis, gap in gaps.items()]
    return f"{text}: {tails} ({_tested(pair)}). Difference of means: {', '.join(apart)}."


def _limit_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    if chosen.allowed == chosen.allowed:
        limited = view.harm.limit == view.harm.limit
        points = view.main[:MAX_LISTED] if limited else (chosen, *rivals)
        shares = [(point.label, matched.tail(point, chosen).p_over.mean) for point in points]
        listed = ", ".join(f"{label} {percent(share)}" for label, share in shares)
        yield f"Episodes over the {'limit' if limited else 'budget'} of {chosen.allowed:g}: {listed}."


def _level_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    """Frontiers read at exactly one level."""
    if matched.unmatched(chosen, rivals):
        reads = [matched.interpolated(view, chosen, rival.method) for rival in rivals]
        if listed := _listed(view, reads, chosen):
            level = number(chosen.mean_return, 1)
            yield f"Read at return {level} exactly, the {view.harm.tail} is {listed}.{_beyond(reads)}"
    if (even := matched.even(view, chosen)) is not None:
        yield _same_mean_sentence(view, even)


def _same_mean_sentence(view: View, even: matched.Even) -> str:
    """Methods that are equally ethical on average, per episode."""
    harm, level = view.harm, view.harm.text(even.level)
    tails = [f"{look(read.method).label} {harm.pair(*read.tail.cvar[:2])}" for read in even.reads if read.tail]
    text = f"Frontiers read at the same mean {harm.name} of {level}: the {harm.tail} is {', '.join(tails)}"
    if harm.whole:
        alone, least = map(harm.text, (harm.independent(even.level), harm.least(even.level)))
        text += f" (independent violations would give {alone}; {least} is the least possible)"
    return f"{text}.{_beyond(even.reads)}"


def _beyond(reads: list[matched.Interpolated]) -> str:
    beyond = [f"{look(read.method).label} ({read.between})" for read in reads if read.tail is None]
    return f" Not reached by {', '.join(beyond)}." if beyond else ""


def _listed(view: View, reads: list[matched.Interpolated], chosen: Point) -> str:
    """The tail of each method that reaches the level, and its share over budget."""
    texts = []
    for method, _, tail in reads:
        if tail is not None:
            over = f" with {percent(tail.p_over.mean)} over" if chosen.allowed == chosen.allowed else ""
            texts.append(f"{look(method).label} {view.harm.pair(*tail.cvar[:2])}{over}")
    own = f", {chosen.label} {view.harm.pair(*chosen.tail[:2])}"
    return ", ".join(texts) + own if texts else ""


def _mean_view(view: View) -> Iterator[str]:
    """Whether ESR's means lie on the other methods' frontier: by distance, since hypervolume also fills gaps."""
    areas = frontiers.hypervolumes(view)
    if not areas:
        return
    gain = f"ESR adds {percent(next(iter(areas.values()))['gain'])} of hypervolume"
    short = frontiers.short_of_frontier(view)
    placed = {label: value for label, value in short.items() if value == value}
    if not placed:
        yield f"On average: no ESR agent has violations that the other methods' frontier has too; {gain}."
        return
    span = dict.fromkeys(number(0.0 - round(value, 1), 1) for value in (max(placed.values()), min(placed.values())))
    halves = {point.label: point.gained.half for point in view.main}
    if any(-value > halves[label] for label, value in placed.items()):
        verdict = "ESR lies above the other methods' frontier, and a lighter tail may be a better optimum"
    elif any(value > halves[label] for label, value in placed.items()):
        verdict = "ESR lies below the other methods' frontier: the price of its tail, or a want of training"
    else:
        verdict = "the methods share one frontier, and means cannot tell them apart"
    beyond = [label for label in short if label not in placed]
    text = f"On average: {verdict} (ESR's returns differ from it by {' to '.join(span)}; {gain}"
    yield text + (f"; {', '.join(beyond)} beyond its ends)." if beyond else ").")


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
    harm = view.harm
    noticed = {point.label: point for point in episodes.view(view.dilemma, view.protocol, "paper").apart}
    for point in (point for point in view.apart if point.detector == "paper" and point.label in noticed):
        real, seen = matched.tail(point, point), matched.tail(noticed[point.label], point)
        text = (
            f"{point.label}: its {harm.tail} has {harm.pair(*real.cvar[:2])} violations by the exact count and "
            f"{harm.pair(*seen.cvar[:2])} by the one it was trained on"
        )
        if point.allowed == point.allowed:
            over, noted = percent(real.p_over.mean), percent(seen.p_over.mean)
            text += f"; {over} of episodes are over its budget, {noted} by that one"
        twin = view.arm(point.method, point.arm)
        if twin is not None:
            text += f". Trained on exact counts: {harm.pair(*twin.tail[:2])}"
        yield text + "."


def _change(mean: float, half: float) -> str:
    return ("+" if mean > 0 else "") + plus_minus(mean, half)


def _p(p: float) -> str:
    return p_value(p) if p < 0.001 else f"= {p_value(p)}"
