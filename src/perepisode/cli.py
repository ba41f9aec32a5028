"""The command line: `perepisode train | evaluate | agents | distill | matrix | study | report | watch | bench | demo`.

Each command is a dataclass whose fields are its options and whose call does the work.  Heavy imports happen inside
the calls, so that help, planning and mistakes are answered at once.
"""
# pyright: reportInvalidTypeForm=false
# For the groups of settings, which are made: beside a field its comment would be read as its help.

import contextlib
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from errno import EDQUOT, EIO, ENOSPC
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from perepisode import console, lazy, legacy, plugins, safe_io, settings
from perepisode.config import PAPER_SEEDS, ConfigError, EvalConfig, PPOConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.methods import METHODS
from perepisode.runs import Run, RunFolder
from perepisode.settings import setting

EXIT_RESUME, EXIT_DISK = 75, 74  # sysexits' TEMPFAIL and IOERR
EXIT_USAGE, EXIT_DIVERGED = 2, 3


def _help(text: str, **more: Any) -> Any:
    return tyro.conf.arg(help=text, **more)


_Steps = Annotated[
    float | None,
    _help("Environment steps per run; the default is 1e6, or 1e9 on craftax.", aliases=("--steps",), metavar="NUMBER"),
]


def _group(about: str, owners: Iterable[type], *others: type) -> Any:
    """A group of options, one for each setting of these classes; every one takes several values.

    A name that is an option of `others` already is none again: that option serves both, or --set where it cannot.
    """
    taken = {one.name for other in others for one in fields(other)}
    said: dict[str, dict[str, list[str]]] = {}
    for owner in owners:
        for name, one in settings.of(owner).items():
            if name in taken:
                continue
            said.setdefault(name, {}).setdefault(one.described, []).append(getattr(owner, "name", ""))
    options = []
    for name, helps in said.items():
        text = "; ".join(f"{', '.join(whose)}: {line}" if any(whose) else line for line, whose in helps.items())
        shown = tyro.conf.arg(help=text, help_behavior_hint="", metavar="VALUE ...")
        options.append((name, Annotated[tuple[str, ...], shown], ()))
    return make_dataclass("Settings", options, frozen=True, namespace={"__doc__": about})


_METHODS = (
    f"One or several of {', '.join(METHODS)}, or your own as file.py:Class; they train side by side.  Settings given "
    "below go to every one of them that has such a setting.  What only one of them is to have follows its name: "
    "--method esr:budget=1,2:accrued_obs=scaled ser:weight=0.1 lagrangian:budget=0.5."
)


