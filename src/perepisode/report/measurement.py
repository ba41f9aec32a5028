"""Tables on the measurement: protocols, detectors, variants, runs and exact optima."""

import itertools

import pandas as pd

from perepisode import metrics
from perepisode.report.formatting import count, number, percent, slug
from perepisode.report.statistics import matched
from perepisode.report.statistics.points import COUNTERS, PROTOCOLS, Episodes, View
from perepisode.report.style import dilemma_name
from perepisode.report.tables import Table, basis


def protocols(episodes: Episodes, view: View, chosen: matched.Point) -> Table:
    """The matched agents under every protocol and detector."""
    counters = [counter for counter in COUNTERS if episodes.has(view.dilemma, counter)]
    rows = [
        {
            "agent": point.label,
            "episodes_of": "first episodes" if protocol == "first" else "window",
            "counted_by": "exact" if counter == "exact" else "state difference",
            "return": point.mean_return,
            "length": point.seed_mean("lengths"),
            "violations": point.interval(metrics.mean).mean,
            "p_any": point.interval(metrics.p_any).mean,
            "cvar": point.tail.mean,
            "cvar_ci": point.tail.half,
            "episodes": point.episodes,
        }
        for own in (chosen, *matched.partners(view, chosen))
        for protocol, counter in itertools.product(PROTOCOLS, counters)
        if (point := episodes.view(view.dilemma, protocol, counter).arm(own.method, own.arm))
    ]
    frame = pd.DataFrame(rows)
    shown = {
        "Agent": list(frame["agent"]),
        "Protocol": list(frame["episodes_of"]),
        "Detector": list(frame["counted_by"]),
        "Return": [number(value) for value in frame["return"]],
        "Length": [number(value, 1) for value in frame["length"]],
        view.measure.heading: [number(value, 3) for value in frame["violations"]],
        view.measure.p_any: [percent(value) for value in frame["p_any"]],
        view.measure.cvar_heading: [view.measure.plus_minus(*pair) for pair in zip(frame["cvar"], frame["cvar_ci"])],
        "N": [str(value) for value in frame["episodes"]],
    }
    note = (
        "The paper keeps the episodes that finish within a fixed window of steps, which favours short ones; the "
        "unbiased protocol keeps the first episodes of every environment. The paper's detector compares the states "
        "before and after a step; exact counts also see what happens within a step."
    )
    title = f"Effect of protocol and detector: {dilemma_name(view.dilemma)}"
    return Table(f"protocols_{slug(view.dilemma)}", title, note, shown, frame)


def missed(episodes: Episodes, dilemma: str) -> Table | None:
    """Share of exact violations that the paper's detector misses, for each agent."""
    rows = [row for row in episodes.missed(dilemma) if row[1] > 0] if episodes.has(dilemma, "paper") else []
    if not rows:
        return None
    frame = pd.DataFrame(rows, columns=["agent", "violations", "missed_share"])
    total = sum(violations * share for _, violations, share in rows) / sum(row[1] for row in rows)
    shown = {
        "Agent": list(frame["agent"]),
        "Violations": [f"{value:.0f}" for value in frame["violations"]],
        "Missed": [percent(value) for value in frame["missed_share"]],
    }
    name = dilemma_name(dilemma)
    note = f"Over all agents, the paper's detector misses {percent(total)} of the violations of {name}."
    return Table(f"missed_{slug(dilemma)}", f"Violations that the paper's detector misses: {name}", note, shown, frame)


def variants(view: View) -> Table | None:
    """Arms with another γ or training detector, compared with the main arm of the same setting."""
    mains = [view.arm(point.method, point.arm) for point in view.variants]
    rows = [
        {
            "agent": point.label,
            "return": point.mean_return,
            "violations": point.interval(metrics.mean).mean,
            "cvar": (cvar := point.tail.mean),
            "twin": main.label if main else "",
            "return_change": point.mean_return - main.mean_return if main else float("nan"),
            "cvar_change": cvar - main.tail.mean if main else float("nan"),
        }
        for point, main in zip(view.variants, mains)
    ]
    if not rows:
        return None
    frame = pd.DataFrame(rows)
    shown = {
        "Agent": list(frame["agent"]),
        "Return": [number(value) for value in frame["return"]],
        "Change of return": [number(value) for value in frame["return_change"]],
        view.measure.heading: [view.measure.text(value) for value in frame["violations"]],
        view.measure.cvar_heading: [view.measure.text(value) for value in frame["cvar"]],
        "Change of CVaR": [view.measure.text(value) for value in frame["cvar_change"]],
        "Compared with": [value or "–" for value in frame["twin"]],
    }
    note = "No comparison above includes these arms: they differ in γ or in the training detector."
    return Table(f"apart_{slug(view.dilemma)}", "Sensitivity to γ and to the training detector", note, shown, frame)


def runs(views: list[View]) -> Table:
    """Every training run with its id, so that every number can be traced to its run."""
    measure = views[0].measure
    rows = [
        {
            "run": seed.run,
            "dilemma": view.dilemma,
            "agent": point.label,
            "method": point.method,
            "seed": seed.seed,
            "steps": seed.total_timesteps,
            "episodes": seed.counts.size,
            "return": metrics.mean(seed.returns),
            "violations": metrics.mean(seed.counts),
            "cvar": point.measure.cvar(seed.counts),
        }
        for view in views
        for point in view.points
        for seed in point.seeds
    ]
    frame = pd.DataFrame(rows)
    shown = {
        "Agent": list(frame["agent"]),
        "Run": list(frame["run"]),
        "Dilemma": [dilemma_name(name) for name in frame["dilemma"]],
        "Seed": [str(value) for value in frame["seed"]],
        "Steps": [count(value) for value in frame["steps"]],
        "N": [str(value) for value in frame["episodes"]],
        "Return": [number(value) for value in frame["return"]],
        measure.heading: [measure.text(value) for value in frame["violations"]],
        measure.cvar_heading: [measure.text(value) for value in frame["cvar"]],
    }
    return Table("runs", "Runs", f"One row per training run: {basis(views[0])}.", shown, frame, list(frame["method"]))


def exact_optima(items: list[dict]) -> Table:
    """Exact optimal policies of the miniature environment, by dynamic programming."""
    keys = ("return", "mean_violations", "cvar", "p_over")
    frame = pd.DataFrame(
        [{"label": item["label"], "kind": item["kind"], **{key: item.get(key) for key in keys}} for item in items]
    )
    shown = {
        "Policy": [str(value) for value in frame["label"]],
        "Kind": [str(value) for value in frame["kind"]],
        "Return": [number(float(value)) for value in frame["return"]],
        "Violations": [number(float(value), 3) for value in frame["mean_violations"]],
        "P(over budget)": [percent(float(value), digits=2) for value in frame["p_over"].astype(float)],
        metrics.CVAR: [number(float(value), 3) for value in frame["cvar"]],
    }
    note = "The optimum of each objective, computed by backward induction without training or sampling."
    return Table("exact_optima", "Exact optima", note, shown, frame)
