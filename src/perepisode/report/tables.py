"""The tables of a report.  Each holds what is shown (text) and what is exported (numbers)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.formatting import number, p_value, percent, plus_minus, scientific, slug, times
from perepisode.report.statistics import frontiers, matched, pairs
from perepisode.report.statistics.points import COUNTERS, PROTOCOLS, Point, View
from perepisode.report.style import dilemma_name, look

MAX_PAIRS = 20  # shown; the CSV has all
SAME = (
    "Two agents have the same mean where the 95 % interval of the difference of their means, over seeds, holds zero "
    "(with one seed, where their means are within 1 %)."
)


@dataclass(frozen=True)
class Table:
    """One table: `shown` maps a heading to its cells, `frame` is the CSV, `method` colours the row's mark."""

    name: str
    title: str
    note: str
    shown: dict[str, list[str]]
    frame: pd.DataFrame
    methods: list[str] | None = None
    wide: bool = False  # may take more than the width of the text

    @property
    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*self.shown.values()))


def matched_nearest(view: View, chosen: Point) -> Table:
    """The focal agent and, of every rival method, the arm of nearest return (the paper's Table 1)."""
    points = [chosen, *matched.partners(view, chosen)]
    found = pairs.compared(view)
    tails, p = [matched.tail(point, chosen) for point in points], [_p_of(found, chosen, point) for point in points]
    shown, frame = _tails(view.harm, _marked([(point, chosen) for point in points]), tails, p, _over(chosen))
    frame["agent"] = [point.label for point in points]
    apart = [compare.difference(point.returns, chosen.returns) for point in points]
    apart[0] = apart[0]._replace(half=float("nan"))  # from itself it differs by nothing
    shown |= {"Return, difference": ["" if one is chosen else _change(*d[:2]) for one, d in zip(points, apart)]}
    frame[["returns_difference", "returns_difference_ci"]] = [one[:2] for one in apart]
    samples = [[seed.counts for seed in point.seeds] for point in points]
    bounds = [compare.hierarchical_bootstrap(each, view.harm.alpha) for each in samples]
    shown["Bootstrap"] = [f"{view.harm.text(low)} – {view.harm.text(high)}" for low, high in bounds]
    shown["Tail / N"] = [f"{point.tail_episodes} / {point.episodes}" for point in points]
    frame["bootstrap_low"], frame["bootstrap_high"] = zip(*bounds)
    frame["tail_episodes"] = [point.tail_episodes for point in points]
    frame["episodes"] = [point.episodes for point in points]
    note = (
        f"{chosen.label}, {_why(view)}, and of every other method the agent of nearest mean return. ± is the 95 % "
        f"interval over seeds. {_test_words(len(found))} The bootstrap resamples seeds, then episodes. “Tail” is how "
        f"many of the N episodes the CVaR averages.{_marks(shown['Agent'])}"
    )
    methods = [point.method for point in points]
    return Table(f"matched_nearest_{slug(view.dilemma)}", "Matched tails, nearest return", note, shown, frame, methods)


