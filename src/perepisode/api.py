"""The commands from Python: the same words as options, Python's values, and the paths of what was written.

    runs = perepisode.train("temptation", "esr", budget=[1, 2], steps=2e5, seeds=1)
    page = perepisode.report(perepisode.evaluate(runs), runs=runs)

What a command refuses is refused here with the same sentence, as `perepisode.config.ConfigError`, a ValueError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perepisode import environments, plugins, settings
from perepisode.cli import Evaluate, TrainOptions, Watch, silent
from perepisode.config import PAPER_SEEDS, EvalConfig
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.base import Environment
from perepisode.methods import METHODS, Objective


def make(env: str | type[Environment], **options: Any) -> Environment:
    """A world, given by name, as `file.py:Class` or `module:Class`, or as the class; options have their defaults."""
    plugins.load_plugins()
    return environments.make(plugins.resolve("env", env, ENVIRONMENTS), **options)


def train(
    env: str | type[Environment] = "temptation",
    method: str | type[Objective] | Sequence[str | type[Objective]] = "esr",
    *,
    dilemma: str | None = None,
    gamma: float | Iterable[float] = 0.99,
    seeds: int | Iterable[int] = PAPER_SEEDS,
    total_timesteps: float | None = None,
    detector: str = "exact",
    cost_per: str = "step",
    out: str | Path = "out",
    checkpoint_seconds: float = 600.0,
    chunk: int = 10,
    quiet: bool = False,
    **given: Any,
) -> list[Path]:
    """Train agents and return their run folders.

    A world or a method is given by name, as `file.py:Class` or `module:Class`, or as the class itself.  Every other
    word is a setting of the method, the world or the learner: `budget=1`, or `budget=[1, 2]` for one run each.
    """
    plugins.load_plugins()
    asked = TrainOptions(
        env=plugins.resolve("env", env, ENVIRONMENTS),
        dilemma=dilemma,
        method=tuple(_word(one) for one in _several(method)),
        gamma=_several(gamma),
        seeds=_several(seeds),
        total_timesteps=_plain(total_timesteps),
        detector=detector,
        cost_per=cost_per,
        checkpoint_seconds=checkpoint_seconds,
        chunk=chunk,
        out=Path(out),
    )
    settings.check_fields(asked)
    return [one.path for one in asked.train({name: list(map(str, _several(x))) for name, x in given.items()}, quiet)]


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
    """Judge run folders, folders of them, or agents by name or file; the path of the episodes table."""
    plugins.load_plugins()
    table = None if out is None else Path(out)
    asked = Evaluate(tuple(map(Path, _several(paths))), table, num_envs, num_steps, episodes_per_env, seed)
    settings.check_fields(asked)
    return asked.evaluate(silent if quiet else print)


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
    """Replay the worst episodes of a table, a run folder or an agent; the path of the page to watch them on."""
    plugins.load_plugins()
    home = None if runs is None else Path(runs)
    asked = Watch(Path(source), worst, abstaining, _several(row), method, arm, home, Path(out))
    settings.check_fields(asked)
    return asked.replay(silent if quiet else print)


def _word(method: str | type[Objective]) -> str:
    return method if isinstance(method, str) else plugins.resolve("method", method, METHODS)


def _several(given: Any) -> tuple[Any, ...]:
    """One value, or several."""
    if isinstance(given, str | Path | type) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(map(_plain, given))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if hasattr(value, "item") else value
