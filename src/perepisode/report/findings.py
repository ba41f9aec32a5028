"""The first screen: a headline, up to three numbers, and the other findings, each in a sentence."""

from collections.abc import Iterator
from dataclasses import dataclass

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.report import caveats
from perepisode.report.formatting import difference, in_words, number, p_value, percent, plus_minus, times
from perepisode.report.statistics import frontiers, matched, pairs
from perepisode.report.statistics.matched import RETURN, VIOLATIONS, Axis
from perepisode.report.statistics.pairs import Pair
from perepisode.report.statistics.points import Episodes, Point, View
from perepisode.report.style import dilemma_name, look

MAX_STATED = 4  # pairs with a sentence of their own; the table has all
MAX_LISTED = 8  # agents in one sentence
LARGE = 1.5  # ratio of CVaRs; a smaller one is given in per cent


@dataclass(frozen=True)
class Card:
    """One number on the first screen; `method` gives its colour."""

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
    compared: list[dict]  # plain data for programs: for each dilemma the measure, its agents and every pair


def find(episodes: Episodes, views: list[View]) -> Finding:
    """The findings on the first binding dilemma, a sentence for each other dilemma, and all caveats."""
    ordered = sorted(views, key=lambda view: (matched.focal(view) is None, view.binds is False))
    first = ordered[0]
    chosen = matched.focal(first)
    if chosen is None:
        raise ValueError("no finished episode under any protocol; evaluate for longer")
    compared = {view.dilemma: pairs.compared(view) for view in views}
    of_first, rivals = compared[first.dilemma], matched.partners(first, chosen)
    headline = _headline(first, chosen, of_first)
    sentences = [*_pair_view(first, of_first), *_limit_view(first, chosen, rivals), *_level_view(first, chosen, rivals)]
    sentences += [*_mean_view(first), *_cost_view(first, chosen, rivals), *_detector_view(episodes, first)]
    for view in ordered[1:]:
        if view.binds is not False and (other := matched.focal(view)) is not None:
            sentences.append(f"{dilemma_name(view.dilemma)}: {_headline(view, other, compared[view.dilemma])}")
    name = f"{dilemma_name(first.dilemma)}: " if len(views) > 1 else ""
    all_caveats = caveats.all_of(episodes, views, first, of_first)
    data = [_plain(view, compared[view.dilemma]) for view in ordered]
    return Finding(name + headline, sentences, _cards(first, chosen, of_first), all_caveats, data)


def _plain(view: View, compared: list[Pair]) -> dict:
    """A dilemma's comparisons as plain data; unknown numbers are NaN."""
    measure, chosen = view.measure, matched.focal(view)
    plain_pairs = []
    for pair in (pair.oriented for pair in pairs.by_clarity(compared)):
        gaps = {"return": pair.returns, measure.name: pair.means, "cvar": pair.tails}
        plain_pairs.append(
            {
                "heavier": pair.other.label,
                "lighter": pair.one.label,
                "same_return": pair.matched_on(RETURN),
                f"same_{measure.name}": pair.matched_on(VIOLATIONS),
                "differences": {name: {"mean": gap.mean, "half_width": gap.half} for name, gap in gaps.items()},
                "ratio": pair.ratio,
                "p": pair.p,
                "tails_differ": bool(pair.differ),
            }
        )
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
        "fixed_beforehand": matched.prespecified(view),
        "p_corrected_for": sum(pair.p == pair.p for pair in compared),
        "agents": agents,
        "pairs": plain_pairs,
    }


# ---- the headline -------------------------------------------------------------------------------------------


