"""From the episodes table to operating points: one method at one setting, with the episodes of its seeds.

A view is one dilemma under one protocol (which episodes are kept) and one detector (which violations are counted).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from perepisode import metrics
from perepisode.evaluation import compare, verdicts
from perepisode.evaluation import episodes as tables
from perepisode.evaluation.compare import Interval
from perepisode.methods import METHODS, ConstraintType
from perepisode.report.cost_measure import NAN, CostMeasure
from perepisode.report.statistics.analysis_plan import UNPLANNED, AnalysisPlan
from perepisode.report.style import look, with_constraint

PROTOCOLS = {"first": "first episodes of every environment", "window": "the paper's window"}
COUNTERS = {"exact": "exact counts", "paper": "the paper's state-difference detector"}
BINDING_SHARE = 0.05  # a dilemma binds if the unconstrained agent violates in at least this share of episodes
_SETTING = ["method", "arm", "value", "gamma", "detector"]
_NUMBERS = ("return", "length", "utility", "violations")
_KEYS = ["dilemma", *_SETTING, "seed", "run"]


@dataclass(frozen=True, eq=False)
class Seed:
    """One trained run's episodes, in float64."""

    seed: int
    run: str
    total_timesteps: float
    counts: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    utilities: np.ndarray
    others: dict[str, np.ndarray] = field(repr=False)  # counts for every dilemma of the environment


@dataclass(frozen=True, eq=False)
class Point:
    """An arm with its seeds; `main` is False if its γ or training detector is not that of the study."""

    method: str
    arm: str
    value: float
    gamma: float
    detector: str
    main: bool
    suffix: str
    seeds: tuple[Seed, ...]
    measure: CostMeasure
    _cache: dict = field(default_factory=dict, repr=False)  # metric: its value per seed

    @property
    def label(self) -> str:
        inside = ", ".join(part for part in (self.arm, self.suffix) if part)
        return f"{look(self.method).label} ({inside})" if inside else look(self.method).label

    @property
    def budget(self) -> float:
        """Violations per episode that the setting allows; NaN for methods without a budget."""
        budgeted = self.method in with_constraint(ConstraintType.EPISODE, ConstraintType.MEAN)
        return self.value if budgeted or self.arm.split("=")[0] in ("k", "d", "budget") else float("nan")

    @property
    def allowed(self) -> float:
        """Allowed per episode: the user's limit, else the agent's own budget."""
        return self.measure.limit if self.measure.limit == self.measure.limit else self.budget

    @cached_property
    def returns(self) -> np.ndarray:
        """Mean return of each seed."""
        return np.array([metrics.mean(seed.returns) for seed in self.seeds])

    @cached_property
    def return_interval(self) -> Interval:
        """Mean return, over seeds."""
        return compare.t_interval(self.returns)

    @property
    def mean_return(self) -> float:
        return self.return_interval.mean

    def per_seed(self, metric: compare.Metric) -> np.ndarray:
        """A metric of the violation counts, one value per seed."""
        if metric not in self._cache:
            self._cache[metric] = np.array([metric(seed.counts) for seed in self.seeds])
        return self._cache[metric]

    @property
    def tails(self) -> np.ndarray:
        """The CVaR of each seed."""
        return self.per_seed(self.measure.cvar)

    @property
    def tail(self) -> Interval:
        """The CVaR, over seeds."""
        return compare.t_interval(self.tails)

    def cvar_at(self, alpha: float) -> Interval:
        """The CVaR over seeds, at another level than the report's."""
        return self.interval(self.measure._replace(alpha=alpha).cvar)

    def seed_mean(self, name: str) -> float:
        """The mean over seeds of their mean `lengths` or `utilities`."""
        return float(np.mean([getattr(seed, name).mean() for seed in self.seeds]))

    def interval(self, metric: compare.Metric) -> Interval:
        return compare.t_interval(self.per_seed(metric))

    @property
    def counts(self) -> list[np.ndarray]:
        """The violations or costs of every seed's episodes."""
        return [seed.counts for seed in self.seeds]

    @cached_property
    def tail_sample(self) -> verdicts.TailSample:
        """The episodes as the primary test takes them."""
        return verdicts.tail_sample(self.counts)

    @cached_property
    def rates(self) -> np.ndarray:
        """Violations per step of each seed."""
        return np.array([metrics.rate(seed.counts, seed.lengths) for seed in self.seeds])

    @cached_property
    def episodes(self) -> int:
        return sum(seed.counts.size for seed in self.seeds)

    @cached_property
    def tail_episodes(self) -> int:
        """Number of episodes that the CVaR averages, over all seeds."""
        return sum(metrics.tail_size(seed.counts.size, self.measure.alpha) for seed in self.seeds)