def side_by_side(view: View) -> Table | None:
    """Every pair that is compared: how far its means are apart, and its tails."""
    found = pairs.in_order(pairs.compared(view))
    if not found:
        return None
    harm = view.harm
    rows = [
        {
            "agent": pair.heavier.label,
            "other": pair.lighter.label,
            "same": " and ".join(name for axis, name in _levels(view).items() if pair.at_one(axis)) or "neither",
            "returns_difference": pair.turned.returns.mean,
            "returns_difference_ci": pair.returns.half,
            "violations_difference": pair.turned.means.mean,
            "violations_difference_ci": pair.means.half,
            "cvar": pair.heavier.tail.mean,
            "other_cvar": pair.lighter.tail.mean,
            "cvar_difference": pair.turned.tails.mean,
            "cvar_difference_ci": pair.tails.half,
            "ratio": pair.ratio,
            "welch_t": pair.turned.t,
            "welch_p": pair.p,
        }
        for pair in found
    ]
    frame = pd.DataFrame(rows)
    least = rows[:MAX_PAIRS]
    shown = {
        "Agent": [row["agent"] for row in least],
        "Compared with": [row["other"] for row in least],
        "The same": [row["same"] for row in least],
        "Return, difference": [_change(row["returns_difference"], row["returns_difference_ci"]) for row in least],
        f"{harm.heading}, difference": [
            harm.change(row["violations_difference"], row["violations_difference_ci"]) for row in least
        ],
        harm.cvar: [f"{harm.text(row['cvar'])} and {harm.text(row['other_cvar'])}" for row in least],
        "Difference": [harm.change(row["cvar_difference"], row["cvar_difference_ci"]) for row in least],
        "Times": [times(row["ratio"]) for row in least],
        "p": [p_value(row["welch_p"]) for row in least],
    }
    which = f"All pairs of agents that have the same mean return or the same mean {harm.name}."
    if matched.fixed(view):
        which = f"{found[0].one.label} and the others' agents that are nearest to it in return or in mean {harm.name}."
    note = f"{which} {SAME} {_test_words(len(found))} Differences are the first agent's less the second's."
    if len(found) > len(least):
        note += f" The CSV has all {len(found)} pairs."
    methods = [pair.heavier.method for pair in found[:MAX_PAIRS]]
    return Table(f"pairs_{slug(view.dilemma)}", "Agents two by two", note, shown, frame, methods)


def _levels(view: View) -> dict[matched.Axis, str]:
    return {matched.RETURN: "return", matched.VIOLATIONS: view.harm.name}


def _p_of(found: list[pairs.Pair], chosen: Point, point: Point) -> float:
    return next((pair.p for pair in found if {pair.one, pair.other} == {chosen, point}), float("nan"))


def _why(view: View) -> str:
    return "fixed beforehand by its budget" if matched.fixed(view) else "which the data chose for its light tail"


def _test_words(tests: int) -> str:
    """How p is to be read."""
    many = f"for {tests} comparisons" if tests > 1 else "where there are several comparisons"
    return f"p is that of Welch's test of equal CVaR over seeds, corrected {many} (Holm)."


def matched_wider(view: View, chosen: Point) -> Table | None:
    """Every wider budget of the focal method beside its own nearest rivals: the paper pairs each ESR point."""
    both = [(point, own) for own in _wider(view, chosen) for point in (own, *matched.partners(view, own))]
    if not both:
        return None
    tails = [matched.tail(point, own) for point, own in both]
    shown, frame = _tails(view.harm, _marked(both), tails, _corrected(tails), "P(>k)")
    frame["agent"] = [point.label for point, _ in both]
    frame.insert(0, "focal", [own.label for _, own in both])
    note = (
        f"As above for each wider budget k of {look(chosen.method).label}; P(>k) and p compare with the agent of that "
        f"budget. {_test_words(_tested(tails))}{_marks(shown['Agent'])}"
    )
    title = "Matched tails of wider budgets, nearest return"
    methods = [point.method for point, _ in both]
    return Table(f"matched_wider_{slug(view.dilemma)}", title, note, shown, frame, methods)


def _wider(view: View, chosen: Point) -> list[Point]:
    return [point for point in view.of(chosen.method) if point.budget > chosen.budget]


def _marked(both: list[tuple[Point, Point]]) -> list[str]:
    """Labels, with an asterisk where a pair is not matched."""
    matches = [point is own or matched.same(matched.RETURN, own, point) for point, own in both]
    return [point.label if match else f"{point.label} *" for (point, _), match in zip(both, matches)]


def _marks(labels: list[str]) -> str:
    far = " * Not the same return: a difference of tails may be one of position."
    return far if any(label.endswith("*") for label in labels) else ""


