"""`perepisode agents`: those that ship, the card of one, and a finished run as an agent file."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from perepisode import lazy
from perepisode.config import ConfigError


@dataclass(frozen=True)
class Listed:
    """The agents that ship with the package, and what they do."""

    def __call__(self) -> int:
        from perepisode import agents, console, metrics
        from perepisode.agents.card import name_of
        from perepisode.report.formatting import count, number, percent

        rows = []
        for file in agents.bundled().values():
            judged = file.metadata["evaluation"]
            shares = percent(judged["p_any"]), percent(judged["p_over_1"])
            numbers = number(judged["return"], 1), *shares, number(judged["cvar"])
            size = f"{file.path.stat().st_size / 1e6:.1f} MB"
            rows.append((name_of(file), *numbers, count(file.metadata["run"]["total_timesteps"]), size))
        print(console.plain(("agent", "return", "P(≥1)", "P(>1)", metrics.CVAR, "steps", "file"), rows))
        print(f"next: perepisode watch {agents.names()[-1]} --worst 2, or perepisode agents card NAME")
        return 0


@dataclass(frozen=True)
class Card:
    """Print an agent's card: what it is, what it does in its worst episodes, how to load it."""

    agent: Annotated[str, tyro.conf.Positional]  # Name of an agent that ships, or an exported file.

    def __call__(self) -> int:
        from perepisode import agents
        from perepisode.agents import card

        file = agents.find_one(self.agent)
        if not isinstance(file, agents.AgentFile):
            raise ConfigError(f"{self.agent} is a run folder; make an agent of it with `perepisode agents export`")
        print(card.text(file), end="")
        return 0


@dataclass(frozen=True)
class Export:
    """Make an agent file of a finished run: its policy rounded to some 4 MB, what it is and does, and a card."""

    run: Annotated[Path, tyro.conf.Positional]  # Run folder.
    out: Path  # File to write, ending in .safetensors; .json, .md and .metrics.jsonl are written beside it.
    # Episodes table of the run; default: the one beside the run folder.
    episodes: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None

    def __call__(self) -> int:
        lazy.require("agents export")
        from perepisode import agents
        from perepisode.agents.export import export
        from perepisode.replay.selection import table_of

        run = agents.find_one(self.run)
        if isinstance(run, agents.AgentFile):
            raise ConfigError(f"{self.run} is an agent's file already; copy it with what lies beside it")
        file = export(run, self.episodes or table_of(run.path), self.out)
        print(f"wrote {file.path} ({file.path.stat().st_size / 1e3:,.0f} kB) and its card {file.sibling('.md')}")
        print(f"next: perepisode watch {shlex.quote(str(file.path))}")
        return 0


@dataclass(frozen=True)
class Agents:
    """Trained agents: list those that ship, read a card, export one of your own."""

    action: tyro.conf.OmitArgPrefixes[
        Annotated[Listed, tyro.conf.subcommand("list")]
        | Annotated[Card, tyro.conf.subcommand("card")]
        | Annotated[Export, tyro.conf.subcommand("export")]
    ] = field(default_factory=Listed)

    def __call__(self) -> int:
        return self.action()
