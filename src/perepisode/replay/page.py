"""The page to watch replays on: one file, a player for every episode."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import perepisode
from perepisode.methods import Accrued
from perepisode.replay import frames as film
from perepisode.replay import timeline
from perepisode.replay.episode import Difference, Replay
from perepisode.replay.penalty_trace import pressure
from perepisode.replay.selection import SelectedEpisode, Selection
from perepisode.report.formatting import number
from perepisode.report.links import TITLES, render
from perepisode.report.style import dilemma_name, look
from perepisode.runs import write_atomically

APART = 10  # steps without another violation within reach that part two meetings


@dataclass(frozen=True)
class Jump:
    """A button that leads to a violating step."""

    text: str
    step: int


@dataclass(frozen=True, eq=False)
class Shown:
    """Everything the page says about one episode."""

    place: int
    title: str
    colour: str
    facts: list[tuple[str, str]]
    wrong: list[Difference]
    notes: list[str]
    tracks: list[timeline.Track]
    jumps: list[Jump]
    abstained: int  # steps after the first violation with another within reach that was not committed
    meetings: list[Jump]  # where each such stretch begins
    others: dict[str, list[Jump]]  # violations of dilemmas that the run was not trained for
    player: dict[str, Any]  # what the script needs
    length: int
    filmed: bool


def episode(place: int, chosen: SelectedEpisode, replay: Replay, wrong: list[Difference]) -> Shown:
    """Draw one replayed episode."""
    row, names = chosen.row, replay.env.dilemmas
    own = replay.violations[:, names.index(row["dilemma"])]
    weighed = pressure(chosen, charged(chosen, replay))
    tracks = timeline.tracks(replay, own, weighed)
    frames, notes = None, [chosen.note] if chosen.note else []
    abstained = replay.abstained(row["dilemma"])
    if replay.env.stakes:
        tracks.insert(0, timeline.stakes(replay, own))
    if replay.env.draw is not None:
        frames = film.draw(replay, np.flatnonzero(replay.violations.any(axis=1)) + 1)
        notes += _thinned(frames, replay)
    return Shown(
        place=place,
        title=_title(row, int(own.sum()), float(replay.accrued[-1])),
        colour=look(row["method"]).colour,
        facts=_facts(chosen, replay),
        wrong=wrong,
        notes=notes,
        tracks=tracks,
        jumps=jumps_to(own),
        abstained=len(abstained),
        meetings=meetings(abstained),
        others={
            dilemma_name(name): jumps_to(counts)
            for name, counts in zip(names, replay.violations.T)
            if name != row["dilemma"] and counts.any()
        },
        player=_player(replay, own, weighed.values, frames),
        length=replay.length,
        filmed=frames is not None,
    )


def write(out: Path, selection: Selection, shown: list[Shown]) -> Path:
    """Write the page, whole or not at all."""
    path = Path(out) / "index.html"
    exact = sum(not one.wrong for one in shown)
    name = (selection.chosen or selection.once)[0].row["environment"]
    text = render(
        Path(__file__).with_name("watch.html"),
        kicker=f"{name} · {_count(len(shown), 'episode')} of {selection.total} · {selection.path.name}",
        headline=_headline(exact, len(shown)),
        shown=shown,
        footer=f"perepisode {perepisode.__version__}. Replayed from the keys and actions in {selection.path.name}.",
    )
    write_atomically(path, text)
    write_atomically(path.with_name(TITLES), json.dumps([one.title for one in shown], ensure_ascii=False, indent=1))
    return path


def _title(row: dict[str, Any], violations: int, earned: float) -> str:
    arm = f" {row['arm']}" if row["arm"] else ""
    agent = f"{look(row['method']).label}{arm}, seed {row['seed']}"
    if row["detector"] == "paper":
        agent += ", trained on paper detector"
    return f"{agent}: {_count(violations, 'violation')}, return {number(earned)}"


def _headline(exact: int, total: int) -> str:
    if exact == total:
        every = {1: "The episode was", 2: "Both episodes were"}.get(total, f"All {total} episodes were")
        return f"{every} reproduced exactly: return, length, end and every count"
    wrong = "1 replay differs" if total - exact == 1 else f"{total - exact} replays differ"
    return f"{exact} of {_count(total, 'episode')} reproduced exactly; {wrong} from the table"


def _facts(chosen: SelectedEpisode, replay: Replay) -> list[tuple[str, str]]:
    """What stands above the player, as the replay counted it."""
    row = chosen.row
    method, totals = look(row["method"]), replay.totals(row["dilemma"])
    harm = [
        (f"{dilemma_name(name)} violations", _counted(totals[f"violations_{name}"], totals[f"violations_{name}_paper"]))
        for name in sorted(replay.env.dilemmas, key=lambda name: name != row["dilemma"])
    ]
    return [
        ("Method", method.label),
        ("Arm", row["arm"] or "–"),
        ("Seed", str(row["seed"])),
        ("Return", number(totals["return"])),
        *harm,
        ("Steps", str(replay.length)),
        ("End", replay.end_cause),
        ("Run", row["run"]),
        ("Row", str(chosen.number)),
    ]


def _counted(exact: int, paper: int) -> str:
    return str(exact) if exact == paper else f"{exact} (the paper's detector sees {paper})"


def charged(chosen: SelectedEpisode, replay: Replay) -> Accrued:
    """What the run's objective would have accrued at every position, by its own detector and way of charging."""
    by_paper = chosen.run is not None and chosen.run.detector == "paper"
    counts = (replay.paper_violations if by_paper else replay.violations)[
        :, replay.env.dilemmas.index(chosen.row["dilemma"])
    ]
    if chosen.run is None or chosen.run.cost_per == "step":
        counts = np.minimum(counts, 1)
    violations = np.concatenate([[0], np.cumsum(counts)])
    return Accrued(jnp.asarray(replay.accrued), jnp.asarray(violations, jnp.float32))


