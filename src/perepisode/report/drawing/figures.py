"""The figures that compare agents.  Each function returns a drawing: a figure, its data and its caption."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.methods import ConstraintType
from perepisode.report.drawing import marks
from perepisode.report.drawing.canvas import Drawing, is_narrow, row_of_panels, sheet
from perepisode.report.drawing.marks import draw_points, halves, mean_of, name_of, over_seeds
from perepisode.report.formatting import percent
from perepisode.report.statistics import matched
from perepisode.report.statistics.points import Point, View
from perepisode.report.style import (
    BAND,
    FAINT,
    GRID,
    INK,
    OVER,
    dilemma_name,
    esr,
    look,
    per_episode,
    with_constraint,
)

FULL_BARS = 9  # more have labels without the sign, on a phone half as many
MAX_BARS = 13  # one per count; more counts are shown as shares over each level only


def frontier(view: View, chosen: Point, exact: Sequence[dict]) -> Drawing:
    """Mean return against mean violations per episode, with a band of returns and the share of unconstrained return."""
    figure, axes = sheet(4.1)
    compared = [chosen, *matched.partners(view, chosen)]
    _draw_methods(axes, view, view.methods)
    marks.draw_exact(axes, exact, "return")
    axes.set_xlim(left=-0.03 * axes.get_xlim()[1])
    cut = _cut_intervals(axes, view.main)
    named = [*compared, *(point for point in view.main if point not in compared)]
    matching = [point for point in compared if matched.may_be_equal(matched.RETURN, chosen, point)]
    name = dilemma_name(view.dilemma)
    caption = f"{name}: mean return against mean {view.measure.per_episode}{over_seeds(view.main)}."
    if cut:
        caption += " Intervals are cut off at the frame."
    if len(matching) > 1:
        _matched_band(axes, matching)
        caption += f" Band: {chosen.label} and the compared agents whose mean return is not known to differ."
    if _percent_axis(axes, view):
        caption += " Right axis: share of the unconstrained return."
    marks.name_all(axes, [(mean_of(point), point.mean_return, name_of(point)) for point in named])
    return Drawing(figure, _frontier_frame(view), caption)


def _cut_intervals(axes: Axes, points: Sequence[Point]) -> bool:
    """Limit the axis of returns to the means and as much of wide intervals as of others; whether one is cut."""
    means, halves = np.transpose([np.nan_to_num(point.return_interval[:2]) for point in points])
    shown = np.minimum(halves, max(np.ptp(means) / 2, np.median(halves)))
    low, high = (means - shown).min(), (means + shown).max()
    if not (shown < halves).any() or low == high:
        return False
    axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    bottom, top = axes.get_ylim()
    return bool((means - halves < bottom).any() or (means + halves > top).any())


def both_frontiers(views: Sequence[View]) -> Drawing:
    """The frontiers of all binding dilemmas side by side."""
    figure, panels = row_of_panels(3.6, len(views))
    for axes, view in zip(panels, views):
        _draw_methods(axes, view, view.methods)
        axes.set_title(dilemma_name(view.dilemma), loc="left")
        axes.set_ylabel("")
    figure.supylabel("mean return", fontsize=10)
    marks.legend_below(*panels)
    frame = pd.concat([_frontier_frame(view).assign(dilemma=view.dilemma) for view in views])
    seeds = over_seeds([point for view in views for point in view.main])
    return Drawing(figure, frame, f"Return against violations per episode on every binding dilemma{seeds}.")


def esr_family(view: View) -> Drawing:
    """All arms of ESR on the frontier, with the other methods as one pale band."""
    figure, axes = sheet(3.9)
    others = np.array([(point.mean_return, mean_of(point)) for point in view.main if point.method not in esr()])
    if len(others):
        best = others[compare.frontier(others)]
        best = best[np.argsort(best[:, 1])]
        axes.plot(
            best[:, 1], best[:, 0], color=GRID, lw=7, solid_capstyle="round", label="frontier of the other methods"
        )
        axes.plot(others[:, 1], others[:, 0], "o", color=FAINT, ms=4)
    family = view.of(*esr())
    _draw_methods(axes, view, dict.fromkeys(point.method for point in family))
    _percent_axis(axes, view)
    marks.name_all(axes, [(mean_of(point), point.mean_return, name_of(point)) for point in family])
    return Drawing(figure, _frontier_frame(view), "ESR agents and the frontier of all other methods (pale).")


def _draw_methods(axes: Axes, view: View, methods: Iterable[str]) -> None:
    for method in methods:
        own = view.of(method)
        draw_points(
            axes, method, [point.interval(metrics.mean) for point in own], [point.return_interval for point in own]
        )
    marks.against_mean(axes, view.measure, "mean return")


def distributions(points: Sequence[Point], budget: float, exact: Mapping[str, Sequence[float]]) -> Drawing | None:
    """Share of episodes by violation count: one row per agent, seeds as dots, hatched over the budget.

    None if there are too many counts for one bar each.
    """
    most = int(max(seed.counts.max() for point in points for seed in point.seeds))
    if most >= MAX_BARS:
        return None
    edges = np.append(np.arange(max(2, most) + 1.0), np.inf)
    names = [f"{start:g}" for start in edges[:-1]]
    shares = [seed_shares(point, edges) for point in points]
    figure, panels = sheet(0.8 + 1.12 * len(points), len(points), sharex=True, sharey=True, squeeze=False)
    panels = panels[:, 0]
    for axes, point, share in zip(panels, points, shares):
        _draw_distribution(axes, point, share, edges, budget, exact.get(point.label))
    panels[-1].set_xticks(range(len(names)), names)
    panels[-1].set_xlabel("violations in one episode")
    highest = max(max(share.max() for share in shares), *(max(law) for law in exact.values()), 0.0)
    panels[0].set_ylim(0, 1.3 * highest)
    figure.supylabel("share of episodes", fontsize=10)
    rows = [
        {"agent": point.label, "violations": name, "share": value, "seeds": len(point.seeds)}
        for point, share in zip(points, shares)
        for name, value in zip(names, share.mean(axis=0))
    ]
    caption = "Share of episodes by number of violations."
    if any(len(point.seeds) > 1 for point in points):
        caption += " Bars: mean over seeds; dots: each seed."
    if budget == budget:
        caption += f" Hatched: over the budget of {budget:g}."
    if any(point.label in exact for point in points):
        caption += " Crosses: the exact optimal policy."
    return Drawing(figure, pd.DataFrame(rows), caption)


def budget_sweep(view: View) -> Drawing:
    """Return and CVaR against the budget: per episode (ESR) or in expectation (Lagrangian)."""
    figure, (top, bottom) = sheet(4.6, 2, sharex=True)
    rows = []
    for method in (name for name in (*per_episode(), *with_constraint(ConstraintType.MEAN)) if name in view.methods):
        sweeps: dict[str, list[dict]] = {}  # by the arm's other settings
        for point in sorted(view.of(method), key=lambda point: point.value):
            if point.budget == point.budget:
                row = {"agent": point.label, "method": method, "budget": point.budget}
                row["return"], row["return_ci"], _ = point.return_interval
                row["cvar"], row["cvar_ci"], _ = point.tail
                rows.append(row)
                sweeps.setdefault(point.arm.partition(", ")[2], []).append(row)
        for line, (more, own) in zip(itertools.cycle(("-", "--", ":", "-.")), sweeps.items()):
            _sweep_lines(top, bottom, method, own, more, line)
    limit = max(row["budget"] for row in rows)
    bottom.plot([0, limit], [0, limit], "--", color=FAINT, lw=1, label=f"{view.measure.cvar_heading} = budget")
    top.set_ylabel("mean return")
    bottom.set(xlabel="budget (violations per episode)", ylabel=f"{view.measure.cvar_heading} ({view.measure.name})")
    bottom.set_ylim(bottom=0)
    marks.legend_below(bottom)
    caption = (
        "Return and tail for larger budgets: per episode (k) or in expectation (d). Below the dashed line, even the "
        f"{view.measure.worst_episodes} keep the budget on average."
    )
    return Drawing(figure, pd.DataFrame(rows), caption)


def _matched_band(axes: Axes, points: Sequence[Point]) -> None:
    returns = [point.mean_return for point in points]
    pad = 0.02 * np.ptp(axes.get_ylim())
    axes.axhspan(min(returns) - pad, max(returns) + pad, color=BAND, zorder=0, lw=0, label="return not known to differ")


def _percent_axis(axes: Axes, view: View) -> bool:
    """Add a second axis on the right; False without a positive unconstrained return."""
    if view.unconstrained is None or view.unconstrained.mean_return <= 0:
        return False
    scale = view.unconstrained.mean_return
    right = axes.secondary_yaxis("right", functions=(partial(np.multiply, 1 / scale), partial(np.multiply, scale)))
    right.set_ylabel("share of unconstrained return")
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    right.spines["right"].set_visible(True)
    return True


def _frontier_frame(view: View) -> pd.DataFrame:
    rows = []
    for point in view.main:
        row = {"agent": point.label, "method": point.method, "arm": point.arm, "seeds": len(point.seeds)}
        row["return"], row["return_ci"], _ = point.return_interval
        row["violations"], row["violations_ci"], _ = point.interval(metrics.mean)
        rows.append(row)
    return pd.DataFrame(rows)


def seed_shares(point: Point, edges: np.ndarray) -> np.ndarray:
    """[seed, bin] share of episodes; fractional violations are rounded up."""
    bins = list(itertools.pairwise(edges))
    return np.array([[metrics.share_at(np.ceil(seed.counts), *ends) for ends in bins] for seed in point.seeds])


def _draw_distribution(axes: Axes, point: Point, shares, edges, budget: float, exact) -> None:
    colour = look(point.method).colour
    over = edges[:-1] > budget if budget == budget else np.zeros(len(edges) - 1, bool)
    means = shares.mean(axis=0)
    bins = np.arange(len(means))
    axes.bar(bins[~over], means[~over], width=0.72, color=colour)
    axes.bar(bins[over], means[over], width=0.72, facecolor="none", edgecolor=OVER, hatch="////", linewidth=1.1)
    seen = means > 0
    for seed in shares:
        axes.plot(bins[seen], seed[seen], ".", color=INK, ms=3, alpha=0.6)
    tops = shares.max(axis=0)
    if exact is not None:
        known = min(len(exact), len(bins))
        axes.plot(bins[:known], exact[:known], "x", color=INK, ms=6)
        tops[:known] = np.maximum(tops[:known], exact[:known])
    for position, mean, top, beyond in zip(bins, means, tops, over):
        if mean > 0:
            text = percent(mean) if mean >= 0.001 else "< 0.1 %"
            if len(bins) > (FULL_BARS // 2 if is_narrow() else FULL_BARS):
                text = text.replace(" ", "").replace("\u00a0", "").removesuffix("%")  # as on the axis
            axes.annotate(text, (position, top), (0, 4), textcoords="offset points", ha="center",
                          fontsize=8.5, color=OVER if beyond else INK)  # fmt: skip
    axes.set_title(point.label, loc="right", fontsize=10, fontweight="bold", y=0.72)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="x", visible=False)


def _sweep_lines(top: Axes, bottom: Axes, method: str, rows: Sequence[dict], more: str, line: str) -> None:
    label, colour, marker, _ = look(method)
    name = f"{label}, budget {'per episode' if method in per_episode() else 'in expectation'}"
    name += f", {more}" if more else ""
    for axes, key in ((top, "return"), (bottom, "cvar")):
        intervals = [Interval(row[key], row[f"{key}_ci"], 1) for row in rows]
        axes.errorbar(
            [row["budget"] for row in rows], [row[key] for row in rows], halves(intervals, key == "cvar"),
            color=colour, marker=marker, ls=line, lw=1.3, elinewidth=0.9, capsize=2, label=name,
        )  # fmt: skip