def _headline(view: View, chosen: Point, compared: list[Pair]) -> str:
    at_return = [pair for pair in compared if pair.matched_on(RETURN)] if matched.prespecified(view) else []
    if len(at_return) > 1:
        return _headline_on(view, chosen, at_return)
    if (clear := pairs.clearest(compared)) is not None:
        return _headline_of_pair(view, *clear)
    measure = view.measure
    if len(view.main) == 1:
        mean = measure.averages(measure.text(VIOLATIONS.of(chosen)))
        return f"{chosen.label} {mean}, and {measure.plus_minus(*chosen.tail[:2])} in its {measure.worst_episodes}."
    if matched.prespecified(view) and compared:
        near = min((pair.other for pair in compared), key=lambda point: abs(point.mean_return - chosen.mean_return))
        returns = f"{number(near.mean_return, 1)} against {number(chosen.mean_return, 1)}"
        return (
            f"No agent has the return of {chosen.label}; the nearest is {near.label} ({returns}). In its "
            f"{measure.worst_episodes} {chosen.label} {measure.averages(measure.plus_minus(*chosen.tail[:2]))}, "
            f"{near.label} {measure.plus_minus(*near.tail[:2])}."
        )
    low, high = (pick(view.main, key=lambda point: point.tail.mean) for pick in (min, max))
    return (
        f"No two agents are matched in mean return or mean {measure.name}. {low.label} has the lowest "
        f"{measure.cvar_heading}: it {_amount(low)}; {high.label} has the highest, {measure.text(high.tail.mean)}."
    )


def _amount(point: Point) -> str:
    """ "averages 1.04 violations per episode in its worst 10 % of episodes"."""
    measure = point.measure
    return f"{measure.averages(measure.text(point.tail.mean))} in its {measure.worst_episodes}"


def _headline_on(view: View, chosen: Point, compared: list[Pair]) -> str:
    """The agent specified in advance against all others that are matched with it in return."""
    measure, tails = view.measure, [pair.other.tail.mean for pair in compared]
    equal = all(pair.nearly_equal(RETURN) for pair in compared)
    sides = {pair.lighter is chosen for pair in compared if pair.differ}
    change = f"a {'lower' if sides == {True} else 'higher'} {measure.cvar_heading}"
    others = in_words(len(compared))
    if sides and (len(sides) == 2 or not all(pair.differ for pair in compared)):
        differ = sorted((pair for pair in compared if pair.differ), key=lambda pair: -pair.other.tail.mean)
        less = "less" if measure.name == "cost" else "fewer"
        words = [("more" if pair.lighter is chosen else less, pair.other) for pair in differ]
        listed = [f"{other.label} {word} ({measure.text(other.tail.mean)})" for word, other in words]
        rest = [pair.other for pair in compared if not pair.differ]
        if len(rest) == 1:
            listed.append(f"{rest[0].label} {measure.text(rest[0].tail.mean)}, no significant difference")
        elif rest:
            listed.append(f"{in_words(len(rest))} others show no significant difference")
        result = f"{change} than {in_words(len(differ))} of {others} others"
        if len(sides) == 2:
            result = f"mixed differences in {measure.cvar_heading}"
        return f"{_verdict('return', equal, result)}: {chosen.label} {_amount(chosen)}; {'; '.join(listed)}."
    if sides:
        result = f"{change} than {'both others' if len(compared) == 2 else f'all {others} others'}"
    elif any(pair.p == pair.p for pair in compared):
        result = _SAME.format(measure.cvar_heading)
    else:
        result = f"{_untested(compared[0])}, no test"
    span = f"{measure.text(min(tails))} to {measure.text(max(tails))}"
    return f"{_verdict('return', equal, result)}: {chosen.label} {_amount(chosen)}, the others {span}."


def _headline_of_pair(view: View, pair: Pair, axis: Axis) -> str:
    """Two agents: the mean in which they are matched, the ratio of their CVaRs, and the numbers."""
    measure, mean = view.measure, "return" if axis is RETURN else view.measure.name
    high, low = pair.heavier, pair.lighter
    means = [number(axis.of(point), 1) if axis is RETURN else measure.text(axis.of(point)) for point in (high, low)]
    amounts = f"{high.label} {_amount(high)}, {low.label} {measure.text(low.tail.mean)}"
    verdict = _verdict(mean, pair.nearly_equal(axis), _result(pair))
    return f"{verdict}: {amounts} (mean {mean} {means[0]} and {means[1]})."


