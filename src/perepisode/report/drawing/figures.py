"""The figures that compare agents.  Each function returns a drawing: the figure, its data, its caption."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from perepisode import metrics
from perepisode.evaluation import compare
from perepisode.evaluation.compare import Interval
from perepisode.methods import Family
from perepisode.report.drawing.canvas import BAND, FAINT, INK, Drawing, name_points, sheet
from perepisode.report.harm import Harm
from perepisode.report.statistics import matched
from perepisode.report.statistics.points import Point, View
from perepisode.report.style import dilemma_name, esr, look, of_family, per_episode, sweeps
from perepisode.report.words import percent

OVER = "#b3261e"  # beyond the budget
MOST_BINS = 12
LAWS = (
    ("violations independent of each other", metrics.independent_cvar, ":"),
    ("least possible", metrics.least_cvar, "-"),
)


def frontier(view: View, chosen: Point, exact: Sequence[dict]) -> Drawing:
    """Mean return against mean violations an episode, with the matched band and % of unconstrained return."""
    figure, axes = sheet(4.3)
    compared = [chosen, *matched.partners(view, chosen)]
    _draw_frontier(axes, view, exact, compared)
    close = [point for point in compared if matched.same(matched.RETURN, chosen, point)]
    name = dilemma_name(view.dilemma)
    caption = f"{name}: mean return against mean violations an episode (± 95 % t interval over seeds)."
    if len(close) > 1:
        _matched_band(axes, close)
        caption += f" The band holds the agents whose return is that of {chosen.label} within the seeds' error."
    if _percent_axis(axes, view):
        caption += " The right axis is the share of the unconstrained return."
    axes.legend(loc="lower right")
    return Drawing(figure, _frontier_frame(view), caption)


def both_frontiers(views: Sequence[View]) -> Drawing:
    """The frontiers of all binding dilemmas side by side."""
    figure, (panels,) = sheet(3.4, 1, len(views), squeeze=False)
    for axes, view in zip(panels, views):
        _draw_frontier(axes, view)
        axes.set_title(dilemma_name(view.dilemma), loc="left")
    for axes in panels[1:]:
        axes.set_ylabel("")
    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    frame = pd.concat([_frontier_frame(view).assign(dilemma=view.dilemma) for view in views])
    return Drawing(figure, frame, "Return against violations an episode on every dilemma that binds (± 95 % CI).")


def esr_family(view: View) -> Drawing:
    """All per-episode arms on the frontier, the other methods in grey for reference."""
    figure, axes = sheet(3.9)
    others = [point for point in view.main if point.method not in esr()]
    kept = np.array([(point.mean_return, point.interval(metrics.mean).mean) for point in others])
    if len(kept):
        order = kept[compare.frontier(kept)]
        order = order[np.argsort(order[:, 1])]
        axes.plot(
            order[:, 1], order[:, 0], color="#cccccc", lw=6, solid_capstyle="round", label="other methods' envelope"
        )
        axes.plot(kept[:, 1], kept[:, 0], "o", color="#bdbdbd", ms=4)
    family = view.of(*esr())
    for method in dict.fromkeys(point.method for point in family):
        _draw_method(axes, method, view.of(method))
    _against_violations(axes, "mean return")
    name_points(axes, [_named(point, point.mean_return) for point in family])
    _percent_axis(axes, view)
    axes.legend(loc="lower right")
    caption = "The per-episode agents beside the envelope of all other methods (grey)."
    return Drawing(figure, _frontier_frame(view), caption)


def distributions(points: Sequence[Point], budget: float, exact: Mapping[str, Sequence[float]]) -> Drawing:
    """Share of episodes by violation count: one row an agent, seeds as dots, tinted where over budget."""
    edges, names = _bins(points, budget)
    shares = [seed_shares(point, edges) for point in points]
    figure, panels = sheet(0.7 + 1.25 * len(points), len(points), sharex=True, sharey=True, squeeze=False)
    panels = panels[:, 0]
    for axes, point, share in zip(panels, points, shares):
        _draw_distribution(axes, point, share, edges, budget, exact.get(point.label))
    crowded = sum(map(len, names)) > 45
    panels[-1].set_xticks(range(len(names)), names, **({"rotation": 35, "ha": "right"} if crowded else {}))
    panels[-1].set_xlabel("violations in one episode")
    highest = max(max(share.max() for share in shares), *(max(law) for law in exact.values()), 0.0)
    panels[0].set_ylim(0, 1.3 * highest)
    figure.supylabel("share of episodes", fontsize=9)
    rows = [
        {"agent": point.label, "violations": name, "share": value, "seeds": len(point.seeds)}
        for point, share in zip(points, shares)
        for name, value in zip(names, share.mean(axis=0))
    ]
    caption = "Violations an episode. Bars: mean over seeds; dots: each seed."
    if budget == budget:
        caption += f" Red: over the budget of {budget:g}."
    if any(point.label in exact for point in points):
        caption += " Crosses: the exact optimal policy."
    return Drawing(figure, pd.DataFrame(rows), caption)


def tail(view: View, exact: Sequence[dict]) -> Drawing:
    """Worst-tenth mean against mean violations, between the least that mean allows and violations without memory."""
    figure, axes = sheet(4.3)
    rows = []
    for point in view.main:
        row: dict = {"agent": point.label, "method": point.method}
        for name, metric in (("violations", metrics.mean), ("cvar", view.harm.worst)):
            row[name], row[f"{name}_ci"], _ = point.interval(metric)
        if view.harm.whole:
            row["least_cvar"] = point.interval(_implied(metrics.least_cvar, view.harm)).mean
            row["independent_cvar"] = point.interval(_implied(metrics.independent_cvar, view.harm)).mean
        with np.errstate(invalid="ignore"):  # no violation at all has no dispersion
            dispersions = point.each(metrics.std) ** 2 / point.each(metrics.mean)  # 1 where they are independent
        row["least_dispersion"], row["most_dispersion"] = dispersions.min(), dispersions.max()
        rows.append(row)
    caption = (
        "Violations in the worst tenth of episodes against the mean of all (± 95 % t interval over seeds): "
        "agents of equal mean differ in height alone. Curves: how tails are read between arms."
    )
    if view.harm.whole:
        means = np.linspace(0, max(row["violations"] for row in rows), 400)
        share = max(view.harm.share(seed.counts.size) for point in view.main for seed in point.seeds)
        for label, law, line in LAWS:
            axes.plot(means, [law(mean, share) for mean in means], line, color=FAINT, lw=1.2, label=label, zorder=1)
        caption += (
            " On the dotted line one violation says nothing about the next; no agent can lie below the grey line."
        )
    for method in view.methods:
        own = [point for point in view.main if point.method == method]
        harms, tails = ([point.interval(metric) for point in own] for metric in (metrics.mean, view.harm.worst))
        _draw_points(axes, method, harms, tails, joined=False)
        if sweeps(method):
            for low, high in itertools.pairwise(view.of(method)):
                axes.plot(*matched.tails_between(low, high), color=look(method).colour, lw=1.1, zorder=2)
    _draw_exact(axes, exact, "cvar", "none")
    _against_violations(axes, f"{view.harm.cvar} ({view.harm.name})")
    axes.set_xlim(left=-0.05 * axes.get_xlim()[1])  # an interval may reach below zero, a count does not
    axes.set_ylim(bottom=-0.05 * axes.get_ylim()[1])
    named = [point for point in view.main if sweeps(point.method)]
    name_points(axes, [_named(point, point.tail.mean) for point in named])
    axes.legend(loc="upper left")  # no tail is far above its mean
    return Drawing(figure, pd.DataFrame(rows), caption)


def budget_sweep(view: View) -> Drawing:
    """Return and worst-tenth mean against the budget: per episode (ESR) or in expectation (Lagrangian)."""
    figure, (top, bottom) = sheet(4.6, 2, sharex=True)
    rows = []
    for method in (name for name in (*per_episode(), *of_family(Family.MEAN)) if name in view.methods):
        sweeps: dict[str, list[dict]] = {}  # by what an arm says beside its budget
        for point in sorted(view.of(method), key=lambda point: point.value):
            if point.budget == point.budget:
                row = {"agent": point.label, "method": method, "budget": point.budget}
                row["return"], row["return_ci"], _ = point.gained
                row["cvar"], row["cvar_ci"], _ = point.tail
                rows.append(row)
                sweeps.setdefault(point.arm.partition(", ")[2], []).append(row)
        for line, (more, own) in zip(itertools.cycle(("-", "--", ":", "-.")), sweeps.items()):
            _sweep_lines(top, bottom, method, own, more, line)
    limit = max(row["budget"] for row in rows)
    bottom.plot([0, limit], [0, limit], "--", color=FAINT, lw=1, label="worst tenth = budget")
    top.set_ylabel("mean return")
    bottom.set(xlabel="budget (violations an episode)", ylabel=f"{view.harm.cvar} ({view.harm.name})")
    bottom.set_ylim(bottom=0)
    figure.legend(*bottom.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "What a wider budget buys. ESR states it for every episode (k), the Lagrangian in expectation (d). "
        "Below the dashed line the worst tenth of the episodes keeps the budget on average."
    )
    return Drawing(figure, pd.DataFrame(rows), caption)


def _draw_frontier(axes: Axes, view: View, exact: Sequence[dict] = (), named: Sequence[Point] = ()) -> None:
    for method in view.methods:
        _draw_method(axes, method, view.of(method))
    _draw_exact(axes, exact, "return")
    _against_violations(axes, "mean return")
    if named:
        rest = [point for point in view.main if point not in named and sweeps(point.method)]
        name_points(axes, [_named(point, point.mean_return) for point in (*named, *rest)])


def _draw_exact(axes: Axes, exact: Sequence[dict], key: str, line: str = ":") -> None:
    for kind, marker in zip(dict.fromkeys(item["kind"] for item in exact), itertools.cycle("x+1")):
        pairs = sorted((item["mean_violations"], item[key]) for item in exact if item["kind"] == kind)
        axes.plot(*zip(*pairs), linestyle=line, marker=marker, ms=6, lw=1.2, color=INK, alpha=0.75,
                  label=f"exact optimum, {kind}", zorder=5)  # fmt: skip


def _named(point: Point, height: float) -> tuple[float, float, str, str]:
    label, colour, _ = look(point.method)
    return point.interval(metrics.mean).mean, height, point.arm or label, colour


def _implied(law: Callable[[float, float], float], harm: Harm) -> compare.Metric:
    """The CVaR that a seed's mean alone implies, of as large a tail as its episodes have."""
    return lambda counts: law(metrics.mean(counts), harm.share(counts.size))


