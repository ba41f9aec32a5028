"""The figures of tails: CVaR against the mean, shares of episodes over every level, CVaR at every alpha."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.drawing import marks
from perepisode.report.drawing.canvas import Drawing, is_narrow, sheet
from perepisode.report.drawing.marks import mean_of, name_of
from perepisode.report.formatting import listed, multiple
from perepisode.report.statistics import matched, pairs, tails
from perepisode.report.statistics.points import Point, View
from perepisode.report.style import FAINT, INK, look, sweeps

LAWS = (
    ("independent {events}", metrics.independent_cvar, {"ls": ":", "lw": 1.4}),
    ("least possible", metrics.least_cvar, {"lw": 5, "alpha": 0.4}),  # broader than any agent's line
)
RARE = 0.05  # a share that a linear axis cannot show
FAR = 100.0  # times the median: larger costs need a logarithmic axis
VISIBLE = 400  # points of a curve; a staircase of more steps looks like a line
FAR_OUT = 1.5  # times the range of all others: not drawn
ROUNDING = 1e-9
STEEP = 10.0  # times the smallest CVaR: needs a logarithmic axis
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # alphas


def tail(view: View, exact: Sequence[dict]) -> Drawing:
    """CVaR against the mean, with the least possible CVaR and that of independent violations."""
    figure, axes = sheet(4.1)
    measure, shown = view.measure, _in_frame(view)
    caption = (
        f"{measure.cvar_heading}, the mean over the {measure.worst_episodes}, against the mean over all"
        f"{marks.over_seeds(view.main)}: agents with equal means differ in height only."
    )
    if measure.is_count:
        caption += f" Dotted: independent {measure.events}. {_draw_laws(axes, shown)}"
    for method, own in itertools.groupby(shown, lambda point: point.method):
        _draw_tails(axes, method, sorted(own, key=mean_of))
    if any(sweeps(method) and len(view.of(method)) > 1 for method in view.methods):
        caption += " Curves: interpolation between the settings of a method."
    marks.draw_exact(axes, exact, "cvar", "none")
    marks.against_mean(axes, measure, f"{measure.cvar_heading} ({measure.name})")
    right, top = _ends(shown) if len(shown) < len(view.main) else (axes.get_xlim()[1], axes.get_ylim()[1])
    axes.set(xlim=(-0.03 * right, right), ylim=(-0.03 * top, top))
    if far := [point for point in view.main if point not in shown]:
        name = measure.cvar_heading
        listed = [f"{p.label} (mean {measure.text(mean_of(p))}, {name} {measure.text(p.tail.mean)})" for p in far]
        caption += f" Outside the frame: {', '.join(listed)}."
    names = [(mean_of(point), point.tail.mean, name_of(point)) for point in shown]
    marks.name_all(axes, [*_draw_clearest(axes, view), *names])
    return Drawing(figure, pd.DataFrame([_tail_row(point) for point in view.main]), caption)


def _draw_tails(axes: Axes, method: str, points: list[Point]) -> None:
    means = [point.interval(metrics.mean) for point in points]
    marks.draw_points(axes, method, means, [point.tail for point in points], joined=False, nonnegative=True)
    for low, high in itertools.pairwise(points if sweeps(method) else []):
        axes.plot(*matched.tails_between(low, high), color=look(method).colour, lw=1.1, zorder=2)


def _in_frame(view: View) -> list[Point]:
    """All agents except those without a setting that lie so far out that the others could not be distinguished."""
    right, top = _ends([point for point in view.main if sweeps(point.method)] or view.main)
    return [point for point in view.main if mean_of(point) <= FAR_OUT * right and point.tail.mean <= FAR_OUT * top]


def _ends(points: Sequence[Point]) -> tuple[float, float]:
    """The ends of both axes; of an interval wider than half its mean, only that half counts."""
    both = [(point.interval(metrics.mean), point.tail) for point in points]
    ends = [max(found.mean + min(np.nan_to_num(found.half), found.mean / 2) for found in each) for each in zip(*both)]
    return 1.05 * ends[0], 1.05 * ends[1]


def _draw_clearest(axes: Axes, view: View) -> list[tuple[float, float, str]]:
    """An arrow between the agents of the clearest pair, and its label; none if a CVaR is beyond the data's support."""
    pair = next(iter(pairs.by_clarity(pairs.compared(view).pairs)), None)
    if pair is None or not pair.differ or not pair.supported:
        return []
    low, high = ((mean_of(point), point.tail.mean) for point in (pair.lighter, pair.heavier))
    axes.annotate("", high, low, arrowprops={"arrowstyle": "<->", "color": INK, "lw": 1.1, "shrinkA": 5, "shrinkB": 5},
                  zorder=3)  # fmt: skip
    middle = ((low[0] + high[0]) / 2, (low[1] + high[1]) / 2)
    name = view.measure._replace(alpha=pair.level.level).cvar_heading
    return [(*middle, f"{name}: {multiple(pair.ratio)}")]


