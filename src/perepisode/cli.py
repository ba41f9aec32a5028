"""The command line: `perepisode COMMAND`.

Each command is a dataclass: its fields are the options, and calling it does the work.  Heavy imports happen inside the
calls, so that help, planning and error messages appear at once.
"""
# pyright: reportInvalidTypeForm=false
# The groups of settings are classes made at run time.  tyro would show a comment beside such a field as its help.

import contextlib
import io
import os
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from errno import EDQUOT, EIO, ENOSPC
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from perepisode import (
    __version__,
    algorithms,
    console,
    lazy,
    legacy,
    option_files,
    plugins,
    safe_io,
    settings,
    tracking,
)
from perepisode.algorithms import AGENTS, fitting
from perepisode.config import PAPER_SEEDS, ConfigError, EvalConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS
from perepisode.option_files import OptionsFromFile
from perepisode.runs import Run, RunFolder
from perepisode.settings import setting

ABOUT = (
    "Safe RL with per-episode limits: train agents under a limit on violations in every episode, and evaluate any "
    "agent by its worst episodes instead of its mean."
)
EXIT_RESUME, EXIT_DISK = 75, 74  # sysexits' TEMPFAIL and IOERR
EXIT_USAGE, EXIT_DIVERGED = 2, 3


def _option(metavar: str, **more: Any) -> Any:
    """How an option is shown whose default is None or empty, and so says nothing."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="", **more)


def _group(about: str, owners: Iterable[type], *others: type) -> Any:
    """A group of options, one for each setting of the owners; each takes several values.

    A name that is already an option of `others` gets no second option: that option, or --set, serves both.
    """
    taken = {member.name for other in others for member in fields(other)}
    helps: dict[str, dict[str, list[str]]] = {}  # by setting, the owners that share a help text
    for owner in owners:
        for name, declared in settings.of(owner).items():
            if name not in taken:
                helps.setdefault(name, {}).setdefault(declared.described, []).append(getattr(owner, "name", ""))
    options = []
    for name, texts in helps.items():
        text = ".  ".join(f"{', '.join(names)}: {line}" if any(names) else line for line, names in texts.items())
        options.append((name, Annotated[tuple[str, ...], _option("VALUE ...", help=text)], ()))
    return make_dataclass("Settings", options, frozen=True, namespace={"__doc__": about})


_ENVIRONMENTS = f"Environment: {', '.join(ENVIRONMENTS)}, or your own as file.py:Class."
_METHODS = (
    f"One or several of {', '.join(METHODS)}, or your own as file.py:Class.  They train in parallel.  A setting below "
    "applies to every method that has it.  A setting of one method follows its name: "
    "--method esr:budget=1,2:accrued_obs=scaled ser:weight=0.1 lagrangian:budget=0.5."
)
_AGENTS = (
    f"Learning algorithm and network: {', '.join(AGENTS)}, or your own as file.py:Class; default: what the environment "
    f"declares, else one that fits it.  {algorithms.DEFAULT} is the paper's."
)


@dataclass(frozen=True)
class TrainOptions:
    """The options of `train`, without the settings."""

    env: Annotated[str, tyro.conf.arg(help=_ENVIRONMENTS)] = "temptation"
    # The dilemma whose violations the method limits; default: the environment's first.
    dilemma: Annotated[str | None, _option("STR")] = None
    method: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STR ...", help=_METHODS)] = ("esr",)
    agent: Annotated[str | None, _option("STR", help=_AGENTS)] = None
    # Discount factor in (0, 1].
    gamma: Annotated[tuple[float, ...], tyro.conf.arg(metavar="FLOAT ...")] = settings.like(Run, "gamma", (0.99,))
    # Seeds; each is one run.
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT ...")] = settings.like(Run, "seed", PAPER_SEEDS)
    # Environment steps per run; default: what the environment declares, 1e9 on craftax and 1e6 on temptation.
    total_timesteps: Annotated[float | None, _option("NUMBER", aliases=("--steps",))] = settings.like(
        Run, "total_timesteps", None
    )
    detector: str = "exact"  # Violation counter in training: `exact`, or `paper`, the paper's state difference.
    # What costs 1 in training: `step`, a step with at least one violation (paper); `event`, each violation.
    cost_per: str = "step"
    # Settings as name=value or name=value,value: of your own method or environment, or any of those below.
    set: Annotated[tuple[str, ...], _option("NAME=VALUE ...")] = ()
    checkpoint_seconds: float = setting(600.0, low=0)  # Seconds between checkpoints.
    chunk: int = setting(10, low=1, high=1000)  # Updates per compiled call; signals and checkpoints wait for its end.
    out: Path = Path("out")  # Folder for the run folders.
    # Also send the metrics to these trackers: tensorboard, wandb or mlflow; each is an extra of the same name.
    track: Annotated[tuple[Literal["tensorboard", "wandb", "mlflow"], ...], _option("STR ...")] = ()

    def runs_with(self, given: dict[str, list[str]]) -> tuple[list[Run], dict[str, bytes]]:
        """The validated runs for these settings, and the contents by digest of the files that the settings name."""
        env_id = plugins.resolve("env", self.env, ENVIRONMENTS)
        env, files, runs = ENVIRONMENTS[env_id], {}, []
        agent = plugins.resolve("agent", self.agent, AGENTS) if self.agent else algorithms.default_agent(env)
        config, config_type = algorithms.default_config(env, agent), AGENTS[agent].config_type
        base = Run(
            env=env_id,
            agent=agent,
            config=config,
            dilemma=self.dilemma or env.dilemmas[0],
            total_timesteps=int(self.total_timesteps or env.total_timesteps),
            detector=self.detector,
            cost_per=self.cost_per,
        )
        methods = [MethodSpec.read(text) for text in self.method]
        for method, texts in zip(methods, _settings_by_method(methods, given, (env, config_type))):
            owners = {"method": METHODS[method.name], "env": env, config_type.section: config_type}
            values = _parse_settings(texts, owners, files)
            for method_settings, env_settings, own in product(*map(_combinations, values.values())):
                run = replace(base, method=method.name, method_settings=method_settings, env_settings=env_settings)
                run = replace(run, config=replace(config, **own))
                runs += [replace(run, gamma=gamma, seed=seed) for gamma in self.gamma for seed in self.seeds]
        if not runs:
            raise ConfigError("there is no run to train; give at least one of --method, --seeds and --gamma")
        counts = Counter(run.checked().id for run in runs)
        if twice := [run for run in runs if counts[run.id] > 1]:
            raise ConfigError(f"the same run was given twice: {twice[0].method} {twice[0].arm}, seed {twice[0].seed}")
        return runs, files

    def train(self, given: dict[str, list[str]], quiet: bool = False) -> list[RunFolder]:
        """Train these runs; each population is one program."""
        lazy.require("train")
        for tracker in self.track:
            tracking.check(tracker, "train --track")
        runs, files = self.runs_with(given)
        from perepisode.study.packing import pack
        from perepisode.training.train import TrainingOptions, check, train

        populations = pack(runs, len(runs))
        for members in populations:
            check(members)
        from perepisode.compilation import use_cache
        from perepisode.tracking.live import Tracked
        from perepisode.training.progress import Progress, for_this_terminal

        use_cache()
        log = silent if quiet else print
        env = ENVIRONMENTS[runs[0].env]
        if not (env.agent or env.ppo):
            agent, config = runs[0].agent, runs[0].config
            sizes = f"{config.num_envs} environments x {config.num_steps} steps"
            log(f"{env.name} declares no agent: {agent} with {sizes}, for {fitting.describe(env)}; --agent changes it")
        for tracker in self.track:
            log(f"metrics go to {tracker}; to see them: {tracking.view(tracker, self.out)}")
        if len(populations) > 1:
            log(f"{len(runs)} runs in {len(populations)} populations, one after the other: each is a separate program")
        folders = []
        for members in populations:
            progress = Progress() if quiet else for_this_terminal(runs)
            progress = Tracked(progress, self.track, self.out, log) if self.track else progress
            options = TrainingOptions(self.out, self.chunk, self.checkpoint_seconds, progress, files, log)
            folders += train(members, options)
        for folder in folders:
            log(f"{folder.path}: diverged, {folder.failed}" if folder.failed else f"wrote {folder.path}")
        return folders


AGENT_ABOUT = "Several values are swept.  Defaults of ppo_gru are the paper's; temptation has its own."
AGENT_OPTIONS = _group(AGENT_ABOUT, dict.fromkeys(agent.config_type for agent in AGENTS.values()), TrainOptions)
ENV_OPTIONS = _group("Several values are swept.", ENVIRONMENTS.values(), TrainOptions, AGENT_OPTIONS)
METHOD_OPTIONS = _group("Several values are swept.", METHODS.values(), TrainOptions, AGENT_OPTIONS, ENV_OPTIONS)


@dataclass(frozen=True)
class Train(OptionsFromFile, TrainOptions):
    """Train agents: every combination of methods, settings and seeds, in parallel where one program can hold them."""

    method_settings: tyro.conf.OmitArgPrefixes[METHOD_OPTIONS] = field(default_factory=METHOD_OPTIONS)
    env_settings: tyro.conf.OmitArgPrefixes[ENV_OPTIONS] = field(default_factory=ENV_OPTIONS)
    agent_settings: tyro.conf.OmitArgPrefixes[AGENT_OPTIONS] = field(default_factory=AGENT_OPTIONS)

    def __call__(self) -> int:
        folders = self.train(self._given())
        diverged = [folder.path.name for folder in folders if folder.failed]
        if len(diverged) == len(folders):
            print("perepisode: every run diverged; try a smaller learning rate", file=sys.stderr)
            return EXIT_DIVERGED
        without = f" (without {', '.join(diverged)}: diverged)" if diverged else ""
        print(f"next: {plugins.shell_prefix()}perepisode evaluate {self.out}{without}")
        return 0

    def checked(self) -> tuple["Train", str]:
        """These options, with those that the environment decides, and what they train; ConfigError if they cannot."""
        runs, _ = self.runs()
        dilemma, steps = runs[0].dilemma, runs[0].total_timesteps
        return replace(self, dilemma=dilemma, total_timesteps=steps), f"{len(runs)} run{'s' * (len(runs) > 1)}, "

    def runs(self) -> tuple[list[Run], dict[str, bytes]]:
        """The validated runs of this command, and the contents by digest of the files that its settings name."""
        return self.runs_with(self._given())

    def _given(self) -> dict[str, list[str]]:
        """Every setting on the command line by name, with its values as typed."""
        given: dict[str, list[str]] = {}
        for group in (self.method_settings, self.env_settings, self.agent_settings):
            given |= {name: list(values) for name, values in vars(group).items() if values}
        for text in self.set:
            name, equals, values = text.partition("=")
            if not equals:
                raise ConfigError(f"--set {text!r} is not an assignment; write name=value")
            if name in given:
                raise ConfigError(f"{name} is given twice; give its values together: --set {name}=1,2")
            given[name] = values.split(",")
        return given


@dataclass(frozen=True)
class MethodSpec:
    """A method on the command line with the settings that follow its name, as typed."""

    name: str
    own: dict[str, list[str]]

    @classmethod
    def read(cls, text: str) -> "MethodSpec":
        parts = text.split(":")  # a method of your own has a colon in its name: module:Class:beta=0.1
        spec = cls(plugins.resolve("method", ":".join(part for part in parts if "=" not in part), METHODS), {})
        for part in parts:
            name, equals, values = part.partition("=")
            if not equals:
                continue
            if name not in spec.known and (new := legacy.new_setting(name, spec.name)) in spec.known:
                _print_renamed(name, new)
                name = new
            if name not in spec.known:
                listed = ", ".join(spec.known) or "no settings"
                raise ConfigError(f"--method {text}: {spec.name} has no setting {name!r}; it has {listed}")
            if name in spec.own:
                raise ConfigError(f"--method {text}: {name} is given twice; give its values together: {name}=1,2")
            spec.own[name] = [legacy.new_value(name, value) for value in values.split(",")]
        return spec

    @property
    def known(self) -> dict[str, settings.Setting]:
        return settings.of(METHODS[self.name])

    def takes(self, name: str) -> bool:
        """Whether a setting given to all methods applies to this one."""
        return name in self.known and name not in self.own


def _settings_by_method(
    methods: list[MethodSpec], shared: dict[str, list[str]], others: tuple[type, ...]
) -> list[dict[str, list[str]]]:
    """Each method's settings: its own, and the shared ones that it has or that no method on the command line has."""
    of_others = {name for other in others for name in settings.of(other)}
    by_method = [{f"method.{name}": texts for name, texts in method.own.items()} for method in methods]
    for name, texts in shared.items():
        bare = name.removeprefix("method.")
        takers = [method for method in methods if method.takes(bare)]
        meanings = {method.known[bare].help: method.name for method in takers}
        if len(meanings) > 1:
            listed = " and ".join(f"{meaning!r} to {method}" for meaning, method in meanings.items())
            separate = " ".join(f"{method.name}:{bare}=..." for method in takers)
            raise ConfigError(f"{bare} means {listed}; give each its own: --method {separate}")
        known = any(bare in method.known for method in methods)
        if known and not takers and bare not in of_others:
            raise ConfigError(f"{bare} is given twice: every method that has it was given its own")
        for method, given in zip(methods, by_method):
            if method in takers or not known or bare in of_others:
                given[name] = texts
    return by_method