def _against_violations(axes: Axes, height: str) -> None:
    axes.set(xlabel="violations an episode", ylabel=height)
    axes.margins(0.08)


def _draw_method(axes: Axes, method: str, points: Sequence[Point]) -> None:
    _draw_points(axes, method, [point.interval(metrics.mean) for point in points], [point.gained for point in points])


def _draw_points(axes: Axes, method: str, harms: list[Interval], heights: list[Interval], joined: bool = True) -> None:
    """A method's arms with their intervals, joined where they are a sweep.

    No interval of harm reaches below zero; what is not joined is harm in height too.
    """
    (x, x_half, _), (y, y_half, _) = zip(*harms), zip(*heights)
    x_bars = np.transpose([Harm.bar(*pair) for pair in zip(x, x_half)])
    y_bars = np.nan_to_num(y_half) if joined else np.transpose([Harm.bar(*pair) for pair in zip(y, y_half)])
    label, colour, marker = look(method)
    front = 4 if method in per_episode() else 3
    line = "-" if joined and sweeps(method) else "none"
    axes.errorbar(
        x, y, y_bars, x_bars, fmt="none", ecolor=colour, elinewidth=0.9, alpha=0.4,
        zorder=2,
    )  # fmt: skip
    axes.plot(x, y, label=label, color=colour, marker=marker, ms=6.5, lw=1.1, mec="white", mew=0.6, linestyle=line,
              zorder=front)  # fmt: skip


