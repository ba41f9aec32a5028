"""`perepisode agents`: list the bundled agents, show a model card, export a finished run."""

import shlex
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from perepisode import lazy
from perepisode.config import ConfigError


@dataclass(frozen=True)
class ListAgents:
    """List the bundled agents with their evaluation."""

    def __call__(self) -> int:
        from perepisode import agents, console, metrics
        from perepisode.agents.card import name_of
        from perepisode.report.formatting import count, number, percent

        rows = []
        for file in agents.bundled().values():
            evaluation = file.metadata["evaluation"]
            shares = percent(evaluation["p_any"]), percent(evaluation["p_over_1"])
            numbers = number(evaluation["return"], 1), *shares, number(evaluation["cvar"])
            size = f"{file.path.stat().st_size / 1e6:.1f} MB"
            rows.append((name_of(file), *numbers, count(file.metadata["run"]["total_timesteps"]), size))
        print(console.plain(("agent", "return", "P(≥1)", "P(>1)", metrics.CVAR, "steps", "file"), rows))
        print(f"next: perepisode watch {agents.names()[-1]} --worst 2, or perepisode agents card NAME")
        return 0


@dataclass(frozen=True)
class CardCommand:
    """Print an agent's model card: training, evaluation, usage, limitations."""

    agent: Annotated[str, tyro.conf.Positional]  # A bundled agent's name, or an exported file or folder.

    def __call__(self) -> int:
        from perepisode import agents
        from perepisode.agents import card

        file = agents.find_one(self.agent)
        if not isinstance(file, agents.AgentFile):
            raise ConfigError(f"{self.agent} is a run folder; export it first with `perepisode agents export`")
        print(card.render(file), end="")
        return 0


@dataclass(frozen=True)
class ExportCommand:
    """Export a finished run: its quantised policy (about 4 MB), metadata and a model card.

    --out writes an agent file, --hub-layout a folder for the Hugging Face Hub.
    """

    run: Annotated[Path, tyro.conf.Positional]  # Run folder; with --hub-layout also a bundled agent or an agent file.
    # File to write, ending in .safetensors; also writes .json, .md and .metrics.jsonl next to it.
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    # Folder to write: README.md with metadata, config.json, model.safetensors, metrics.jsonl.
    hub_layout: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    # Episodes table of the run; default: the one next to the run folder.
    episodes: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None

    def __call__(self) -> int:
        from perepisode import agents

        if (self.out is None) == (self.hub_layout is None):
            raise ConfigError("give either --out FILE.safetensors or --hub-layout FOLDER")
        if self.out is not None:
            lazy.require("agents export")
        run = agents.find_one(self.run)
        if self.hub_layout is not None:
            return self._write_hub_folder(run, self.hub_layout)
        if isinstance(run, agents.AgentFile):
            raise ConfigError(f"{self.run} is already an agent file; copy it together with its sibling files")
        file = self._export(run, self.out)
        print(f"wrote {file.path} ({file.path.stat().st_size / 1e3:,.0f} kB) and its card {file.sibling('.md')}")
        print(f"next: perepisode watch {shlex.quote(str(file.path))}")
        return 0

    def _export(self, run: Any, out: Any) -> Any:
        from perepisode.agents.export import export
        from perepisode.replay.selection import table_of

        return export(run, self.episodes or table_of(run.path), out)

    def _write_hub_folder(self, run: Any, folder: Path) -> int:
        from perepisode.agents import AgentFile, hub

        with tempfile.TemporaryDirectory(prefix="perepisode-") as temporary:
            if not isinstance(run, AgentFile):
                lazy.require("agents export")
                run = self._export(run, Path(temporary) / "agent.safetensors")
            written = hub.write(run, folder)
        name = shlex.quote(folder.resolve().name)
        print(f"wrote {folder} ({written.policy.stat().st_size / 1e3:,.0f} kB) and its card {written.sibling('.md')}")
        print(f"next: hf upload USER/{name} {shlex.quote(str(folder))}")
        return 0


@dataclass(frozen=True)
class AgentsCommand:
    """Trained agents: list the bundled ones, show a model card, export your own."""

    action: tyro.conf.OmitArgPrefixes[
        Annotated[ListAgents, tyro.conf.subcommand("list")]
        | Annotated[CardCommand, tyro.conf.subcommand("card")]
        | Annotated[ExportCommand, tyro.conf.subcommand("export")]
    ] = field(default_factory=ListAgents)

    def __call__(self) -> int:
        return self.action()