def _parse_settings(texts: dict[str, list[str]], owners: dict[str, type], files: dict[str, bytes]):
    """Every setting's values, grouped by owner; `files` receives the contents of the files that settings name."""
    given: dict[str, dict[str, list[Any]]] = {owner: {} for owner in owners}
    for name, typed in texts.items():
        owner, declared = _owner_of(name, owners)
        if declared.name in given[owner]:
            together = f"--set {owner}.{declared.name}=1,2"
            raise ConfigError(f"{declared.name} is given twice; give its values together: {together}")
        if len(set(typed)) < len(typed):
            raise ConfigError(f"--{declared.name} {' '.join(typed)} names a value twice")
        contents = [safe_io.read_bytes(text, "give another file") for text in typed if declared.file]
        values = list(map(safe_io.digest, contents) if declared.file else map(declared.parse, typed))
        given[owner][declared.name] = values
        files |= zip(values, contents)
    return given


def _owner_of(name: str, owners: dict[str, type]) -> tuple[str, settings.Setting]:
    """The owner of a setting; a prefix, as in `env.name`, distinguishes two of the same name."""
    prefix, dot, bare = name.rpartition(".")
    prefix = legacy.OWNERS.get(prefix, prefix)
    known = {owner: settings.of(cls) for owner, cls in owners.items() if not dot or owner == prefix}
    found = [(owner, declared[bare]) for owner, declared in known.items() if bare in declared]
    if not found:  # perhaps its name in version 0.1
        renamed = {owner: legacy.new_setting(bare, getattr(cls, "name", "")) for owner, cls in owners.items()}
        found = [(owner, declared[new]) for owner, declared in known.items() if (new := renamed[owner]) in declared]
        for _, declared in found[:1]:
            _print_renamed(bare, declared.name)
    if len(found) == 1:
        return found[0]
    if found:
        both = " and ".join(f"{owner}.{bare}" for owner, _ in found)
        raise ConfigError(f"{bare} could be {both}; write --set {found[0][0]}.{bare}=...")
    names = {owner: getattr(cls, "name", owner.upper()) for owner, cls in owners.items()}
    listed = "; ".join(f"{names[owner]} has {', '.join(declared) or 'none'}" for owner, declared in known.items())
    owned = " or ".join(f"{owner}.name" for owner in owners)
    raise ConfigError(f"no setting is called {name!r} here; {listed or f'write {owned}'}")


