"""The headline: the clearest statement that the data support, and up to three numbers.

It is about one agent and those that were compared with it.  It names a heavier tail only where the primary test finds
one, and calls means equivalent only where an equivalence test shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from perepisode import metrics
from perepisode.evaluation import verdicts
from perepisode.evaluation.compare import Interval
from perepisode.evaluation.verdicts import DIFFERENT, EQUIVALENT
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.formatting import in_words, listed, number, p_equals, percent, share_interval
from perepisode.report.statistics import matched, pairs
from perepisode.report.statistics.matched import RETURN, VIOLATIONS
from perepisode.report.statistics.pairs import Compared, Pair
from perepisode.report.statistics.points import Point, View, stated

OF_SHARES = ("card", "episodes_by_kills", "distributions", "exceedance")  # figures of shares of episodes


@dataclass(frozen=True)
class Card:
    """One number on the first screen; `method` gives its colour."""

    label: str
    method: str
    value: str
    unit: str
    detail: str


class Described(NamedTuple):
    """The number by which the headline describes a tail: a CVaR, or the share of episodes over a level."""

    measure: CostMeasure
    alpha: float  # of the CVaR; NaN for a share
    level: float = float("nan")

    @property
    def is_share(self) -> bool:
        return stated(self.level)

    def interval(self, point: Point) -> Interval:
        if self.is_share:
            return point.interval(partial(metrics.p_over, budget=self.level))
        return point.cvar_at(self.alpha)

    def text(self, point: Point) -> str:
        value = self.interval(point).mean
        return percent(value) if self.is_share else self.measure.text(value)

    def value(self, point: Point) -> str:
        """With its interval over seeds."""
        if self.is_share:
            return share_interval(*verdicts.share(point.counts, self.level))
        return self.measure.plus_minus(*self.interval(point)[:2])

    @property
    def unit(self) -> str:
        if self.is_share:
            return f"of episodes: {self.measure.exceeds(self.level)}"
        return f"{self.measure.per_episode}, {self.measure.worst(self.alpha)}"

    def sentence(self, point: Point) -> str:
        """ "averages 1.04 violations per episode in its worst 10 % of episodes"."""
        if self.is_share:
            return f"{self.measure.exceeds(self.level, verb=True)} in {self.text(point)} of its episodes"
        return f"{self.measure.averages(self.text(point))} in its {self.measure.worst(self.alpha)}"


class Statement(NamedTuple):
    """The headline: what is known of the tails, then of the means."""

    tails: str
    cards: list[Card]
    means: str = ""
    pictures: tuple[str, ...] = ("tail",)  # figures that show it, the best first

    @property
    def text(self) -> str:
        return f"{self.tails} {self.means}".strip()


def statement(view: View, chosen: Point, compared: Compared) -> Statement:
    """The clearest statement that the data support: about one agent against others that were compared with it."""
    if not compared.pairs:
        return _without_pairs(view, chosen)
    if not any(point.interval(metrics.p_any).mean for point in view.main):
        nothing = "No agent " + view.measure.exceeds(0, verb=True) + " in any episode."
        none = Described(view.measure, float("nan"), 0.0)
        return Statement(nothing, [_card(point, none) for point in view.main[:3]], "", OF_SHARES)
    fixed = compared.chosen_by != pairs.BY_DATA
    hub, about = (chosen, compared.pairs) if fixed and _all_have(chosen, compared.pairs) else _hub(compared.pairs)
    how = _described(view, hub, about)
    others = [pair.other if pair.one is hub else pair.one for pair in about]
    shown = sorted(others, key=lambda point: -how.interval(point).mean)
    return Statement(
        _tails_clause(hub, others, about, how, compared, len(view.main)),
        [_card(point, how, pair) for point, pair in _cards(hub, shown, about)],
        f"{_rest_clause(others, about)} {_means_clause(view, others, about)}".strip(),
        OF_SHARES if how.is_share else ("tail",) if how.alpha == view.measure.alpha else ("exceedance",),
    )


def _all_have(point: Point, compared: list[Pair]) -> bool:
    return all(point in pair[:2] for pair in compared)


def _hub(compared: list[Pair]) -> tuple[Point, list[Pair]]:
    """The agent of the clearest pair that differs from the most others in the same direction, and those pairs."""
    best = pairs.by_clarity(compared)[0]
    if not best.differ:
        return best.heavier, [best]
    sides = {
        point: [pair for pair in compared if pair.differ and point is side(pair)]
        for point, side in ((best.heavier, _heavier), (best.lighter, _lighter))
    }
    return max(sides.items(), key=lambda item: len(item[1]))


def _heavier(pair: Pair) -> Point:
    return pair.heavier


def _lighter(pair: Pair) -> Point:
    return pair.lighter


def _described(view: View, hub: Point, about: list[Pair]) -> Described:
    """The number that shows what the primary test found: P(> limit), else a CVaR within the support of the data.

    Beyond the support, where an agent has harm in fewer episodes than the CVaR averages, the number is P(≥1) if that
    shows the same, else the CVaR at a deeper level.
    """
    measure, level = view.measure, pairs.allowed(view)
    points = list(dict.fromkeys(point for pair in about for point in pair[:2]))
    found = [pair.oriented for pair in about if pair.differ]
    exceeded = stated(level) and max(pairs.exceeding(point, level) for point in points) >= pairs.ENOUGH
    if exceeded and all(pair.worse_by_share for pair in found):
        return Described(measure, float("nan"), level)
    clearest = pairs.by_clarity(found)[0].level.level if found else measure.alpha
    shares = [point.interval(metrics.p_any).mean for point in points]
    if min(shares) >= clearest:
        return Described(measure, clearest)
    if all(pair.worse_by_any for pair in found) if found else max(shares) < clearest:
        return Described(measure, float("nan"), 0.0)
    deeper = verdicts.cvar_support([point.counts for point in points], clearest).level
    if stated(deeper) and all(pair.other.cvar_at(deeper).mean > pair.one.cvar_at(deeper).mean for pair in found):
        return Described(measure, deeper)
    return Described(measure, clearest)


def _tails_clause(
    hub: Point, others: list[Point], about: list[Pair], how: Described, compared: Compared, agents: int
) -> str:
    """Which of the others have a heavier or a lighter tail than the agent, and the numbers of all of these."""
    own, amounts = f"{hub.label} {how.sentence(hub)}", partial(_amounts, how=how)
    if not any(stated(pair.p) for pair in about):
        return f"{own}, {amounts(others)} ({untested(about[0])})."
    kinds = {
        f"{kind} tail than": [other for other, pair in zip(others, about) if pair.differ and side(pair) is other]
        for kind, side in (("a lighter", _heavier), ("a heavier", _lighter))
    }
    if found := [f"{kind} {_group(side, agents - 1)}" for kind, side in kinds.items() if side]:
        known = [other for side in kinds.values() for other in side]
        return f"{hub.label} has {' and '.join(found)}: it {how.sentence(hub)}, {amounts(known)}."
    if compared.chosen_by != pairs.BY_DATA or agents == 2:
        return f"No difference in tails was found: {own}, {amounts(others)}."
    among = f"among {in_words(agents)} agents"
    if compared.skipped:
        some = f"{in_words(len(compared.pairs))} pairs" if len(compared.pairs) > 1 else "only pair"
        among = f"in the {some} of agents that can be compared"
    return f"No difference in tails was found {among}; the clearest contrast is that {own}, {amounts(others)}."


def _rest_clause(others: list[Point], about: list[Pair]) -> str:
    """Those of the others for which no difference was found beside others for which one was."""
    rest = [other for other, pair in zip(others, about) if not pair.differ]
    if len(rest) in (0, len(others)):
        return ""
    count = f"{in_words(len(rest))} others" if len(rest) > 2 else listed(point.label for point in rest)
    return f"No difference in tails was found between it and {count}."


def _group(some: list[Point], others: int) -> str:
    """Some of the other agents, of which there are so many."""
    if len(some) == others > 1:
        return "both others" if others == 2 else f"all {in_words(others)} others"
    return listed(point.label for point in some) if len(some) <= 2 else f"{in_words(len(some))} others"


def _amounts(points: list[Point], how: Described) -> str:
    """ "against 1.0 % for Lagrangian (d=0.5) and 13.5 % for SER (w=0.1)"."""
    ordered = sorted(points, key=lambda point: how.interval(point).mean)
    if len(ordered) > 3:
        return f"against {how.text(ordered[0])} to {how.text(ordered[-1])} for the others"
    return "against " + listed(f"{how.text(point)} for {point.label}" for point in ordered)


def _means_clause(view: View, others: list[Point], about: list[Pair]) -> str:
    """What is known of the means of the agents in the headline; nothing where one seed leaves them untested."""
    names = {RETURN: "mean return", VIOLATIONS: f"mean {view.measure.name}"}
    within = dict(zip(names.values(), _margins(view)))
    found = any(pair.differ for pair in about)  # then only of the agents that the headline tells apart
    alike: dict[str, list[str]] = {}
    parts = []
    for axis, name in names.items():
        by_verdict: dict[str, list[Point]] = {}
        for other, pair in zip(others, about):
            if stated(pair.on(axis).half) and (pair.differ or not found):
                by_verdict.setdefault(pair.on(axis).verdict, []).append(other)
        if len(by_verdict) == 1:
            alike.setdefault(next(iter(by_verdict)), []).append(name)
        elif by_verdict:
            exactly = {EQUIVALENT: f"{EQUIVALENT} to within {within[name]}"}
            each = (f"{exactly.get(verdict, verdict)} for {_group(some, 0)}" for verdict, some in by_verdict.items())
            parts.append(f"{name}: {', '.join(each)}")
    for verdict, means in reversed(alike.items()):
        parts.insert(0, _same_verdict(verdict, {name: within[name] for name in means}))
    text = "; ".join(parts)
    if text and len(about) == 1:
        text += f" ({_means_of(view, about[0])})"
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _margins(view: View) -> tuple[str, str]:
    """The margin of mean return, and that of mean violations or cost, in words."""
    of_cost = view.plan.cost_margin
    share = percent(verdicts.MARGIN_SHARE, digits=0)
    return number(view.return_margin), view.measure.text(of_cost) if stated(of_cost) else share


def _same_verdict(verdict: str, means: dict[str, str]) -> str:
    """One verdict on one or two means, which are given with their margins, against every agent."""
    *_, last = means
    both, plural = " and ".join(means), len(means) > 1 or last.endswith("s")
    if verdict == EQUIVALENT:
        return f"{both} {'are' if plural else 'is'} equivalent to within {' and '.join(means.values())}"
    if verdict == DIFFERENT:
        return f"{both} {'differ' if plural else 'differs'}"
    return f"whether {' or '.join(means)} {'differ' if last.endswith('s') else 'differs'} is undecided"


def _means_of(view: View, pair: Pair) -> str:
    first, second = pair.oriented.other, pair.oriented.one
    costs = [view.measure.text(VIOLATIONS.of(point)) for point in (first, second)]
    returns = [number(point.mean_return, 1) for point in (first, second)]
    return f"return {returns[0]} and {returns[1]}, {view.measure.name} {costs[0]} and {costs[1]}"


def _without_pairs(view: View, chosen: Point) -> Statement:
    """One agent, or agents of which each with more return is known to have more violations or cost."""
    how = _describe_alone(view, chosen)
    if len(view.main) == 1:
        return Statement(f"{chosen.label} {how.sentence(chosen)}.", [_card(chosen, how)])
    low, high = (pick(view.main, key=lambda point: how.interval(point).mean) for pick in (min, max))
    every = f"Of any two agents, the one with the higher mean return has {view.measure.more} on average"
    if matched.prespecified(view):
        every = f"There is no other method to compare {chosen.label} with"
        low = chosen
    headline = f"{every}. {low.label} {how.sentence(low)}, {_amounts([high], how)}."
    return Statement(headline, [_card(point, how) for point in dict.fromkeys((low, high))])


def _describe_alone(view: View, chosen: Point) -> Described:
    level = pairs.allowed(view)
    if stated(level) and pairs.exceeding(chosen, level) >= pairs.ENOUGH:
        return Described(view.measure, float("nan"), level)
    if min(point.interval(metrics.p_any).mean for point in view.main) < view.measure.alpha:
        return Described(view.measure, float("nan"), 0.0)
    return Described(view.measure, view.measure.alpha)


def untested(pair: Pair) -> str:
    return "one seed per agent, so no test" if min(len(point.seeds) for point in pair[:2]) == 1 else "no test"


def _cards(hub: Point, others: list[Point], about: list[Pair]) -> Iterator[tuple[Point, Pair | None]]:
    """The agent of the headline and the two that are furthest from it, the heaviest tail first."""
    by_other = {pair.other if pair.one is hub else pair.one: pair for pair in about}
    differing = [other for other in others if by_other[other].differ] or others
    shown = differing if len(differing) < 3 else [differing[0], differing[-1]]
    if len(shown) < 2:
        shown += [other for other in others if other not in shown][: 2 - len(shown)]
    yield hub, None
    yield from ((other, by_other[other]) for other in shown)


def _card(point: Point, how: Described, pair: Pair | None = None) -> Card:
    """An agent's number; `pair` is its comparison with the first card's agent."""
    measure = point.measure
    parts = [f"mean {measure.text(VIOLATIONS.of(point))}", f"return {number(point.mean_return, 1)}"]
    if how.is_share:
        parts.append(f"{measure.cvar_heading} {measure.text(point.tail.mean)}")
    if pair is not None:
        parts += [f"p {p_equals(pair.p)}"] if stated(pair.p) else []
    detail = " · ".join(part.replace(" ", "\u00a0") for part in parts)  # no line break within a part
    return Card(point.label, point.method, how.value(point), how.unit, detail)
