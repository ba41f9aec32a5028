"""This environment's results beside those of the one paper that the project reproduces.

An environment names this package as its `reference` (environments/base.py); a report of it then shows what is here.

    numbers     what the paper prints, as data (numbers.csv)
    measures    the same quantities measured on an episodes table
    table       both side by side
    bundled     the bundled agents: here, where they were trained, and in the paper
    card        one picture of agents side by side
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perepisode.report.blocks import Inputs, Shown
    from perepisode.report.statistics.points import View


def opening(view: View) -> Iterator[Shown]:
    """The first section of a report, where bundled agents are among those evaluated."""
    from perepisode.paper_comparison import bundled, card
    from perepisode.report.drawing.canvas import drawn
    from perepisode.report.formatting import slug

    found = bundled.known(view)
    if len(found) > 2:
        made = card.card([one.point for one in found], view.dilemma)
        yield drawn(f"card_{slug(view.dilemma)}", "Episodes by violations", made)
    yield bundled.table(view)


def comparison(inputs: Inputs) -> Shown:
    """Every printed number that has a counterpart here."""
    from perepisode.paper_comparison.table import paper_versus_here

    return paper_versus_here(inputs.episodes, {name: one for name, (one, _) in inputs.utilities.items()})


def caveat(total_timesteps: float) -> str | None:
    """What to bear in mind about agents that were trained for so many steps."""
    from perepisode.paper_comparison import numbers
    from perepisode.report.formatting import count

    if total_timesteps >= numbers.STEPS:
        return None
    scale = f"{count(total_timesteps)} steps against the paper's {count(numbers.STEPS)}"
    return f"Trained for {scale}: returns may differ for that alone."
