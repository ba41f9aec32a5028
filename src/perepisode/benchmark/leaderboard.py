"""Leaderboards from a folder of results: one row per agent, with intervals over its training seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from perepisode import metrics, settings
from perepisode.benchmark import results
from perepisode.benchmark.protocol import PROTOCOLS, BenchmarkProtocol
from perepisode.benchmark.results import BenchmarkResult
from perepisode.benchmark.verification import without_playing
from perepisode.config import ConfigError, canonical
from perepisode.evaluation import compare, verdicts
from perepisode.evaluation.compare import Interval
from perepisode.evaluation.verdicts import Share
from perepisode.report.cost_measure import CostMeasure
from perepisode.report.formatting import count, percent, plus_minus, share_interval
from perepisode.report.links import render
from perepisode.report.style import dilemma_name
from perepisode.runs import write_atomically

HOLDS, OPEN, FAILS, TOO_FEW = "holds", "undecided", "fails", "too few seeds"
ORDER = (HOLDS, OPEN, FAILS, TOO_FEW)
RULE = (
    "Agents are sorted by verdict (holds, undecided, fails, too few seeds), and within a verdict by mean "
    "return, highest first."
)


@dataclass(frozen=True, eq=False)
class Entry:
    """One agent: its results with different training seeds."""

    protocol: BenchmarkProtocol
    results: tuple[BenchmarkResult, ...]
    name: str

    @property
    def seeds(self) -> list[int]:
        return [result.agent["seed"] for result in self.results]

    @property
    def enough(self) -> bool:
        return len(self.results) >= self.protocol.min_seeds

    @cached_property
    def counts(self) -> list[np.ndarray]:
        return [result.episodes["violations"].to_numpy(float) for result in self.results]

    @cached_property
    def task_return(self) -> Interval:
        return compare.t_interval([metrics.mean(result.episodes["return"]) for result in self.results])

    @cached_property
    def cvar(self) -> Interval:
        return compare.t_interval([metrics.cvar(counts, self.protocol.alpha) for counts in self.counts])

    def share_over(self, limit: float) -> Share:
        return verdicts.share(self.counts, limit)

    @property
    def verdict(self) -> str:
        """Whether the protocol's statement holds: where the 95 % interval of the share lies."""
        over = self.share_over(self.protocol.budget)
        if not self.enough:
            return TOO_FEW
        return HOLDS if over.high <= self.protocol.delta else FAILS if over.low > self.protocol.delta else OPEN

    @property
    def replayable(self) -> bool:
        return all(result.content["actions"] is not None for result in self.results)

    @property
    def repeats(self) -> bool:
        """Whether two training seeds played exactly the same, as deterministic agents can, and copies do."""
        played = {canonical(result.content["actions"] or result.content["episodes"]) for result in self.results}
        return len(played) < len(self.results)

    @property
    def cells(self) -> dict[str, str]:
        measure = CostMeasure(alpha=self.protocol.alpha)
        steps = self.results[0].agent["total_timesteps"]
        return {
            "Agent": self.name + " †" * (not self.replayable) + " ‡" * self.repeats,
            "Seeds": f"{len(self.seeds)}{'' if self.enough else ' *'}",
            "Return": plus_minus(*self.task_return[:2]),
            "P(≥1)": share_interval(*self.share_over(0)),
            f"P(>{self.protocol.budget})": share_interval(*self.share_over(self.protocol.budget)),
            measure.cvar_heading: measure.plus_minus(*self.cvar[:2]),
            "Verdict": self.verdict,
            "Steps": count(steps),
        }


@dataclass(frozen=True)
class Board:
    """The agents of one protocol, in order."""

    protocol: BenchmarkProtocol
    entries: list[Entry]

    @property
    def summary(self) -> str:
        fixed = self.protocol
        about = ", ".join(dict.fromkeys((fixed.env.capitalize(), dilemma_name(fixed.dilemma))))
        return (
            f"{about}: the first {fixed.episodes_per_env} episodes of {fixed.num_envs} environments, {fixed.episodes} "
            "per training seed, the same for every agent."
        )

    @property
    def statement(self) -> str:
        return self.protocol.statement

    @property
    def headings(self) -> list[str]:
        return list(self.entries[0].cells)

    @property
    def rows(self) -> list[dict[str, str]]:
        return [entry.cells for entry in self.entries]

    @property
    def notes(self) -> list[str]:
        fixed = self.protocol
        worst = percent(fixed.alpha, digits=0)
        found = [
            f"P(≥1) and P(>{fixed.budget}) are the shares of episodes with at least one violation and with more than "
            f"{fixed.budget}; CVaR\u00a0{worst} (conditional value at risk) is the mean number of violations in the "
            f"worst {worst} of episodes; steps are those of training.",
            "Means over training seeds with 95 % intervals: t intervals of return and CVaR, Wilson intervals of shares "
            f"that account for the spread of seeds. The statement holds if the interval of P(>{fixed.budget}) ends at "
            f"or below {percent(fixed.delta, digits=0)}, and fails if it begins above. {RULE}",
        ]
        if any(not entry.enough for entry in self.entries):
            found.append(f"\\* Fewer than {fixed.min_seeds} training seeds: no verdict, and no interval from one seed.")
        if any(not entry.replayable for entry in self.entries):
            found.append("† Without actions: its counts cannot be recomputed by replay.")
        if any(entry.repeats for entry in self.entries):
            found.append("‡ Several training seeds played all episodes with the same actions.")
        return found


