"""Comparison with the paper that the project reproduces.

An environment names this package as its `reference` (environments/base.py); its reports then include this comparison.

    numbers     the paper's printed results, as data (numbers.csv)
    measures    the same quantities measured on an episodes table
    table       both side by side
    bundled     the bundled agents: here, on the training machine, and in the paper
    card        one picture of agents side by side
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perepisode.report.blocks import Inputs, Shown
    from perepisode.report.statistics.points import View


def opening(view: View) -> Iterator[Shown]:
    """The first section of a report on bundled agents."""
    from perepisode.paper_comparison import bundled, card
    from perepisode.report.drawing.canvas import drawn
    from perepisode.report.formatting import slug

    agents = bundled.agents(view)
    if len(agents) > 2:
        draw = partial(card.on_page, [agent.point for agent in agents], view.dilemma)
        yield drawn(f"card_{slug(view.dilemma)}", "Episodes by violations", draw)
    yield bundled.table(view)


def comparison(inputs: Inputs) -> Shown:
    """The table of the paper's numbers and their counterparts here."""
    from perepisode.paper_comparison.table import paper_versus_here

    return paper_versus_here(inputs.episodes, {name: utility for name, (utility, _) in inputs.utilities.items()})


def caveat(total_timesteps: float) -> str | None:
    """A caveat on agents that were trained for fewer steps than the paper's."""
    from perepisode.paper_comparison import numbers
    from perepisode.report.formatting import count

    if total_timesteps >= numbers.STEPS:
        return None
    steps = f"{count(total_timesteps)} steps, the paper's for {count(numbers.STEPS)}"
    return f"Agents were trained for {steps}: returns may differ for that reason alone."
