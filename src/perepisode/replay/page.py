"""The page of replays: one HTML file with a player for every episode."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import perepisode
from perepisode.environments.base import Region, Violation
from perepisode.methods import Accrued
from perepisode.replay import frames as film
from perepisode.replay import timeline
from perepisode.replay.captions import Caption, captions
from perepisode.replay.episode import Difference, Replay
from perepisode.replay.penalty_trace import penalty_trace
from perepisode.replay.selection import SelectedEpisode, Selection
from perepisode.report.formatting import number
from perepisode.report.links import TITLES, render
from perepisode.report.style import dilemma_name, look, on_dark
from perepisode.runs import write_atomically

GAP = 10  # steps without an opportunity that separate two stretches of abstaining


@dataclass(frozen=True)
class Jump:
    """A button that jumps to a step."""

    text: str
    step: int


@dataclass(frozen=True, eq=False)
class EpisodeView:
    """Everything that the page shows of one episode."""

    index: int
    title: str
    colours: tuple[str, str]  # of its method, on a light and on a dark page
    facts: list[tuple[str, str]]
    differences: list[Difference]
    notes: list[str]
    tracks: list[timeline.Track]
    jumps: list[Jump]
    abstained: int  # steps after the first violation in which another was possible and not committed
    abstentions: list[Jump]  # the start of each stretch of such steps
    other_dilemmas: dict[str, list[Jump]]  # violations of dilemmas that the run was not trained for
    marked: bool  # whether violations are marked on the pictures
    player: dict[str, Any]  # data for the script
    length: int
    filmed: bool


def view(
    index: int,
    episode: SelectedEpisode,
    replay: Replay,
    differences: list[Difference],
    described: Mapping[int, Sequence[Violation]],
) -> EpisodeView:
    """The view of one replayed episode, whose violations are `described` by step."""
    row, names = episode.row, replay.env.dilemmas
    counts = replay.violations[:, names.index(row["dilemma"])]
    penalty = penalty_trace(episode, accrued(episode, replay))
    tracks = timeline.tracks(replay, counts, penalty)
    told = {name: captions(described, name) for name in names}
    frames, notes = None, [episode.note] if episode.note else []
    abstained, colour = replay.abstained(row["dilemma"]), look(row["method"]).colour
    if replay.env.stakes:
        tracks.insert(0, timeline.stakes(replay, counts))
    if replay.env.draw is not None:
        frames = film.draw(replay, described)
        notes += _thinning_note(frames, replay)
    return EpisodeView(
        index=index,
        title=_title(row, int(counts.sum()), float(replay.accrued[-1])),
        colours=(colour, on_dark(colour)),
        facts=_facts(episode, replay),
        differences=differences,
        notes=notes,
        tracks=tracks,
        jumps=jumps(told[row["dilemma"]]),
        abstained=len(abstained),
        abstentions=abstention_jumps(abstained),
        other_dilemmas={
            dilemma_name(name): jumps(others) for name, others in told.items() if name != row["dilemma"] and others
        },
        marked=frames is not None and any(one.before or one.after for others in told.values() for one in others),
        player=player(replay, counts, frames, events(told, row["dilemma"], frames), penalty.values),
        length=replay.length,
        filmed=frames is not None,
    )


def write(out: Path, selection: Selection, views: list[EpisodeView]) -> Path:
    """Write the page and the titles of its episodes."""
    path = Path(out) / "index.html"
    exact = sum(not view.differences for view in views)
    name = (selection.episodes or selection.single_violation)[0].row["environment"]
    text = render(
        Path(__file__).with_name("watch.html"),
        kicker=f"{name} · {_count(len(views), 'episode')} of {selection.total} · {selection.path.name}",
        headline=_headline(exact, len(views)),
        views=views,
        marked=any(view.marked for view in views),
        footer=f"perepisode {perepisode.__version__}. Replayed from the keys and actions in {selection.path.name}.",
    )
    write_atomically(path, text)
    write_atomically(path.with_name(TITLES), json.dumps([view.title for view in views], ensure_ascii=False, indent=1))
    return path


def _title(row: dict[str, Any], violations: int, task_return: float) -> str:
    arm = f" {row['arm']}" if row["arm"] else ""
    agent = f"{look(row['method']).label}{arm}, seed {row['seed']}"
    if row["detector"] == "paper":
        agent += ", trained on the paper's detector"
    return f"{agent}: {_count(violations, 'violation')}, return {number(task_return)}"


def _headline(exact: int, total: int) -> str:
    if exact == total:
        every = {1: "The episode was", 2: "Both episodes were"}.get(total, f"All {total} episodes were")
        return f"{every} reproduced exactly: return, length, end cause and every count"
    differing = "1 replay differs" if total - exact == 1 else f"{total - exact} replays differ"
    return f"{exact} of {_count(total, 'episode')} reproduced exactly; {differing} from the table"


def _facts(episode: SelectedEpisode, replay: Replay) -> list[tuple[str, str]]:
    """The facts above the player, as the replay counted them."""
    row = episode.row
    method, totals = look(row["method"]), replay.totals(row["dilemma"])
    violations = [
        (f"{dilemma_name(name)} violations", _both(totals[f"violations_{name}"], totals[f"violations_{name}_paper"]))
        for name in sorted(replay.env.dilemmas, key=lambda name: name != row["dilemma"])
    ]
    return [
        ("Method", method.label),
        ("Arm", row["arm"] or "–"),
        ("Seed", str(row["seed"])),
        ("Return", number(totals["return"])),
        *violations,
        ("Steps", str(replay.length)),
        ("End", replay.end_cause),
        ("Run", row["run"]),
        ("Row", str(episode.row_number)),
    ]


def _both(exact: int, paper: int) -> str:
    return str(exact) if exact == paper else f"{exact} (the paper's detector counts {paper})"


def accrued(episode: SelectedEpisode, replay: Replay) -> Accrued:
    """The return and cost at every position, by the detector and cost specification of the run."""
    by_paper = episode.run is not None and episode.run.detector == "paper"
    violations = replay.paper_violations if by_paper else replay.violations
    costs = violations[:, replay.env.dilemmas.index(episode.row["dilemma"])]
    if episode.run is None or episode.run.cost_per == "step":
        costs = np.minimum(costs, 1)
    total = np.concatenate([[0], np.cumsum(costs)])
    return Accrued(jnp.asarray(replay.accrued), jnp.asarray(total, jnp.float32))


def _thinning_note(frames: film.Frames, replay: Replay) -> list[str]:
    if len(frames.positions) > replay.length:
        return []
    return [
        f"This episode is long: the page has {len(frames.positions)} of its {replay.length + 1} pictures, evenly "
        "spaced, and every picture around a violation.  The timeline is complete."
    ]


def jumps(told: list[Caption]) -> list[Jump]:
    """One button for each violating step; a step can have several violations."""
    return [Jump(one.jump, one.step) for one in told]


def events(told: Mapping[str, list[Caption]], own: str, frames: film.Frames | None) -> list[dict[str, Any]]:
    """What the player shows at violations, the run's own dilemma first; regions as left, top, width, height in per cent
    of the frame."""

    def per_cent(regions: list[Region]) -> list[list[float]]:
        sizes = [] if frames is None else (frames.width, frames.height) * 2
        return [[round(100 * part / size, 3) for part, size in zip(region, sizes)] for region in regions if sizes]

    return [
        {
            "step": one.step,
            "own": one.dilemma == own,
            "caption": one.sentence(own),
            "before": per_cent(one.before),
            "after": per_cent(one.after),
        }
        for one in sorted(chain(*told.values()), key=lambda one: (one.dilemma != own, one.step))
    ]


def abstention_jumps(abstained: np.ndarray) -> list[Jump]:
    """One button for each stretch of steps in which the agent abstained; stretches are at least GAP steps apart."""
    starts = abstained[np.diff(abstained, prepend=-GAP) >= GAP]
    return [Jump(f"at step {step}", int(step)) for step in starts]


def player(
    replay: Replay,
    counts: np.ndarray,
    frames: film.Frames | None,
    events: list[dict[str, Any]],
    penalty: np.ndarray | None = None,
) -> dict[str, Any]:
    """What the script of a page needs to play an episode: values by position, actions, events and the film."""

    def values(array):
        return [round(float(value), 4) for value in array]

    return {
        "length": replay.length,
        "accrued": values(replay.accrued),
        "reward": values(replay.rewards),
        "violations": [0, *np.cumsum(counts).tolist()],
        "penalty": None if penalty is None else values(penalty),
        "actions": [replay.env.describe(replay.action(t), replay.outcome(t)) for t in range(replay.length)],
        "events": events,
        "speed": 4 if frames is None else 10,
        "film": frames and {
            "at": frames.positions,
            "width": frames.width,
            "height": frames.height,
            "strip": film.STRIP,
            "strips": [film.data_uri(strip) for strip in frames.strips],
        },
    }  # fmt: skip


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