def _matched_band(axes: Axes, points: Sequence[Point]) -> None:
    returns = [point.mean_return for point in points]
    pad = 0.02 * np.ptp(axes.get_ylim())
    axes.axhspan(min(returns) - pad, max(returns) + pad, color=BAND, zorder=0, lw=0)
    axes.text(
        0.995, max(returns) + pad, "matched return", transform=axes.get_yaxis_transform(), ha="right",
        va="bottom", fontsize=8, color="#8a6d1a",
    )  # fmt: skip


def _percent_axis(axes: Axes, view: View) -> bool:
    """A second axis on the right; False where there is no unconstrained return to be a share of."""
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
        row["return"], row["return_ci"], _ = point.gained
        row["violations"], row["violations_ci"], _ = point.interval(metrics.mean)
        rows.append(row)
    return pd.DataFrame(rows)


def _bins(points: Sequence[Point], budget: float) -> tuple[np.ndarray, list[str]]:
    """Unit bins while counts are small; wide ones for costs in the tens, one of which ends at the budget.

    The last bin is open.
    """
    counts = np.concatenate([seed.counts for point in points for seed in point.seeds])
    most = int(np.ceil(counts.max()))
    if np.quantile(counts, 0.995) <= MOST_BINS:
        top = max(2, min(most, MOST_BINS))
        starts = np.arange(top + 1)
        names = [str(start) for start in starts[:-1]] + [str(top) if most <= top else f"≥ {top}"]
    else:
        width = int(np.ceil(np.quantile(counts, 0.995) / MOST_BINS))
        first = 1 + int(budget) % width if budget == budget else 1
        starts = np.array(list(dict.fromkeys([0, 1, *range(first, most + 1, width)]))[: MOST_BINS + 2])
        inner = itertools.pairwise(starts[1:].tolist())
        names = ["0", *(str(low) if high == low + 1 else f"{low}–{high - 1}" for low, high in inner), f"≥ {starts[-1]}"]
    return np.append(starts.astype(float), np.inf), names


