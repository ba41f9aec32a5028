"""The tables of a report.  Each holds what is shown (text) and what is exported (numbers)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.report.harm import Harm
from perepisode.report.statistics import frontiers, matched
from perepisode.report.statistics.points import COUNTERS, PROTOCOLS, Point, View
from perepisode.report.style import dilemma_name, look
from perepisode.report.words import number, p_value, percent, plus_minus, scientific, slug


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
    tails = [matched.tail(point, chosen) for point in points]
    shown, frame = _tails(view.harm, [point.label for point in points], tails, _over(chosen))
    shown["Agent"] = _marked(view, [(point, chosen) for point in points])
    if over := _over(chosen):
        shown[over] = [percent(one.p_over.mean) for one in tails]  # its interval would not fit beside the bootstrap's
    bounds = [
        compare.hierarchical_bootstrap([seed.counts for seed in point.seeds], view.harm.worst) for point in points
    ]
    shown["Bootstrap"] = [f"{view.harm.text(low)} – {view.harm.text(high)}" for low, high in bounds]
    shown["Tail / N"] = [f"{point.tail_episodes} / {point.episodes}" for point in points]
    frame["bootstrap_low"], frame["bootstrap_high"] = zip(*bounds)
    frame["tail_episodes"] = [point.tail_episodes for point in points]
    frame["episodes"] = [point.episodes for point in points]
    note = (
        "Paired by nearest mean return. ± is the 95 % t interval over seeds; Welch's test compares the CVaR "
        f"with {chosen.label}. The bootstrap resamples seeds, then episodes. “Tail” is how many of the N "
        f"episodes the CVaR averages.{_marks(shown['Agent'])}"
    )
    methods = [point.method for point in points]
    return Table(f"matched_nearest_{slug(view.dilemma)}", "Matched tails, nearest return", note, shown, frame, methods)


def matched_wider(view: View, chosen: Point) -> Table | None:
    """Every wider budget of the focal method beside its own nearest rivals: the paper pairs each ESR point."""
    pairs = [(point, own) for own in _wider(view, chosen) for point in (own, *matched.partners(view, own))]
    if not pairs:
        return None
    tails = [matched.tail(point, own) for point, own in pairs]
    shown, frame = _tails(view.harm, [point.label for point, _ in pairs], tails, "P(>k)")
    shown["Agent"] = _marked(view, pairs)
    frame.insert(0, "focal", [own.label for _, own in pairs])
    note = (
        f"As above for each wider budget k of {look(chosen.method).label}; P(>k) and Welch's test compare with the "
        f"agent of that budget.{_marks(shown['Agent'])}"
    )
    title = "Matched tails of wider budgets, nearest return"
    methods = [point.method for point, _ in pairs]
    return Table(f"matched_wider_{slug(view.dilemma)}", title, note, shown, frame, methods)


def _wider(view: View, chosen: Point) -> list[Point]:
    return [point for point in view.of(chosen.method) if point.budget > chosen.budget]


def _marked(view: View, pairs: list[tuple[Point, Point]]) -> list[str]:
    """Labels, with an asterisk where a pair is not matched."""
    return [point.label if matched.is_matched(view, own, point) else f"{point.label} *" for point, own in pairs]


def _marks(labels: list[str]) -> str:
    far = f" * further than {percent(matched.FAR, digits=0)} of return away: not truly matched."
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
    table = _read_table(
        view.harm, name, title, note, [read for *_, read in groups], [label for _, label, _ in groups], over
    )
    table.frame.insert(0, "focal", [own.label for own, *_ in groups])
    return table


def same_violations(view: View, chosen: Point) -> Table | None:
    """All methods at one mean count of violations: equally ethical on average, and per episode?"""
    found = matched.even(view, chosen)
    if found is None:
        return None
    note = (
        f"All frontiers read at {view.harm.text(found.level)} {view.harm.each}, the number nearest to {chosen.label} "
        f"that most of them reach. {_between(view)}"
    )
    implied = {}
    if view.harm.whole:
        alone, least = view.harm.independent(found.level), view.harm.least(found.level)
        implied = {"independent_cvar": alone, "least_cvar": least}
        note += (
            f" An agent of that mean whose violations fall independently of each other has {view.harm.text(alone)} in "
            f"its {view.harm.tail}, and none has less than {view.harm.text(least)}."
        )
    note += "".join(f" {look(read.method).label} is left out: {read.between}." for read in found.reads if not read.tail)
    reached = [read for read in found.reads if read.tail]
    title, name = "Methods at the same mean violations", f"same_violations_{slug(view.dilemma)}"
    labels = [look(read.method).label for read in reached]
    return _read_table(view.harm, name, title, note, reached, labels, _over(chosen), **implied)


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
    harm: Harm, name: str, title: str, note: str, reads: list[matched.Interpolated], labels, over: str, **more
) -> Table:
    """A table of tails that are read between arms; `more` is for the CSV alone."""
    shown, frame = _tails(harm, labels, [read.tail for read in reads if read.tail is not None], over)
    shown["Read between"] = [read.between for read in reads]
    frame = frame.assign(between=shown["Read between"], **more)
    return Table(name, title, note, shown, frame, [read.method for read in reads])


def _over(chosen: Point) -> str:
    return f"P(>{chosen.budget:g})" if chosen.budget == chosen.budget else ""


def _tails(
    harm: Harm, labels: list[str], tails: list[matched.Tail], over: str
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """What is compared, as it is shown and as it is exported."""
    tests = [one.against_focal for one in tails]
    shown = {
        "Agent": labels,
        "Return": [plus_minus(*one.returns[:2]) for one in tails],
        harm.heading: [harm.pair(*one.mean[:2]) for one in tails],
        harm.any: [number(one.p_any.mean) for one in tails],
        over: [percent(*one.p_over[:2]) for one in tails],
        "Std": [harm.text(one.std.mean) for one in tails],
        harm.cvar: [harm.pair(*one.cvar[:2]) for one in tails],
        "Welch t (p)": ["" if test is None else f"{number(test.t, 1)} ({p_value(test.p)})" for test in tests],
    }
    frame = pd.DataFrame({"agent": labels})
    for name in ("returns", "mean", "p_any", "p_over", "std", "cvar"):
        frame[[name, f"{name}_ci"]] = [getattr(one, name)[:2] for one in tails]
    frame[["welch_t", "welch_p"]] = [(np.nan, np.nan) if test is None else test[:2] for test in tests]
    return {heading: cells for heading, cells in shown.items() if heading}, frame


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
        view.harm.any: [number(share) for share in frame["p_any"]],
        "Gap": [plus_minus(*one[:2]) for one in gaps],
    }
    note = "Gap = unconstrained return − return; its interval is √(CI² of the one + CI² of the other)."
    methods = [point.method for point in points]
    return Table(f"cost_{slug(view.dilemma)}", "Cost of compliance", note, shown, frame, methods)


def complete(view: View, dilemmas: tuple[str, ...]) -> Table:
    """Every agent of a dilemma, all dilemmas counted."""
    points = view.points
    others = [name for name in dilemmas if name != view.dilemma and name in points[0].seeds[0].others]
    rows = [_complete_row(point, others) for point in points]
    frame = pd.DataFrame(rows)
    counted = {one.heading: [_counted_cell(one, row) for row in rows] for one in metrics.DECLARED.values()}
    shown = _joined(
        {
            "Agent": [point.label for point in points],
            "Return": [plus_minus(row["return"], row["return_ci"]) for row in rows],
            "Length": [number(row["length"], 0) for row in rows],
            "Violations": counted.pop("Violations"),  # an episode, and beside it a step
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
    shown = {name: cells for name, cells in shown.items() if any(cell != "–" for cell in cells)}
    note = f"All agents trained for {dilemma_name(view.dilemma)}, {basis(view)}, means over seeds."
    if others:
        names = " and ".join(dilemma_name(name) for name in others)
        note += f" {names}: violations an episode of the dilemmas the agent was not trained for."
    methods = [point.method for point in points]
    return Table(f"complete_{slug(view.dilemma)}", "All agents", note, shown, frame, methods, wide=True)


def _complete_row(point: Point, others: list[str]) -> dict:
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
    for one in metrics.DECLARED.values():
        if one.largest:
            counted[one.name] = max(point.each(one.of))
        else:
            counted[one.name], counted[f"{one.name}_ci"], _ = point.interval(one.of)
    rest = {}
    for name in others:
        rest[f"violations_{name}"] = float(np.mean([seed.others[name].mean() for seed in point.seeds]))
        rest[f"cvar_{name}"] = float(np.mean([point.harm.worst(seed.others[name]) for seed in point.seeds]))
    rest["steps"] = max(seed.steps for seed in point.seeds)
    return _joined(agent, counted, rest, {"seeds": len(point.seeds), "episodes": point.episodes})


def _counted_cell(metric: metrics.Declared, row: dict) -> str:
    if metric.interval and not metric.largest:
        return plus_minus(row[metric.name], row[f"{metric.name}_ci"], metric.digits)
    return number(row[metric.name], metric.digits)


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
    return "episodes and counts as given" if view.external else f"{COUNTERS[view.counter]}, {PROTOCOLS[view.protocol]}"
