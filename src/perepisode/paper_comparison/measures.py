"""Every number that the paper prints, measured here in the paper's way."""

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.paper_comparison import numbers
from perepisode.paper_comparison.numbers import Printed
from perepisode.report.statistics import matched
from perepisode.report.statistics.distilled import Utility
from perepisode.report.statistics.frontiers import hypervolumes
from perepisode.report.statistics.points import Episodes, Point, View
from perepisode.report.style import look

NAN = float("nan")
# of one seed's counts, in addition to the metrics of every report
OF_COUNTS = {
    "p_2": lambda counts: metrics.share_at(counts, 2, 3),
    "p_over_2": lambda counts: metrics.p_over(counts, 2),
}
OF_POINT = {
    "return": lambda point: point.return_interval,
    "rate": lambda point: compare.t_interval(point.rates),
    "episodes": lambda point: point.episodes,
}


def views(episodes: Episodes) -> dict[str, View]:
    """Every dilemma as the paper measures it, as far as the table permits."""
    found = {}
    for name in episodes.dilemmas:
        counter = "paper" if episodes.has(name, "paper") else "exact"
        view = episodes.view(name, "window", counter)
        found[name] = view if view.points else episodes.view(name, "first", counter)
    return found


def rows(views: dict[str, View], utilities: dict[str, Utility]) -> list[dict]:
    """Each printed number, its counterpart here (NaN if these runs have none), and the deviation."""
    return [_row(printed, _measure(printed, views, utilities)) for printed in numbers.NUMBERS]


def _measure(printed: Printed, views: dict[str, View], utilities: dict[str, Utility]) -> Interval | float:
    measure, view = printed.measure, views.get(printed.dilemma)
    if measure is None:
        return NAN
    if measure in ("runs", "seeds", "steps"):
        return of_study(measure, views)
    if measure.startswith("utility_"):
        _, r_ext, violations = measure.split("_")
        utility = utilities.get(printed.dilemma)
        return NAN if utility is None else float(utility(float(r_ext), float(violations))[0])
    if view is None:
        return NAN
    if measure.startswith("hypervolume_"):
        return hypervolumes(view).get("per step", {}).get(measure.removeprefix("hypervolume_"), NAN)
    if measure in ("lowest_return", "highest_return"):
        arms = [point.mean_return for point in view.main if printed.method in ("", point.method)]
        return (min if measure == "lowest_return" else max)(arms, default=NAN)
    point = _find(view, printed)
    return NAN if point is None else _of_point(measure, point, view)


def _find(view: View, printed: Printed) -> Point | None:
    if printed.arm == "nearest":
        chosen = matched.focal(view)
        found = [] if chosen is None else matched.partners(view, chosen)
        return next((point for point in found if point.method == printed.method), None)
    return view.arm(printed.method, printed.arm)


def _of_point(measure: str, point: Point, view: View) -> Interval | float:
    if spec := metrics.METRIC_SPECS.get(measure):
        return float(max(point.per_seed(spec.of))) if spec.largest else point.interval(spec.of)
    if measure in OF_COUNTS:
        return point.interval(OF_COUNTS[measure])
    if measure in OF_POINT:
        return OF_POINT[measure](point)
    if measure == "welch":
        focal = view.arm("esr", "k=1")
        return compare.welch(point.per_seed(metrics.cvar), focal.per_seed(metrics.cvar)).t if focal else NAN
    if measure == "gamma_cost":
        same = (
            other for other in view.variants if (other.method, other.arm, other.gamma) == (point.method, point.arm, 1)
        )
        undiscounted = next(same, None)
        return point.mean_return - undiscounted.mean_return if undiscounted else NAN
    if view.unconstrained is None:
        return NAN
    if measure == "gap":
        return compare.gap(view.unconstrained.return_interval, point.return_interval)
    assert measure == "share_of_unconstrained"
    return point.mean_return / view.unconstrained.mean_return


def of_study(measure: str, views: dict[str, View]) -> float:
    seeds = [seed for view in views.values() for point in view.points for seed in point.seeds]
    if measure == "runs":
        return len({seed.run for seed in seeds})
    if measure == "steps":
        return max((seed.total_timesteps for seed in seeds), default=NAN)
    return max((len(point.seeds) for view in views.values() for point in view.points), default=NAN)


def _row(printed: Printed, measured: Interval | float) -> dict:
    here = measured if isinstance(measured, Interval) else Interval(measured, NAN, 0)
    inside = f" ({printed.arm})" if printed.arm else ""
    deviation = here.mean - printed.value
    return {
        "where": printed.where,
        "dilemma": printed.dilemma,
        "agent": look(printed.method).label + inside if printed.method else "",
        "quantity": printed.what,
        "measure": printed.measure,
        "paper": printed.value,
        "paper_ci": printed.ci,
        "here": here.mean,
        "here_ci": here.half,
        "deviation": deviation,
        "relative": deviation / abs(printed.value) if printed.value else NAN,
    }
