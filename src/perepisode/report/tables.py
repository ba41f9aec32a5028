"""The tables of a report.  Each has the cells that the page shows (text) and a frame to export (numbers)."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from perepisode import metrics
from perepisode.evaluation import compare, verdicts
from perepisode.evaluation.verdicts import Equivalence
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.formatting import (
    difference,
    number,
    p_equals,
    p_value,
    percent,
    plus_minus,
    scientific,
    slug,
)
from perepisode.report.statistics import frontiers, matched, pairs
from perepisode.report.statistics.analysis_plan import AnalysisPlan
from perepisode.report.statistics.pairs import Pair
from perepisode.report.statistics.points import COUNTERS, PROTOCOLS, Point, View, stated
from perepisode.report.style import dilemma_name, look

MAX_PAIRS = 20  # shown; the CSV has all


@dataclass(frozen=True)
class Table:
    """One table: `shown` maps headings to cells, `frame` is the CSV, `methods` colour the marks of the rows."""

    name: str
    title: str
    note: str
    shown: dict[str, list[str]]
    frame: pd.DataFrame
    methods: list[str] | None = None
    wide: bool = False  # may be wider than the text

    @property
    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*self.shown.values()))


def matched_nearest(view: View, chosen: Point) -> Table:
    """The focal agent and the arm of nearest return of every rival method (the paper's Table 1)."""
    points = [chosen, *matched.partners(view, chosen)]
    compared = pairs.compared(view)
    tails, p = [matched.tail(point, chosen) for point in points], [_p_of(compared, chosen, point) for point in points]
    shown, frame = _tails(view.measure, _marked([(point, chosen) for point in points]), tails, p, _over(chosen))
    frame["agent"] = [point.label for point in points]
    gaps = [compare.difference(point.returns, chosen.returns) for point in points]
    gaps[0] = gaps[0]._replace(half=float("nan"))  # the focal agent itself
    shown["Return, difference"] = ["" if point is chosen else difference(*gap[:2]) for point, gap in zip(points, gaps)]
    frame[["returns_difference", "returns_difference_ci"]] = [gap[:2] for gap in gaps]
    samples = [[seed.counts for seed in point.seeds] for point in points]
    bounds = [compare.hierarchical_bootstrap(each, view.measure.alpha) for each in samples]
    shown["Bootstrap"] = [f"{view.measure.text(low)} – {view.measure.text(high)}" for low, high in bounds]
    shown["Tail / N"] = [f"{point.tail_episodes} / {point.episodes}" for point in points]
    frame["bootstrap_low"], frame["bootstrap_high"] = zip(*bounds)
    frame["tail_episodes"] = [point.tail_episodes for point in points]
    frame["episodes"] = [point.episodes for point in points]
    note = (
        f"{chosen.label}, {_why(view)}, and the agent of nearest mean return of every other method. ± is the 95 % "
        f"interval over seeds. {_test_note(compared.tested)} The bootstrap resamples seeds, then episodes. “Tail” is "
        f"the number of episodes, out of N, that the CVaR averages.{_unmatched_note(shown['Agent'])}"
    )
    methods = [point.method for point in points]
    return Table(f"matched_nearest_{slug(view.dilemma)}", "Agents of nearest mean return", note, shown, frame, methods)


def side_by_side(view: View) -> Table | None:
    """Every pair that was compared: the verdicts on its means and on its tails."""
    compared = pairs.compared(view)
    if not compared.pairs:
        return None
    measure, ordered = view.measure, [pair.oriented for pair in pairs.by_clarity(compared.pairs)]
    first = ordered[:MAX_PAIRS]
    shown = {
        "Heavier tail": [pair.other.label for pair in first],
        "Lighter tail": [pair.one.label for pair in first],
        "Tails": [_found(pair) for pair in first],
        measure.cvar_heading: [_both(measure, pair, measure.alpha) for pair in first],
        "Clearest at": [_clearest(measure, pair) for pair in first],
        measure.p_over(pairs.allowed(view)): [_shares(pair) for pair in first],
        "Mean return": [
            _with_verdict(difference(pair.returns.difference, pair.returns.half), pair.returns) for pair in first
        ],
        f"Mean {measure.name}": [
            _with_verdict(measure.difference(pair.means.difference, pair.means.half), pair.means) for pair in first
        ],
    }
    shown = {heading: cells for heading, cells in shown.items() if heading and set(cells) - {"–"}}
    note = f"{_which(view, compared)} {_test_note(compared.tested)} {margins_note(view)}"
    note += " Differences are the first agent minus the second."
    if len(ordered) > len(first):
        note += f" The CSV has all {len(ordered)} pairs."
    frame = pairs_frame(view)
    methods = [pair.other.method for pair in first]
    return Table(f"pairs_{slug(view.dilemma)}", "Pairwise comparisons", note, shown, frame, methods, wide=True)


def pairs_frame(view: View) -> pd.DataFrame:
    """Every number of the comparisons, the most informative pair first."""
    return pd.DataFrame([_pair_row(pair.oriented) for pair in pairs.by_clarity(pairs.compared(view).pairs)])


def _found(pair: Pair) -> str:
    verdict = "differ" if pair.differ else "undecided"
    return "–" if pair.p != pair.p else f"{verdict} (p {p_equals(pair.p)})"


def _both(measure: CostMeasure, pair: Pair, alpha: float) -> str:
    return " and\u00a0".join(measure.text(point.cvar_at(alpha).mean) for point in (pair.other, pair.one))


def _clearest(measure: CostMeasure, pair: Pair) -> str:
    """The CVaR at which the tails differ most clearly, if they do."""
    if not pair.differ or pair.by_share:
        return "–"
    alpha = pair.level.level
    return f"{measure._replace(alpha=alpha).cvar_heading}: {_both(measure, pair, alpha)}"


def _shares(pair: Pair) -> str:
    if pair.over is None:
        return "–"
    test = f" (p {p_equals(pair.over.corrected)})" if pair.over.corrected == pair.over.corrected else ""
    return f"{percent(pair.over.b.mean)} and {percent(pair.over.a.mean)}{test}"


def _with_verdict(text: str, means: Equivalence) -> str:
    return f"{text}, {means.verdict}" if means.half == means.half else text


def _which(view: View, compared: pairs.Compared) -> str:
    """Which pairs were compared, and who chose them."""
    first = compared.pairs[0].one.label
    if compared.chosen_by == pairs.BY_PLAN:
        return f"The comparisons were fixed beforehand by {view.plan.name}."
    if compared.chosen_by == pairs.BY_BUDGET:
        return f"{first}, fixed by its budget, and of every other method the arms nearest to it in the means."
    skipped = f", except {compared.skipped} where the higher return comes with {view.measure.more}"
    skipped = skipped if compared.skipped else ""
    return f"All pairs of agents{skipped}: no analysis plan fixed them, so the comparisons were chosen by the data."


def margins_note(view: View) -> str:
    """What the three words for means say, with the margins of this view."""
    plan, measure, share = view.plan, view.measure, percent(verdicts.MARGIN_SHARE, digits=0)
    of_return = "is unknown, because the best agent is the cleanest"
    if stated(view.return_margin):
        source = "as stated" if stated(plan.margin) else f"{share} of the range from the cleanest agent to the best"
        of_return = f"is ±{number(view.return_margin)} ({source})"
    of_cost = f"{share} of the smaller of the two means"
    if stated(plan.cost_margin):
        of_cost = f"±{measure.text(plan.cost_margin)} (as stated)"
    return (
        "Means are equivalent if two one-sided tests place their difference within a margin, different if Welch's test "
        "finds a difference (both at 5 %, corrected for all comparisons of the same mean by Holm), and undecided "
        f"otherwise. The margin of mean return {of_return}; that of mean {measure.name} is {of_cost}."
    )


def _pair_row(pair: Pair) -> dict:
    """Of an oriented pair, with every number of its tests."""
    row = {"agent": pair.other.label, "other": pair.one.label, "tails_differ": pair.differ, "p": pair.p}
    for name, means in (("return", pair.returns), ("violations", pair.means)):
        row |= {
            f"{name}_verdict": means.verdict,
            f"{name}_difference": means.difference,
            f"{name}_difference_ci": means.half,
            f"{name}_margin": means.margin,
        }
    row |= {"cvar": pair.other.tail.mean, "other_cvar": pair.one.tail.mean, "ratio": pair.ratio}
    for level in pair.tail.levels:
        at = f"{100 * level.level:g}"
        row |= {f"cvar_{at}": level.b, f"other_cvar_{at}": level.a, f"p_cvar_{at}": level.p}
    row |= {"welch_cvar_p": pair.tail.cvar_welch}
    if pair.over is not None:
        over = pair.over
        row |= {"p_over": over.b.mean, "other_p_over": over.a.mean, "p_over_p": over.corrected}
        row |= {"p_over_difference_low": over.low, "p_over_difference_high": over.high}
    return row


def _p_of(compared: pairs.Compared, chosen: Point, point: Point) -> float:
    return next((pair.p for pair in compared.pairs if {pair.one, pair.other} == {chosen, point}), float("nan"))


def _why(view: View) -> str:
    if matched.planned(view):
        return "fixed by the analysis plan"
    return "fixed by its budget" if matched.prespecified(view) else "selected for its low CVaR"


def _test_note(tests: int) -> str:
    """Of the primary test."""
    many = f", corrected for {tests} comparisons (Holm)" if tests > 1 else ""
    return f"p is of the primary test (see Definitions){many}."


def _welch_note(tests: int) -> str:
    """Of interpolated CVaRs, which have no episodes of their own."""
    many = f", corrected for {tests} comparisons (Holm)" if tests > 1 else ""
    return f"p is from Welch's test of equal CVaR over seeds{many}; it is a secondary test."


def matched_wider(view: View, chosen: Point) -> Table | None:
    """Every larger budget of the focal method with its own nearest rivals: the paper pairs each ESR agent."""
    both = [(point, own) for own in _wider(view, chosen) for point in (own, *matched.partners(view, own))]
    if not both:
        return None
    tails = [matched.tail(point, own) for point, own in both]
    shown, frame = _tails(view.measure, _marked(both), tails, _corrected(tails), "P(>k)")
    frame["agent"] = [point.label for point, _ in both]
    frame.insert(0, "focal", [own.label for _, own in both])
    note = (
        f"As above for each larger budget k of {look(chosen.method).label}; P(>k) and p are relative to the agent with "
        f"that budget. {_welch_note(_tested(tails))}{_unmatched_note(shown['Agent'])}"
    )
    title = "Agents of nearest mean return, for larger budgets"
    methods = [point.method for point, _ in both]
    return Table(f"matched_wider_{slug(view.dilemma)}", title, note, shown, frame, methods)


def _wider(view: View, chosen: Point) -> list[Point]:
    return [point for point in view.of(chosen.method) if point.budget > chosen.budget]


def _marked(both: list[tuple[Point, Point]]) -> list[str]:
    """Labels, with an asterisk if the returns of a pair differ."""
    apart = [point is not own and not matched.may_be_equal(matched.RETURN, own, point) for point, own in both]
    return [f"{point.label} *" if differs else point.label for (point, _), differs in zip(both, apart)]


def _unmatched_note(labels: list[str]) -> str:
    note = " * Its mean return is not matched (uncorrected p < 0.05): the tails may differ for that reason."
    return note if any(label.endswith("*") for label in labels) else ""


def matched_interpolated(view: View, chosen: Point) -> Table | None:
    """The same with every rival's frontier interpolated to the exact return of each budget of the focal method."""
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
        f"Every rival's frontier, which ends at the unconstrained agent, is interpolated to the return of "
        f"{chosen.label} and of each larger budget, so that the returns are equal. {_interpolation_note(view)}"
    )
    if missing:
        note += f" Not reached: {', '.join(missing)}."
    title, name = "Methods interpolated to the same mean return", f"matched_interpolated_{slug(view.dilemma)}"
    over = _over(chosen) if all(own is chosen for own, *_ in groups) else "P(>k)"
    labels = [label for _, label, _ in groups]
    table = _read_table(view.measure, name, title, note, [read for *_, read in groups], labels, over)
    table.frame.insert(0, "focal", [own.label for own, *_ in groups])
    return table


