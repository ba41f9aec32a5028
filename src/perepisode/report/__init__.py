"""From episodes tables to a page.

    statistics/             the compared numbers: no drawing, no page
    drawing/                numbers as figures
    cost_measure            counts or costs, with their limit, tail, wording and digits
    style, formatting       names and styles of methods; how numbers are written
    tables, measurement     numbers as tables
    exports                 figures and tables as files for papers and programs
    blocks                  the figures and tables of a dilemma's section, one declaration each
    headline, findings, caveats    the first screen
    discussion, sections, page     an author's text, the rest of the page, the page as a file
    result, text_summary           the report as an object, and on the console

`perepisode.report(...)` does the same as the command `perepisode report`: the package is callable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from perepisode.evaluation.episodes import Tables
    from perepisode.report.result import Report
    from perepisode.report.statistics.analysis_plan import AnalysisPlan


def report(
    episodes: Tables,
    out: str | Path | None = None,
    runs: str | Path | Iterable[str | Path] = (),
    utilities: Iterable[str | Path] = (),
    exact: Iterable[str | Path | dict] = (),
    watch: Iterable[str | Path] = (),
    discussion: str | Path | None = None,
    plan: str | Path | None = None,
    cost_limit: float | None = None,
    alpha: float | None = None,
    margin: float | None = None,
    cost_margin: float | None = None,
    names: Mapping[str, str] | None = None,
    formats: Iterable[str] = ("svg", "pdf", "png"),
    quiet: bool = False,
) -> Report:
    """Compare the agents of episodes tables of any library; with `out`, write figures, tables and one HTML page.

    `episodes` are paths or data frames with the columns method, seed, return, and violations or cost.  `plan` is a file
    with the comparisons that were fixed beforehand.  `margin` is the largest difference of mean return that does not
    matter, `cost_margin` the same for mean violations or cost.  `runs` are folders of run folders, or agents by name or
    file, for training curves; for the rest see `page.prepare`.
    """
    from perepisode.report.exports import checked
    from perepisode.report.page import prepare
    from perepisode.zoo import find

    figure_formats = checked(formats)
    folders = [runs] if isinstance(runs, str | Path) else runs
    found = prepare(
        episodes,
        curves=[trained for path in folders for trained in find(path)],
        utilities=utilities,
        exact=exact,
        watch=watch,
        discussion=discussion,
        plan=_plan(plan, cost_limit=cost_limit, alpha=alpha, margin=margin, cost_margin=cost_margin),
        names=names,
    )
    if out is not None:
        found.save(out, figure_formats)
    if not quiet:
        found.print()
    return found


def compare(
    a: Tables,
    b: Tables,
    names: tuple[str, str] = ("A", "B"),
    cost_limit: float | None = None,
    alpha: float | None = None,
    margin: float | None = None,
    cost_margin: float | None = None,
    quiet: bool = False,
) -> Report:
    """Two agents, each given as the episodes of its seeds: are their means equivalent, and whose tail is heavier?"""
    from perepisode.evaluation.episodes import one_agent
    from perepisode.report.page import prepare

    given = _plan(None, cost_limit=cost_limit, alpha=alpha, margin=margin, cost_margin=cost_margin)
    tables: list[pd.DataFrame] = [one_agent(table, name) for table, name in zip((a, b), names)]
    found = prepare(tables, plan=replace(given, pairs=((names[0], names[1]),)))
    if not quiet:
        found.print()
    return found


def _plan(path: str | Path | None, **given: float | None) -> AnalysisPlan:
    """The plan in the file, with the numbers that the caller gave; a number that contradicts the file is refused."""
    from perepisode.config import ConfigError
    from perepisode.report.statistics import analysis_plan

    plan = analysis_plan.UNPLANNED if path is None else analysis_plan.read(path)
    numbers = {name: float(value) for name, value in given.items() if value is not None}
    for name, value in numbers.items():
        if plan.stated.get(name, value) != value:
            raise ConfigError(f"{name}={value:g} contradicts {path}, which fixes {plan.stated[name]:g}; leave it out")
    return replace(plan, **numbers)


class _Called(ModuleType):
    """The package `perepisode.report` would hide the function of that name, so the package is callable."""

    __call__ = staticmethod(report)

    @property
    def __signature__(self):
        import inspect

        return inspect.signature(report)  # else the first parameter would be taken for `self`


sys.modules[__name__].__class__ = _Called