def _draw_laws(axes: Axes, points: Sequence[Point]) -> str:
    """The CVaRs that a mean implies, and a sentence on the bound.

    The bound is for the largest tail share, so that no run lies below it.  It is not convex, so the mean over runs with
    different means may: the runs of such an agent are drawn too.
    """
    share = max(point.measure.tail_share(seed.counts.size) for point in points for seed in point.seeds)
    below = [point for point in points if point.tail.mean < metrics.least_cvar(mean_of(point), share) - ROUNDING]
    most = max([*map(mean_of, points), *(mean for point in below for mean in point.per_seed(metrics.mean))])
    steps = range(int(most) + 1 if most < VISIBLE else 0)
    corners = [whole + part for whole in steps for part in (0, share) if whole + part <= most]
    means = np.union1d(np.linspace(0, most, VISIBLE), corners)
    for label, law, line in LAWS:
        named = label.format(events=points[0].measure.events)
        axes.plot(means, [law(mean, share) for mean in means], color=FAINT, label=named, zorder=1, **line)
    for point in below:
        axes.plot(point.per_seed(metrics.mean), point.tails, "o", color=look(point.method).colour, ms=3.5, mfc="none",
                  label="single run", zorder=3)  # fmt: skip
    promise = "No single run can lie below the broad line."
    if not below:
        return promise
    names = listed(point.label for point in below)
    lies, its = ("lies", "its") if len(below) == 1 else ("lie", "their")
    return (
        f"{promise} The mean over runs may, if the runs differ in their means: {names} {lies} below it, and {its} runs "
        "(small circles) do not."
    )


def _tail_row(point: Point) -> dict:
    measure = point.measure
    row: dict = {"agent": point.label, "method": point.method}
    for name, metric in (("violations", metrics.mean), ("cvar", measure.cvar)):
        row[name], row[f"{name}_ci"], _ = point.interval(metric)
    if measure.is_count:
        row["least_cvar"] = point.interval(_implied(metrics.least_cvar, measure)).mean
        row["independent_cvar"] = point.interval(_implied(metrics.independent_cvar, measure)).mean
    with np.errstate(invalid="ignore"):  # undefined without violations
        dispersions = point.per_seed(metrics.std) ** 2 / point.per_seed(metrics.mean)  # 1 for independent violations
    row["least_dispersion"], row["most_dispersion"] = dispersions.min(), dispersions.max()
    return row


def _implied(law: Callable[[float, float], float], measure: CostMeasure) -> compare.Metric:
    """The CVaR that a seed's mean implies, for its number of episodes."""
    return lambda counts: law(metrics.mean(counts), measure.tail_share(counts.size))


def exceedance(points: Sequence[Point], allowed: float) -> Drawing:
    """P(V > x) of each agent; `allowed` is the limit or the budget, or NaN."""
    figure, axes = sheet(4.2)
    measure, curves = points[0].measure, [tails.exceedance(point) for point in points]
    for point, curve in zip(points, curves):
        _draw_exceedance(axes, point, curve)
    axes.set(xlabel=f"x ({measure.per_episode})", ylabel="episodes with more than x")
    caption = "Share of episodes with more than x."
    if any(len(point.seeds) > 1 for point in points):
        caption += " Thick lines: mean over seeds; thin lines: each seed."
    rarest = min(curve.mean[curve.mean > 0].min(initial=1.0) for curve in curves)
    if rarest < RARE:
        axes.set_yscale("log")
        axes.set_ylim(0.6 * rarest, 1.25)
        caption += " Each tick down is ten times rarer."
    else:
        axes.set_ylim(0, 1.05)
    marks.in_percent(axes.yaxis)
    axes.axhline(measure.alpha, color=FAINT, lw=1, ls=":", zorder=1)
    axes.text(1.0, measure.alpha, f"worst {100 * measure.alpha:g} %", transform=axes.get_yaxis_transform(), ha="right",
              va="bottom", fontsize=9, color=INK)  # fmt: skip
    caption += _draw_levels(axes, points, allowed)
    marks.legend_below(axes, handlelength=3.2)
    return Drawing(figure, pd.concat(map(_exceedance_frame, points, curves), ignore_index=True), caption)