def same_violations(view: View, chosen: Point) -> Table | None:
    """All methods at the same mean violations: equal on average, but per episode?"""
    found, measure = matched.at_equal_mean(view, chosen), view.measure
    if found is None:
        return None
    note = (
        f"All frontiers interpolated to {measure.text(found.level)} {measure.per_episode}, of the values that most of "
        f"them reach the nearest to {chosen.label}. {_interpolation_note(view)}"
    )
    implied = {}
    if measure.is_count:
        alone, least = measure.independent_cvar(found.level), measure.least_cvar(found.level)
        implied = {"independent_cvar": alone, "least_cvar": least}
        note += (
            f" Independent {measure.events} with this mean would have a {measure.cvar_heading} of "
            f"{measure.text(alone)}; the least possible is {measure.text(least)}."
        )
    note += "".join(f" {look(read.method).label} is omitted: {read.between}." for read in found.reads if not read.tail)
    reached = [read for read in found.reads if read.tail]
    title, name = f"Methods at the same mean {measure.name}", f"same_violations_{slug(view.dilemma)}"
    labels = [look(read.method).label for read in reached]
    return _read_table(measure, name, title, note, reached, labels, _over(chosen), **implied)


def _interpolation_note(view: View) -> str:
    how = "means and tails along a straight line."
    if view.measure.is_count:
        how = (
            f"means along a straight line, tails by their distance from independent {view.measure.events} with the "
            "same mean; between two per-episode budgets, an agent that keeps b in 40 % of its episodes."
        )
    return (
        f"“a → b, 40%” is 40 % of the way from a to b: {how} The interval includes the error of both ends and of their "
        "positions; there is none if the positions do not differ significantly. If the focal agent defines the level, "
        "the test includes its error too."
    )