@dataclass(frozen=True)
class TrainOptions:
    """What `train` is asked beside settings."""

    env: Annotated[str, _help(f"Environment: {', '.join(ENVIRONMENTS)}, or your own as file.py:Class.")] = "temptation"
    dilemma: str | None = None  # What is to be avoided; the world's first dilemma if left out.
    method: Annotated[tuple[str, ...], _help(_METHODS)] = ("esr",)
    gamma: tuple[float, ...] = settings.like(Run, "gamma", (0.99,))  # Discount factor in (0, 1].
    seeds: tuple[int, ...] = settings.like(Run, "seed", PAPER_SEEDS)  # One run for each.
    total_timesteps: _Steps = settings.like(Run, "total_timesteps", None)
    detector: str = "exact"  # Count the objective is charged with: exact, or the paper's state difference.
    # What costs one violation: a `step` with any (the paper), or every `event` in it.
    cost_per: str = "step"
    # Settings as name=value or name=value,value: those of your own method or world, or any of those below.
    set: tuple[str, ...] = ()
    checkpoint_seconds: float = setting(600.0, low=0)  # Time between checkpoints.
    chunk: int = setting(10, low=1, high=1000)  # Updates between two looks at signals and files.
    out: Path = Path("out")  # Folder of run folders.

    def runs_with(self, given: dict[str, list[str]]) -> tuple[list[Run], dict[str, bytes]]:
        """The runs that are asked for with these settings, checked, and the files that they name by digest."""
        env_id = plugins.resolve("env", self.env, ENVIRONMENTS)
        env, files, runs = ENVIRONMENTS[env_id], {}, []
        run = Run(
            env=env_id,
            dilemma=self.dilemma or env.dilemmas[0],
            total_timesteps=int(self.total_timesteps or env.total_timesteps),
            detector=self.detector,
            cost_per=self.cost_per,
            ppo=env.ppo,
        )
        methods = [MethodSpec.read(text) for text in self.method]
        for method, texts in zip(methods, _each(methods, given, (env, PPOConfig))):
            values = _values(texts, {"method": METHODS[method.name], "env": env, "ppo": PPOConfig}, files)
            for own, options, config in product(*map(_combinations, values.values())):
                one = replace(run, method=method.name, method_settings=own, env_settings=options)
                one = replace(one, ppo=replace(env.ppo, **config))
                runs += [replace(one, gamma=gamma, seed=seed) for gamma in self.gamma for seed in self.seeds]
        if not runs:
            raise ConfigError("there is no run to train; give at least one of --method, --seeds and --gamma")
        found = Counter(run.checked().id for run in runs)
        if twice := [run for run in runs if found[run.id] > 1]:
            raise ConfigError(f"the same run was given twice: {twice[0].method} {twice[0].arm}, seed {twice[0].seed}")
        return runs, files

    def train(self, given: dict[str, list[str]], quiet: bool = False) -> list[RunFolder]:
        """Train those runs, each population in a program of its own."""
        lazy.require("train")
        runs, files = self.runs_with(given)
        from perepisode.study.packing import pack
        from perepisode.training.train import TrainingOptions, check, train

        populations = pack(runs, len(runs))
        for members in populations:
            check(members)
        from perepisode.compilation import use_cache
        from perepisode.training.progress import Progress, for_this_terminal

        use_cache()
        log = silently if quiet else print
        if len(populations) > 1:
            log(f"{len(runs)} runs in {len(populations)} populations, one after the other: each has its own program")
        folders = []
        for members in populations:
            progress = Progress() if quiet else for_this_terminal(runs)
            folders += train(members, TrainingOptions(self.out, self.chunk, self.checkpoint_seconds, progress, files, log))
        for folder in folders:
            log(f"{folder.path}: diverged, {folder.failed}" if folder.failed else f"wrote {folder.path}")
        return folders


LEARNT = "Several values are swept.  Defaults are the paper's; temptation has its own."
PPO_OPTIONS = _group(LEARNT, [PPOConfig], TrainOptions)
ENV_OPTIONS = _group("Several values are swept.", ENVIRONMENTS.values(), TrainOptions, PPO_OPTIONS)
METHOD_OPTIONS = _group("Several values are swept.", METHODS.values(), TrainOptions, PPO_OPTIONS, ENV_OPTIONS)


@dataclass(frozen=True)
class Train(TrainOptions):
    """Train agents: every combination of methods, settings and seeds, side by side where one program allows."""

    method_settings: tyro.conf.OmitArgPrefixes[METHOD_OPTIONS] = field(default_factory=METHOD_OPTIONS)
    world_settings: tyro.conf.OmitArgPrefixes[ENV_OPTIONS] = field(default_factory=ENV_OPTIONS)
    learner_settings: tyro.conf.OmitArgPrefixes[PPO_OPTIONS] = field(default_factory=PPO_OPTIONS)

    def __call__(self) -> int:
        folders = self.train(self._given())
        lost = [folder.path.name for folder in folders if folder.failed]
        if len(lost) == len(folders):
            print("perepisode: every run diverged; try a smaller learning rate", file=sys.stderr)
            return EXIT_DIVERGED
        print(f"next: perepisode evaluate {self.out}" + (f" (without {', '.join(lost)}: diverged)" if lost else ""))
        return 0

    def runs(self) -> tuple[list[Run], dict[str, bytes]]:
        """The runs this command asks for, checked, and the files that they name by digest."""
        return self.runs_with(self._given())

    def _given(self) -> dict[str, list[str]]:
        """Every setting on the command line, by name, with its values as they were typed."""
        found: dict[str, list[str]] = {}
        for group in (self.method_settings, self.world_settings, self.learner_settings):
            found |= {name: list(values) for name, values in vars(group).items() if values}
        for text in self.set:
            name, equals, values = text.partition("=")
            if not equals:
                raise ConfigError(f"--set {text!r} is no assignment; write name=value")
            if name in found:
                raise ConfigError(f"{name} is given twice; give its values together: --set {name}=1,2")
            found[name] = values.split(",")
        return found


