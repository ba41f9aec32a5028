"""The verdict on every claim of the paper, by the rules of results/claims/plan.toml, from committed episodes tables.

Nothing is judged by hand: `judged` applies each rule to the runs that the plan names, and finds runs by their ids.
`results/readme.py` writes the board into the documentation.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import claims
import numpy as np
import pandas as pd
from scipy.special import stdtr

from perepisode import metrics
from perepisode.evaluation import compare, episodes
from perepisode.report.formatting import count, listed, number, p_equals, p_value, percent, scientific, signed
from perepisode.report.style import dilemma_name, look
from perepisode.runs import Run

AGREES, DISAGREES, UNDECIDED, MISSING = "agrees", "disagrees", "undecided", "runs missing"
MATCHED = " matched"  # an agent of the plan: the arm of a method whose return is nearest to the other agent's
SHARES = ("p_any", "p_over_1", "second_of_first", "missed_share", "hypervolume_gain")  # shown as percentages
NAMES = {
    "return": "return",
    "p_any": "P(≥1)",
    "p_over_1": "P(>1)",
    "cvar": "CVaR 10 %",
    "mean": "violations per episode",
    "per_step": "violations per step",
    "second_of_first": "P(>1) / P(≥1)",
    "missed_share": "share of kills that the paper's detector misses",
    "hypervolume_gain": "gain in hypervolume by ESR",
}
FOLDERS = ("craftax/episodes", "loud/episodes", "paper_length/episodes64", "rho_u/episodes", "claims/episodes")
ALPHA = 0.05

Rows = pd.DataFrame  # the episodes of one run that the plan's protocol counts
Measure = Callable[[Rows, str], float]  # from the episodes of a run and a dilemma


def _counts(rows: Rows, dilemma: str) -> np.ndarray:
    return rows[f"violations_{dilemma}"].to_numpy(float)


def _second_of_first(rows: Rows, dilemma: str) -> float:
    counts = _counts(rows, dilemma)
    return metrics.over_one(counts) / any_ if (any_ := metrics.p_any(counts)) else math.nan


MEASURES: dict[str, Measure] = {
    "return": lambda rows, dilemma: rows["return"].mean(),
    "p_any": lambda rows, dilemma: metrics.p_any(_counts(rows, dilemma)),
    "p_over_1": lambda rows, dilemma: metrics.over_one(_counts(rows, dilemma)),
    "cvar": lambda rows, dilemma: metrics.cvar(_counts(rows, dilemma)),
    "mean": lambda rows, dilemma: metrics.mean(_counts(rows, dilemma)),
    "per_step": lambda rows, dilemma: _counts(rows, dilemma).sum() / rows["length"].sum(),
    "second_of_first": _second_of_first,
    "missed_share": lambda rows, dilemma: compare.missed_share(
        _counts(rows, dilemma), rows[f"violations_{dilemma}_paper"]
    ),
}


@cache
def tables() -> dict[Path, pd.DataFrame]:
    """Every stored episodes table, by its file."""
    paths = (path for folder in FOLDERS for path in sorted((claims.HERE / folder).glob("*.parquet")))
    return {path: episodes.read(path, without=episodes.REPLAY_COLUMNS) for path in paths}


@cache
def stored() -> dict[str, Rows]:
    """By run id: the first 12 episodes of each of 64 environments."""
    found: dict[str, Rows] = {}
    for table in tables().values():
        for run, rows in table[table["in_first"] & (table["end_cause"] != "running")].groupby("run"):
            assert run not in found, f"run {run} is stored twice"
            found[str(run)] = rows
    return found


def label(run: Run) -> str:
    """A run's agent as the parts of a claim name it: `esr k=1, ρ_u=0.1`."""
    rho_u = run.method_settings.get("rho_u")
    parts = [f"{run.method} {run.arm}".strip(), f"ρ_u={rho_u:g}" if run.method == "esr" and rho_u else ""]
    return ", ".join(filter(None, parts)) + (" γ=1" if run.gamma == 1 else "")