def _read_table(
    measure: CostMeasure, name: str, title: str, note: str, reads: list[matched.Interpolated], labels, over: str, **more
) -> Table:
    """A table of interpolated tails; `more` is for the CSV only."""
    tails = [read.tail for read in reads if read.tail is not None]
    shown, frame = _tails(measure, labels, tails, _corrected(tails), over)
    shown["Interpolated between"] = [read.between for read in reads]
    frame = frame.assign(between=shown["Interpolated between"], **more)
    return Table(name, title, f"{note} {_welch_note(_tested(tails))}", shown, frame, [read.method for read in reads])


def _over(chosen: Point) -> str:
    return chosen.measure.p_over(chosen.allowed)


def _corrected(tails: list[matched.Tail]) -> list[float]:
    """p of the tests of one table, corrected for their number."""
    return compare.holm([one.against_focal.p if one.against_focal else float("nan") for one in tails])


def _tested(tails: list[matched.Tail]) -> int:
    return sum(p == p for p in _corrected(tails))


def _tails(
    measure: CostMeasure, labels: list[str], tails: list[matched.Tail], p: list[float], over: str
) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """The compared metrics, as cells and as a frame."""
    tests = [one.against_focal for one in tails]
    shown = {
        "Agent": labels,
        "Return": [plus_minus(*one.returns[:2]) for one in tails],
        measure.heading: [measure.plus_minus(*one.mean[:2]) for one in tails],
        measure.p_any: [percent(one.p_any.mean) for one in tails],
        over: [percent(one.p_over.mean) for one in tails],
        "Std": [measure.text(one.std.mean) for one in tails],
        measure.cvar_heading: [measure.plus_minus(*one.cvar[:2]) for one in tails],
        "p": ["" if test is None else p_value(one) for test, one in zip(tests, p)],
    }
    frame = pd.DataFrame({"agent": labels})
    for name in ("returns", "mean", "p_any", "p_over", "std", "cvar"):
        frame[[name, f"{name}_ci"]] = [getattr(one, name)[:2] for one in tails]
    frame["welch_t"] = [np.nan if test is None else test.t for test in tests]
    frame["p"] = p
    return {
        heading: cells for heading, cells in shown.items() if heading and _informative(measure, heading, cells)
    }, frame