def _combinations(given: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(given, values)) for values in product(*given.values())]


@dataclass(frozen=True)
class Evaluate(OptionsFromFile):
    """Evaluate finished runs in environments that only count violations, and write a table with one row per episode."""

    # Run folders, folders of them, or agents by name or file (`perepisode agents`).
    paths: Annotated[tuple[Path, ...], tyro.conf.Positional, _option("PATH ...")]
    # Episodes table to write or extend; default: episodes.parquet in the first folder, or here.
    out: Annotated[Path | None, _option("PATH")] = None
    num_envs: int = settings.like(EvalConfig, "num_envs")  # Parallel environments per agent.
    # Length of the paper's window, in steps per environment; evaluation continues until --episodes-per-env have ended,
    # for at most 65,536 steps.
    num_steps: int = settings.like(EvalConfig, "num_steps")
    # Number of first episodes per environment that reports use, whatever their length: no length bias.
    episodes_per_env: int = settings.like(EvalConfig, "episodes_per_env")
    seed: int = settings.like(EvalConfig, "seed")  # Seed of the evaluation environments.

    def __call__(self) -> int:
        from perepisode.report import text_summary

        out = self.evaluate()
        text_summary.evaluated(out)
        runs = " ".join(
            dict.fromkeys(str(_runs_folder(path) if _is_folder_of_runs(path) else path) for path in self.paths)
        )
        print(f"wrote {out}\nnext: perepisode report {out} --runs {runs}")
        return 0

    def evaluate(self, log: Callable[[str], None] = print) -> Path:
        """Evaluate, and return the path of the table."""
        _prepare_jax("evaluate")
        from perepisode.evaluation.rollout import evaluate

        if not self.paths:
            raise ConfigError("no run given; name run folders, a folder of them, or agents")
        out = self.out or _runs_folder(self.paths[0]) / "episodes.parquet"
        return evaluate(self.paths, out, self.num_envs, self.num_steps, self.episodes_per_env, self.seed, log)


