"""From episodes tables to a page.

    statistics/             the compared numbers: no drawing, no page
    drawing/                numbers as figures
    cost_measure            counts or costs, with their limit, tail, wording and digits
    style, formatting       names and styles of methods; how numbers are written
    tables, measurement     numbers as tables
    exports                 figures and tables as files for papers and programs
    blocks                  the figures and tables of a dilemma's section, one declaration each
    findings, caveats       the first screen
    discussion, sections, page, text_summary    an author's text, the rest of the page, the page as a file, the console

`perepisode.report(...)` does the same as the command `perepisode report`: the package is callable.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

from perepisode import metrics


def report(
    episodes: str | Path | Iterable[str | Path],
    out: str | Path = "report",
    runs: str | Path | Iterable[str | Path] = (),
    utilities: Iterable[str | Path] = (),
    exact: Iterable[str | Path | dict] = (),
    watch: Iterable[str | Path] = (),
    discussion: str | Path | None = None,
    cost_limit: float | None = None,
    alpha: float = metrics.CVAR_ALPHA,
    names: Mapping[str, str] | None = None,
    formats: Iterable[str] = ("svg", "pdf", "png"),
    echo: Callable[..., None] = lambda *_: None,
) -> Path:
    """Write figures, tables and one HTML page from episodes tables of any library; return the page's path.

    `runs` are folders of run folders, or agents by name or file, for training curves; for the rest see `page.build`.
    """
    from perepisode.report.page import build
    from perepisode.zoo import find

    folders = [runs] if isinstance(runs, str | Path) else runs
    curves = [trained for path in folders for trained in find(path)]
    return build(
        episodes,
        out,
        curves=curves,
        utilities=utilities,
        exact=exact,
        watch=watch,
        discussion=discussion,
        cost_limit=float("nan") if cost_limit is None else cost_limit,
        alpha=alpha,
        names=names,
        formats=formats,
        echo=echo,
    )


class _Called(ModuleType):
    """The package `perepisode.report` would hide the function of that name, so the package is callable."""

    __call__ = staticmethod(report)


sys.modules[__name__].__class__ = _Called
