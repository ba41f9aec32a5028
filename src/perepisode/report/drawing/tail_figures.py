"""The figures of tails: against the mean, beyond every level, at every alpha."""

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
from perepisode.report.drawing.canvas import Drawing, name_points, sheet
from perepisode.report.drawing.marks import mean_of, name_of
from perepisode.report.statistics import matched, pairs, tails
from perepisode.report.statistics.points import Point, View
from perepisode.report.style import FAINT, INK, look, sweeps

LAWS = (
    ("independent of each other", metrics.independent_cvar, {"ls": ":", "lw": 1.4}),
    ("least possible", metrics.least_cvar, {"lw": 5, "alpha": 0.4}),  # broad, as no line of an agent is
)
RARE = 0.05  # a share that is not seen on a linear axis
FAR = 100.0  # times the median: beyond it, costs leave the others no room on a linear axis
FAR_OUT = 1.5  # times where all others end
STEEP = 10.0  # times the smallest CVaR: likewise
SEEN_AT = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # fractions with a tick


def tail(view: View, exact: Sequence[dict]) -> Drawing:
    """The tail's mean against the mean, between the least that mean allows and violations without memory."""
    figure, axes = sheet(4.1)
    harm, shown = view.harm, _together(view)
    caption = (
        f"Mean of the {harm.tail} of episodes against the mean of all{marks.over_seeds(view.main)}: "
        "agents of equal mean differ in height alone."
    )
    if harm.whole:
        _draw_laws(axes, shown)
        caption += " On the dotted line one violation says nothing about the next; no run can lie below the broad one."
    for method, own in itertools.groupby(shown, lambda point: point.method):
        _draw_tails(axes, method, sorted(own, key=mean_of))
    if any(sweeps(method) and len(view.of(method)) > 1 for method in view.methods):
        caption += " Curves: how tails are read between the settings of a method."
    marks.draw_exact(axes, exact, "cvar", "none")
    marks.against_mean(axes, harm, f"mean of the {harm.tail} ({harm.name})")
    right, top = _ends(shown) if len(shown) < len(view.main) else (axes.get_xlim()[1], axes.get_ylim()[1])
    axes.set(xlim=(-0.03 * right, right), ylim=(-0.03 * top, top))
    if far := [point for point in view.main if point not in shown]:
        told = [f"{point.label} (mean {harm.text(mean_of(point))}, {harm.tail} {harm.text(point.tail.mean)})"
                for point in far]  # fmt: skip
        caption += f" Outside the frame: {', '.join(told)}."
    places = [(mean_of(point), point.tail.mean, name_of(point)) for point in shown]
    written = name_points(axes, [*_draw_clearest(axes, view), *places])
    marks.legend(axes, written, loc="upper left")  # no tail is far above its mean
    return Drawing(figure, pd.DataFrame([_tail_row(point) for point in view.main]), caption)


def _draw_tails(axes: Axes, method: str, points: list[Point]) -> None:
    means = [point.interval(metrics.mean) for point in points]
    marks.draw_points(axes, method, means, [point.tail for point in points], joined=False, harm=True)
    for low, high in itertools.pairwise(points if sweeps(method) else []):
        axes.plot(*matched.tails_between(low, high), color=look(method).colour, lw=1.1, zorder=2)


def _together(view: View) -> list[Point]:
    """All agents but those without a setting that lie so far out that the others would fall together."""
    right, top = _ends([point for point in view.main if sweeps(point.method)] or view.main)
    return [point for point in view.main if mean_of(point) <= FAR_OUT * right and point.tail.mean <= FAR_OUT * top]


def _ends(points: Sequence[Point]) -> tuple[float, float]:
    """Where means and tails end; an interval that is wide beside its mean does not decide how much is shown."""
    pairs = [(point.interval(metrics.mean), point.tail) for point in points]
    ends = [max(one.mean + min(np.nan_to_num(one.half), one.mean / 2) for one in each) for each in zip(*pairs)]
    return 1.05 * ends[0], 1.05 * ends[1]