@dataclass(frozen=True)
class MethodSpec:
    """A method on the command line, with the settings that follow its name, as they were typed."""

    name: str
    own: dict[str, list[str]]

    @classmethod
    def read(cls, text: str) -> "MethodSpec":
        parts = text.split(":")  # your own method has a colon in its name: module:Class:beta=0.1
        chosen = cls(plugins.resolve("method", ":".join(part for part in parts if "=" not in part), METHODS), {})
        for part in parts:
            name, equals, values = part.partition("=")
            if equals and name not in chosen.known and (new := legacy.new_setting(name, chosen.name)) in chosen.known:
                _renamed({name: new})
                name = new
            if equals and name not in chosen.known:
                listed = ", ".join(chosen.known) or "no settings"
                raise ConfigError(f"--method {text}: {chosen.name} has no setting {name!r}; it has {listed}")
            if name in chosen.own:
                raise ConfigError(f"--method {text}: {name} is given twice; give its values together: {name}=1,2")
            if equals:
                chosen.own[name] = [legacy.new_value(name, one) for one in values.split(",")]
        return chosen

    @property
    def known(self) -> dict[str, settings.Setting]:
        return settings.of(METHODS[self.name])

    def takes(self, name: str) -> bool:
        """A setting that is given to all methods."""
        return name in self.known and name not in self.own


def _each(
    methods: list[MethodSpec], shared: dict[str, list[str]], others: tuple[type, ...]
) -> list[dict[str, list[str]]]:
    """The settings of each method's runs: its own, and those given to all that are its own, the world's or nobody's."""
    elsewhere = {name for other in others for name in settings.of(other)}
    found = [{f"method.{name}": texts for name, texts in method.own.items()} for method in methods]
    for name, texts in shared.items():
        bare = name.removeprefix("method.")
        takers = [method for method in methods if method.takes(bare)]
        if len({method.known[bare].help for method in takers}) > 1:
            means = {method.known[bare].help: method.name for method in takers}
            said = " and ".join(f"{help!r} to {method}" for help, method in means.items())
            apart = " ".join(f"{method.name}:{bare}=..." for method in takers)
            raise ConfigError(f"{bare} means {said}; give each its own: --method {apart}")
        known = any(bare in method.known for method in methods)
        if known and not takers and bare not in elsewhere:
            raise ConfigError(f"{bare} is given twice: every method that has it was given its own")
        for method, given in zip(methods, found):
            if method in takers or not known or bare in elsewhere:
                given[name] = texts
    return found


def _values(texts: dict[str, list[str]], owners: dict[str, type], files: dict[str, bytes]):
    """Every setting as values, by whose it is; `files` gets the content of those that name one."""
    given: dict[str, dict[str, list[Any]]] = {owner: {} for owner in owners}
    for name, typed in texts.items():
        owner, one = _owner(name, owners)
        if one.name in given[owner]:
            raise ConfigError(f"{one.name} is given twice; give its values together: --set {owner}.{one.name}=1,2")
        if len(set(typed)) < len(typed):
            raise ConfigError(f"--{one.name} {' '.join(typed)} names a value twice")
        contents = [safe_io.read_bytes(text, "give another file") for text in typed if one.file]
        given[owner][one.name] = values = list(map(safe_io.digest, contents) if one.file else map(one.parse, typed))
        files |= zip(values, contents)
    return given


def _owner(name: str, owners: dict[str, type]) -> tuple[str, settings.Setting]:
    """Whose setting this is; `world.name` and the like tell two of one name apart."""
    kind, dot, bare = name.rpartition(".")
    kind = {"world": "env", "learner": "ppo"}.get(kind, kind)
    known = {whose: settings.of(cls) for whose, cls in owners.items() if not dot or whose == kind}
    found = [(whose, own[bare]) for whose, own in known.items() if bare in own]
    if not found:  # by the name that it had in version 0.1
        own_names = {whose: legacy.new_setting(bare, getattr(cls, "name", "")) for whose, cls in owners.items()}
        found = [(whose, own[new]) for whose, own in known.items() if (new := own_names[whose]) in own]
        for _, one in found[:1]:
            _renamed({bare: one.name})
    if len(found) == 1:
        return found[0]
    if found:
        both = " and ".join(f"{whose}.{bare}" for whose, _ in found)
        raise ConfigError(f"{bare} could be {both}; write --set {found[0][0]}.{bare}=...")
    names = {whose: getattr(cls, "name", "PPO") for whose, cls in owners.items()}
    listed = "; ".join(f"{names[whose]} has {', '.join(own) or 'none'}" for whose, own in known.items())
    raise ConfigError(f"no setting is called {name!r} here; {listed or 'write method.name, env.name or ppo.name'}")