@dataclass(frozen=True)
class Part:
    """One rule of a claim, and what it gives.  Intervals are not corrected; the verdict's p is, by Holm."""

    rule: Mapping
    scale: str
    dilemma: str
    verdict: str = MISSING
    ours: float = math.nan
    half: float = math.nan  # of the interval at the rule's level
    level: float = 0.95
    seeds: tuple[int, ...] = ()  # of each agent
    p: float = math.nan  # of the test behind `side`, two-sided or the larger of two one-sided ones
    corrected: float = math.nan  # p by Holm over the parts of the claim
    side: str = UNDECIDED  # what the data lean to
    needed: tuple[str, ...] = ()  # ids of runs that are not stored
    matched: str = ""  # the agent that was chosen as the one of matched return
    preview: Part | None = None  # where runs are missing: the same rule on those of fewer seeds or shorter training


def agents_of(claim: Mapping, scale: str, dilemma: str) -> dict[str, list[Run]]:
    """The runs of a claim's agents by label; unconstrained agents are trained once for all dilemmas."""
    found: dict[str, list[Run]] = {}
    for spec in claim["agents"]:
        own = "no_killing" if spec == "unconstrained" else dilemma
        for run in claims.trained(spec, own, scale):
            found.setdefault(label(run), []).append(run)
    for name, seeds in claim.get("more_seeds", {}).items():
        found[name] += [replace(found[name][0], seed=seed) for seed in seeds]
    return found


def judged_claim(claim: Mapping) -> list[Part]:
    parts = []
    for rule in claim["parts"]:
        dilemma = rule.get("dilemma", claim.get("dilemmas", ["no_killing"])[0])
        parts.append(_judged(rule, rule.get("scale", claim["scale"]), dilemma, claim))
    corrected = compare.holm([1.0 if part.verdict == MISSING else part.p for part in parts])  # it will be compared too
    parts = [replace(part, corrected=p) for part, p in zip(parts, corrected)]
    decided = [part.side if part.corrected < ALPHA else UNDECIDED for part in parts]
    return [part if part.verdict == MISSING else replace(part, verdict=one) for part, one in zip(parts, decided)]


def _judged(rule: Mapping, scale: str, dilemma: str, claim: Mapping) -> Part:
    known, part = agents_of(claim, scale, dilemma), Part(rule, scale, dilemma)
    names = [rule[name] for name in ("a", "b", "agent") if name in rule]
    arms = {name: [one for one in known if one.startswith(name.removesuffix("matched"))] for name in names}
    wanted = [one for name in names for one in (arms[name] if name.endswith(MATCHED) else [name])] or list(known)
    needed = tuple(run.id for name in wanted for run in known.get(name, ()) if run.id not in stored())
    if needed or not all(known.get(name) for name in wanted):
        fewer = {key: value for key, value in claim.items() if key != "more_seeds"}
        previews = [_judged(rule, scale, dilemma, fewer)] if fewer != claim else []
        previews += [_judged(rule, "short", dilemma, fewer)] if scale == "long" else []
        preview = next((one for one in previews if one.verdict != MISSING), None)
        return replace(part, needed=needed, preview=preview)
    if names and names[0].endswith(MATCHED):
        names[0] = _nearest(arms[names[0]], names[1], known)
        part = replace(part, matched=names[0])
    if names:
        values = [_values(rule["measure"], known[name], dilemma) for name in names]
    elif rule["measure"] == "missed_share":
        values = [_missed(known, dilemma)]
    else:
        values = [_hypervolume_gain(known, rule["by"], dilemma)]
    return RULES[rule["kind"]](replace(part, verdict=UNDECIDED, seeds=tuple(map(len, values))), *values)


def _values(measure: str, runs: Iterable[Run], dilemma: str) -> np.ndarray:
    return np.array([MEASURES[measure](stored()[run.id], dilemma) for run in runs])


def _nearest(arms: list[str], to: str, known: dict[str, list[Run]]) -> str:
    target = _values("return", known[to], "").mean()
    return min(arms, key=lambda one: abs(_values("return", known[one], "").mean() - target))


def _by_seed(known: dict[str, list[Run]]) -> list[list[Run]]:
    seeds = dict.fromkeys(run.seed for runs in known.values() for run in runs)
    return [[run for runs in known.values() for run in runs if run.seed == seed] for seed in seeds]


