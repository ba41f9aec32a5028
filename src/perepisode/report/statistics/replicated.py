"""Every number that the paper prints, measured again here, the paper's way."""

from __future__ import annotations

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.report.statistics import matched, paper_numbers
from perepisode.report.statistics.distilled import Utility
from perepisode.report.statistics.frontiers import hypervolumes
from perepisode.report.statistics.paper_numbers import Printed
from perepisode.report.statistics.points import Episodes, Point, View
from perepisode.report.style import look

NAN = float("nan")
OF_COUNTS = {
    "mean": metrics.mean,
    "p_any": metrics.p_any,
    "std": metrics.std,
    "cvar": metrics.cvar,
    "over_1": metrics.over_one,
    "at_2": lambda counts: metrics.share_at(counts, 2, 3),
    "from_3": lambda counts: metrics.share_at(counts, 3),
}
NAMES = {
    "return": "return",
    "rate": "violations a step",
    "mean": "violations an episode",
    "p_any": "P(≥1)",
    "std": "std of violations",
    "cvar": metrics.CVAR,
    "worst": "most violations in an episode",
    "over_1": "P(>1)",
    "at_2": "share at two violations",
    "from_3": "share at three or more",
    "gap": "gap to unconstrained",
    "share_of_unconstrained": "share of unconstrained return",
    "lowest_return": "lowest return",
    "highest_return": "highest return",
    "hypervolume_without": "hypervolume without ESR (per step)",
    "hypervolume_with": "hypervolume with ESR (per step)",
    "hypervolume_gain": "gain of hypervolume",
    "welch": "Welch t of the CVaR against ESR (k=1)",
    "runs": "training runs",
    "seeds": "seeds",
    "episodes": "episodes of one agent",
    "steps": "training steps a run",
}


def views(episodes: Episodes) -> dict[str, View]:
    """Every dilemma as the paper measures it, as far as the table can tell."""
    return {name: _paper_view(episodes, name) for name in episodes.dilemmas}


def rows(episodes: Episodes, views: dict[str, View], utilities: dict[str, Utility]) -> list[dict]:
    """Each printed number, its counterpart here, and the deviation."""
    same_world = episodes.environment == paper_numbers.ENVIRONMENT
    stand_in = None if same_world else episodes.dilemmas[0]
    return [
        _row(printed, _measure(printed, views, stand_in or printed.dilemma, utilities))
        for printed in paper_numbers.NUMBERS
        if same_world or printed.dilemma in ("", paper_numbers.NK)
    ]


def _paper_view(episodes: Episodes, dilemma: str) -> View:
    counter = "paper" if episodes.has(dilemma, "paper") else "exact"
    view = episodes.view(dilemma, "window", counter)
    return view if view.points else episodes.view(dilemma, "first", counter)


def _measure(printed: Printed, views: dict[str, View], dilemma: str, utilities: dict[str, Utility]) -> Interval:
    if printed.measure is None:
        return Interval(NAN, NAN, 0)
    if printed.measure in ("runs", "seeds", "steps"):
        return Interval(of_study(printed.measure, views), NAN, 0)
    if printed.measure.startswith("utility_"):
        return Interval(_of_utility(printed.measure, utilities.get(dilemma)), NAN, 0)
    view = views.get(dilemma)
    if view is None:
        return Interval(NAN, NAN, 0)
    if printed.measure.startswith("hypervolume_"):
        area = hypervolumes(view).get("per step", {})
        return Interval(area.get(printed.measure.removeprefix("hypervolume_"), NAN), NAN, 0)
    if printed.measure in ("lowest_return", "highest_return"):
        arms = [point.mean_return for point in view.main if printed.method in ("", point.method)]
        pick = min if printed.measure == "lowest_return" else max
        return Interval(pick(arms, default=NAN), NAN, 0)
    point = _find(view, printed)
    return Interval(NAN, NAN, 0) if point is None else _of_point(printed.measure, point, view)


def _find(view: View, printed: Printed) -> Point | None:
    if printed.arm == "nearest":
        chosen = matched.focal(view)
        found = [] if chosen is None else matched.partners(view, chosen)
        return next((point for point in found if point.method == printed.method), None)
    return view.arm(printed.method, printed.arm)


def _of_point(measure: str, point: Point, view: View) -> Interval:
    returns = compare.t_interval(point.returns)
    if measure in OF_COUNTS:
        return point.interval(OF_COUNTS[measure])
    if measure == "return":
        return returns
    if measure == "rate":
        return compare.t_interval(point.rates)
    if measure == "worst":
        return Interval(float(point.each(metrics.worst).max()), NAN, 0)
    if measure == "episodes":
        return Interval(point.episodes, NAN, 0)
    if measure == "welch":
        focal = view.arm("esr", "k=1")
        return Interval(compare.welch(point.each(metrics.cvar), focal.each(metrics.cvar)).t if focal else NAN, NAN, 0)
    if measure == "gamma_cost":
        same = (other for other in view.apart if (other.method, other.arm, other.gamma) == (point.method, point.arm, 1))
        twin = next(same, None)
        return Interval(point.mean_return - twin.mean_return if twin else NAN, NAN, 0)
    if view.unconstrained is None:
        return Interval(NAN, NAN, 0)
    if measure == "gap":
        return compare.gap(compare.t_interval(view.unconstrained.returns), returns)
    assert measure == "share_of_unconstrained"
    return Interval(returns.mean / view.unconstrained.mean_return, NAN, 0)


def of_study(measure: str, views: dict[str, View]) -> float:
    seeds = [seed for view in views.values() for point in view.points for seed in point.seeds]
    if measure == "runs":
        return len({seed.run for seed in seeds})
    if measure == "steps":
        return max((seed.steps for seed in seeds), default=NAN)
    return max((len(point.seeds) for view in views.values() for point in view.points), default=NAN)


def _of_utility(measure: str, utility: Utility | None) -> float:
    _, r_ext, violations = measure.split("_")
    return NAN if utility is None else float(utility(float(r_ext), float(violations))[0])


def _row(printed: Printed, here: Interval) -> dict:
    inside = f" ({printed.arm})" if printed.arm else ""
    deviation = here.mean - printed.value
    return {
        "where": printed.where,
        "dilemma": printed.dilemma,
        "agent": look(printed.method).label + inside if printed.method else "",
        "quantity": printed.what or NAMES[printed.measure or ""],
        "measure": printed.measure,
        "paper": printed.value,
        "paper_ci": printed.ci,
        "here": here.mean,
        "here_ci": here.half,
        "deviation": deviation,
        "relative": deviation / abs(printed.value) if printed.value else NAN,
        "reason": "not in an episodes table" if printed.measure is None else "not among these runs",
    }
