"""The picture of a fitted utility: the plane of return and violations, and slices; hatched without support."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from perepisode.preferences.bradley_terry import spread, thinned
from perepisode.preferences.fit import Preferences
from perepisode.preferences.support import Inversion, LabelSupport, Utility, inversions
from perepisode.report.drawing.canvas import Drawing, sheet, standalone, style, to_svg
from perepisode.report.style import EDGE, INK, OVER, PAPER, TEXT, dilemma_name, violation_name
from perepisode.runs import write_atomically

STRIPS, MOST_SLICES, LOWEST_SLICES = 13, 7, 4  # numbers of violations that are drawn; how many slices are the lowest
CAPTION = (
    "Utility fitted to labels. Dots are judged episodes. Hatched and dotted: no label supports the utility there. "
    "Red: more violations are preferred to fewer."
)


def write(preferences: Preferences, path: Path) -> Path:
    """Draw the utility and write it as SVG."""
    with style():
        drawing = utility(preferences.u, preferences.support, preferences.labels[0].left.dilemma, preferences)
        write_atomically(path, standalone(to_svg(drawing.figure, "preferences")).encode())
    return path


def utility(u: Utility, support: LabelSupport, dilemma: str, preferences: Preferences | None = None) -> Drawing:
    """The plane above its slices.  With `preferences`, slices have bands: the central 90 % of the ensemble."""
    found = inversions(u, support)
    returns, examined = support.grid()
    values = np.union1d(thinned(examined, STRIPS), [count for one in found[:1] for count in (one.fewer, one.more)])
    z, held = u(*np.meshgrid(returns, values)), support(returns, values[:, None])
    figure, (plane, slices) = sheet(6.4, 2, sharex=True, height_ratios=(1, 1.5))
    _plane(plane, returns, values, z, held, support, found)
    plane.set(ylabel=violation_name(dilemma))
    plane.set_title(f"{dilemma_name(dilemma)}: utility", loc="left")
    _slices(slices, returns, values, z, held, found, preferences)
    slices.set(xlabel="return", ylabel="utility, in units of return")
    lines = slices.get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=MOST_SLICES, title=violation_name(dilemma))
    r, v = np.meshgrid(returns, values)
    frame = pd.DataFrame(
        {"violations": v.ravel(), "return": r.ravel(), "u": np.ravel(z), "supported": held.ravel()},
    )
    return Drawing(figure, frame, CAPTION)


def _plane(
    axes: Axes, returns: np.ndarray, values: np.ndarray, z: np.ndarray, held: np.ndarray, support: LabelSupport,
    found: list[Inversion],
) -> None:  # fmt: skip
    """One strip per number of violations, darker where the utility is lower."""
    strips = np.arange(len(values))
    mesh = axes.pcolormesh(returns, strips, z, cmap="cividis", shading="nearest", rasterized=True)
    width = returns[1] - returns[0]
    for strip in strips:
        for begin, end in _stretches(~held[strip]):
            axes.fill_between(
                [returns[begin] - width / 2, returns[end] + width / 2], strip - 0.5, strip + 0.5,
                facecolor=to_rgba(PAPER, 0.45), edgecolor=EDGE, hatch="////", lw=0,
            )  # fmt: skip
    at = np.abs(support.violations[:, None] - values).argmin(axis=1)
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(at))
    axes.plot(support.returns, at + jitter, "o", ms=2.5, color=INK, mec=PAPER, mew=0.4, alpha=0.9)
    for one in (one for one in found if one.more in values):
        strip = np.searchsorted(values, one.more)
        axes.plot([one.low, one.high], [strip, strip], color=OVER, lw=2.2, solid_capstyle="round")
    if found:
        axes.set_title("red: preferred to fewer", loc="right", fontsize=8, color=OVER)
    axes.set_yticks(strips, list(map(_written, values)))
    axes.grid(False)
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.colorbar(mesh, ax=axes, label="u", pad=0.01)


def _slices(
    axes: Axes, returns: np.ndarray, values: np.ndarray, z: np.ndarray, held: np.ndarray, found: list[Inversion],
    preferences: Preferences | None,
) -> None:  # fmt: skip
    worst = [np.searchsorted(values, count) for one in found[:1] for count in (one.fewer, one.more)]
    highest = spread(np.arange(LOWEST_SLICES, len(values)), MOST_SLICES - LOWEST_SLICES)
    for index in np.unique([*np.arange(len(values))[:LOWEST_SLICES], *highest, *worst]).astype(int):
        value, row, known = float(values[index]), z[index], held[index]
        colour = mpl.colormaps["viridis"](0.05 + 0.85 * index / max(1, len(values) - 1))
        axes.plot(returns, row, color=colour, lw=1.1, ls=":")
        axes.plot(returns, np.where(known, row, np.nan), color=colour, lw=2.2, label=_written(value))
        if preferences is not None and len(preferences.ensemble):
            band = np.quantile(preferences.of_ensemble(returns, np.full_like(returns, value)), [0.05, 0.95], axis=0)
            axes.fill_between(returns, *np.where(known, band, np.nan), color=colour, alpha=0.15, lw=0)
    for one in found[:1]:
        top = z[np.abs(values - one.more).argmin(), np.abs(returns - one.at_return).argmin()]
        text = f"u({_written(one.more)}) > u({_written(one.fewer)})"
        axes.annotate(text, (one.at_return, top), (0, 8), textcoords="offset points", color=OVER, ha="center")
        axes.plot([one.at_return], [top], "o", color=OVER, ms=5)
    axes.text(0.01, 0.98, "dotted: no label supports it", transform=axes.transAxes, va="top", fontsize=8, color=TEXT)


def _written(violations: float) -> str:
    """A count in full, a cost to three digits."""
    return f"{violations:g}" if violations == round(violations) else f"{violations:.3g}"


def _stretches(flags: np.ndarray) -> list[tuple[int, int]]:
    """First and last index of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(int(begin), int(end) - 1) for begin, end in zip(edges[::2], edges[1::2])]
