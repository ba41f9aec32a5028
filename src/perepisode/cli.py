"""The command line: `perepisode train | evaluate | agents | distill | matrix | study | report | watch | bench | demo`.

Each command is a dataclass whose fields are its options and whose call does the work.  Heavy imports happen inside
the calls, so that help, planning and mistakes are answered at once.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from perepisode.config import MINIATURE, PAPER_SEEDS, Learner, Protocol, Refused, Run

RESUME_ME, DISK, WRONG_INPUT = 75, 74, 2  # exit codes; the first two are sysexits' TEMPFAIL and IOERR


@dataclass(frozen=True)
class Train:
    """Train one method, swept over weights or budgets and seeds, as one population."""

    env: str = "temptation"
    """World: temptation (the miniature) or craftax."""
    dilemma: str | None = None
    """Dilemma: no_killing, sustainability or proportional_force; the world's first one if left out."""
    method: str = "esr"
    """unconstrained, erm, ser, lagrangian, esr, esr_distilled, ser_racc; also saute, pid_lagrangian, cvar, chance."""
    weight: tuple[float, ...] = ()
    """Weights of ser and ser_racc; several train side by side."""
    budget: tuple[float, ...] = ()
    """Budgets: d of lagrangian, k of esr; several train side by side."""
    enforcement: tuple[str, ...] = ()
    """Of erm: absolute, calculated, heuristic."""
    utility: Path | None = None
    """Of esr_distilled: the file that `perepisode distill` wrote."""
    told: str | None = None
    """What agents that see what was accrued are told of it: paper, or loud, with which esr learns its budget sooner."""
    gamma: float = 0.99
    """Discount factor in (0, 1]."""
    seeds: tuple[int, ...] = PAPER_SEEDS
    """One run for each."""
    steps: float | None = None
    """Environment steps of each run; 1e6 on temptation, 1e9 on craftax if left out."""
    detector: str = "exact"
    """Count the objective is charged with: exact, or the paper's state difference."""
    penalty: str = "step"
    """Charge a violating step once (the paper) or by its exact count."""
    set: tuple[str, ...] = ()
    """Any other setting of the method or the world as name=value, e.g. rate=0.05 wood_budget=4."""
    envs: int | None = None
    """Worlds side by side; the paper uses 1024."""
    rollout: int | None = None
    """Steps between updates; the paper uses 64."""
    minibatches: int | None = None
    """Parts of each pass; the paper uses 8."""
    learning_rate: float | None = None
    """Adam's step size; the paper uses 2e-4."""
    hidden: int | None = None
    """Width of the network; the paper uses 512."""
    precision: str | None = None
    """Matrix products in bf16 or fp32."""
    checkpoint_seconds: float = 600.0
    """Time between checkpoints."""
    chunk: int = 10
    """Updates between two looks at signals and files."""
    out: Path = Path("out")
    """Folder of run folders."""

    def __call__(self) -> int:
        runs, utilities = self.runs()
        from perepisode.training.train import Options, check, train

        check(runs)
        _prepare_jax()
        from perepisode.training.progress import for_this_terminal

        options = Options(self.out, self.chunk, self.checkpoint_seconds, for_this_terminal(), self._load(utilities))
        folders = train(runs, options)
        for folder in folders:
            print(f"{folder.path}: diverged, {folder.failed}" if folder.failed else f"wrote {folder.path}")
        print(f"next: perepisode evaluate {self.out}")
        return 0

    def runs(self) -> tuple[list[Run], dict[str, Path]]:
        """The runs this command asks for, checked, and the files of their utilities by label."""
        from perepisode.environments import WORLDS

        if self.env not in WORLDS:
            raise Refused(f"env {self.env!r} is unknown; choose from {', '.join(WORLDS)}")
        settings, world = self._assignments()
        utilities = {}
        if self.utility is not None:
            label = _digest(self.utility)
            utilities[label], settings["utility"] = self.utility, label
        swept = [{}]
        for name in ("weight", "budget", "enforcement", "told"):
            given = getattr(self, name)
            values = (given,) if isinstance(given, str) else given
            if values and name in settings:
                raise Refused(f"{name} is given twice, by --{name} and by --set {name}={settings[name]}")
            swept = [{**one, name: value} for one in swept for value in values] if values else swept
        small = self.env == "temptation"
        run = Run(
            env=self.env,
            dilemma=self.dilemma or WORLDS[self.env].dilemmas[0],
            method=self.method,
            gamma=self.gamma,
            steps=int(self.steps or (1e6 if small else 1e9)),
            detector=self.detector,
            penalty=self.penalty,
            world=world,
            learner=self._learner(MINIATURE if small else Learner()),
        )
        runs = [replace(run, settings={**settings, **one}, seed=seed) for one in swept for seed in self.seeds]
        return [run.checked() for run in runs], utilities

    def _learner(self, base: Learner) -> Learner:
        given = {f.name: getattr(self, f.name, None) for f in fields(Learner)}
        return replace(base, **{name: value for name, value in given.items() if value is not None})

    def _assignments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        from perepisode.environments import WORLDS

        settings, world = {}, {}
        for text in self.set:
            name, equals, value = text.partition("=")
            if not equals:
                raise Refused(f"--set {text!r} is no assignment; write name=value")
            if name in settings or name in world:
                raise Refused(f"--set {name} is given twice; several values train by several commands")
            (world if name in WORLDS[self.env].options else settings)[name] = _number_or_word(value)
        return settings, world

    @staticmethod
    def _load(utilities: dict[str, Path]) -> dict[str, Any]:
        from perepisode.training.distill import load

        return {label: load(path) for label, path in utilities.items()}


