"""Runs and their folders.  Files are written atomically, so a reader never sees a partial one.

<out>/<name of the run>/
    run.json             configuration, id, versions of the code and its libraries, device
    metrics.jsonl        one flushed line per policy update
    events.out.tfevents… its copy for TensorBoard, if the run is tracked; .wandb.json says what Weights & Biases has
    file.<setting>       content of a file that a setting names, if any
    policy.safetensors   weights of the trained agent; policy.json describes them
    done | failed        written last: the run is complete, or diverged (with the reason)
<out>/populations/<id>/  runs that train together, and their checkpoints until all are done
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from perepisode import __version__, algorithms, legacy, plugins, safe_io, settings
from perepisode.algorithms import AGENTS
from perepisode.config import MAX_SEED, MAX_STEPS, ConfigError, PPOConfig, canonical, check_choice
from perepisode.environments import ENVIRONMENTS
from perepisode.environments.action_space import Box
from perepisode.methods import METHODS, Objective
from perepisode.settings import setting

FORMAT = 2  # of run folders; format 1 is upgraded when read (legacy.py)
MAX_POLICY_BYTES = 2**33


@dataclass(frozen=True)
class Run:
    """The configuration of one agent's training: everything that determines its result, and nothing else."""

    env: str = "craftax"
    dilemma: str = "no_killing"
    method: str = "unconstrained"
    method_settings: Mapping[str, Any] = field(default_factory=dict)  # e.g. {"budget": 1}
    seed: int = setting(42, low=0, high=MAX_SEED)
    gamma: float = setting(0.99, above=0, high=1)
    total_timesteps: int = setting(1_000_000_000, low=1, high=MAX_STEPS)
    detector: str = "exact"  # violation count used for training: exact, or paper (the paper's state difference)
    cost_per: str = "step"  # cost of a violating step: 1, as in the paper, or 1 per violation (event)
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    agent: str = algorithms.DEFAULT
    config: Any = field(default_factory=PPOConfig)  # hyperparameters of the agent, of its `config_type`

    @property
    def id(self) -> str:
        """Twelve hex digits of the hash of the canonical configuration: the same on every machine."""
        return hashlib.sha256(canonical(legacy.identity(self.to_json())).encode()).hexdigest()[:12]

    @property
    def arm(self) -> str:
        """Label within the method, as in the paper: `w=0.1`, `d=0.5`, `k=1`, `absolute`."""
        return METHODS[self.method].arm(self.method_settings)

    @property
    def value(self) -> float:
        """The value of the method's swept setting, NaN if it has none."""
        return METHODS[self.method].value(self.method_settings)

    @property
    def updates(self) -> int:
        return self.total_timesteps // self.config.steps_per_update

    @property
    def structure(self) -> str:
        """What runs in one program must share: environment, sizes, length and reward streams, but not the method."""
        plain, streams = self.to_json(), METHODS[self.method].streams
        shared = [plain["env"], plain["env_settings"], self.agent, plain[self.section], self.total_timesteps]
        return canonical(shared + ([str(streams)] if streams.several else []))

    @property
    def objective_type(self) -> tuple[str, ...]:
        """What determines the objective's computation: the method and its static settings."""
        declared = settings.of(METHODS[self.method]).values()
        return self.method, *(str(self.method_settings.get(s.name, s.default)) for s in declared if s.static)

    @property
    def files(self) -> dict[str, str]:
        """The settings that name a file, each with the digest of the file's content."""
        return {name: self.method_settings[name] for name, s in settings.of(METHODS[self.method]).items() if s.file}

    def files_from(self, source: Any) -> dict[str, bytes]:
        """The contents of these files by digest, as stored in a run folder or agent file."""
        contents = {digest: source.stored_file(name) for name, digest in self.files.items()}
        return {digest: content for digest, content in contents.items() if content is not None}

    def objective(self, files: Mapping[str, bytes] | None = None) -> Objective:
        """The objective to maximise; `files` are the contents by digest of the files that its settings name."""
        return METHODS[self.method].build(files, **self.method_settings)

    def to_json(self) -> dict[str, Any]:
        """Plain values with every default written out, so that a changed default is a different run."""
        plain = asdict(replace(self, method_settings=dict(self.method_settings), env_settings=dict(self.env_settings)))
        plain["method_settings"] = settings.complete(METHODS[self.method], self.method_settings)
        plain["env_settings"] = settings.complete(ENVIRONMENTS[self.env], self.env_settings)
        plain[self.section] = settings.complete(AGENTS[self.agent].config_type, plain.pop("config"))
        env, agent = ENVIRONMENTS[self.env], plain.pop("agent")
        also = {"agent": agent if agent != algorithms.DEFAULT else None}
        also |= {"version": env.version if env.version != 1 else None, "source": self.source}
        return plain | {name: value for name, value in also.items() if value}

    @property
    def source(self) -> dict[str, str]:
        """Digests of the source of its environment, method and agent if they are plugins (plugins.py)."""
        return plugins.sources(ENVIRONMENTS[self.env], METHODS[self.method], AGENTS[self.agent])

    @property
    def section(self) -> str:
        """The name of the agent's hyperparameters in `to_json`."""
        return AGENTS[self.agent].config_type.section

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Run:
        check_choice("agent", agent := plain.get("agent", algorithms.DEFAULT), AGENTS, plugins.PLUGIN_HINT)
        config_type = AGENTS[agent].config_type
        known = {f.name for f in fields(cls)} - {"config"} | {config_type.section}
        unknown = set(plain) - known - {"id", "arm", "version", "source"}
        if unknown:
            raise ConfigError(f"run has unknown entries {sorted(unknown)}; this version knows {sorted(known)}")
        values = {k: v for k, v in plain.items() if k in known}
        source = dict(plain.get("source", {}))
        check_choice("env", values["env"], ENVIRONMENTS, plugins.missing_class_hint(source))
        check_choice("method", values["method"], METHODS, plugins.missing_class_hint(source))
        config = config_type(**values.pop(config_type.section))
        run = cls(**values, config=config)
        plugins.check_sources(source, run.source)
        return run

    def checked(self) -> Run:
        """This run, or ConfigError with the value and the remedy."""
        check_choice("env", self.env, ENVIRONMENTS)
        check_choice("dilemma", self.dilemma, ENVIRONMENTS[self.env].dilemmas)
        check_choice("method", self.method, METHODS)
        check_choice("detector", self.detector, ("exact", "paper"))
        check_choice("cost_per", self.cost_per, ("step", "event"))
        check_choice("agent", self.agent, AGENTS)
        if isinstance(ENVIRONMENTS[self.env].actions, Box) and not AGENTS[self.agent].box_actions:
            able = ", ".join(name for name, agent in AGENTS.items() if agent.box_actions)
            raise ConfigError(
                f"agent {self.agent} needs discrete actions, and those of {self.env} are continuous; choose from {able}"
            )
        if METHODS[self.method].streams.several and not AGENTS[self.agent].several_streams:
            able = ", ".join(name for name, agent in AGENTS.items() if agent.several_streams)
            raise ConfigError(
                f"{self.method} learns a value of each of {', '.join(METHODS[self.method].streams.names)}, and "
                f"{self.agent} has one value; choose from {able}"
            )
        settings.check(METHODS[self.method], self.method_settings, self.method)
        settings.check(ENVIRONMENTS[self.env], self.env_settings, self.env)
        ENVIRONMENTS[self.env](**self.env_settings)  # raises if settings are incompatible
        settings.check_fields(self)
        if unread := [name for name, digest in self.source.items() if not digest]:
            raise ConfigError(
                f"{self.env} or {self.method} is defined in {unread[0]}, whose source cannot be read; move it into a "
                "file, because a run records the source that it was trained with"
            )
        if self.total_timesteps < self.config.steps_per_update:
            envs, steps = self.config.num_envs, self.config.num_steps
            raise ConfigError(
                f"total_timesteps={self.total_timesteps} is less than one rollout of {envs} environments x {steps} "
                f"steps; use at least {self.config.steps_per_update}"
            )
        return self