def _missed(known: dict[str, list[Run]], dilemma: str) -> np.ndarray:
    pooled = [pd.concat([stored()[run.id] for run in runs]) for runs in _by_seed(known)]
    return np.array([MEASURES["missed_share"](rows, dilemma) for rows in pooled])


def _hypervolume_gain(known: dict[str, list[Run]], by: str, dilemma: str) -> np.ndarray:
    """For each seed: how much the method adds to the area of return and violations per episode under the others.

    The reference is the least return on the frontier, and the most violations of any agent.
    """
    gains = []
    for runs in _by_seed(known):
        points = np.array([[MEASURES[name](stored()[run.id], dilemma) for name in ("return", "mean")] for run in runs])
        reference = points[compare.frontier(points), 0].min(), points[:, 1].max()
        without = compare.hypervolume(points[[run.method != by for run in runs]], reference)
        gains.append(compare.hypervolume(points, reference) / without - 1 if without else math.nan)
    return np.array(gains)


# ---- the kinds of rule: each adds ours, its interval, p and the side to a part --------------------------------


def _greater(part: Part, a: np.ndarray, b: np.ndarray) -> Part:
    found, margin = compare.difference(a, b), part.rule["margin"]
    return replace(
        part, ours=found.mean, half=found.half, p=_p(compare.welch(a - margin, b)), side=_side(found.mean > margin)
    )


def _equivalent(part: Part, a: np.ndarray, b: np.ndarray) -> Part:
    margin = part.rule["margin"]
    return _within(part, compare.difference(a, b, 0.90), compare.welch(a - margin, b), compare.welch(a + margin, b))


def _near(part: Part, a: np.ndarray) -> Part:
    target, margin = part.rule["paper"], part.rule["margin"]
    found = compare.t_interval(a, 0.90)
    part = _within(part, found._replace(mean=found.mean - target), _one(a, target + margin), _one(a, target - margin))
    return replace(part, ours=found.mean)


def _within(part: Part, found: compare.Interval, above: compare.Welch, below: compare.Welch) -> Part:
    """Two one-sided tests at 5 %, either that the difference is within ± margin, or that it is beyond it."""
    part = replace(part, ours=found.mean, half=found.half, level=0.90)
    if abs(found.mean) <= part.rule["margin"]:
        return replace(part, p=max(_p(above), _p(below)) / 2, side=AGREES)
    return replace(part, p=_p(above if found.mean > 0 else below) / 2, side=DISAGREES)


def _bound(part: Part, a: np.ndarray, at_least: bool) -> Part:
    found, bound = compare.t_interval(a), part.rule["bound"]
    side = _side((found.mean >= bound) == at_least)
    return replace(part, ours=found.mean, half=found.half, p=_p(_one(a, bound)), side=side)


def _one(values: np.ndarray, target: float) -> compare.Welch:
    """The t test of one sample: a Welch test against a number that has no error."""
    found = compare.t_interval(values)
    difference, error = found.mean - target, float(values.std(ddof=1) / math.sqrt(values.size))
    if error == 0:
        return compare.Welch(math.copysign(math.inf, difference), math.nan, 0.0, difference)
    t = difference / error
    return compare.Welch(t, float(2 * stdtr(values.size - 1, -abs(t))), values.size - 1.0, difference)


def _p(test: compare.Welch) -> float:
    """Seeds that are all alike decide by their value: the interval of the rule then has no width."""
    return 0.0 if math.isinf(test.t) else test.p


def _side(holds: bool) -> str:
    return AGREES if holds else DISAGREES


RULES: dict[str, Callable[..., Part]] = {
    "greater": _greater,
    "equivalent": _equivalent,
    "near": _near,
    "at_least": lambda part, a: _bound(part, a, True),
    "at_most": lambda part, a: _bound(part, a, False),
}


def verdict_of(parts: list[Part]) -> str:
    """Disagrees if any part does; agrees if every part does."""
    found = [part.verdict for part in parts]
    if DISAGREES in found:
        return DISAGREES
    if MISSING in found:
        return MISSING
    return AGREES if set(found) == {AGREES} else UNDECIDED


@cache
def judged() -> list[tuple[Mapping, list[Part]]]:
    return [(claim, judged_claim(claim)) for claim in claims.PLAN["claim"]]


