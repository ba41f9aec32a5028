"""The sections of a report: figures and tables, and a sentence for each that has no data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd

from perepisode.evaluation import verdicts
from perepisode.methods import METHODS
from perepisode.report import measurement, tables
from perepisode.report.blocks import BLOCKS, Case, Inputs, Shown
from perepisode.report.drawing import figures, training_figures
from perepisode.report.drawing.canvas import drawn
from perepisode.report.formatting import listed, slug
from perepisode.report.statistics import curves as training
from perepisode.report.statistics import matched, pairs
from perepisode.report.statistics.points import View, stated
from perepisode.report.style import dilemma_name, label, reference_of

MAX_CURVES = 8  # lines that stay readable in one panel
NOT_BINDING = (
    "This dilemma does not bind: even the unconstrained agent hardly ever violates. Frontier, distributions, matched "
    "agents and hypervolume are omitted: without violations they are meaningless."
)


@dataclass
class Section:
    name: str
    title: str
    intro: str = ""
    blocks: list = field(default_factory=list)
    links: list[tuple[str, Path]] = field(default_factory=list)  # text, page
    text: list[tuple[str, list[str]]] = field(default_factory=list)  # heading, paragraphs
    omitted: list[str] = field(default_factory=list)  # why blocks are omitted

    def filled(self, shown: Iterable[Shown]) -> Section:
        for block in shown:
            if isinstance(block, str):
                self.omitted.append(block)
            elif block is not None:
                self.blocks.append(block)
        return self


def glossary(inputs: Inputs) -> list[tuple[str, str]]:
    """The methods on the page and the words in their names, each explained in one line."""
    points = [point for view in inputs.views for point in view.points]
    methods = dict.fromkeys(point.method for point in points)
    found = [(label(name), METHODS[name].explanation) for name in methods if name in METHODS]
    if any("scaled obs" in point.arm for point in points):
        found.append(("scaled obs", "observes the accrued return and violations on a larger scale than the paper's."))
    measure = inputs.views[0].measure
    found.append((measure.cvar_heading, f"conditional value at risk: the mean over the {measure.worst_episodes}."))
    if tested := [pair for view in inputs.views for pair in pairs.compared(view).pairs if stated(pair.p)]:
        found.append(("±", "95 % interval over training seeds."))
        if any(verdicts.UNDECIDED in (pair.returns.verdict, pair.means.verdict) for pair in tested):
            found.append(("undecided", "these seeds show neither that two means differ nor that they are equivalent."))
    return [entry for entry in found if entry[1]]


def sections(inputs: Inputs) -> list[Section]:
    """All sections with content, in reading order; the last one lists what is omitted, with reasons."""
    watch = "Replayed from their random keys and actions; every count on these pages was computed again."
    plan, reference = inputs.episodes.plan, reference_of(inputs.episodes.environment)
    all_sections = [Section("plan", "Analysis plan").filled([tables.analysis_plan(plan)])] if plan.path else []
    for view in inputs.views:
        opening = reference.opening(view) if reference else ()
        all_sections.append(Section(f"bundled-{slug(view.dilemma)}", "Bundled agents").filled(opening))
    for index, view in enumerate(inputs.views):
        section = Section(f"dilemma-{index}", dilemma_name(view.dilemma), NOT_BINDING if view.binds is False else "")
        all_sections.append(section.filled(_dilemma(view, inputs)))
    all_sections += [
        Section("together", "All binding dilemmas").filled(_together(inputs)),
        Section("watch", "Replays of the worst episodes", watch, links=inputs.watch),
        Section("training", "Training").filled(_training(inputs)),
        Section("utilities", "Distilled utility").filled([_utilities(inputs)]),
        Section("optima", "Exact optima").filled([measurement.exact_optima(inputs.exact)] if inputs.exact else []),
        Section("measuring", "Protocol and detector").filled(_measuring(inputs)),
        Section("paper", "Comparison with the paper").filled([reference.comparison(inputs)] if reference else []),
        Section("reading", "Definitions and provenance").filled(_reading(inputs)),
    ]
    omitted = [text for section in all_sections if not section.blocks for text in section.omitted]
    shown = [section for section in all_sections if section.blocks or section.links]
    return [*shown, *([Section("not-shown", "Not shown", omitted=omitted)] if omitted else [])]


def _dilemma(view: View, inputs: Inputs) -> Iterator[Shown]:
    chosen = matched.focal(view)
    if view.binds is False:
        pass  # NOT_BINDING says why
    elif chosen is None:
        yield "Comparisons are omitted: all agents of this dilemma differ from the study in γ or training detector."
    else:
        case = Case(view, chosen, matched.partners(view, chosen), inputs)
        yield from (block(case) for block in BLOCKS.values())
    if view.unconstrained is not None and chosen is not None:
        yield tables.cost_of_compliance(view, chosen)
    else:
        yield "Cost of compliance is omitted: there is no unconstrained agent to compare with."
    yield measurement.variants(view)
    yield tables.complete(view, inputs.episodes.dilemmas)


def _together(inputs: Inputs) -> Iterator[Shown]:
    binding = [view for view in inputs.views if view.binds]
    if len(binding) > 1:
        yield drawn("frontiers", "Frontiers side by side", partial(figures.both_frontiers, binding))


def _training(inputs: Inputs) -> Iterator[Shown]:
    if not inputs.curves:
        yield "Training curves and λ are omitted: no run with a training curve was given."
        return
    gamma = inputs.episodes.main_gamma
    main = [curve for curve in inputs.curves if not abs(curve.gamma - gamma) > 0]  # keeps NaN
    for view in inputs.views:
        name = dilemma_name(view.dilemma)
        own = [curve for curve in main if curve.dilemma == view.dilemma]
        if not any(curve.method == "unconstrained" for curve in own):
            free = [curve for curve in main if curve.method == "unconstrained"]
            own += [curve.without("violations") for curve in free]  # counted for another dilemma
        groups = training.group(own)
        if not any(method != "unconstrained" for method, _ in groups):
            yield f"{name}: the run folders have no training curves."
            continue
        draw = partial(training_figures.training_curves, _chosen_curves(groups, view))
        yield drawn(f"training_{slug(view.dilemma)}", f"Training on {name}", draw)
        duals = {key: group for key, group in groups.items() if any(curve.has("lambda") for curve in group)}
        if duals:
            draw = partial(training_figures.multipliers, duals)
            yield drawn(f"multiplier_{slug(view.dilemma)}", f"Multiplier λ on {name}", draw)


def _chosen_curves(groups: dict, view: View) -> dict:
    """The compared agents first, then others, as many as stay readable."""
    chosen = matched.focal(view)
    first = [chosen, *matched.partners(view, chosen)] if chosen else []
    compared = [(point.method, point.arm) for point in first]
    wanted = [("unconstrained", ""), *compared, ("esr", "k=0"), ("erm", "heuristic"), ("esr_distilled", ""), *groups]
    return {key: groups[key] for key in [key for key in dict.fromkeys(wanted) if key in groups][:MAX_CURVES]}


def _utilities(inputs: Inputs) -> Shown:
    if not inputs.utilities:
        return "Utility slices are omitted: no distilled utility was given."
    draw = partial(training_figures.utility_slices, inputs.utilities)
    return drawn("utility_slices", "Utility at fixed violation counts", draw)


def _measuring(inputs: Inputs) -> list[Shown]:
    found: list[Shown] = []
    for view in inputs.views:
        chosen = matched.focal(view)
        if view.binds is False or chosen is None:
            continue
        if inputs.episodes.protocols_differ or inputs.episodes.has(view.dilemma, "paper"):
            found.append(measurement.protocols(inputs.episodes, view, chosen))
        found.append(measurement.missed(inputs.episodes, view.dilemma))
    return found if any(found) else ["Protocol and detector are omitted: there is only one of each."]


def _reading(inputs: Inputs) -> Iterator[Shown]:
    measure = inputs.views[0].measure
    meanings = {
        **{spec.term or spec.heading: spec.meaning for spec in measure.metric_specs(measure.limit) if spec.meaning},
        "±": "95 % t interval over seeds, the unit of replication; never over episodes. Where it would reach below "
        "zero, its ends are given instead",
        "heavier tail": "found by the primary test: Welch's test on the logarithm of the CVaR, one value per seed, at "
        f"{_levels(measure.alpha)}, combined (Cauchy) and corrected for all comparisons of the dilemma (Holm). If all "
        "agents were identical, at most one table in twenty would claim a difference",
        "equivalent, different, undecided": tables.margins_note(inputs.views[0]),
        "comparisons": "those of the analysis plan; else, if the study has an agent with a per-episode budget, that "
        "agent against the nearest arms of the other methods; else all pairs, except those where one agent is known to "
        f"have both a higher return and {measure.more}: its tail may be heavier for that reason alone",
        "interpolated": "read along a method's frontier, between two of its arms, at exactly the given mean",
        "protocol": f"of this report: {tables.basis(inputs.views[0])}",
    }
    if measure.is_count:
        meanings["independent, least"] = (
            f"{measure.cvar_heading} of independent {measure.events} (Poisson) with the same mean, and the least "
            "possible"
        )
    shown = {"Metric": list(meanings), "Meaning": list(meanings.values())}
    yield tables.Table("definitions", "Definitions", "", shown, pd.DataFrame(shown))
    yield measurement.runs(inputs.views)
    rows = [
        (Path(file["path"]).name, key, tables.plainly(value))
        for file in inputs.episodes.provenance
        for key, value in file.items()
        if key != "path"
    ]
    origin = {name: [row[index] for row in rows] for index, name in enumerate(("File", "Key", "Value"))}
    note = "The provenance that each episodes table states."
    yield tables.Table("provenance", "Provenance", note, origin, pd.DataFrame(origin))


def _levels(alpha: float) -> str:
    """ "10, 2, 1 and 0.5 %"."""
    return f"{listed(f'{100 * alpha * share:g}' for share in verdicts.DEEPER)} %"