@dataclass(frozen=True)
class View:
    """All operating points of one dilemma."""

    dilemma: str
    protocol: str
    counter: str
    points: tuple[Point, ...]
    measure: CostMeasure
    external: bool = False  # another library's table: how it was evaluated is unknown
    plan: AnalysisPlan = UNPLANNED
    cache: dict = field(default_factory=dict, repr=False, compare=False)  # of statistics/pairs.py

    @cached_property
    def main(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.main)

    @cached_property
    def variants(self) -> tuple[Point, ...]:
        """Arms with another γ or training detector, which no comparison includes."""
        return tuple(point for point in self.points if not point.main)

    @cached_property
    def unconstrained(self) -> Point | None:
        return next((point for point in self.main if point.method == "unconstrained"), None)

    @property
    def binds(self) -> bool | None:
        """Whether the unconstrained agent violates often enough; None without such an agent."""
        if self.unconstrained is None:
            return None
        return self.unconstrained.interval(metrics.p_any).mean >= BINDING_SHARE

    @cached_property
    def return_margin(self) -> float:
        """The largest difference of mean return that does not matter: as stated, or a share of the agents' range."""
        if stated(self.plan.margin):
            return self.plan.margin
        means = [float(point.per_seed(metrics.mean).mean()) for point in self.main]
        return verdicts.default_margin([point.mean_return for point in self.main], means)

    def cost_margin(self, one: Point, other: Point) -> float:
        """The same for mean violations or cost: as stated, or a share of the smaller of the two means."""
        if stated(self.plan.cost_margin):
            return self.plan.cost_margin
        return verdicts.MARGIN_SHARE * min(float(point.per_seed(metrics.mean).mean()) for point in (one, other))

    def labelled(self, label: str) -> Point | None:
        """The main point with this label, or with this method and arm."""
        names = ((point, (point.label, f"{point.method} {point.arm}".strip())) for point in self.main)
        return next((point for point, known in names if label in known), None)

    def arm(self, method: str, arm: str) -> Point | None:
        """The main point of a method at one setting."""
        return next((point for point in self.main if (point.method, point.arm) == (method, arm)), None)

    def of(self, *methods: str) -> list[Point]:
        """The main points of these methods, each method's by increasing mean violations."""
        chosen = [point for point in self.main if point.method in methods]
        return sorted(chosen, key=lambda point: (methods.index(point.method), point.interval(metrics.mean).mean))

    @cached_property
    def methods(self) -> tuple[str, ...]:
        return tuple(sorted({point.method for point in self.main}, key=_method_order))