def _draw_clearest(axes: Axes, view: View) -> list[tuple[float, float, str]]:
    """An arrow between the two agents that say most, and what to write beside it."""
    found = pairs.clearest(pairs.compared(view))
    if found is None or not found[0].differ or found[0].ratio == float("inf"):
        return []
    pair, axis = found
    low, high = ((mean_of(point), point.tail.mean) for point in (pair.lighter, pair.heavier))
    axes.annotate("", high, low, arrowprops={"arrowstyle": "<->", "color": INK, "lw": 1.1, "shrinkA": 5, "shrinkB": 5},
                  zorder=3)  # fmt: skip
    same = f"same mean {view.harm.name}" if axis is matched.VIOLATIONS else "same return"
    middle = ((low[0] + high[0]) / 2, (low[1] + high[1]) / 2)
    return [(*middle, f"{same}, {pair.ratio:.1f} × the tail")]


def _draw_laws(axes: Axes, points: Sequence[Point]) -> None:
    """What the mean alone implies; the bound is that of the run with the largest tail, so that none lies below."""
    means = np.linspace(0, max(map(mean_of, points)), 400)
    share = max(point.harm.share(seed.counts.size) for point in points for seed in point.seeds)
    for label, law, line in LAWS:
        axes.plot(means, [law(mean, share) for mean in means], color=FAINT, label=label, zorder=1, **line)


def _tail_row(point: Point) -> dict:
    harm = point.harm
    row: dict = {"agent": point.label, "method": point.method}
    for name, metric in (("violations", metrics.mean), ("cvar", harm.worst)):
        row[name], row[f"{name}_ci"], _ = point.interval(metric)
    if harm.whole:
        row["least_cvar"] = point.interval(_implied(metrics.least_cvar, harm)).mean
        row["independent_cvar"] = point.interval(_implied(metrics.independent_cvar, harm)).mean
    with np.errstate(invalid="ignore"):  # no violation at all has no dispersion
        dispersions = point.each(metrics.std) ** 2 / point.each(metrics.mean)  # 1 where they are independent
    row["least_dispersion"], row["most_dispersion"] = dispersions.min(), dispersions.max()
    return row


def _implied(law: Callable[[float, float], float], harm: CostMeasure) -> compare.Metric:
    """The CVaR that a seed's mean alone implies, of as large a tail as its episodes have."""
    return lambda counts: law(metrics.mean(counts), harm.share(counts.size))


def exceedance(points: Sequence[Point], allowed: float) -> Drawing:
    """P(V > x) of each agent; `allowed` is the limit or the budget, NaN where there is none."""
    figure, axes = sheet(4.2)
    harm, curves = points[0].harm, [tails.beyond(point) for point in points]
    for point, curve in zip(points, curves):
        _draw_beyond(axes, point, curve)
    axes.set(xlabel=f"x ({harm.each})", ylabel="episodes with more than x")
    caption = "Share of episodes with more than x."
    if any(len(point.seeds) > 1 for point in points):
        caption += " Thick lines: mean over seeds; thin lines: each seed."
    rarest = min(curve.mean[curve.mean > 0].min(initial=1.0) for curve in curves)
    if rarest < RARE:
        axes.set_yscale("log")
        axes.set_ylim(0.6 * rarest, 1.25)
        caption += " Each tick down is ten times as rare."
    else:
        axes.set_ylim(0, 1.05)
    marks.in_percent(axes.yaxis)
    axes.axhline(harm.alpha, color=FAINT, lw=1, ls=":", zorder=1)
    axes.text(1.0, harm.alpha, harm.tail, transform=axes.get_yaxis_transform(), ha="right", va="bottom",
              fontsize=9, color=INK)  # fmt: skip
    caption += _draw_levels(axes, points, allowed)
    marks.legend_below(axes)
    return Drawing(figure, pd.concat(map(_beyond_frame, points, curves), ignore_index=True), caption)