_SAME = "no significant difference in {}"


def _verdict(mean: str, equal: bool, result: str) -> str:
    """How the means and the CVaRs compare: "Equal mean cost, twice the CVaR 10 %"."""
    if equal:
        return f"Equal mean {mean}, {result}"
    joined = result.replace(_SAME.format(""), " or ") if result.startswith(_SAME.format("")) else f", {result}"
    return f"N{_SAME.format(f'mean {mean}')[1:]}{joined}"


def _result(pair: Pair) -> str:
    name = pair.one.measure.cvar_heading
    if pair.ratio < LARGE:
        more = f"a {percent(pair.ratio - 1, digits=0)} higher {name}"
    else:
        more = f"{times(pair.ratio)} the {name}" if pair.ratio < float("inf") else f"a higher {name}"
    if pair.differ:
        return more
    if pair.p == pair.p or pair.ratio == 1:
        return _SAME.format(name)
    return f"{more} ({_untested(pair)}, no test)"


def _untested(pair: Pair) -> str:
    return "one seed" if min(len(pair.one.seeds), len(pair.other.seeds)) == 1 else "identical seeds"


def _cards(view: View, chosen: Point, compared: list[Pair]) -> list[Card]:
    """The two CVaRs of the clearest pair and their ratio; without a pair, the CVaRs of the first agents."""
    clear = pairs.clearest(compared)
    if clear is None:
        rest = [pair.other for pair in compared] or [point for point in view.main if point is not chosen]
        return [_card(point, chosen.allowed) for point in (chosen, *rest[:2])]
    pair, measure = clear[0].oriented, view.measure
    tails = [_card(point, chosen.allowed) for point in (pair.other, pair.one)]
    test = f"p {_p(pair.p)}, corrected" if pair.p == pair.p else "no test"
    value = f"{pair.ratio:.1f} ×" if pair.ratio < float("inf") else "–"
    unit = f"{pair.other.label} / {pair.one.label}" + (
        "" if pair.differ or pair.p != pair.p else ", no significant difference"
    )
    detail = f"difference {measure.difference(*pair.tails[:2])} · {test}"
    return [*tails, Card(f"Ratio of {measure.cvar_heading}", pair.other.method, value, unit, detail)]


def _card(point: Point, level: float) -> Card:
    """An agent's CVaR; `level` is the limit or budget per episode."""
    measure = point.measure
    parts = [f"mean {measure.text(VIOLATIONS.of(point))}", f"return {number(point.mean_return, 1)}"]
    if level == level:
        share = point.interval(lambda counts: metrics.p_over(counts, level)).mean
        parts.append(f"{measure.p_over(level)} {percent(share)}")
    elif measure.is_count:
        parts.append(f"{measure.p_any} {percent(point.interval(metrics.p_any).mean)}")
    detail = " · ".join(part.replace(" ", "\u00a0") for part in parts)  # no line break within a part
    unit = f"{measure.per_episode}, {measure.worst_episodes}"
    return Card(point.label, point.method, measure.plus_minus(*point.tail[:2]), unit, detail)


# ---- other findings -----------------------------------------------------------------------------------------


def _pair_view(view: View, compared: list[Pair]) -> Iterator[str]:
    """A sentence for each significant pair, or for the clearest one, and one sentence for the rest."""
    ordered, prespecified = pairs.by_clarity(compared), matched.prespecified(view)
    name = view.measure.cvar_heading
    differ = [pair for pair in ordered if pair.differ]
    stated = (differ if prespecified else differ[:MAX_STATED]) or ordered[:1]
    yield from (_pair_sentence(view, pair) for pair in stated)
    rest = [pair for pair in ordered if pair not in stated]
    if rest and prespecified:
        each = [f"{pair.other.label} {view.measure.plus_minus(*pair.other.tail[:2])} ({_test(pair)})" for pair in rest]
        tested = any(pair.p == pair.p for pair in rest)
        start = f"No significant difference in {name} from" if tested else f"{name} compared with"
        yield f"{start} {rest[0].one.label}: {', '.join(each)}."
    elif rest:
        yield (
            f"Of {len(compared)} pairs matched in mean return or mean {view.measure.name}, {len(differ) or 'none'} "
            f"differ significantly in {name}."
        )