def _informative(measure: CostMeasure, heading: str, cells: list[str]) -> bool:
    """False for a column without values, and for P(>0) if every episode costs something."""
    values = set(cells) - {"–"}
    return bool(values) and (measure.is_count or heading != measure.p_any or bool(values - {percent(1.0)}))


def cost_of_compliance(view: View, chosen: Point) -> Table:
    """Loss of return relative to the unconstrained agent, for each method's strictest and matched arms."""
    assert view.unconstrained is not None
    wanted = [chosen, *matched.partners(view, chosen)]
    wanted += [view.of(method)[0] for method in view.methods if method != "unconstrained"]  # the fewest violations
    rest = [point for point in view.main if point in wanted and point is not view.unconstrained]
    points = [view.unconstrained, *rest]
    free = view.unconstrained.return_interval
    gaps = [compare.gap(free, point.return_interval) for point in points]
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
        "Return": [plus_minus(*point.return_interval[:2]) for point in points],
        "% of unconstrained": [percent(share) for share in frame["return"] / free.mean],
        f"{view.measure.heading} / step": [scientific(rate) for rate in frame["rate"]],
        f"{view.measure.heading} / episode": [
            view.measure.plus_minus(*point.interval(metrics.mean)[:2]) for point in points
        ],
        view.measure.p_any: [percent(share) for share in frame["p_any"]],
        "Gap": [plus_minus(*one[:2]) for one in gaps],
    }
    note = "Gap = unconstrained return − return; its interval is √(CI² of the unconstrained agent + CI² of the agent)."
    methods = [point.method for point in points]
    return Table(f"cost_{slug(view.dilemma)}", "Cost of compliance", note, shown, frame, methods)