@dataclass(frozen=True)
class LabelCommand:
    """Compare pairs of episodes in a browser; `distill --labels` fits a utility to the answers.

    The page is served on this machine only, and each answer is on disk before the next pair is shown.
    """

    # Episodes tables whose episodes are compared.
    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional, _option("PATH ...")]
    out: Path = Path("labels.jsonl")  # Labels file to extend; several raters can share it.
    pairs: int = setting(100, low=1, high=10_000)  # Pairs that each rater labels, counting those already in the file.
    # Name that is stored with the labels; default: the page asks.
    rater: Annotated[str, tyro.conf.arg(help_behavior_hint="")] = ""
    # The dilemma whose violations are shown; default: that of the runs.
    dilemma: Annotated[str | None, _option("STR")] = None
    # active: the pairs whose answers teach most; random: any two episodes.
    strategy: Literal["active", "random"] = "active"
    seed: int = setting(0, low=0)  # Seed of the pairs.
    port: int = setting(0, low=0, high=65_535)  # Port of the page; 0 is any free one.
    browser: bool = True  # Open the page in a browser.

    def __call__(self) -> int:
        lazy.require("label", lazy.LABELLING, "label")
        from perepisode.compilation import use_cache
        from perepisode.preferences.label import label

        if not self.episodes:
            raise ConfigError("no episodes table given; `perepisode evaluate` writes one")
        use_cache()
        found = label(
            self.episodes, self.out, self.pairs, self.rater, self.dilemma, self.strategy, self.seed, self.port,
            self.browser,
        )  # fmt: skip
        print(f"\n{len(found)} labels in {self.out}; next: perepisode distill --labels {self.out}")
        return 0


