"""`perepisode benchmark`: evaluate agents under a fixed protocol, verify results, build leaderboards."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from perepisode import console


def _option(metavar: str):
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(frozen=True)
class ListProtocols:
    """List the protocols and the statement that each judges."""

    def __call__(self) -> int:
        from perepisode.benchmark.protocol import PROTOCOLS

        for protocol in PROTOCOLS.values():
            console.echo(f"{protocol.id}: {protocol.statement}")
        print("next: perepisode benchmark temptation-v1 AGENT")
        return 0


@dataclass(frozen=True)
class RunBenchmark:
    """Evaluate agents under a fixed protocol; also without the word `run`: perepisode benchmark PROTOCOL AGENT ..."""

    protocol: Annotated[str, tyro.conf.Positional]  # Such as no_killing-v1; no_killing alone is its newest version.
    # Bundled agents, agent files, run folders, folders of them, or tables that a recorder wrote.
    agents: Annotated[tuple[Path, ...], tyro.conf.Positional, _option("AGENT ...")]
    out: Path = Path("benchmark")  # Folder for the results, or a .json file for a single one.

    def __call__(self) -> int:
        from perepisode import lazy
        from perepisode.benchmark import evaluate
        from perepisode.compilation import use_cache

        if not lazy.missing():
            use_cache()
        written = evaluate(self.protocol, self.agents, self.out)
        print(f"next: perepisode benchmark verify {written[0]}")
        return 0


@dataclass(frozen=True)
class VerifyResult:
    """Recompute a result: one line for everything that was verified, or could not be."""

    result: Annotated[Path, tyro.conf.Positional]  # A result that `perepisode benchmark` wrote.
    table: Annotated[Path | None, _option("PATH")] = None  # The recorder's table that it was made of.
    agent: Annotated[Path | None, _option("AGENT")] = None  # The trained agent, which plays all episodes again.
    replay: bool = True  # Replay every episode from its actions; Craftax takes minutes on a CPU.

    def __call__(self) -> int:
        from perepisode import lazy
        from perepisode.benchmark import verify
        from perepisode.compilation import use_cache

        if not lazy.missing():
            use_cache()
        open_ = [check.what for check in verify(self.result, self.table, self.agent, self.replay) if not check.verified]
        print(f"{self.result} is accepted" + (f"; not verified: {', '.join(open_)}" if open_ else ""))
        return 0


@dataclass(frozen=True)
class WriteLeaderboard:
    """Write a leaderboard from a folder of results, as Markdown and as a page.  Each is verified, but not replayed."""

    folder: Annotated[Path, tyro.conf.Positional]  # Folder of results.
    out: Path = Path("leaderboard.md")  # File to write; the page has the same name with .html.

    def __call__(self) -> int:
        from perepisode.benchmark import leaderboard

        written = leaderboard.write(self.folder, self.out)
        print(f"wrote {' and '.join(map(str, written))}\nnext: open {written[-1]} in a browser")
        return 0


ACTIONS = {"protocols": ListProtocols, "run": RunBenchmark, "verify": VerifyResult, "leaderboard": WriteLeaderboard}


@dataclass(frozen=True)
class BenchmarkCommand:
    """Fixed protocols: evaluate agents of any library, verify results, build leaderboards."""

    action: tyro.conf.OmitArgPrefixes[
        Annotated[ListProtocols, tyro.conf.subcommand("protocols")]
        | Annotated[RunBenchmark, tyro.conf.subcommand("run")]
        | Annotated[VerifyResult, tyro.conf.subcommand("verify")]
        | Annotated[WriteLeaderboard, tyro.conf.subcommand("leaderboard")]
    ] = field(default_factory=ListProtocols)

    def __call__(self) -> int:
        return self.action()


def in_full(arguments: Sequence[str]) -> list[str]:
    """`benchmark PROTOCOL AGENT` as `benchmark run PROTOCOL AGENT`."""
    short = len(arguments) > 1 and arguments[0] == "benchmark"
    named = short and not arguments[1].startswith("-") and arguments[1] not in ACTIONS
    return [arguments[0], "run", *arguments[1:]] if named else list(arguments)