@dataclass(frozen=True)
class Evaluate:
    """Judge finished runs in the detector-only world; one row an episode."""

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, folders of them, or agents by name or file (`perepisode agents`)."""
    out: Path | None = None
    """Episodes table to write or extend; episodes.parquet in the first folder, or here, if left out."""
    envs: int = Protocol.envs
    """Worlds for each agent."""
    steps: int = Protocol.steps
    """The paper's window."""
    first: int = Protocol.first
    """Episodes of every world that make up the unbiased protocol."""
    seed: int = Protocol.seed
    """Of the worlds the agents are judged in."""

    def __call__(self) -> int:
        _prepare_jax()
        from perepisode.evaluation.rollout import evaluate

        if not self.paths:
            raise Refused("no run given; name run folders, a folder of them, or agents")
        out = self.out or _home(self.paths[0]) / "episodes.parquet"
        evaluate(self.paths, out, self.envs, self.steps, self.first, self.seed)
        runs = " ".join(dict.fromkeys(str(_home(path) if path.is_dir() else path) for path in self.paths))
        print(f"wrote {out}\nnext: perepisode report {out} --runs {runs}")
        return 0


@dataclass(frozen=True)
class Distill:
    """Fit a utility to the preferences of a pool of episodes (Eq. 6)."""

    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Episodes tables with the pool: unconstrained, ERM and SER agents."""
    dilemma: str = "no_killing"
    """Whose violations the utility orders."""
    tolerance: float = 0.5
    """Violations an episode may have and still count as clean."""
    out: Path = Path("utility.json")
    """File to write."""

    def __call__(self) -> int:
        from perepisode.training.distill import distill

        distill(self.episodes, self.dilemma, self.out, self.tolerance)
        print(f"wrote {self.out}\nnext: perepisode train --method esr_distilled --utility {self.out}")
        return 0


@dataclass(frozen=True)
class Report:
    """Figures, tables and one HTML page from episodes tables, ours or anybody's."""

    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Episodes tables, parquet or CSV; at least method, seed, return, violations."""
    out: Path = Path("report")
    """Folder to write."""
    runs: tuple[Path, ...] = ()
    """Folders of run folders, or agents by name or file, for training curves and λ."""
    utilities: tuple[Path, ...] = ()
    """Distilled utilities to draw."""
    exact: tuple[Path, ...] = ()
    """Exact optima (JSON) to draw beside what was learned."""
    watch: tuple[Path, ...] = ()
    """Folders that `perepisode watch` wrote, to link to."""
    discussion: Path | None = None
    """Your own words, with numbers read from the report's tables (docs/bring-your-own-agent.md)."""

    def __call__(self) -> int:
        from perepisode.agents import find
        from perepisode.report.page import build

        curves = [trained for path in self.runs for trained in find(path)]
        page = build(self.episodes, self.out, curves, self.utilities, self.exact, self.watch, self.discussion)
        print(f"wrote {page}\nnext: open it in a browser")
        return 0