def _thinned(frames: film.Frames, replay: Replay) -> list[str]:
    if len(frames.positions) > replay.length:
        return []
    return [
        f"A long episode: {len(frames.positions)} of its {replay.length + 1} pictures are kept, "
        "evenly spread and every one around violations.  The timeline is complete."
    ]


def jumps_to(counts: np.ndarray) -> list[Jump]:
    """One button for each violating step; a step can hold several violations."""
    jumps, total = [], 0
    for step in np.flatnonzero(counts):
        first, total = total + 1, total + int(counts[step])
        name = f"violation {first}" if first == total else f"violations {first}–{total}"
        jumps.append(Jump(f"{name} at step {step + 1}", int(step) + 1))
    return jumps


def meetings(abstained: np.ndarray) -> list[Jump]:
    """One button for each time that a violation came within reach again; steps near each other are one meeting."""
    begins = abstained[np.diff(abstained, prepend=-APART) >= APART]
    return [Jump(f"at step {step}", int(step)) for step in begins]


def _player(replay: Replay, own: np.ndarray, weighed: np.ndarray | None, frames: Any) -> dict[str, Any]:
    def values(array):
        return [round(float(value), 4) for value in array]

    return {
        "length": replay.length,
        "accrued": values(replay.accrued),
        "reward": values(replay.rewards),
        "violations": [0, *np.cumsum(own).tolist()],
        "pressure": None if weighed is None else values(weighed),
        "deeds": _deeds(replay),
        "speed": 4 if frames is None else 10,
        "film": frames and {
            "at": frames.positions,
            "width": frames.width,
            "height": frames.height,
            "strip": film.STRIP,
            "strips": [film.embedded(strip) for strip in frames.strips],
        },
    }  # fmt: skip


def _deeds(replay: Replay) -> list[str]:
    """What the agent did in each step, in words."""
    return [replay.env.describe(int(action), replay.outcome(step)) for step, action in enumerate(replay.actions)]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