@dataclass(frozen=True)
class Distill:
    """Fit the utility of --method esr_distilled to preferences between episodes (Eq. 6 of the paper).

    The preferences are people's (--labels), or follow the paper's rule in tables of episodes.
    """

    # Episodes tables of the unconstrained, ERM and SER agents whose episodes are compared.  With --labels, tables that
    # were labelled: every label is checked against them.
    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional, _option("PATH ...")] = ()
    labels: Annotated[tuple[Path, ...], _option("PATH ...")] = ()  # Labels files of `perepisode label`, or folders.
    # Dilemma whose violations the utility orders; default: that of the labels, else no_killing.
    dilemma: Annotated[str | None, _option("STR")] = None
    # Violations up to which the paper's rule counts an episode as clean.
    tolerance: float = setting(0.5, low=0)
    monotone: bool = False  # With --labels: a utility that never prefers more violations or a lower return.
    # With --labels: accept a fit that prefers more violations where labels support it.
    allow_inversion: bool = False
    out: Path = Path("utility.json")  # File to write; with --labels, also a picture: the same name with .svg.

    def __call__(self) -> int:
        if self.labels:
            from perepisode.preferences.fit import distill_labels

            distill_labels(
                self.labels, self.out, self.episodes, self.dilemma, self.monotone, self.allow_inversion, log=print
            )
        else:
            if not self.episodes:
                raise ConfigError("there is nothing to fit; give --labels, or episodes tables for the paper's rule")
            if self.monotone or self.allow_inversion:
                raise ConfigError("--monotone and --allow-inversion are about people's labels; give --labels")
            lazy.require("distill")
            from perepisode.evaluation.distill import distill

            distill(self.episodes, self.dilemma or "no_killing", self.out, self.tolerance)
        print(f"wrote {self.out}\nnext: perepisode train --method esr_distilled --utility {self.out}")
        return 0


@dataclass(frozen=True)
class BuildReport(OptionsFromFile):
    """Write figures, tables and one HTML page from episodes tables of any library."""

    # Episodes tables, parquet or CSV, with at least the columns method, seed, return, and violations or cost.
    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional, _option("PATH ...")]
    out: Path = Path("report")  # Folder to write.
    # Folders of run folders, or agents by name or file: adds learning curves and λ.
    runs: Annotated[tuple[Path, ...], _option("PATH ...")] = ()
    utilities: Annotated[tuple[Path, ...], _option("PATH ...")] = ()  # Distilled utilities to draw.
    exact: Annotated[tuple[Path, ...], _option("PATH ...")] = ()  # Exact optima (JSON) to draw beside the results.
    watch: Annotated[tuple[Path, ...], _option("PATH ...")] = ()  # Folders that `perepisode watch` wrote, to link to.
    # Your own discussion, with numbers read from the report's tables; see docs/how-to/plots-and-tables.md
    discussion: Annotated[Path | None, _option("PATH")] = None
    # What is compared, fixed beforehand (TOML): focal agent, pairs, measure, level, limit, margins.
    plan: Annotated[Path | None, _option("PATH")] = None
    # Cost limit per episode: adds how many episodes exceed it, and by how much.
    cost_limit: Annotated[float | None, _option("NUMBER")] = setting(None, low=0)
    # Share of the worst episodes that the CVaR (conditional value at risk) averages; default 0.1.
    alpha: Annotated[float | None, _option("NUMBER")] = setting(None, above=0, high=1)
    # Largest difference of mean return that does not matter; default: a fifth of the agents' range.
    margin: Annotated[float | None, _option("NUMBER")] = setting(None, above=0)
    # The same for mean violations or cost.
    cost_margin: Annotated[float | None, _option("NUMBER")] = setting(None, above=0)
    # Names of methods on the page, as method=name: --names ppo_lag="PPO Lagrangian" cpo=CPO.
    names: Annotated[tuple[str, ...], _option("NAME ...")] = ()

    def __call__(self) -> int:
        from perepisode.report import report

        others = {"episodes", "names", *vars(OptionsFromFile())}
        given = {name: value for name, value in vars(self).items() if name not in others}
        found = report(self.episodes, **given, names=_parse_names(self.names))
        print(f"wrote {found.path}\nnext: open it in a browser")
        return 0


