"""What a report shows: sections of figures and tables, and a sentence for each that has no data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from perepisode.report import measurement, tables
from perepisode.report.blocks import BLOCKS, Case, Inputs, Shown
from perepisode.report.drawing import figures, training_figures
from perepisode.report.drawing.canvas import drawn
from perepisode.report.formatting import slug
from perepisode.report.statistics import curves as training
from perepisode.report.statistics import matched
from perepisode.report.statistics.points import View
from perepisode.report.style import dilemma_name, reference_of

MAX_CURVES = 8  # lines that stay readable in one panel
NOT_BINDING = (
    "This dilemma does not bind: even the unconstrained agent hardly ever violates. Frontier, "
    "distributions, matched tails and hypervolume are left out: without violations they say nothing."
)


@dataclass
class Section:
    name: str
    title: str
    intro: str = ""
    blocks: list = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)  # text, address
    words: list[tuple[str, list[str]]] = field(default_factory=list)  # heading, paragraphs
    left_out: list[str] = field(default_factory=list)

    def filled(self, shown: Iterable[Shown]) -> Section:
        """With blocks, and with the sentences that say why others are left out."""
        for one in shown:
            if isinstance(one, str):
                self.left_out.append(one)
            elif one is not None:
                self.blocks.append(one)
        return self


def sections(inputs: Inputs) -> list[Section]:
    """All sections with something to show, in reading order; what is missing comes last, with reasons."""
    watch = "Replayed from their keys and actions; every count on such a page was counted again."
    found, reference = [], reference_of(inputs.episodes.environment)
    for view in inputs.views:
        opening = reference.opening(view) if reference else ()
        found.append(Section(f"bundled-{slug(view.dilemma)}", "Bundled agents").filled(opening))
    for index, view in enumerate(inputs.views):
        intro = NOT_BINDING if view.binds is False else ""
        found.append(Section(f"dilemma-{index}", dilemma_name(view.dilemma), intro).filled(_dilemma(view, inputs)))
    found += [
        Section("together", "All binding dilemmas").filled(_together(inputs)),
        Section("watch", "Worst episodes, to watch", watch, links=inputs.watch),
        Section("training", "Training").filled(_training(inputs)),
        Section("utilities", "Distilled utility").filled([_utilities(inputs)]),
        Section("optima", "Exact optima").filled([measurement.exact_optima(inputs.exact)] if inputs.exact else []),
        Section("measuring", "Protocol and detector").filled(_measuring(inputs)),
        Section("paper", "Paper versus here").filled([reference.comparison(inputs)] if reference else []),
        Section("reading", "How to read, and where it comes from").filled(_reading(inputs)),
    ]
    left_out = [text for section in found if not section.blocks for text in section.left_out]
    shown = [section for section in found if section.blocks or section.links]
    return [*shown, *([Section("not-shown", "Not shown", left_out=left_out)] if left_out else [])]


def _dilemma(view: View, inputs: Inputs) -> Iterator[Shown]:
    chosen = matched.focal(view)
    if view.binds is False:
        pass  # NOT_BINDING says why
    elif chosen is None:
        yield "Comparisons are left out: all agents of this dilemma are kept apart."
    else:
        case = Case(view, chosen, matched.partners(view, chosen), inputs)
        yield from (block(case) for block in BLOCKS.values())
    if view.unconstrained is not None and chosen is not None:
        yield tables.cost_of_compliance(view, chosen)
    else:
        yield "Cost of compliance is left out: there is no unconstrained agent to compare with."
    yield measurement.apart(view)
    yield tables.complete(view, inputs.episodes.dilemmas)


def _together(inputs: Inputs) -> Iterator[Shown]:
    binding = [view for view in inputs.views if view.binds]
    if len(binding) > 1:
        yield drawn("frontiers", "Frontiers side by side", figures.both_frontiers(binding))


def _training(inputs: Inputs) -> Iterator[Shown]:
    if not inputs.curves:
        yield "Training curves and λ are left out: no run with a training curve was given."
        return
    gamma = inputs.episodes.main_gamma
    main = [curve for curve in inputs.curves if not abs(curve.gamma - gamma) > 0]  # one that is not known is no other
    for view in inputs.views:
        name = dilemma_name(view.dilemma)
        own = [curve for curve in main if curve.dilemma == view.dilemma]
        if not any(curve.method == "unconstrained" for curve in own):
            free = [curve for curve in main if curve.method == "unconstrained"]
            own += [curve.without("violations") for curve in free]  # they were counted for another dilemma
        groups = training.group(own)
        if not any(method != "unconstrained" for method, _ in groups):
            yield f"{name}: no curves among the run folders."
            continue
        made = training_figures.training_curves(_chosen_curves(groups, view))
        yield drawn(f"training_{slug(view.dilemma)}", f"Training on {name}", made)
        duals = {key: group for key, group in groups.items() if any(curve.has("lambda") for curve in group)}
        if duals:
            made = training_figures.multipliers(duals)
            yield drawn(f"multiplier_{slug(view.dilemma)}", f"Multiplier λ on {name}", made)


def _chosen_curves(groups: dict, view: View) -> dict:
    """The agents compared elsewhere first, then others, as many as stay readable."""
    chosen = matched.focal(view)
    first = [chosen, *matched.partners(view, chosen)] if chosen else []
    compared = [(point.method, point.arm) for point in first]
    wanted = [("unconstrained", ""), *compared, ("esr", "k=0"), ("erm", "heuristic"), ("esr_distilled", ""), *groups]
    return {key: groups[key] for key in [key for key in dict.fromkeys(wanted) if key in groups][:MAX_CURVES]}


def _utilities(inputs: Inputs) -> Shown:
    if not inputs.utilities:
        return "Utility slices are left out: no distilled utility was given."
    made = training_figures.utility_slices(inputs.utilities)
    return drawn("utility_slices", "Utility at fixed violation counts", made)


def _measuring(inputs: Inputs) -> list[Shown]:
    found: list[Shown] = []
    for view in inputs.views:
        chosen = matched.focal(view)
        if view.binds is False or chosen is None:
            continue
        if inputs.episodes.protocols_differ or inputs.episodes.has(view.dilemma, "paper"):
            found.append(measurement.protocols(inputs.episodes, view, chosen))
        found.append(measurement.missed(inputs.episodes, view.dilemma))
    alone = "Protocol and detector are left out: there is one protocol and one count only."
    return found if any(found) else [alone]


def _reading(inputs: Inputs) -> Iterator[Shown]:
    harm = inputs.views[0].harm
    meanings = {
        **{one.term or one.heading: one.meaning for one in harm.declared(harm.limit) if one.meaning},
        "±": "95 % t interval over seeds, the replication unit; never over episodes. Where it would reach below zero, "
        "its ends are given instead",
        "the same mean": tables.SAME,
        "p": "two-sided Welch test of equal CVaR, one number a seed, corrected by Holm for all comparisons of its "
        "table: where all agents are alike, some p is below 0.05 in at most one of twenty",
        "comparisons": "the agent with a budget an episode against the others' nearest, where the study has one; else "
        "all pairs that have the same mean",
        "matched": "compared at the same mean return: nearest arm, or interpolated along the method's frontier",
        "protocol": f"this report: {tables.basis(inputs.views[0])}",
    }
    if harm.whole:
        meanings["independent, least"] = f"the {harm.tail} that the mean implies: by Poisson's law, and at the least"
    shown = {"Metric": list(meanings), "Meaning": list(meanings.values())}
    yield tables.Table("definitions", "Definitions", "", shown, pd.DataFrame(shown))
    yield measurement.runs(inputs.views)
    rows = [
        (Path(file["path"]).name, key, _plain(value))
        for file in inputs.episodes.provenance
        for key, value in file.items()
        if key != "path"
    ]
    origin = {name: [row[index] for row in rows] for index, name in enumerate(("File", "Key", "Value"))}
    note = "What each episodes table says about itself."
    yield tables.Table("provenance", "Provenance", note, origin, pd.DataFrame(origin))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