def _test(pair: Pair) -> str:
    return f"p {_p(pair.p)}" if pair.p == pair.p else f"{_untested(pair)}, no test"


def _pair_sentence(view: View, pair: Pair) -> str:
    """Two CVaRs, their test, and the differences of the means."""
    measure, oriented = view.measure, pair.oriented
    high, low, name = oriented.other, oriented.one, measure.cvar_heading
    text = f"{name} of {high.label} and {low.label}"
    if pair.differ:
        text = f"{high.label} has a higher {name} than {low.label}"
    elif pair.p == pair.p:
        text = f"{high.label} and {low.label} show no significant difference in {name}"
    tails = f"{measure.plus_minus(*high.tail[:2])} against {measure.plus_minus(*low.tail[:2])}"
    gaps = {
        RETURN: f"return {difference(*oriented.returns[:2])}",
        VIOLATIONS: f"{measure.name} {measure.difference(*oriented.means[:2])}",
    }
    means = [f"{gap} (matched)" if pair.matched_on(axis) else gap for axis, gap in gaps.items()]
    return f"{text}: {tails} ({_test(pair)}). Differences of means: {', '.join(means)}."


def _limit_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    if chosen.allowed == chosen.allowed:
        limited = view.measure.limit == view.measure.limit
        points = view.main[:MAX_LISTED] if limited else (chosen, *rivals)
        shares = [(point.label, matched.tail(point, chosen).p_over.mean) for point in points]
        listed = ", ".join(f"{label} {percent(share)}" for label, share in shares)
        yield f"Episodes over the {'limit' if limited else 'budget'} of {chosen.allowed:g}: {listed}."


def _level_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    """Frontiers interpolated to exactly one level."""
    if matched.unmatched(chosen, rivals):
        reads = [matched.interpolated(view, chosen, rival.method) for rival in rivals]
        if listed := _listed(view, reads, chosen):
            level = number(chosen.mean_return, 1)
            yield f"{view.measure.cvar_heading} interpolated to a return of {level}: {listed}.{_not_reached(reads)}"
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
        text += f" (independent violations would give {alone}; {least} is the least possible)"
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
    if any(-value > halves[label] for label, value in reached.items()):
        verdict = "ESR lies above the other methods' frontier, so a lower CVaR may come from better optimisation"
    elif any(value > halves[label] for label, value in reached.items()):
        verdict = "ESR lies below the other methods' frontier, the price of its CVaR or a sign of too little training"
    else:
        verdict = "the methods share one frontier, and means cannot distinguish them"
    missing = [label for label in short if label not in reached]
    text = f"On average: {verdict} (ESR's returns differ from it by {' to '.join(span)}; {gain}"
    yield text + (f"; {', '.join(missing)} lies beyond its ends)." if missing else ").")


def _cost_view(view: View, chosen: Point, rivals: list[Point]) -> Iterator[str]:
    free = view.unconstrained
    if free is not None and chosen is not free:
        gaps = [(point.label, compare.gap(free.return_interval, point.return_interval)) for point in (chosen, *rivals)]
        listed = ", ".join(f"{label} {plus_minus(*gap[:2])}" for label, gap in gaps)
        yield f"Return lost relative to the unconstrained agent ({number(free.mean_return, 1)}): {listed}."


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


def _p(p: float) -> str:
    return p_value(p) if p < 0.001 else f"= {p_value(p)}"