def _draw_beyond(axes: Axes, point: Point, curve: tails.Beyond) -> None:
    _, colour, marker, line = look(point.method)
    for shares in curve.shares if len(curve.shares) > 1 else ():
        axes.step(curve.levels, shares, where="post", color=colour, lw=0.7, alpha=0.5, zorder=2)
    last = max(np.flatnonzero(curve.mean), default=0)
    axes.step(curve.levels, curve.mean, where="post", color=colour, ls=line, lw=2.2, marker=marker, ms=7,
              markevery=[last], zorder=3, label=point.label)  # fmt: skip


def _draw_levels(axes: Axes, points: Sequence[Point], allowed: float) -> str:
    """The axis of levels, what an episode may have on it, and a sentence on that."""
    values = np.concatenate([seed.counts for point in points for seed in point.seeds])
    most, middle, harm = values.max(), np.median(values), points[0].harm
    name = "limit" if harm.limit == allowed else "budget"
    if allowed > 2 * most:
        sentence, right = f" Every episode is far below the {name} of {allowed:g}.", most
    elif allowed == allowed:
        marks.mark_limit(axes, allowed, f"{name} {allowed:g}")
        sentence = f" Right of the line of dots and dashes an episode is over the {name}."
        right = max(most, allowed)
    else:
        sentence, right = "", most
    if not harm.whole and most > FAR * middle > 0 and not allowed <= 0:
        axes.set_xscale("log")
        marks.in_figures(axes.xaxis)
    else:
        axes.set_xlim(-0.02 * right, 1.05 * right if right else 1.0)
    return sentence


def _beyond_frame(point: Point, curve: tails.Beyond) -> pd.DataFrame:
    least, most = curve.shares.min(axis=0), curve.shares.max(axis=0)
    return pd.DataFrame({"agent": point.label, "more_than": curve.levels, "share": curve.mean, "least_seed": least,
                         "most_seed": most, "seeds": len(curve.shares)})  # fmt: skip


def levels(points: Sequence[Point]) -> Drawing:
    """CVaR against the alpha of episodes that it averages, with intervals over seeds."""
    figure, axes = sheet(4.1)
    harm, found = points[0].harm, [tails.cvars(point) for point in points]
    faint = 0.13 if len(points) < 6 else 0.05  # bands of many agents lie on each other
    for point, each in zip(points, found):
        _, colour, marker, line = look(point.method)
        means, (down, up) = np.array([one.mean for one in each]), marks.halves(each)
        axes.fill_between(tails.FRACTIONS, means - down, means + up, color=colour, alpha=faint, lw=0)
        axes.plot(tails.FRACTIONS, means, color=colour, ls=line, lw=1.8, marker=marker, ms=5.5, label=point.label)
    axes.set_xscale("log")
    axes.set_xticks(SEEN_AT)
    marks.in_percent(axes.xaxis)
    least, most = (pick(one.mean for each in found for one in each) for pick in (min, max))
    if most > STEEP * least > 0:
        axes.set_yscale("log")
        axes.set_ylim(0.7 * least, 1.6 * most)
        marks.in_figures(axes.yaxis)
    else:
        axes.set_ylim(0, 1.35 * most or 1.0)
    axes.axvline(harm.alpha, color=FAINT, lw=1, ls=":", zorder=1)
    axes.text(harm.alpha, 1.0, harm.tail, transform=axes.get_xaxis_transform(), ha="center", va="bottom",
              fontsize=9, color=INK)  # fmt: skip
    axes.set(xlabel="share of episodes that are the worst", ylabel=f"their mean ({harm.name})")
    marks.legend_below(axes)
    caption = "Mean of the worst episodes (CVaR), from the worst hundredth to the worse half."
    if any(len(point.seeds) > 1 for point in points):
        caption += " Bands: 95 % t intervals over seeds, cut off at the frame."
    caption += " Where lines cross, the safer agent is another one for rarer cases."
    return Drawing(figure, pd.concat(map(_levels_frame, points, found), ignore_index=True), caption)


def _levels_frame(point: Point, found: Sequence[Interval]) -> pd.DataFrame:
    means, halves, seeds = zip(*found)
    return pd.DataFrame({"agent": point.label, "alpha": tails.FRACTIONS, "cvar": means, "cvar_ci": halves,
                         "seeds": seeds})  # fmt: skip