def matched_interpolated(view: View, chosen: Point) -> Table | None:
    """The same with every rival's frontier read at exactly the return of each budget of the focal method."""
    groups, missing = [], []
    for own in (chosen, *_wider(view, chosen)):
        reads = [matched.interpolated(view, own, method) for method in matched.rivals(view, own)]
        if reached := [read for read in reads if read.tail is not None]:
            measured = matched.Interpolated(own.method, "measured", matched.tail(own, own))
            groups += [(own, own.label, measured), *((own, look(read.method).label, read) for read in reached)]
        missing += [f"{look(read.method).label} at {own.label}" for read in reads if read.tail is None]
    if not groups:
        return None
    note = (
        f"Every rival's own frontier, with the unconstrained agent as its loose end, is interpolated to the return of "
        f"{chosen.label}, and of each wider budget, so that no difference is left to position. {_between(view)}"
    )
    if missing:
        note += f" Not reached: {', '.join(missing)}."
    title, name = "Matched tails, interpolated to the same return", f"matched_interpolated_{slug(view.dilemma)}"
    over = _over(chosen) if all(own is chosen for own, *_ in groups) else "P(>k)"
    labels = [label for _, label, _ in groups]
    table = _read_table(view.harm, name, title, note, [read for *_, read in groups], labels, over)
    table.frame.insert(0, "focal", [own.label for own, *_ in groups])
    return table


def same_violations(view: View, chosen: Point) -> Table | None:
    """All methods at one mean count of violations: equally ethical on average, and per episode?"""
    found, harm = matched.even(view, chosen), view.harm
    if found is None:
        return None
    note = (
        f"All frontiers read at {harm.text(found.level)} {harm.each}, the number nearest to {chosen.label} that most "
        f"of them reach. {_between(view)}"
    )
    implied = {}
    if harm.whole:
        alone, least = harm.independent(found.level), harm.least(found.level)
        implied = {"independent_cvar": alone, "least_cvar": least}
        note += (
            f" An agent of that mean whose violations fall independently of each other has {harm.text(alone)} in its "
            f"{harm.tail}, and none has less than {harm.text(least)}."
        )
    note += "".join(f" {look(read.method).label} is left out: {read.between}." for read in found.reads if not read.tail)
    reached = [read for read in found.reads if read.tail]
    title, name = f"Methods at the same mean {harm.name}", f"same_violations_{slug(view.dilemma)}"
    labels = [look(read.method).label for read in reached]
    return _read_table(harm, name, title, note, reached, labels, _over(chosen), **implied)


def _between(view: View) -> str:
    """How a row between two arms is read."""
    how = "means and tails along a straight line."
    if view.harm.whole:
        how = (
            "means along a straight line, tails by how far they are from independent violations of the same mean; "
            "between two budgets in each episode, an agent that keeps b in 40 % of its episodes."
        )
    return (
        f"“a → b, 40%” is 40 % of the way from a to b: {how} The interval holds the error of both ends, and of where "
        "they lie; where seeds cannot tell the ends apart in position, there is none. Where the focal agent gave the "
        "level, the test holds its error too."
    )


def _read_table(
    harm: CostMeasure, name: str, title: str, note: str, reads: list[matched.Interpolated], labels, over: str, **more
) -> Table:
    """A table of tails that are read between arms; `more` is for the CSV alone."""
    tails = [read.tail for read in reads if read.tail is not None]
    shown, frame = _tails(harm, labels, tails, _corrected(tails), over)
    shown["Read between"] = [read.between for read in reads]
    frame = frame.assign(between=shown["Read between"], **more)
    return Table(name, title, f"{note} {_test_words(_tested(tails))}", shown, frame, [read.method for read in reads])


def _over(chosen: Point) -> str:
    return chosen.harm.over(chosen.allowed)


def _corrected(tails: list[matched.Tail]) -> list[float]:
    """p of the tests of one table, corrected for all of them."""
    return compare.holm([one.against_focal.p if one.against_focal else float("nan") for one in tails])


def _tested(tails: list[matched.Tail]) -> int:
    return sum(p == p for p in _corrected(tails))


def _change(mean: float, half: float) -> str:
    """A difference of returns."""
    return ("+" if mean > 0 else "") + plus_minus(mean, half)