def _draw_exceedance(axes: Axes, point: Point, curve: tails.Exceedance) -> None:
    _, colour, marker, line = look(point.method)
    for shares in curve.shares if len(curve.shares) > 1 else ():
        axes.step(curve.levels, shares, where="post", color=colour, lw=0.7, alpha=0.5, zorder=2)
    last = max(np.flatnonzero(curve.mean), default=0)
    axes.step(curve.levels, curve.mean, where="post", color=colour, ls=line, lw=2.2, marker=marker, ms=7,
              markevery=[last], zorder=3, label=point.label)  # fmt: skip


def _draw_levels(axes: Axes, points: Sequence[Point], allowed: float) -> str:
    """Set the axis of levels, mark the limit or budget, and return a sentence on it."""
    values = np.concatenate([seed.counts for point in points for seed in point.seeds])
    most, middle, measure = values.max(), np.median(values), points[0].measure
    name = "limit" if measure.limit == allowed else "budget"
    if allowed > 2 * most:
        sentence, right = f" Every episode is far below the {name} of {allowed:g}.", most
    elif allowed == allowed:
        marks.mark_limit(axes, allowed, f"{name} {allowed:g}")
        sentence = f" Right of the dash-dotted line, an episode exceeds the {name}."
        right = max(most, allowed)
    else:
        sentence, right = "", most
    if not measure.is_count and most > FAR * middle > 0 and not allowed <= 0:
        axes.set_xscale("log")
        marks.plain_log_ticks(axes.xaxis, (1, 3) if is_narrow() else (1, 2, 5))
    else:
        axes.set_xlim(-0.02 * right, 1.05 * right if right else 1.0)
    return sentence


def _exceedance_frame(point: Point, curve: tails.Exceedance) -> pd.DataFrame:
    least, most = curve.shares.min(axis=0), curve.shares.max(axis=0)
    return pd.DataFrame({"agent": point.label, "more_than": curve.levels, "share": curve.mean, "least_seed": least,
                         "most_seed": most, "seeds": len(curve.shares)})  # fmt: skip


def levels(points: Sequence[Point]) -> Drawing:
    """CVaR against alpha, the share of episodes that it averages, with intervals over seeds."""
    figure, axes = sheet(4.1)
    measure, curves = points[0].measure, [tails.cvars(point) for point in points]
    faint = 0.13 if len(points) < 6 else 0.05  # bands of many agents overlap
    for point, each in zip(points, curves):
        _, colour, marker, line = look(point.method)
        means, (down, up) = np.array([cvar.mean for cvar in each]), marks.halves(each)
        axes.fill_between(tails.FRACTIONS, means - down, means + up, color=colour, alpha=faint, lw=0)
        axes.plot(tails.FRACTIONS, means, color=colour, ls=line, lw=1.8, marker=marker, ms=5.5, label=point.label)
    axes.set_xscale("log")
    axes.set_xticks(TICKS)
    marks.in_percent(axes.xaxis)
    least, most = (pick(cvar.mean for each in curves for cvar in each) for pick in (min, max))
    if most > STEEP * least > 0:
        axes.set_yscale("log")
        axes.set_ylim(0.7 * least, 1.6 * most)
        marks.plain_log_ticks(axes.yaxis)
    else:
        axes.set_ylim(0, 1.35 * most or 1.0)
    axes.axvline(measure.alpha, color=FAINT, lw=1, ls=":", zorder=1)
    axes.text(measure.alpha, 1.0, measure.cvar_heading, transform=axes.get_xaxis_transform(), ha="center", va="bottom",
              fontsize=9, color=INK)  # fmt: skip
    axes.set(xlabel="share of episodes, the worst first", ylabel=f"CVaR ({measure.name})")
    marks.legend_below(axes, handlelength=3.2)
    caption = "CVaR, the mean over the worst episodes, from the worst 1 % to the worst 50 %."
    if any(len(point.seeds) > 1 for point in points):
        caption += " Bands: 95 % t intervals over seeds, cut off at the frame."
    caption += " Where lines cross, a different agent is the safer one for rarer events."
    return Drawing(figure, pd.concat(map(_levels_frame, points, curves), ignore_index=True), caption)


def _levels_frame(point: Point, curve: Sequence[Interval]) -> pd.DataFrame:
    means, halves, seeds = zip(*curve)
    return pd.DataFrame({"agent": point.label, "alpha": tails.FRACTIONS, "cvar": means, "cvar_ci": halves,
                         "seeds": seeds})  # fmt: skip