def _combinations(given: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(given, values)) for values in product(*given.values())]


@dataclass(frozen=True)
class Evaluate:
    """Judge finished runs in the detector-only world; one row an episode."""

    # Run folders, folders of them, or agents by name or file (`perepisode agents`).
    paths: Annotated[tuple[Path, ...], tyro.conf.Positional]
    # Episodes table to write or extend; episodes.parquet in the first folder, or here, if left out.
    out: Path | None = None
    num_envs: int = settings.like(EvalConfig, "num_envs")  # Parallel environments per agent.
    num_steps: int = settings.like(EvalConfig, "num_steps")  # Steps per environment: the paper's window.
    # First episodes of each environment, however long they take: the unbiased protocol.
    episodes_per_env: int = settings.like(EvalConfig, "episodes_per_env")
    seed: int = settings.like(EvalConfig, "seed")  # Seed of the evaluation environments.

    def __call__(self) -> int:
        from perepisode.report import text_summary

        out = self.evaluate()
        text_summary.judged(out)
        runs = " ".join(dict.fromkeys(str(_home(path) if path.is_dir() else path) for path in self.paths))
        print(f"wrote {out}\nnext: perepisode report {out} --runs {runs}")
        return 0

    def evaluate(self, log: Callable[[str], None] = print) -> Path:
        """Do so; the table's path."""
        _prepare_jax("evaluate")
        from perepisode.evaluation.rollout import evaluate

        if not self.paths:
            raise ConfigError("no run given; name run folders, a folder of them, or agents")
        out = self.out or _home(self.paths[0]) / "episodes.parquet"
        return evaluate(self.paths, out, self.num_envs, self.num_steps, self.episodes_per_env, self.seed, log)


@dataclass(frozen=True)
class Distill:
    """Fit a utility to the preferences of a pool of episodes (Eq. 6)."""

    # Episodes tables with the pool: unconstrained, ERM and SER agents.
    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional]
    dilemma: str = "no_killing"  # Whose violations the utility orders.
    tolerance: float = setting(0.5, low=0)  # Violations an episode may have and still count as clean.
    out: Path = Path("utility.json")  # File to write.

    def __call__(self) -> int:
        lazy.require("distill")
        from perepisode.evaluation.distill import distill

        distill(self.episodes, self.dilemma, self.out, self.tolerance)
        print(f"wrote {self.out}\nnext: perepisode train --method esr_distilled --utility {self.out}")
        return 0


@dataclass(frozen=True)
class Report:
    """Figures, tables and one HTML page from episodes tables, ours or anybody's."""

    # Episodes tables, parquet or CSV; at least method, seed, return, violations or cost.
    episodes: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path = Path("report")  # Folder to write.
    runs: tuple[Path, ...] = ()  # Folders of run folders, or agents by name or file, for training curves and λ.
    utilities: tuple[Path, ...] = ()  # Distilled utilities to draw.
    exact: tuple[Path, ...] = ()  # Exact optima (JSON) to draw beside what was learned.
    watch: tuple[Path, ...] = ()  # Folders that `perepisode watch` wrote, to link to.
    # Your own words, with numbers read from the report's tables (docs/how-to/plots-and-tables.md).
    discussion: Path | None = None
    cost_limit: float | None = setting(None, low=0)  # What an episode may have: how many are over it, and by how much.
    alpha: float = setting(0.1, above=0, high=1)  # Share of the episodes, the worst ones, that the CVaR averages.
    # What methods are called, as method=name: --names ppo_lag="PPO Lagrangian" cpo=CPO.
    names: tuple[str, ...] = ()

    def __call__(self) -> int:
        from perepisode.report import report, text_summary

        given = {name: value for name, value in vars(self).items() if name not in ("episodes", "names")}
        page = report(self.episodes, **given, names=_named(self.names), echo=text_summary.report)
        print(f"wrote {page}\nnext: open it in a browser")
        return 0