def complete(view: View, dilemmas: tuple[str, ...]) -> Table:
    """Every agent of a dilemma, with its violations of every dilemma."""
    points = view.points
    others = [name for name in dilemmas if name != view.dilemma and name in points[0].seeds[0].others]
    chosen = matched.focal(view)
    specs = view.measure.metric_specs(chosen.allowed if chosen else view.measure.limit)
    rows = [_complete_row(point, specs, others) for point in points]
    frame = pd.DataFrame(rows)
    counted = {spec.heading: [_metric_cell(view.measure, spec, row) for row in rows] for spec in specs}
    shown = _joined(
        {
            "Agent": [point.label for point in points],
            "Return": [plus_minus(row["return"], row["return_ci"]) for row in rows],
            "Length": [number(row["length"], 0) for row in rows],
            view.measure.heading: counted.pop(view.measure.heading),  # before the same per step
            "per step": [scientific(row["rate"]) for row in rows],
        },
        counted,
        {dilemma_name(name): [number(row[f"violations_{name}"]) for row in rows] for name in others},
        {
            "Seeds": [str(row["seeds"]) for row in rows],
            "Episodes": [str(row["episodes"]) for row in rows],
        },
    )
    shown = {name: cells for name, cells in shown.items() if _informative(view.measure, name, cells)}
    which = "All agents" if view.external else f"All agents trained for {dilemma_name(view.dilemma)}"
    note = f"{which}, {basis(view)}, means over seeds."
    if others:
        names = " and ".join(dilemma_name(name) for name in others)
        note += f" {names}: violations per episode of the dilemmas that the agent was not trained for."
    if any(row["utility"] == row["utility"] for row in rows):
        note += " The CSV also has utilities; they are comparable between the settings of one method only."
    methods = [point.method for point in points]
    return Table(f"complete_{slug(view.dilemma)}", "All agents", note, shown, frame, methods, wide=True)


def complete_frame(view: View) -> pd.DataFrame:
    """The numbers of `complete`."""
    return complete(view, tuple(view.points[0].seeds[0].others)).frame


def _complete_row(point: Point, specs: list[metrics.MetricSpec], others: list[str]) -> dict:
    agent = {
        "agent": point.label,
        "method": point.method,
        "arm": point.arm,
        "gamma": point.gamma,
        "trained_on": point.detector,
        "return": point.mean_return,
        "return_ci": point.return_interval.half,
        "length": point.seed_mean("lengths"),
        "utility": point.seed_mean("utilities"),
        "rate": float(point.rates.mean()),
    }
    counted = {}
    for spec in specs:
        values = point.per_seed(spec.of)
        if spec.largest:
            counted[spec.name] = max(values)
        else:
            known = values[values == values] if np.any(values == values) else values
            counted[spec.name], counted[f"{spec.name}_ci"], _ = compare.t_interval(known)
    rest = {}
    for name in others:
        rest[f"violations_{name}"] = float(np.mean([seed.others[name].mean() for seed in point.seeds]))
        rest[f"cvar_{name}"] = float(np.mean([point.measure.cvar(seed.others[name]) for seed in point.seeds]))
    rest["total_timesteps"] = max(seed.total_timesteps for seed in point.seeds)
    return _joined(agent, counted, rest, {"seeds": len(point.seeds), "episodes": point.episodes})


def _metric_cell(measure: CostMeasure, spec: metrics.MetricSpec, row: dict) -> str:
    interval = spec.interval and not spec.largest
    values = row[spec.name], row[f"{spec.name}_ci"] if interval else float("nan")
    if spec.scaled:
        return measure.plus_minus(*values)
    return (percent if spec.share else plus_minus)(*values, spec.digits)


def _joined(*parts: dict) -> dict:
    """Merge columns; a metric declared with the name of another column is an error."""
    merged: dict = {}
    for part in parts:
        if taken := merged.keys() & part.keys():
            raise ValueError(f"the table of all agents would have two columns {min(taken)!r}; rename one of them")
        merged |= part
    return merged


def analysis_plan(plan: AnalysisPlan) -> Table:
    """The plan as its file states it."""
    shown = {"Entry": list(plan.stated), "Value": [plainly(value) for value in plan.stated.values()]}
    note = f"Read from {plan.name} ({plan.digest}). What it leaves open was decided by the data."
    return Table("analysis_plan", "What was fixed beforehand", note, shown, pd.DataFrame(shown))


def plainly(value: object) -> str:
    """A value of a file as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


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
        "Area that the means dominate relative to a reference point: the lowest return on the frontier and the "
        "violations of the unconstrained agent. A small gain means that ESR's means add little to those of the others."
    )
    return Table(f"hypervolume_{slug(view.dilemma)}", "Hypervolume of the mean frontier", note, shown, frame)


def basis(view: View) -> str:
    if view.external:
        return f"episodes and {view.measure.name} as given"
    return f"{COUNTERS[view.counter]}, {PROTOCOLS[view.protocol]}"
