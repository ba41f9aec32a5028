"""From episodes tables to a page.

    statistics/      what is compared, as numbers: no drawing, no page
    drawing/         numbers as figures
    harm             what is measured: counts or costs, its limit, its tail, its words and digits
    style, words     how methods are called and look, how numbers are written: the same everywhere
    tables, measuring, versus, elsewhere    numbers as tables
    exports          figures and tables as files for papers and programs
    blocks           which of these figures and tables a dilemma's section shows, one declaration each
    findings, discussion, sections, page    the page: what was found, in whose words, in which order, as a file

`perepisode.report(...)` is the command `perepisode report`: this package can be called.
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
    """Figures, tables and one HTML page from episodes tables, ours or anybody's; the page's path.

    `runs` are folders of run folders, or agents by name or file, for training curves; the rest is as in `page.build`.
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
    """A package and the function of the same name would hide each other; so the package is that function too."""

    __call__ = staticmethod(report)


sys.modules[__name__].__class__ = _Called
