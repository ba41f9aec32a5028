"""Commands as Python functions: the options are keyword arguments, and each returns the paths it wrote.

    runs = perepisode.train("temptation", "esr", budget=[1, 2], total_timesteps=2e5, seeds=1)
    report = perepisode.report(perepisode.evaluate(runs), runs=runs)

`report` is in `perepisode.report`, which needs no JAX.  Invalid input raises a ValueError with the message of the
command line: `perepisode.config.ConfigError`, except for tables that `report` cannot read.

The signatures repeat the options of the commands in cli.py, so that editors and `help()` show them with Python's types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perepisode import environments, plugins
from perepisode.algorithms import AGENTS, LearningAgent
from perepisode.cli import Evaluate, TrainOptions, Watch, silent
from perepisode.config import PAPER_SEEDS, EvalConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.base import Environment
from perepisode.methods import METHODS, Objective
from perepisode.settings import check_fields


def make(env: str | type[Environment], **options: Any) -> Environment:
    """An environment by name, as `file.py:Class` or `module:Class`, or as the class; `options` are its settings."""
    plugins.load_plugins()
    return environments.make(plugins.resolve("env", env, ENVIRONMENTS), **options)


def train(
    env: str | type[Environment] = "temptation",
    method: str | type[Objective] | Sequence[str | type[Objective]] = "esr",
    *,
    dilemma: str | None = None,
    agent: str | type[LearningAgent] | None = None,
    gamma: float | Iterable[float] = 0.99,
    seeds: int | Iterable[int] = PAPER_SEEDS,
    total_timesteps: float | None = None,
    detector: str = "exact",
    cost_per: str = "step",
    out: str | Path = "out",
    checkpoint_seconds: float = 600.0,
    chunk: int = 10,
    track: str | Iterable[str] = (),
    quiet: bool = False,
    **settings: Any,
) -> list[Path]:
    """Train agents and return their run folders.

    Give an environment, a method or an agent by name, as `file.py:Class` or `module:Class`, or as the class.  Every
    further keyword is a setting of one of them: `budget=1`, or `budget=[1, 2]` for one run each.
    """
    plugins.load_plugins()
    options = TrainOptions(
        env=plugins.resolve("env", env, ENVIRONMENTS),
        dilemma=dilemma,
        method=tuple(map(_method_name, _as_tuple(method))),
        agent=agent and plugins.resolve("agent", agent, AGENTS),
        gamma=_as_tuple(gamma),
        seeds=_as_tuple(seeds),
        total_timesteps=_as_python(total_timesteps),
        detector=detector,
        cost_per=cost_per,
        checkpoint_seconds=checkpoint_seconds,
        chunk=chunk,
        out=Path(out),
        track=_as_tuple(track),
    )
    check_fields(options)
    given = {name: list(map(str, _as_tuple(values))) for name, values in settings.items()}
    return [folder.path for folder in options.train(given, quiet)]


def evaluate(
    paths: str | Path | Iterable[str | Path],
    out: str | Path | None = None,
    *,
    num_envs: int = EvalConfig.num_envs,
    num_steps: int = EvalConfig.num_steps,
    episodes_per_env: int = EvalConfig.episodes_per_env,
    seed: int = EvalConfig.seed,
    quiet: bool = False,
) -> Path:
    """Evaluate run folders, folders of them, or agents by name or file; returns the path of the episodes table."""
    plugins.load_plugins()
    table = None if out is None else Path(out)
    command = Evaluate(tuple(map(Path, _as_tuple(paths))), table, num_envs, num_steps, episodes_per_env, seed)
    check_fields(command)
    return command.evaluate(silent if quiet else print)


def watch(
    source: str | Path,
    out: str | Path = "watch",
    *,
    worst: int = 5,
    abstaining: int = 0,
    row: int | Iterable[int] = (),
    method: str | None = None,
    arm: str | None = None,
    runs: str | Path | None = None,
    quiet: bool = False,
) -> Path:
    """Replay the worst episodes of a table, a run folder or an agent; returns the path of the page."""
    plugins.load_plugins()
    runs_folder = None if runs is None else Path(runs)
    command = Watch(Path(source), worst, abstaining, _as_tuple(row), method, arm, runs_folder, Path(out))
    check_fields(command)
    return command.replay(silent if quiet else print)


def _method_name(method: str | type[Objective]) -> str:
    return method if isinstance(method, str) else plugins.resolve("method", method, METHODS)


def _as_tuple(given: Any) -> tuple[Any, ...]:
    """One value or several as a tuple."""
    if isinstance(given, str | Path | type) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(map(_as_python, given))


def _as_python(value: Any) -> Any:
    """A NumPy or JAX scalar as a Python number."""
    return value.item() if hasattr(value, "item") else value