# ---- the pages -----------------------------------------------------------------------------------------------

NARROW = " (90 % interval)"  # of two one-sided tests
AFTERWARDS = "this rule was written after"  # in `seen`


def in_short() -> str:
    """How many claims have which verdict, in a sentence."""
    found = Counter(verdict_of(parts) for _, parts in judged())
    about = {
        AGREES: "agrees with our runs",
        DISAGREES: "disagrees",
        UNDECIDED: "undecided with the seeds so far",
        MISSING: f"waiting for runs ({_minutes(claims.PLAN['pack'])} GPU minutes in all)",
    }
    kinds = [f"{found[name]} {text}" for name, text in about.items() if found[name]]
    late = listed([str(claim["id"]) for claim, _ in judged() if AFTERWARDS in claim["seen"]])
    return (
        f"{len(judged())} claims, eleven of the paper and one from its future work, each with a rule for its verdict "
        f"(those of claims {late} were written after their runs, all others before): {listed(kinds)}."
    )


def known() -> str:
    """What ESR's observation does without its objective, in two sentences."""
    claim = next(claim for claim, _ in judged() if claim["id"] == 4)
    agents = agents_of({**claim, "more_seeds": {}}, "long", "no_killing")
    names = ("esr k=1", "ser_racc w=0.1", "ser w=0.1")
    ours, control, ser = ([_second_of_first(stored()[run.id], "no_killing") for run in agents[name]] for name in names)
    tests = listed(
        f"{which} is {'' if p < ALPHA else 'not '}significant (p {p_equals(p)})"
        for which, p in (
            ("its difference from ESR", compare.welch(control, ours).p),
            ("that from SER", compare.welch(control, ser).p),
        )
    )
    return (
        f"**What the observation does alone.** A second kill follows in {percent(np.mean(ours))} of ESR's episodes "
        f"with a first, and in {percent(np.mean(ser))} of SER's. The control SER+R_acc, which has SER's penalty and "
        f"ESR's observation of the return and violations accrued so far, lies at {percent(np.mean(control))} "
        f"({listed(map(percent, control))} in its seeds); {tests}, by Welch's test over three seeds. The "
        f"paper attributes the lighter tail to the objective and not to the observation. "
        f"[Claim 4](docs/results/claims.md#claim-4)."
    )


def table() -> str:
    """One row per claim."""
    lines = ["| | claim | verdict | ours | the paper |", "|---:|---|---|---|---|"]
    for claim, parts in judged():
        ours: dict[str, list[str]] = {}
        for when, text in filter(None, map(_ours, parts)):
            ours.setdefault(when, []).append(text.removesuffix(NARROW))
        texts = [f"{when}{'; '.join(several)}" for when, several in ours.items()]
        name = f"[{claim['sentence'].rstrip('.')}](#claim-{claim['id']})"
        verdict = verdict_of(parts)
        verdict += f" ({_minutes(_missing(parts))} GPU minutes)" if verdict == MISSING else ""
        lines.append(f"| {claim['id']} | {name} | {verdict} | {'. '.join(texts)} | {claim['paper']} |")
    return "\n".join(lines)


def details() -> str:
    """Every claim with its parts, what was known when its rule was written, and what would change it."""
    return "\n\n".join(_section(claim, parts) for claim, parts in judged())


def _section(claim: Mapping, parts: list[Part]) -> str:
    lines = [f"### Claim {claim['id']}", "", claim["sentence"], "", f"The paper: {claim['paper']}.", ""]
    lines += ["| rule | steps | ours | seeds | p | verdict |", "|---|---:|---|---:|---:|---|"]
    for part in parts:
        steps = claims.PLAN["scales"][part.scale]["total_timesteps"]
        seeds, p = " and ".join(map(str, part.seeds)), p_value(part.corrected) if part.seeds else ""
        ours = "".join(_ours(part) or ())
        lines.append(f"| {_rule(part)} | {count(steps)} | {ours} | {seeds} | {p} | {part.verdict} |")
    lines += [
        "",
        f"Known when the rule was written: {claim['seen']}. What would change the verdict: {claim['changes']}.",
    ]
    if missing := _missing(parts):
        packs = listed([f"`{pack['name']}`" for pack in missing])
        lines += ["", f"Missing: {packs} ({_minutes(missing)} GPU minutes)."]
    return "\n".join(lines)