@dataclass(frozen=True)
class Watch:
    """Replay the worst episodes and write a page to watch them on."""

    # An episodes table, a run folder whose table lies beside it, or an agent by name or file.
    source: Annotated[Path, tyro.conf.Positional]
    worst: int = setting(5, low=0)  # How many of the worst episodes, each in another world.
    # Also so many episodes with one violation, those with most further chances that were let be.
    abstaining: int = setting(0, low=0)
    row: tuple[int, ...] = ()  # Rows of the table to replay instead.
    method: str | None = None  # Only episodes of this method.
    arm: str | None = None  # Only episodes of this arm, e.g. k=1.
    runs: Path | None = None  # Folder of run folders, if not the table's own folder.
    out: Path = Path("watch")  # Folder to write.

    def __call__(self) -> int:
        page = self.replay()
        print(f"wrote {page}\nnext: open it in a browser")
        return 0

    def replay(self, log: Callable[[str], None] = print) -> Path:
        """Do so; the page's path."""
        _prepare_jax("watch")
        from perepisode.replay.watch import watch

        return watch(
            self.source, self.out, self.worst, self.row, self.method, self.arm, self.runs, self.abstaining, log
        )


@dataclass(frozen=True)
class BenchCommand:
    """Measure how fast this machine trains on Craftax, and with how much memory."""

    populations: tuple[int, ...] = setting((), low=1)  # Runs side by side; 1 3 8 16, or 1 3 on a CPU, if left out.
    num_envs: int | None = setting(None, low=1)  # Worlds of each training run; 1024, or 64 on a CPU, if left out.
    hidden_size: int | None = setting(None, low=1)  # Width of the network; 512, or 128 on a CPU, if left out.
    precision: tuple[Literal["bf16", "fp32"], ...] = ("bf16",)  # Matrix products.
    profile: bool = False  # Also say what part of an update goes to acting, recurrence, products and optimizer.
    out: Path = Path("bench.json")  # File to write.

    def __call__(self) -> int:
        if not self.precision:
            raise ConfigError("there is nothing to measure; give --precision bf16, fp32 or both")
        _prepare_jax("bench")
        from perepisode.study.bench import bench, here

        populations, config = here()
        config = replace(
            config, num_envs=self.num_envs or config.num_envs, hidden_size=self.hidden_size or config.hidden_size
        )
        bench(self.out, self.populations or populations, config, self.precision, self.profile)
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
        command(study.MatrixCommand, "matrix"),
        command(study.StudyCommand, "study"),
        command(Report, "report"),
        command(Watch, "watch"),
        command(BenchCommand, "bench"),
        command(study.DemoCommand, "demo"),
        command(Version, "version"),
    )
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union


def main(arguments: list[str] | None = None) -> None:
    """Entry point; wrong input is one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    console.write_anything()
    try:
        command = parsed(arguments)
    except ConfigError as error:
        _say(error)
        sys.exit(EXIT_USAGE)
    except BrokenPipeError:
        sys.exit(_unread())
    sys.exit(run(command))


def parsed(arguments: list[str]) -> Any:
    """The command that these words ask for; tyro's box of several lines becomes one."""
    current = {option.name for group in (METHOD_OPTIONS, ENV_OPTIONS, PPO_OPTIONS) for option in fields(group)}
    arguments, renamed = legacy.upgrade_options(arguments, current)
    _renamed(renamed)
    about, said = (__doc__ or "perepisode").splitlines()[0], io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            command = tyro.cli(_commands(), args=arguments, prog="perepisode", description=about)
    except SystemExit as ended:
        if ended.code != EXIT_USAGE:
            raise
        raise ConfigError(_unboxed(said.getvalue())) from None
    # an option of several values may have none, which nobody means who writes its name
    empty = {"--" + name.replace("_", "-") for name, value in _options(command) if value == ()}
    for word, following in zip(arguments, [*arguments[1:], "--"]):
        if word.replace("_", "-") in empty and following.startswith("--"):
            raise ConfigError(f"{word} is given no value; see `perepisode --help`")
    return command


def _options(command: Any) -> Iterable[tuple[str, Any]]:
    """Every option of a command with its value, those of its groups too."""
    for one in fields(command):
        value = getattr(command, one.name)
        yield from _options(value) if is_dataclass(value) else [(one.name, value)]


