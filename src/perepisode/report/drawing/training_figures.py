"""The figures of training: curves, multipliers, distilled utilities."""

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from perepisode.report.drawing import marks
from perepisode.report.drawing.canvas import Drawing, row_of_panels, sheet
from perepisode.report.statistics.curves import Curve
from perepisode.report.statistics.distilled import Utility
from perepisode.report.style import dilemma_name, look

LINES = ("-", "--", "-.", ":")
SLICES = (0, 1, 2, 3, 5)  # violations at which a utility is drawn


def training_curves(groups: dict[tuple[str, str], list[Curve]]) -> Drawing:
    """Return and violations over training, mean over seeds with the min–max band."""
    figure, (top, bottom) = sheet(5.2, 2, sharex=True)
    frames = [_band(axes, groups, key) for axes, key in ((top, "return"), (bottom, "violations"))]
    top.set_ylabel("return")
    bottom.set(xlabel="environment steps", ylabel="violations per episode")
    bottom.xaxis.set_major_formatter(_short)
    marks.legend_below(top)
    caption = "Training, mean over seeds with the min–max band, smoothed over 1 % of the run."
    return Drawing(figure, pd.concat(frames), caption)


def multipliers(groups: dict[tuple[str, str], list[Curve]]) -> Drawing:
    """λ over training, mean over seeds, one line per budget."""
    figure, axes = sheet(3.3)
    frame = _band(axes, groups, "lambda", shades=True)
    axes.set(xlabel="environment steps", ylabel="multiplier λ")
    axes.xaxis.set_major_formatter(_short)
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])  # keep a multiplier of zero visible
    marks.legend_below(axes)
    caption = "Dual ascent: λ rises while violations exceed the budget."
    return Drawing(figure, frame, caption)


def utility_slices(utilities: dict[str, tuple[Utility, float]]) -> Drawing:
    """Distilled utilities over R_ext at fixed violation counts."""
    figure, panels = row_of_panels(3.2, len(utilities))
    rows = []
    for axes, (name, (utility, top)) in zip(panels, utilities.items()):
        r_ext = np.linspace(0, top, 120)
        for index, count in enumerate(SLICES):
            values = utility(r_ext, count)
            colour = mpl.colormaps["viridis"](0.05 + 0.85 * index / (len(SLICES) - 1))
            axes.plot(r_ext, values, color=colour, lw=1.8, ls=LINES[index % len(LINES)], label=f"v = {count}")
            rows.append(pd.DataFrame({"utility": name, "violations": count, "r_ext": r_ext, "u": values}))
        axes.set_title(dilemma_name(name), loc="left")
        axes.set_xlabel("R_ext")
    figure.supylabel("u(R_ext, v)", fontsize=10)
    marks.legend_below(panels[0])
    caption = "Distilled utility at fixed violation counts v. It should decrease with every violation."
    return Drawing(figure, pd.concat(rows), caption)


def _band(axes: Axes, groups: dict[tuple[str, str], list[Curve]], key: str, shades: bool = False) -> pd.DataFrame:
    frames = []
    for index, ((method, arm), curves) in enumerate(groups.items()):
        last = min(curve.steps[-1] for curve in curves)
        grid = np.linspace(min(curve.steps[0] for curve in curves), last, 200)
        values = np.array([curve.at(key, grid) for curve in curves])
        if np.isnan(values).all():
            continue
        label, colour, marker, _ = look(method)
        line = LINES[sum(name == method for name, _ in list(groups)[:index]) % len(LINES)]
        if shades:
            colour, marker = mpl.colormaps["viridis"](0.05 + 0.8 * index / max(1, len(groups) - 1)), ""
        mean, low, high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
        every = (5 + 4 * index, 36)  # markers stay apart where curves coincide
        axes.plot(grid, mean, color=colour, lw=1.6, ls=line, marker=marker, markevery=every, ms=5,
                  label=f"{label} ({arm})" if arm else label)  # fmt: skip
        axes.fill_between(grid, low, high, color=colour, alpha=0.15, lw=0)
        frames.append(pd.DataFrame({"method": method, "arm": arm, "what": key, "steps": grid, "mean": mean,
                                    "min": low, "max": high, "seeds": len(curves)}))  # fmt: skip
    return pd.concat(frames) if frames else pd.DataFrame()


def _short(steps: float, _=None) -> str:
    for size, letter in ((1e9, "bn"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:g} {letter}"
    return f"{steps:g}"