def _rule(part: Part) -> str:
    rule, text = part.rule, partial(_value, part.rule["measure"])
    name = NAMES[rule["measure"]] + (f" of {_agent(rule['agent'])}" if "agent" in rule else "")
    name += f" ({dilemma_name(part.dilemma)})" if part.dilemma != "no_killing" else ""
    if rule["kind"] in ("greater", "equivalent"):
        a, b, margin = _agent(rule["a"]), _agent(rule["b"]), text(rule["margin"])
        if rule["kind"] == "equivalent":
            return f"{name}: {a} equals {b} within ± {margin}"
        return f"{name}: {a} exceeds {b}" + (f" by more than {margin}" if rule["margin"] else "")
    if rule["kind"] == "near":
        return f"{name} is within ± {text(rule['margin'])} of the paper's {text(rule['paper'])}"
    return f"{name} is {rule['kind'].replace('_', ' ')} {text(rule['bound'])}"


def _ours(part: Part) -> tuple[str, str] | None:
    """Ours with its interval; of a part without its runs, what fewer seeds or shorter training give."""
    if part.preview:
        steps = count(claims.PLAN["scales"][part.preview.scale]["total_timesteps"])
        when = "with the seeds so far" if part.preview.scale == part.scale else f"at {steps} steps"
        return f"{when}: ", _ours(part.preview)[1]
    if not part.seeds:
        return None
    rule, of = part.rule, partial(_value, part.rule["measure"])
    name = NAMES[rule["measure"]] + (f" of {_agent(rule['agent'])}" if "agent" in rule else "")
    name += f", {_agent(part.matched or rule['a'])} − {_agent(rule['b'])}" if "a" in rule else ""
    text = signed(part.ours, of(part.ours)) if "a" in rule else of(part.ours)
    return "", f"{name}: {text} ± {of(part.half)}" + (NARROW if part.level == 0.90 else "")


def _agent(name: str) -> str:
    """An agent of the plan as reports name it: `esr k=1, ρ_u=0.1` is ESR (k=1, ρ_u=0.1)."""
    method, _, arm = name.partition(" ")
    return look(method).label + (f" ({arm.replace(' γ', ', γ')})" if arm else "")


def _value(measure: str, value: float) -> str:
    text = percent(value) if measure in SHARES else scientific(value) if measure == "per_step" else number(value)
    return text.replace("-", "−")


def _missing(parts: Iterable[Part]) -> list[Mapping]:
    """The packs that train what a claim needs; agents whose setting is known later are looked up by name."""
    parts = [part for part in parts if part.verdict == MISSING]
    needed = {one for part in parts for one in part.needed}
    later = {part.rule.get(name, "") for part in parts for name in ("a", "b")} & set(claims.LATER)
    return [
        pack
        for pack in claims.PLAN["pack"]
        if needed & {run.id for run in claims.runs_of(pack)} or later & set(pack["agents"])
    ]


def _minutes(packs: Iterable[Mapping]) -> int:
    return sum(pack["gpu_minutes"] for pack in packs if pack["name"] not in claims.stored())


def made() -> str:
    """Which commit and device made each table, and when."""
    lines = ["| table | runs | steps each | device | versions | commit | when |", "|---|---:|---:|---|---|---|---|"]
    for path, read in tables().items():
        about, pack = read.attrs["provenance"][0], claims.KEPT / "packs" / f"{path.stem}.json"
        pack = json.loads(pack.read_text()) if path.is_relative_to(claims.KEPT) else {}
        versions = ", ".join(f"{name} {about['versions'][name]}" for name in ("perepisode", "jax"))
        (steps,) = set(read["total_timesteps"])
        commit = pack.get("made_with", {}).get("commit", "not recorded")
        lines.append(
            f"| {path.relative_to(claims.HERE)} | {read['run'].nunique()} | {count(steps)} | {about['device']} "
            f"| {versions} | {commit} | {pack.get('ended', 'not recorded')} |"
        )
    return "\n".join(lines)