@dataclass(frozen=True)
class Watch:
    """Replay the worst episodes and write a page to watch them on."""

    # An episodes table, a run folder with its table beside it, or an agent by name or file.
    source: Annotated[Path, tyro.conf.Positional]
    worst: int = setting(5, low=0)  # Worst episodes to replay, each from another environment.
    # Also replay this many episodes with exactly one violation, those in which the agent then abstained most often.
    abstaining: int = setting(0, low=0)
    row: Annotated[tuple[int, ...], _option("INT ...")] = ()  # Rows of the table to replay instead.
    method: Annotated[str | None, _option("STR")] = None  # Only episodes of this method.
    arm: Annotated[str | None, _option("STR")] = None  # Only episodes of this arm, e.g. k=1.
    runs: Annotated[Path | None, _option("PATH")] = None  # Folder of run folders; default: the table's own folder.
    out: Path = Path("watch")  # Folder to write.

    def __call__(self) -> int:
        page = self.replay()
        print(f"wrote {page}\nnext: open it in a browser")
        return 0

    def replay(self, log: Callable[[str], None] = print) -> Path:
        """Replay, and return the path of the page."""
        _prepare_jax("watch")
        from perepisode.replay.watch import watch

        return watch(
            self.source, self.out, self.worst, self.row, self.method, self.arm, self.runs, self.abstaining, log
        )


@dataclass(frozen=True)
class TrackCommand:
    """Send the metrics of runs to a tracker: all of them, or those that came since the last time."""

    out: Annotated[Path, tyro.conf.Positional]  # A run folder, or a folder of run folders.
    to: Literal["tensorboard", "wandb", "mlflow"] = "tensorboard"  # The tracker; each is an extra of the same name.

    def __call__(self) -> int:
        tracking.check(self.to, "track --to")
        rows, runs = tracking.send(self.to, self.out)
        if not runs:
            raise ConfigError(f"{self.out} contains no run folder; give the folder of `perepisode train --out`")
        print(f"sent {rows:,} rows of {runs} run{'s' * (runs > 1)} to {self.to}")
        print(f"next: {tracking.view(self.to, self.out)}")
        return 0


@dataclass(frozen=True)
class BenchCommand:
    """Measure the training speed and memory of this machine on Craftax."""

    # Runs that train in parallel; default: 1 3 8 16, or 1 3 on a CPU.
    populations: Annotated[tuple[int, ...], _option("INT ...")] = setting((), low=1)
    # Environments per run; default: 1024, or 64 on a CPU.
    num_envs: Annotated[int | None, _option("INT")] = setting(None, low=1)
    # Width of the network; default: 512, or 128 on a CPU.
    hidden_size: Annotated[int | None, _option("INT")] = setting(None, low=1)
    # Precision of matrix products: bf16, fp32 or both.
    precision: Annotated[tuple[Literal["bf16", "fp32"], ...], tyro.conf.arg(metavar="STR ...")] = ("bf16",)
    profile: bool = False  # Also measure which share of an update each part takes.
    out: Path = Path("bench.json")  # File to write.

    def __call__(self) -> int:
        if not self.precision:
            raise ConfigError("there is nothing to measure; give --precision bf16, fp32 or both")
        _prepare_jax("bench")
        from perepisode.study.bench import bench, defaults

        populations, config = defaults()
        config = replace(
            config, num_envs=self.num_envs or config.num_envs, hidden_size=self.hidden_size or config.hidden_size
        )
        bench(self.out, self.populations or populations, config, self.precision, self.profile)
        print(f"wrote {self.out}\nnext: perepisode study plan --bench {self.out}")
        return 0


@dataclass(frozen=True)
class Version:
    """Print the versions that a result depends on: perepisode, Python and the libraries."""

    def __call__(self) -> int:
        from perepisode.runs import versions

        print(" ".join(f"{name} {version}" for name, version in versions().items()))
        return 0


def _commands() -> Any:
    from perepisode.agents import cli as agents
    from perepisode.benchmark import cli as benchmark
    from perepisode.study import cli as study

    commands = {
        "train": Train,
        "evaluate": Evaluate,
        "agents": agents.AgentsCommand,
        "benchmark": benchmark.BenchmarkCommand,
        "label": LabelCommand,
        "distill": Distill,
        "matrix": study.MatrixCommand,
        "study": study.StudyCommand,
        "report": BuildReport,
        "watch": Watch,
        "track": TrackCommand,
        "bench": BenchCommand,
        "demo": study.DemoCommand,
        "version": Version,
    }
    union: Any = None
    for name, cls in commands.items():
        command = Annotated[cls, tyro.conf.subcommand(name)]
        union = command if union is None else union | command
    return union