class Episodes:
    """An episodes table sorted once by run, so that every view is cheap."""

    def __init__(
        self,
        table: pd.DataFrame,
        limit: float = NAN,
        alpha: float = metrics.CVAR_ALPHA,
        plan: AnalysisPlan = UNPLANNED,
    ):
        if copies := table.attrs.get("copies"):  # whose episodes would count twice
            raise ValueError(f"{copies[0]}; give only one of them")
        self._measured, self.plan = (limit, alpha, table.attrs.get("word", "violations")), plan
        self.environment = str(table["environment"].iloc[0])
        self.dilemmas = tables.dilemmas(table)
        self.provenance = table.attrs.get("provenance", [])
        self.rows = len(table)
        finished = (table["end_cause"] != "running").to_numpy()
        self.unfinished = int((~finished).sum())
        group = table.groupby(_KEYS, sort=False, dropna=False).ngroup().to_numpy()
        order = np.argsort(group, kind="stable")
        bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1)).tolist()
        self._slices = [slice(low, high) for low, high in itertools.pairwise(bounds)]
        firsts = order[bounds[:-1]]
        self._keys = table[_KEYS].iloc[firsts].reset_index(drop=True)
        self.settings = [tables.parse_settings(text) for text in table["settings"].cat.categories]
        self.methods = list(self._keys["method"].unique())
        self.arms = dict(zip(self._keys["run"], self._keys["arm"]))
        self._steps = table["total_timesteps"].to_numpy(float)[firsts]
        counted = [name for name in table if name in _NUMBERS or name.startswith("violations_")]
        self._columns = {name: table[name].to_numpy(np.float64)[order] for name in counted}
        for name in ("in_first", "in_window"):
            self._columns[name] = (table[name].to_numpy(bool) & finished)[order]
        gammas = self._keys["gamma"].value_counts().index  # without NaN
        self.main_gamma = float(gammas[0]) if len(gammas) else NAN
        trained_on = self._keys["detector"].value_counts()
        self.main_detector = "exact" if "exact" in trained_on else trained_on.index[0]
        self._views: dict[tuple[str, str, str], View] = {}
        _reject_duplicate_seeds(self._keys)

    def view(self, dilemma: str, protocol: str = "first", counter: str = "exact") -> View:
        """The operating points of a dilemma: its own runs and the unconstrained ones, whose violations it counts."""
        name = (dilemma, protocol, counter)
        if name not in self._views:
            self._views[name] = self._make_view(*name)
        return self._views[name]

    def views(self) -> list[View]:
        """A view of every dilemma that agents were trained for, under the unbiased protocol if it has episodes."""
        for protocol in PROTOCOLS:
            views = [self.view(dilemma, protocol) for dilemma in self.dilemmas]
            trained = [view for view in views if any(point.method != "unconstrained" for point in view.points)]
            if found := trained or [view for view in views if view.points]:
                return found
        raise ValueError("no finished episode is in_first or in_window; evaluate for longer")

    def _make_view(self, dilemma: str, protocol: str, counter: str) -> View:
        keys = self._keys
        chosen = (keys["dilemma"] == dilemma) & (keys["method"] != "unconstrained")
        chosen |= self._unconstrained_for(dilemma)
        found = []
        for _, rows in keys[chosen].groupby(_SETTING, sort=False, dropna=False):
            seeds = [self._seed(index, dilemma, protocol, counter) for index in rows.index]
            # of joined tables, one may lack counts that another has
            if kept := [seed for seed in seeds if seed.counts.size and not np.isnan(seed.counts).any()]:
                found.append((rows.iloc[0], kept))
        measure = CostMeasure.of((seed.counts for _, seeds in found for seed in seeds), *self._measured)
        ordered = tuple(sorted((self._point(key, seeds, measure) for key, seeds in found), key=_point_order))
        plan = self.plan if self.plan.is_about(dilemma) else UNPLANNED
        return View(dilemma, protocol, counter, ordered, measure, self.environment == "external", plan)

    def has(self, dilemma: str, counter: str) -> bool:
        """Whether the table has counts of this detector that differ from the exact ones."""
        return counter == "exact" or (self._detectors_differ and f"violations_{dilemma}_paper" in self._columns)

    @cached_property
    def _detectors_differ(self) -> bool:
        pairs = [(f"violations_{name}", f"violations_{name}_paper") for name in self.dilemmas]
        known = [[self._columns[name] for name in pair] for pair in pairs if self._columns.keys() >= set(pair)]
        return any(((exact != paper) & ~np.isnan(paper)).any() for exact, paper in known)

    @cached_property
    def protocols_differ(self) -> bool:
        return bool((self._columns["in_first"] != self._columns["in_window"]).any())

    def mean_length(self, protocol: str) -> float:
        """Mean episode length under a protocol; NaN if lengths are unknown."""
        chosen = self._columns["length"][self._columns[f"in_{protocol}"]]
        return float(chosen.mean()) if chosen.size else float("nan")

    def missed(self, dilemma: str) -> Iterator[tuple[str, float, float]]:
        """For each agent: (label, exact violations, share of them that the paper's detector misses)."""
        for protocol in ("first", "window"):
            exact, detected = (self.view(dilemma, protocol, counter) for counter in COUNTERS)
            if exact.points:
                break
        seen = {(point.label, seed.run): seed.counts for point in detected.points for seed in point.seeds}
        for point in exact.points:
            counted = {(point.label, seed.run): seed.counts for seed in point.seeds}
            if both := [(counts, seen[run]) for run, counts in counted.items() if run in seen]:
                counts, noticed = map(np.concatenate, zip(*both))
                yield point.label, float(counts.sum()), compare.missed_share(counts, noticed)

    def _unconstrained_for(self, dilemma: str) -> pd.Series:
        """Unconstrained runs are trained once for all dilemmas; of several sets, use the dilemma's own."""
        free = self._keys["method"] == "unconstrained"
        names = set(self._keys["dilemma"][free])
        wanted = next((name for name in (dilemma, "", "none", *sorted(names)) if name in names), dilemma)
        return free & (self._keys["dilemma"] == wanted)

    def _seed(self, index: int, dilemma: str, protocol: str, counter: str) -> Seed:
        key, rows, columns = self._keys.iloc[index], self._slices[index], self._columns
        keep = columns[f"in_{protocol}"][rows]
        counted = {name: f"violations_{name}" for name in self.dilemmas if f"violations_{name}" in columns}
        own = "violations" if key["dilemma"] == dilemma else counted.get(dilemma, "violations")
        if counter == "paper":
            own = f"violations_{dilemma}_paper"
        counts, returns, lengths, utilities = (
            columns[name][rows][keep] for name in (own, "return", "length", "utility")
        )
        others = {name: columns[column][rows][keep] for name, column in counted.items()}
        steps = float(self._steps[index])
        return Seed(int(key["seed"]), str(key["run"]), steps, counts, returns, lengths, utilities, others)

    def _point(self, key: pd.Series, seeds: list[Seed], measure: CostMeasure) -> Point:
        method, arm, value, gamma, detector = key[_SETTING]
        parts = [text] if (text := self._discount(method, arm, gamma)) else []
        if detector != self.main_detector:
            parts.append(f"trained on {detector} detector")
        ordered = tuple(sorted(seeds, key=lambda seed: seed.seed))
        return Point(method, arm, float(value), float(gamma), detector, not parts, ", ".join(parts), ordered, measure)

    def _discount(self, method: str, arm: str, gamma: float) -> str:
        """A label if γ is not that of the study, or is unknown where the same arm also occurs with a known one."""
        if gamma == gamma:
            return "" if gamma == self.main_gamma else f"γ={gamma:g}"
        same = (self._keys["method"] == method) & (self._keys["arm"] == arm)
        return "γ unknown" if self._keys["gamma"][same].notna().any() else ""


def stated(value: float) -> bool:
    """Whether a number is given: NaN means that it is not."""
    return value == value


def _reject_duplicate_seeds(keys: pd.DataFrame) -> None:
    """Two runs with the same seed at one operating point are neither one run nor two independent ones."""
    for _, same in keys.groupby(_KEYS[:-1], sort=False, dropna=False):
        if len(same) > 1:
            first, runs = same.iloc[0], ", ".join(same["run"][:2])
            raise ValueError(
                f"two runs of {first['method']} {first['arm']} have seed {first['seed']}: {runs}; report one of them"
            )


def _method_order(method: str) -> tuple[int, str]:
    known = list(METHODS)
    return (known.index(method) if method in known else len(known), method)


def _point_order(point: Point) -> tuple:
    value = point.value if point.value == point.value else -1.0
    return (_method_order(point.method), not point.main, value, point.arm)