def flat_settings(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings beyond the columns of an episodes table, by name; `env.x` if several sections have an x."""
    agent = AGENTS.get(plain.get("agent", algorithms.DEFAULT))
    section = agent.config_type.section if agent else "ppo"  # a plugin that is not loaded: its settings are not known
    parts = {
        "method": plain.get("method_settings", {}),
        "env": plain.get("env_settings", {}),
        section: plain.get(section, {}),
    }
    counts = Counter(name for part in parts.values() for name in part)
    flat = {
        name if counts[name] == 1 else f"{owner}.{name}": value
        for owner, part in parts.items()
        for name, value in part.items()
    }
    flat |= plain.get("source", {})
    return flat | {name: plain[name] for name in ("agent", "cost_per", "total_timesteps", "version") if name in plain}


@contextlib.contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Write under a temporary name, sync and rename: `path` is either the old file or the complete new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write the content so that a reader sees the old file or the complete new one."""
    with open_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


class AlreadyRunning(ConfigError):
    """Another process holds the lock."""


@contextlib.contextmanager
def file_lock(path: Path, what: str, remedy: str = "look at it with `perepisode study status`") -> Iterator[None]:
    """An exclusive lock, released when its process exits, even if killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise AlreadyRunning(f"{what} is being run by {holder}; {remedy}") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def versions() -> dict[str, str]:
    """Versions of the package, Python and the libraries that results depend on."""
    installed = {"perepisode": __version__, "python": platform.python_version()}
    for name in ("jax", "craftax"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


@functools.cache
def made_with() -> dict[str, str]:
    """Versions, with the commit if the package runs from a clone of its repository."""
    import subprocess

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    found = versions()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        git("ls-files", "--error-unmatch", Path(__file__).name)  # installed into another project's repository?
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        found["commit"] = git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed else "")
    return found


def folder_name(run: Run) -> str:
    """A readable name, made unique by the id at its end."""
    arm = run.arm.replace(", ", ",").replace(" ", "-")  # needs no quoting in a shell
    parts = [run.dilemma, run.method, arm, "" if run.gamma != 1 else "gamma1", f"s{run.seed}", run.id]
    return ".".join(part for part in parts if part)


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @classmethod
    def of(cls, out: Path, run: Run) -> RunFolder:
        """The folder of this run below `out`: an existing one with its id, or the one to create."""
        default = Path(out) / folder_name(run)
        existing = () if default.exists() else Path(out).glob(f"*.{run.id}")  # labels may have changed, ids do not
        return cls(next(iter(sorted(existing)), default))

    @property
    def done(self) -> bool:
        return (self.path / "done").is_file()

    @property
    def failed(self) -> str | None:
        """Why the run diverged, or None."""
        path = self._file("failed")
        return safe_io.printable(safe_io.read_text(path, "delete it").strip()) if path.is_file() else None

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def _file(self, name: str) -> Path:
        """A file in this folder; a link to a file elsewhere is refused, because contents are shown to others."""
        path = self.path / name
        if path.is_symlink() and path.resolve().parent != self.path.resolve():
            raise ConfigError(f"{path} is a link out of its folder; replace it with the file itself")
        return path

    def open(self, run: Run, device: str) -> None:
        """Create the folder, or check that it belongs to this run."""
        if (self.path / "run.json").exists():
            self.read()
            return
        content = {"format": FORMAT, "id": run.id, "arm": run.arm, **run.to_json()}
        content |= {"versions": versions(), "device": device}
        write_atomically(self.path / "run.json", json.dumps(content, indent=1))

    def plain(self) -> dict[str, Any]:
        """run.json as plain values in current names, which needs no class that it names and checks no id."""
        plain = safe_io.read_json(self._file("run.json"), "give a complete run folder")
        return legacy.upgrade_run(plain) if plain.get("format") == 1 else plain

    def read(self) -> Run:
        """The run of this folder; ConfigError if it is not a run folder or has another format."""
        path = self._file("run.json")
        if not path.exists():
            raise ConfigError(f"{self.path} is not a run folder: it has no run.json")
        plain = safe_io.read_json(path, "delete the folder and train the run again")
        if plain.get("format") not in (1, FORMAT):
            raise ConfigError(
                f"{path} has format {plain.get('format')!r}, this version reads 1 and {FORMAT}; use another --out"
            )
        return parse_run(legacy.upgrade_run(plain) if plain["format"] == 1 else plain, path, "use another --out folder")

    def stored_file(self, name: str) -> bytes | None:
        """The content of the file that a setting of the run names; None if it is not stored."""
        path = self._file(f"file.{name}")
        if name == "utility" and not path.exists():
            path = self._file("utility.json")  # its name in early versions
        return safe_io.read_bytes(path, "train the run again") if path.exists() else None

    def store_files(self, files: Mapping[str, bytes]) -> None:
        """Store the files that settings name: run.json has only their digests, evaluation needs their contents."""
        for name in files:
            if self.stored_file(name) is None:
                write_atomically(self.path / f"file.{name}", files[name])

    def load(self) -> tuple[Run, dict[str, np.ndarray]]:
        """A finished run and its weights; ConfigError if it is unfinished or damaged."""
        from safetensors.numpy import load

        run = self.read()
        if not self.done:
            unfinished = "is not finished; run the command that trains it again, and it resumes"
            raise ConfigError(f"{self.path} {f'diverged: {self.failed}' if self.failed else unfinished}")
        path, remedy = self._file("policy.safetensors"), "train the run again"
        content = safe_io.read_bytes(path, remedy, MAX_POLICY_BYTES)
        if hashlib.sha256(content).hexdigest() != safe_io.read_json(path.with_suffix(".json"), remedy).get("sha256"):
            raise ConfigError(f"{path} is damaged: its sha256 is not the one in policy.json; {remedy}")
        try:
            return run, load(content)
        except Exception as error:  # safetensors and NumPy raise many types
            raise ConfigError(f"{path} is not a policy ({safe_io.first_line(error)}); {remedy}") from None

    def truncate_metrics(self, updates: int) -> None:
        """Drop rows after `updates`: those after the checkpoint will be logged again."""
        if not self.metrics.exists():
            return
        kept = []
        for line in safe_io.read_text(self.metrics, "delete the folder and train the run again").splitlines():
            row = safe_io.parse_row(line)
            if row is None:
                break  # truncated by a kill, hence after the checkpoint
            if safe_io.as_float(row.get("update")) <= updates:
                kept.append(line)
        write_atomically(self.metrics, "".join(line + "\n" for line in kept))

    def append_metrics(self, rows: list[dict[str, Any]]) -> None:
        with open(self.metrics, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())

    def finish(self, run: Run, digest: str) -> None:
        """Mark the run done after its policy is saved."""
        content = {"updates": run.updates, "steps": run.updates * run.config.steps_per_update, "policy": digest}
        write_atomically(self.path / "done", json.dumps(content))

    def fail(self, reason: str) -> None:
        write_atomically(self.path / "failed", reason + "\n")


def parse_run(plain: dict[str, Any], path: Path, remedy: str) -> Run:
    """The run that `plain`, read from `path`, describes; ConfigError if its id does not match its configuration."""
    values = {key: value for key, value in plain.items() if key not in ("format", "versions", "device")}
    try:
        run, recorded_id = Run.from_json(values).checked(), plain.get("id")
        run_id = run.id
    except ConfigError as error:
        raise type(error)(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{path} describes no run that this version knows ({error!r}); {remedy}") from None
    if run_id != recorded_id:
        raise ConfigError(
            f"{path} has id {recorded_id!r} but its configuration gives {run_id!r}: it was written by another version "
            f"or edited; {remedy}"
        )
    return run


def save_policy(folder: Path, run: Run, weights: dict[str, np.ndarray]) -> str:
    """Write policy.safetensors and policy.json; returns the sha256 of the weights."""
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(value) for name, value in weights.items()})
    digest = hashlib.sha256(content).hexdigest()
    write_atomically(folder / "policy.safetensors", content)
    about = {"format": FORMAT, "run": run.id, "sha256": digest, "method": run.method, "arm": run.arm}
    write_atomically(folder / "policy.json", json.dumps(about, indent=1))
    return digest


def find_run_folders(out: Path) -> list[RunFolder]:
    """Every run folder directly below `out`, or `out` itself if it is one."""
    out = Path(out)
    if (out / "run.json").exists():
        return [RunFolder(out)]
    if not out.is_dir():
        raise ConfigError(f"{out} does not exist; give a run folder or a folder of runs")
    return [RunFolder(path.parent) for path in sorted(out.glob("*/run.json"))]
