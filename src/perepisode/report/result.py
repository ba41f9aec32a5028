"""A report as an object: its numbers in Python, its first screen in a notebook, its files in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perepisode.config import ConfigError
from perepisode.report import discussion as discussions
from perepisode.report import exports, findings, page, tables
from perepisode.report.drawing import canvas
from perepisode.report.drawing.canvas import Drawn
from perepisode.report.links import render
from perepisode.report.sections import Section, glossary, sections
from perepisode.report.style import look, named, on_page

if TYPE_CHECKING:
    import pandas as pd

    from perepisode.report.blocks import Inputs


class Report:
    """What `perepisode.report` returns; a notebook shows its first screen.

    `headline`, `findings` and `caveats` are sentences; `agents` and `pairs` are data frames; `tables` has every table
    of the page by name, and `figure(name)` a figure.  `save(folder)` writes the page with all its files.
    """

    def __init__(self, inputs: Inputs, names: Mapping[str, str], discussion: str | Path | None = None):
        self._inputs, self._names, self._discussion = inputs, dict(names), discussion
        self.path: Path | None = None  # of the page, once saved
        with named(self._names, inputs.episodes.methods):
            self.finding = findings.find(inputs.episodes, inputs.views)

    @property
    def headline(self) -> str:
        """The clearest statement that the data support."""
        return self.finding.headline

    @property
    def findings(self) -> list[str]:
        return list(self.finding.sentences)

    @property
    def caveats(self) -> list[str]:
        return list(self.finding.caveats)

    @cached_property
    def agents(self) -> pd.DataFrame:
        """Every agent, one row each: its means, tail and shares, with 95 % intervals over seeds (`..._ci`)."""
        return self._of_every_view(tables.complete_frame)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Every comparison, the most informative first: verdicts, differences and p values."""
        return self._of_every_view(tables.pairs_frame)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the page by name."""
        return {block.name: block.frame for block in self._blocks if not isinstance(block, Drawn)}

    @property
    def figures(self) -> list[str]:
        """The names of all figures."""
        return [block.name for block in self._blocks if isinstance(block, Drawn)]

    def figure(self, name: str) -> Drawn:
        """A figure by its name, or by the beginning of its name: `.figure` is matplotlib's, `.frame` its data."""
        found = [block for block in self._blocks if isinstance(block, Drawn) and block.name.startswith(name)]
        if not found:
            raise ConfigError(f"there is no figure {name!r}; this report has {', '.join(self.figures)}")
        return next((block for block in found if block.name == name), found[0])

    def save(self, folder: str | Path = "report", formats: tuple[str, ...] = exports.FORMATS) -> Path:
        """Write index.html, report.md, summary.json, and every figure and table; returns the page's path."""
        with self._context():
            self.path = page.write(Path(folder), self._inputs, self.finding, self.sections, exports.checked(formats))
        return self.path

    @cached_property
    def sections(self) -> list[Section]:
        """The page's sections with their figures and tables."""
        with self._context():
            content = sections(self._inputs)
            if self._discussion is not None:
                frames = {block.name: block.frame for section in content for block in section.blocks}
                content.insert(0, Section("discussion", "Discussion", text=discussions.read(self._discussion, frames)))
        return content

    @property
    def _blocks(self) -> list:
        return [block for section in self.sections for block in section.blocks]

    def _of_every_view(self, frame) -> pd.DataFrame:
        import pandas as pd

        with self._context():
            frames = [frame(view) for view in self._inputs.views]
            if len(frames) > 1:
                frames = [each.assign(dilemma=view.dilemma) for view, each in zip(self._inputs.views, frames)]
        return pd.concat(frames, ignore_index=True)

    @contextmanager
    def _context(self) -> Iterator[None]:
        """The names, colours and style of this page."""
        inputs = self._inputs
        with (
            named(self._names, inputs.episodes.methods),
            on_page(page.in_order(self.finding, inputs.views)),
            canvas.style(),
        ):
            yield

    def print(self) -> None:
        """The table of all agents and the headline, as `perepisode report` prints them."""
        from perepisode.report import text_summary

        with self._context():
            text_summary.report(self._inputs.episodes, self.headline)

    def __repr__(self) -> str:
        return f"{self.headline}\n({page.kicker(self._inputs)}; .agents, .pairs, .figure(name), .save(folder))"

    def _repr_html_(self) -> str:
        with self._context():
            picture = page.first_picture(self.sections, self.finding)
            return render(
                Path(__file__).with_name("notebook.html"),
                kicker=page.kicker(self._inputs),
                finding=self.finding,
                picture=picture,
                glossary=glossary(self._inputs),
                colour=lambda method: look(method).colour,
                unbroken=page.unbroken,
            )