def seed_shares(point: Point, edges: np.ndarray) -> np.ndarray:
    """[seed, bin] share of episodes; a fraction of a violation counts up."""
    bins = list(itertools.pairwise(edges))
    return np.array([[metrics.share_at(np.ceil(seed.counts), *ends) for ends in bins] for seed in point.seeds])


def _draw_distribution(axes: Axes, point: Point, shares, edges, budget: float, exact) -> None:
    colour = look(point.method).colour
    over = edges[:-1] > budget if budget == budget else np.zeros(len(edges) - 1, bool)
    if over.any():
        axes.axvspan(int(np.flatnonzero(over)[0]) - 0.5, len(edges) - 1.5, color=OVER, alpha=0.06, lw=0)
    means = shares.mean(axis=0)
    places = np.arange(len(means))
    axes.bar(places, means, width=0.72, color=colour, alpha=0.85)
    seen = means > 0
    for seed in shares:
        axes.plot(places[seen], seed[seen], ".", color=INK, ms=3, alpha=0.6)
    tops = shares.max(axis=0)
    if exact is not None:
        known = min(len(exact), len(places))
        axes.plot(places[:known], exact[:known], "x", color=INK, ms=6)
        tops[:known] = np.maximum(tops[:known], exact[:known])
    for place, mean, top, beyond in zip(places, means, tops, over):
        if mean > 0:
            text = percent(mean) if mean >= 0.001 else "< 0.1 %"
            axes.annotate(text, (place, top), (0, 4), textcoords="offset points", ha="center",
                          fontsize=7.5, color=OVER if beyond else "#444444")  # fmt: skip
    axes.set_title(point.label, loc="right", fontsize=9, color=colour, fontweight="bold", y=0.72)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="x", visible=False)


def _sweep_lines(top: Axes, bottom: Axes, method: str, rows: Sequence[dict], more: str, line: str) -> None:
    label, colour, marker = look(method)
    name = f"{label}, budget {'per episode' if method in per_episode() else 'in expectation'}"
    name += f", {more}" if more else ""
    for axes, key in ((top, "return"), (bottom, "cvar")):
        half = np.nan_to_num([row[f"{key}_ci"] for row in rows])
        budgets, values = [row["budget"] for row in rows], [row[key] for row in rows]
        axes.errorbar(
            budgets, values, half, color=colour, marker=marker, ls=line, lw=1.3, elinewidth=0.9, capsize=2, label=name
        )