def _tails(
    harm: CostMeasure, labels: list[str], tails: list[matched.Tail], p: list[float], over: str
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """What is compared, as it is shown and as it is exported."""
    tests = [one.against_focal for one in tails]
    shown = {
        "Agent": labels,
        "Return": [plus_minus(*one.returns[:2]) for one in tails],
        harm.heading: [harm.pair(*one.mean[:2]) for one in tails],
        harm.any: [percent(one.p_any.mean) for one in tails],
        over: [percent(one.p_over.mean) for one in tails],
        "Std": [harm.text(one.std.mean) for one in tails],
        harm.cvar: [harm.pair(*one.cvar[:2]) for one in tails],
        "p": ["" if test is None else p_value(one) for test, one in zip(tests, p)],
    }
    frame = pd.DataFrame({"agent": labels})
    for name in ("returns", "mean", "p_any", "p_over", "std", "cvar"):
        frame[[name, f"{name}_ci"]] = [getattr(one, name)[:2] for one in tails]
    frame["welch_t"] = [np.nan if test is None else test.t for test in tests]
    frame["welch_p"] = p
    return {heading: cells for heading, cells in shown.items() if heading and _says(harm, heading, cells)}, frame


def _says(harm: CostMeasure, heading: str, cells: list[str]) -> bool:
    """Whether a column says anything: where every episode costs something, P(>0) does not."""
    told = set(cells) - {"–"}
    return bool(told) and (harm.whole or heading != harm.any or bool(told - {percent(1.0)}))


def cost_of_compliance(view: View, chosen: Point) -> Table:
    """Return given up against the unconstrained agent, at each method's strict corner and matched arm."""
    assert view.unconstrained is not None
    wanted = [chosen, *matched.partners(view, chosen)]
    wanted += [view.of(method)[0] for method in view.methods if method != "unconstrained"]  # the fewest violations
    rest = [point for point in view.main if point in wanted and point is not view.unconstrained]
    points = [view.unconstrained, *rest]
    free = view.unconstrained.gained
    gaps = [compare.gap(free, point.gained) for point in points]
    gaps[0] = compare.Interval(0.0, float("nan"), free.seeds)
    frame = pd.DataFrame(
        {
            "agent": [point.label for point in points],
            "return": [point.mean_return for point in points],
            "rate": [float(point.rates.mean()) for point in points],
            "violations": [point.interval(metrics.mean).mean for point in points],
            "p_any": [point.interval(metrics.p_any).mean for point in points],
            "gap": [one.mean for one in gaps],
            "gap_ci": [one.half for one in gaps],
        }
    )
    shown = {
        "Agent": list(frame["agent"]),
        "Return": [plus_minus(*point.gained[:2]) for point in points],
        "% of unconstrained": [percent(share) for share in frame["return"] / free.mean],
        f"{view.harm.heading} / step": [scientific(rate) for rate in frame["rate"]],
        f"{view.harm.heading} / episode": [view.harm.pair(*point.interval(metrics.mean)[:2]) for point in points],
        view.harm.any: [percent(share) for share in frame["p_any"]],
        "Gap": [plus_minus(*one[:2]) for one in gaps],
    }
    note = "Gap = unconstrained return − return; its interval is √(CI² of the one + CI² of the other)."
    methods = [point.method for point in points]
    return Table(f"cost_{slug(view.dilemma)}", "Cost of compliance", note, shown, frame, methods)


def complete(view: View, dilemmas: tuple[str, ...]) -> Table:
    """Every agent of a dilemma, all dilemmas counted."""
    points = view.points
    others = [name for name in dilemmas if name != view.dilemma and name in points[0].seeds[0].others]
    chosen = matched.focal(view)
    declared = view.harm.declared(chosen.allowed if chosen else view.harm.limit)
    rows = [_complete_row(point, declared, others) for point in points]
    frame = pd.DataFrame(rows)
    counted = {one.heading: [_counted_cell(view.harm, one, row) for row in rows] for one in declared}
    shown = _joined(
        {
            "Agent": [point.label for point in points],
            "Return": [plus_minus(row["return"], row["return_ci"]) for row in rows],
            "Length": [number(row["length"], 0) for row in rows],
            view.harm.heading: counted.pop(view.harm.heading),  # an episode, and beside it a step
            "per step": [scientific(row["rate"]) for row in rows],
        },
        counted,
        {dilemma_name(name): [number(row[f"violations_{name}"]) for row in rows] for name in others},
        {
            "Utility": [number(row["utility"]) for row in rows],
            "Seeds": [str(row["seeds"]) for row in rows],
            "Episodes": [str(row["episodes"]) for row in rows],
        },
    )
    shown = {name: cells for name, cells in shown.items() if _says(view.harm, name, cells)}
    which = "All agents" if view.external else f"All agents trained for {dilemma_name(view.dilemma)}"
    note = f"{which}, {basis(view)}, means over seeds."
    if others:
        names = " and ".join(dilemma_name(name) for name in others)
        note += f" {names}: violations an episode of the dilemmas the agent was not trained for."
    methods = [point.method for point in points]
    return Table(f"complete_{slug(view.dilemma)}", "All agents", note, shown, frame, methods, wide=True)


def _complete_row(point: Point, declared: list[metrics.MetricSpec], others: list[str]) -> dict:
    agent = {
        "agent": point.label,
        "method": point.method,
        "arm": point.arm,
        "gamma": point.gamma,
        "trained_on": point.detector,
        "return": point.mean_return,
        "return_ci": point.gained.half,
        "length": point.seed_mean("lengths"),
        "utility": point.seed_mean("utilities"),
        "rate": float(point.rates.mean()),
    }
    counted = {}
    for one in declared:
        values = point.each(one.of)
        if one.largest:
            counted[one.name] = max(values)
        else:
            known = values[values == values] if np.any(values == values) else values
            counted[one.name], counted[f"{one.name}_ci"], _ = compare.t_interval(known)
    rest = {}
    for name in others:
        rest[f"violations_{name}"] = float(np.mean([seed.others[name].mean() for seed in point.seeds]))
        rest[f"cvar_{name}"] = float(np.mean([point.harm.worst(seed.others[name]) for seed in point.seeds]))
    rest["total_timesteps"] = max(seed.total_timesteps for seed in point.seeds)
    return _joined(agent, counted, rest, {"seeds": len(point.seeds), "episodes": point.episodes})


def _counted_cell(harm: CostMeasure, metric: metrics.MetricSpec, row: dict) -> str:
    interval = metric.interval and not metric.largest
    values = row[metric.name], row[f"{metric.name}_ci"] if interval else float("nan")
    if metric.scaled:
        return harm.pair(*values)
    return (percent if metric.share else plus_minus)(*values, metric.digits)


def _joined(*parts: dict) -> dict:
    """Columns side by side; none may replace another, as that of a declared metric could."""
    whole: dict = {}
    for part in parts:
        if taken := whole.keys() & part.keys():
            raise ValueError(f"the table of all agents would have two columns {min(taken)!r}; rename one of them")
        whole |= part
    return whole


def hypervolume(view: View) -> Table | None:
    areas = frontiers.hypervolumes(view)
    if not areas:
        return None
    digits = {"per step": "{:.3g}", "per episode": "{:.2f}"}
    shown = {
        "Unit of violations": list(areas),
        "Without ESR": [digits[unit].format(area["without"]) for unit, area in areas.items()],
        "With ESR": [digits[unit].format(area["with"]) for unit, area in areas.items()],
        "Gain": [percent(area["gain"]) for area in areas.values()],
        "Reference (return, violations)": [
            f"({area['reference_return']:.2f}, {area['reference_violations']:.3g})" for area in areas.values()
        ],
    }
    frame = pd.DataFrame([{"unit": unit, **area} for unit, area in areas.items()])
    note = (
        "Area that the mean points dominate down to the reference: the lowest return on the frontier and the "
        "violations of the unconstrained agent. A small gain means one shared mean frontier."
    )
    return Table(f"hypervolume_{slug(view.dilemma)}", "Hypervolume of the mean frontier", note, shown, frame)


def basis(view: View) -> str:
    if view.external:
        return f"episodes and {view.harm.name} as given"
    return f"{COUNTERS[view.counter]}, {PROTOCOLS[view.protocol]}"