def _unboxed(box: str) -> str:
    """What is wrong, what could have been meant, and where help is."""
    inside = " ".join(re.sub("[│╭╮╰╯\n]|\x1b.*?m", " ", box).split())
    parts = [part.strip() for part in re.split("─+|-{3,}", inside)]  # dashes where a terminal knows ASCII alone
    wrong = next((part for part in parts if ":" in part or "xpected" in part), "the words cannot be read").rstrip(".")
    wrong = re.sub(r"invalid literal for int\(\) with base 10: ('.*?')", r"\1 is not a whole number", wrong)
    wrong = re.sub(r"Could not find valid parse for arguments: \[(.*)\]", r"\1 cannot be read", wrong)
    wrong = re.sub(r"could not convert string to float: ('.*?')", r"\1 is not a number", wrong)
    wrong = re.sub(r"no type matching .*?\['(.*?)'\]\. Got errors: .*(is no (whole )?number)", r"'\1' \2", wrong)
    wrong = re.sub(r"Missing value for argument '(.*?)'.*", r"\1 is given no value", wrong)
    wrong = wrong.removeprefix("Error parsing ")
    meant = re.search(r"Perhaps you meant:? (--?[\w-]+)", inside)
    hints = [f"perhaps you meant {meant[1]}"] if meant else [part for part in parts if part.startswith("Available")]
    return "; ".join([wrong, *hints, "see `perepisode --help`"])


def run(command) -> int:
    try:
        settings.check_fields(command)
        plugins.load_plugins()
        return command()
    except ValueError as error:  # ConfigError, and the tables' own refusals
        if not isinstance(error, ConfigError) and os.environ.get("PEREPISODE_TRACEBACK"):
            raise
        _say(error)
        return EXIT_USAGE
    except KeyboardInterrupt:
        _say("stopped; what was checkpointed is kept")
        return 130
    except BrokenPipeError:
        return _unread()
    except Exception as error:
        return _told(error)


def _unread() -> int:
    """Whoever read our output has enough: what is still to be flushed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _told(error: Exception) -> int:
    """Exit codes of the two ends that a supervisor must tell apart; anything else is a bug and is shown whole."""
    if type(error).__name__ == "Interrupted":
        _say(f"{error}; start the same command again to go on")
        return EXIT_RESUME
    if type(error).__name__ == "DiskError" or getattr(error, "errno", None) in (ENOSPC, EDQUOT, EIO):
        _say(error)
        return EXIT_DISK
    if isinstance(error, ModuleNotFoundError) and (missing := (error.name or "").split(".")[0]) in lazy.TRAINING:
        _say(lazy.missing_message("this", [missing]))
        return EXIT_USAGE
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        _say("there is not enough memory for this; use fewer worlds, a smaller network or fewer runs at a time")
        return EXIT_USAGE
    if isinstance(error, OSError) and error.filename is not None:  # a path that cannot be used as it was given
        _say(f"{error.filename}: {error.strerror}; give another path")
        return EXIT_USAGE
    raise error


def _say(what: object) -> None:
    print(f"perepisode: {safe_io.one_line(what)}", file=sys.stderr)


def _renamed(names: Mapping[str, str]) -> None:
    """Names of version 0.1 still work."""
    for old, new in names.items():
        print(f"perepisode: {old} is now called {new}", file=sys.stderr)


def silently(said: str) -> None:
    """In place of print."""


def _prepare_jax(command: str) -> None:
    lazy.require(command)
    from perepisode.compilation import use_cache

    use_cache()


def _named(names: Iterable[str]) -> dict[str, str]:
    """method=name, as words of the command line."""
    pairs = [text.partition("=") for text in names]
    if wrong := [text for text, (_, equals, name) in zip(names, pairs) if not (equals and name.strip())]:
        raise ConfigError(f"--names {wrong[0]!r} gives no name; write method=name")
    return {method: name.strip() for method, _, name in pairs}


def _home(path: Path) -> Path:
    """The folder of run folders that `path` is, or lies in; for an agent's name the current one."""
    if not path.is_dir():
        return Path()
    return path.parent if (path / "run.json").exists() else path


if __name__ == "__main__":
    main()