@dataclass(frozen=True)
class Watch:
    """Replay the worst episodes and write a page to watch them on."""

    source: Annotated[Path, tyro.conf.Positional]
    """An episodes table, a run folder whose table lies beside it, or an agent by name or file."""
    worst: int = 5
    """How many of the worst episodes."""
    restraint: int = 0
    """Also so many episodes with one violation, those with most further chances that were let be."""
    row: tuple[int, ...] = ()
    """Rows of the table to replay instead."""
    method: str | None = None
    """Only episodes of this method."""
    arm: str | None = None
    """Only episodes of this arm, e.g. k=1."""
    runs: Path | None = None
    """Folder of run folders, if not the table's own folder."""
    out: Path = Path("watch")
    """Folder to write."""

    def __call__(self) -> int:
        _prepare_jax()
        from perepisode.replay.watch import watch

        page = watch(self.source, self.out, self.worst, self.row, self.method, self.arm, self.runs, self.restraint)
        print(f"wrote {page}\nnext: open it in a browser")
        return 0


@dataclass(frozen=True)
class Bench:
    """Measure steps a second: the engine, upstream's step, training."""

    populations: tuple[int, ...] = (1, 3, 8)
    """Runs side by side."""
    worlds: tuple[int, ...] = (1024, 8192)
    """Worlds of the engine alone; on a CPU 64 is plenty."""
    envs: int = 1024
    """Worlds of each training run."""
    hidden: int = 512
    """Width of the network."""
    precision: tuple[Literal["bf16", "fp32"], ...] = ("bf16",)
    """Matrix products."""
    upstream: bool = True
    """Also measure upstream's step in this process."""
    out: Path = Path("bench.json")
    """File to write."""

    def __call__(self) -> int:
        _prepare_jax()
        from perepisode.training.bench import bench

        bench(self)
        print(f"wrote {self.out}\nnext: perepisode study plan --bench {self.out}")
        return 0


@dataclass(frozen=True)
class Version:
    """Print the versions a result depends on."""

    def __call__(self) -> int:
        from perepisode.runs import versions

        print(" ".join(f"{name} {version}" for name, version in versions().items()))
        return 0


def _commands() -> Any:
    from perepisode.agents import cli as agents
    from perepisode.study import cli as study

    def command(cls, name):
        return Annotated[cls, tyro.conf.subcommand(name)]

    kinds = (
        command(Train, "train"),
        command(Evaluate, "evaluate"),
        command(agents.Agents, "agents"),
        command(Distill, "distill"),
        command(study.Matrix, "matrix"),
        command(study.Study, "study"),
        command(Report, "report"),
        command(Watch, "watch"),
        command(Bench, "bench"),
        command(study.Demo, "demo"),
        command(Version, "version"),
    )
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union


def main(arguments: list[str] | None = None) -> None:
    """Entry point; wrong input is one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = tyro.cli(
        _commands(), args=arguments, prog="perepisode", description=(__doc__ or "perepisode").splitlines()[0]
    )
    sys.exit(run(command))


def run(command) -> int:
    try:
        return command()
    except ValueError as error:  # Refused, and the tables' own refusals
        if not isinstance(error, Refused) and os.environ.get("PEREPISODE_TRACEBACK"):
            raise
        print(f"perepisode: {error}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("perepisode: stopped; what was checkpointed is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has enough; what is still to be flushed goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _told(error)


def _told(error: Exception) -> int:
    """Exit codes of the two ends that a supervisor must tell apart; anything else is a bug and is shown whole."""
    if type(error).__name__ == "Interrupted":
        print(f"perepisode: {error}; start the same command again to go on", file=sys.stderr)
        return RESUME_ME
    if type(error).__name__ == "DiskTrouble":
        print(f"perepisode: {error}", file=sys.stderr)
        return DISK
    raise error


def _prepare_jax() -> None:
    from perepisode.compilation import use_cache

    use_cache()


def _home(path: Path) -> Path:
    """The folder of run folders that `path` is, or lies in; for an agent's name the current one."""
    if not path.is_dir():
        return Path()
    return path.parent if (path / "run.json").exists() else path


def _digest(path: Path) -> str:
    import hashlib

    try:
        return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None


def _number_or_word(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


if __name__ == "__main__":
    main()