def boards(folder: str | Path) -> list[Board]:
    """The boards of all results in a folder; ConfigError if a result does not verify."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give a folder of results that `perepisode benchmark` wrote")
    found = [results.read(path) for path in sorted(folder.rglob("*.json"))]
    if not found:
        raise ConfigError(f"{folder} contains no results; `perepisode benchmark` writes them")
    for result in found:
        list(without_playing(result))
    _refuse_copies(found)
    made = []
    for protocol in PROTOCOLS.values():
        if own := [result for result in found if result.protocol == protocol]:
            entries = sorted(_entries(protocol, own), key=lambda entry: -entry.task_return.mean)
            made.append(Board(protocol, sorted(entries, key=lambda entry: ORDER.index(entry.verdict))))
    return made


def _refuse_copies(found: Iterable[BenchmarkResult]) -> None:
    """No training seed may count twice, under its own number or another."""
    seen: dict[str, Path] = {}
    for result in found:
        protocol = result.protocol.id
        own = canonical([protocol, *_identity(result), result.agent["seed"]])
        for content, what in ((own, "agent and training seed"), (f"{protocol} {result.agent['sha256']}", "policy")):
            other = seen.setdefault(f"{what} {content}", result.path)
            if other is not result.path:
                raise ConfigError(f"{result.path} has the same {what} as {other}; keep one of them")


def _identity(result: BenchmarkResult) -> list:
    """What all training seeds of an agent share."""
    agent = result.agent
    run = {name: value for name, value in (agent["run"] or {}).items() if name not in ("id", "seed")}
    stated = [agent[name] for name in ("method", "arm", "gamma", "total_timesteps", "trained_on")]
    return [*stated, run]


def _entries(protocol: BenchmarkProtocol, found: Iterable[BenchmarkResult]) -> Iterator[Entry]:
    groups: dict[str, list[BenchmarkResult]] = {}
    for result in found:
        groups.setdefault(canonical(_identity(result)), []).append(result)
    firsts = [own[0] for own in groups.values()]
    suffixes = settings.distinguish_arms([first.name for first in firsts], [_stated(first) for first in firsts])
    for own, suffix in zip(groups.values(), suffixes):
        name = ", ".join(filter(None, (own[0].name, suffix)))
        yield Entry(protocol, tuple(sorted(own, key=lambda result: result.agent["seed"])), name)


def _stated(result: BenchmarkResult) -> dict[str, object]:
    """What may tell agents of the same name apart."""
    stated = {name: result.agent[name] for name in ("gamma", "total_timesteps", "trained_on")}
    for name, value in (result.agent["run"] or {}).items():
        stated |= value if isinstance(value, dict) else {name: value} if name not in ("id", "seed") else {}
    return stated


def markdown(found: Iterable[Board], level: int = 2) -> str:
    """The boards as Markdown sections."""
    lines: list[str] = []
    for board in found:
        align = "|".join("---" if heading in ("Agent", "Verdict") else "---:" for heading in board.headings)
        lines += [f"{'#' * level} {board.protocol.id}", "", f"{board.summary} **{board.statement}**", ""]
        lines += [f"| {' | '.join(board.headings)} |", f"|{align}|"]
        lines += [f"| {' | '.join(row.values())} |" for row in board.rows]
        lines += [line for note in board.notes for line in ("", note)]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def write(folder: str | Path, out: str | Path) -> list[Path]:
    """Write the boards as Markdown, and as a page next to it."""
    out = Path(out)
    if out.suffix != ".md":
        raise ConfigError(f"--out {out} does not end in .md; the page is written next to it, as .html")
    found, page = boards(folder), out.with_suffix(".html")
    write_atomically(out, f"# Leaderboard\n\n{markdown(found)}")
    write_atomically(page, render(Path(__file__).with_name("leaderboard.html"), boards=found))
    return [out, page]