def main(arguments: list[str] | None = None) -> None:
    """Entry point; invalid input is one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    console.write_anything()
    try:
        if arguments == ["--version"]:
            print(f"perepisode {__version__}")
            sys.exit(0)
        command = parsed(arguments)
    except ConfigError as error:
        _print_error(error)
        sys.exit(EXIT_USAGE)
    except BrokenPipeError:
        sys.exit(_discard_output())
    sys.exit(run(command))


class _Captured(io.StringIO):
    """Collects what tyro prints, in the colours and with the box drawing that stdout allows."""

    encoding = property(lambda self: getattr(sys.__stdout__, "encoding", None) or "ascii")  # pyright: ignore

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def parsed(arguments: list[str]) -> Any:
    """The command of these arguments; tyro's boxed error of several lines becomes one line."""
    from perepisode.benchmark.cli import in_full

    arguments, renamed = legacy.upgrade_options(in_full(arguments), _settings_by_option())
    _print_renamed.cache_clear()
    for old, new in renamed.items():
        _print_renamed(old, new)
    arguments = _with_file(arguments)
    out, err = _Captured(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command = tyro.cli(_commands(), args=arguments, prog="perepisode", description=ABOUT)
    except SystemExit as ended:
        if ended.code != EXIT_USAGE:
            print(_wrapped(out.getvalue()), end="", flush=True)
            raise
        raise ConfigError(_one_line(err.getvalue())) from None
    # an option of several values accepts none, which is never what is meant
    empty = {"--" + name.replace("_", "-") for name, value in _options(command) if value == ()}
    for word, following in zip(arguments, [*arguments[1:], "--"]):
        if word.replace("_", "-") in empty and following.startswith("--"):
            raise ConfigError(f"{word} has no value; see `perepisode --help`")
    return command


def _with_file(arguments: list[str]) -> list[str]:
    """The words of a command line with those of the file that --config names, which come last."""
    name = next((name for name in _from_file() if arguments[: len(name.split())] == name.split()), None)
    index = next((i for i, word in enumerate(arguments) if word.partition("=")[0] == "--config"), None)
    if name is None or index is None:
        return arguments
    path = arguments[index].partition("=")[2] or next(iter(arguments[index + 1 :]), "--")
    if path.startswith("--"):
        return arguments  # without a value: the parser says so
    command, typed = arguments[: len(name.split())], arguments[len(name.split()) :]
    options = option_files.options_of(_from_file()[name], _settings_by_option())
    positional, words = option_files.words(Path(path), name, options, typed)
    return [*command, *positional, *typed, *words]


def _from_file() -> dict[str, type]:
    """The commands that read their options from a file."""
    from perepisode.study import cli as study

    commands = {"train": Train, "evaluate": Evaluate, "report": BuildReport, "study plan": study.PlanCommand}
    return {**commands, "study run": study.RunCommand, "study submit": study.SubmitCommand}


def _settings_by_option() -> dict[str, list[settings.Setting]]:
    """The settings that have an option of `train`, as each of their owners declares them."""
    configs = dict.fromkeys(agent.config_type for agent in AGENTS.values())
    owners = [settings.of(owner) for owner in (*configs, *ENVIRONMENTS.values(), *METHODS.values())]
    names = (option.name for group in (METHOD_OPTIONS, ENV_OPTIONS, AGENT_OPTIONS) for option in fields(group))
    return {name: [declared[name] for declared in owners if name in declared] for name in names}


def _print_config(command: Any) -> int:
    """Print the options of a command as the file that --config reads."""
    command = getattr(command, "action", command)
    name = next(name for name, cls in _from_file().items() if cls is type(command))
    what = ""
    if isinstance(command, Train):
        command, what = command.checked()
    known = _settings_by_option() if isinstance(command, Train) else {}
    comment = f"{what}perepisode {__version__}; use it with `perepisode {name} --config FILE`"
    print(option_files.dump(dict(_options(command)), known, comment), end="")
    return 0


def _wrapped(text: str) -> str:
    """tyro's help, whose boxes fit the terminal, with usage and description wrapped too."""
    width, lines = max(40, shutil.get_terminal_size().columns), []
    for line in text.splitlines():
        line = re.sub(r"\{train,[^ ]*\}", "COMMAND", line.replace("[-h] {train,", "[-h] [--version] {train,"))
        if len(re.sub("\x1b.*?m", "", line)) > width:
            indent = " " * 7 if "usage: " in line else ""
            line = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines.append(line)
    return "\n".join([*lines, ""])


def _options(command: Any) -> Iterable[tuple[str, Any]]:
    """Every option of a command with its value, including those of its groups."""
    for member in fields(command):
        value = getattr(command, member.name)
        yield from _options(value) if is_dataclass(value) else [(member.name, value)]


def _one_line(box: str) -> str:
    """tyro's boxed error as one line: what is wrong, what was perhaps meant, and where the help is."""
    inside = " ".join(re.sub("[│╭╮╰╯\n]|\x1b.*?m", " ", box).split())
    parts = [part.strip() for part in re.split("─+|-{3,}", inside)]  # dashes on an ASCII terminal
    wrong = next((part for part in parts if ":" in part or "xpected" in part), "the arguments cannot be read")
    wrong = wrong.rstrip(".")
    wrong = re.sub(r"invalid literal for int\(\) with base 10: ('.*?')", r"\1 is not a whole number", wrong)
    wrong = re.sub(r"Could not find valid parse for arguments: \[(.*)\]", r"\1 cannot be read", wrong)
    wrong = re.sub(r"could not convert string to float: ('.*?')", r"\1 is not a number", wrong)
    wrong = re.sub(r"no type matching .*?\['(.*?)'\]\. Got errors: .*(is not a (whole )?number)", r"'\1' \2", wrong)
    wrong = re.sub(r"Missing value for argument '(.*?)'.*", r"\1 has no value", wrong)
    wrong = wrong.removeprefix("Error parsing ")
    meant = re.search(r"Perhaps you meant:? (--?[\w-]+)", inside)
    hints = [f"perhaps you meant {meant[1]}"] if meant else [part for part in parts if part.startswith("Available")]
    return "; ".join([wrong, *hints, "see `perepisode --help`"])


def run(command) -> int:
    try:
        settings.check_fields(command)
        plugins.load_plugins()
        if getattr(getattr(command, "action", command), "print_config", False):
            return _print_config(command)
        return command()
    except ValueError as error:  # ConfigError, and what reading a table raises
        if not isinstance(error, ConfigError) and os.environ.get("PEREPISODE_TRACEBACK"):
            raise
        _print_error(error)
        return EXIT_USAGE
    except KeyboardInterrupt:
        _print_error("interrupted; run the same command again")
        return 130
    except BrokenPipeError:
        return _discard_output()
    except Exception as error:
        return _exit_code(error)


def _discard_output() -> int:
    """The reader of our output has closed the pipe, so what is still buffered goes to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _exit_code(error: Exception) -> int:
    """Expected failures as one line and an exit code; any other error is a bug and keeps its traceback."""
    if type(error).__name__ == "Interrupted":
        _print_error(f"{error}; run the same command again to resume")
        return EXIT_RESUME
    if type(error).__name__ == "DiskError" or getattr(error, "errno", None) in (ENOSPC, EDQUOT, EIO):
        _print_error(error)
        return EXIT_DISK
    if isinstance(error, ModuleNotFoundError) and (missing := (error.name or "").split(".")[0]) in lazy.TRAINING:
        _print_error(lazy.missing_message("this", [missing]))
        return EXIT_USAGE
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        _print_error("out of memory; use fewer environments, a smaller network or fewer runs at a time")
        return EXIT_USAGE
    if isinstance(error, OSError) and error.filename is not None:  # an unusable path on the command line
        _print_error(f"{error.filename}: {error.strerror}; give another path")
        return EXIT_USAGE
    raise error


def _print_error(message: object) -> None:
    print(f"perepisode: {safe_io.one_line(message)}", file=sys.stderr)


@cache
def _print_renamed(old: str, new: str) -> None:
    """Report a name of version 0.1, which still works, once per command."""
    print(f"perepisode: {old} is now called {new}", file=sys.stderr)


def silent(message: str) -> None:
    """Stands in for `print` when nothing should be printed."""


def _prepare_jax(command: str) -> None:
    lazy.require(command)
    from perepisode.compilation import use_cache

    use_cache()


def _parse_names(names: Iterable[str]) -> dict[str, str]:
    """Names of methods, given as method=name."""
    pairs = [text.partition("=") for text in names]
    if wrong := [text for text, (_, equals, name) in zip(names, pairs) if not (equals and name.strip())]:
        raise ConfigError(f"--names {wrong[0]!r} gives no name; write method=name")
    return {method: name.strip() for method, _, name in pairs}


def _is_folder_of_runs(path: Path) -> bool:
    from perepisode.zoo import HubFolder

    return path.is_dir() and not HubFolder.is_at(path)


def _runs_folder(path: Path) -> Path:
    """The folder of run folders that `path` is or lies in; the current folder for an agent."""
    if not _is_folder_of_runs(path):
        return Path()
    return path.parent if (path / "run.json").exists() else path


if __name__ == "__main__":
    main()
