"""What a report shows: sections of figures and tables, and a sentence for each that has no data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from perepisode import metrics
from perepisode.report import elsewhere, measuring, tables, versus
from perepisode.report.blocks import BLOCKS, Case, Inputs, Shown
from perepisode.report.drawing import card, figures, training_figures
from perepisode.report.drawing.canvas import Drawing, drawn
from perepisode.report.statistics import curves as training
from perepisode.report.statistics import matched
from perepisode.report.statistics.points import View
from perepisode.report.style import dilemma_name
from perepisode.report.words import slug

MOST_CURVES = 8  # lines that stay readable in one panel


@dataclass
class Section:
    name: str
    title: str
    intro: str = ""
    blocks: list = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)  # text, address
    words: list[tuple[str, list[str]]] = field(default_factory=list)  # heading, paragraphs
    left_out: list[str] = field(default_factory=list)

    def draw(self, name: str, title: str, made: Drawing) -> None:
        self.add(drawn(name, title, made))

    def add(self, shown: Shown) -> None:
        """A block, or the sentence that says why it is left out."""
        if isinstance(shown, str):
            self.left_out.append(shown)
        elif shown is not None:
            self.blocks.append(shown)


def sections(inputs: Inputs) -> list[Section]:
    """All sections with something to show, in reading order; what is missing comes last, with reasons."""
    found = [_shipped_section(view) for view in inputs.views]
    found += [_dilemma_section(view, inputs) for view in inputs.views]
    binding = [view for view in inputs.views if view.binds]
    if len(binding) > 1:
        together = Section("together", "All binding dilemmas")
        together.draw("frontiers", "Frontiers side by side", figures.both_frontiers(binding))
        found.append(together)
    if inputs.watch:
        intro = "Replayed from their keys and actions; every count on such a page was counted again."
        found.append(Section("watch", "Worst episodes, to watch", intro, links=inputs.watch))
    found += [_training_section(inputs), _utility_section(inputs)]
    if inputs.exact:
        optima = Section("optima", "Exact optima")
        optima.add(measuring.exact_optima(inputs.exact))
        found.append(optima)
    found += [_measuring_section(inputs), _versus_section(inputs), _reading_section(inputs)]
    empty = Section("not-shown", "Not shown")
    empty.left_out = [text for section in found if not section.blocks for text in section.left_out]
    return [
        section
        for section in (*found, empty)
        if section.blocks or section.links or (section is empty and empty.left_out)
    ]


def _shipped_section(view: View) -> Section:
    """Only where agents that ship with the package are among those judged."""
    section = Section(f"shipped-{slug(view.dilemma)}", "The agents that ship")
    found = elsewhere.known(view)
    if len(found) > 2:
        made = card.card([one.point for one in found], view.dilemma)
        section.draw(f"card_{slug(view.dilemma)}", "Episodes by violations", made)
    section.add(elsewhere.table(view))
    return section


def _dilemma_section(view: View, inputs: Inputs) -> Section:
    section = Section(f"dilemma-{inputs.views.index(view)}", dilemma_name(view.dilemma))
    chosen = matched.focal(view)
    if view.binds is False:
        section.intro = (
            "This dilemma does not bind: even the unconstrained agent hardly ever violates. Frontier, "
            "distributions, matched tails and hypervolume are left out: without violations they say nothing."
        )
    elif chosen is None:
        section.add("Comparisons are left out: all agents of this dilemma are kept apart.")
    else:
        case = Case(view, chosen, matched.partners(view, chosen), inputs)
        for block in BLOCKS.values():
            section.add(block(case))
    if view.unconstrained is not None and chosen is not None:
        section.add(tables.cost_of_compliance(view, chosen))
    else:
        section.add("Cost of compliance is left out: there is no unconstrained agent to compare with.")
    section.add(measuring.apart(view))
    section.add(tables.complete(view, inputs.episodes.dilemmas))
    return section


def _training_section(inputs: Inputs) -> Section:
    section = Section("training", "Training")
    if not inputs.curves:
        section.add("Training curves and λ are left out: no run with a training curve was given.")
        return section
    for view in inputs.views:
        main = [curve for curve in inputs.curves if not _other_gamma(curve.gamma, inputs.episodes.main_gamma)]
        own = [curve for curve in main if curve.dilemma == view.dilemma]
        free = [curve for curve in main if curve.method == "unconstrained" and curve.dilemma != view.dilemma]
        if not any(curve.method == "unconstrained" for curve in own):
            own += [curve.without("violations") for curve in free]  # they were counted for another dilemma
        groups = training.group(own)
        if not any(method != "unconstrained" for method, _ in groups):
            section.add(f"{dilemma_name(view.dilemma)}: no curves among the run folders.")
            continue
        title = f"Training on {dilemma_name(view.dilemma)}"
        section.draw(
            f"training_{slug(view.dilemma)}", title, training_figures.training_curves(_chosen_curves(groups, view))
        )
        duals = {key: group for key, group in groups.items() if any(curve.has("lambda") for curve in group)}
        if duals:
            title = f"Multiplier λ on {dilemma_name(view.dilemma)}"
            section.draw(f"multiplier_{slug(view.dilemma)}", title, training_figures.multipliers(duals))
    return section


def _other_gamma(gamma: float, main: float) -> bool:
    return gamma == gamma and main == main and gamma != main


def _chosen_curves(groups: dict, view: View) -> dict:
    """The agents compared elsewhere first, then others, as many as stay readable."""
    chosen = matched.focal(view)
    first = [chosen, *matched.partners(view, chosen)] if chosen else []
    wanted = [
        ("unconstrained", ""),
        *((point.method, point.arm) for point in first),
        ("esr", "k=0"),
        ("erm", "heuristic"),
    ]
    wanted += [("esr_distilled", ""), *groups]
    return {key: groups[key] for key in [key for key in dict.fromkeys(wanted) if key in groups][:MOST_CURVES]}


def _utility_section(inputs: Inputs) -> Section:
    section = Section("utilities", "Distilled utility")
    if inputs.utilities:
        drawn = {name: utility for name, (utility, _) in inputs.utilities.items()}
        tops = {name: top for name, (_, top) in inputs.utilities.items()}
        section.draw(
            "utility_slices", "Utility at fixed violation counts", training_figures.utility_slices(drawn, tops)
        )
    else:
        section.add("Utility slices are left out: no distilled utility was given.")
    return section


def _measuring_section(inputs: Inputs) -> Section:
    section = Section("measuring", "Protocol and detector")
    for view in inputs.views:
        chosen = matched.focal(view)
        if view.binds is False or chosen is None:
            continue
        if inputs.episodes.protocols_differ or inputs.episodes.has(view.dilemma, "paper"):
            section.add(measuring.protocols(inputs.episodes, view, chosen))
        section.add(measuring.missed(inputs.episodes, view.dilemma))
    if not section.blocks:
        section.add("Protocol and detector are left out: there is one protocol and one count only.")
    return section


def _versus_section(inputs: Inputs) -> Section:
    section = Section("paper", "Paper versus here")
    if inputs.episodes.environment == "external":
        section.add("Paper versus here is left out: another environment and other methods than the paper's.")
        return section
    utilities = {name: utility for name, (utility, _) in inputs.utilities.items()}
    section.add(versus.paper_versus_here(inputs.episodes, utilities))
    return section


def _reading_section(inputs: Inputs) -> Section:
    meanings = {
        **{one.term or one.heading: one.meaning for one in metrics.DECLARED.values() if one.meaning},
        "±": "95 % t interval over seeds, the replication unit; never over episodes",
        "Welch t, p": "two-sided test of equal means with unequal variances, one number a seed",
        "matched": "compared at equal mean return: nearest arm, or interpolated along the method's frontier",
        "independent, least": "the worst tenth that the mean alone implies: by Poisson's law, and at the least",
        "protocol": f"this report: {tables.basis(inputs.views[0])}",
    }
    shown = {"Metric": list(meanings), "Meaning": list(meanings.values())}
    section = Section("reading", "How to read, and where it comes from")
    section.add(tables.Table("definitions", "Definitions", "", shown, pd.DataFrame(shown)))
    section.add(measuring.runs(inputs.views))
    rows = [
        (Path(file["path"]).name, key, _plain(value))
        for file in inputs.episodes.provenance
        for key, value in file.items()
        if key != "path"
    ]
    origin = {name: [row[index] for row in rows] for index, name in enumerate(("File", "Key", "Value"))}
    note = "What each episodes table says about itself."
    section.add(tables.Table("provenance", "Provenance", note, origin, pd.DataFrame(origin)))
    return section


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
