"""The host loop: jitted chunks of updates, and between them metrics, checks, checkpoints, signals, progress."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from perepisode import environments, safe_io
from perepisode import metrics as metric  # `metrics` are what an update returns
from perepisode.config import ConfigError, canonical
from perepisode.environments import check_env
from perepisode.runs import Run, RunFolder, file_lock, save_policy, write_atomically
from perepisode.training import network, population, ppo
from perepisode.training.checkpoints import Checkpoints
from perepisode.training.progress import Progress

OF_COUNTS = {  # of the episodes that ended in an update
    "violations": metric.mean,
    "violations_std": metric.std,
    "p_any": metric.p_any,
    "p_over_1": metric.over_one,
    "cvar": metric.cvar,
}


class Interrupted(Exception):
    """A signal asked to stop: everything is checkpointed, starting the same command again goes on."""


class DiskError(Exception):
    """A write failed; what was written before is whole."""


@dataclass
class TrainingOptions:
    """How to train, none of which changes a result."""

    out: Path
    chunk: int = 10  # updates per jitted call: between two calls the host can write, check and stop
    checkpoint_seconds: float = 600.0
    progress: Progress = field(default_factory=Progress)
    files: Mapping[str, bytes] = field(default_factory=dict)  # content of those that settings name, by that name
    log: Callable[[str], None] = print
    devices: int = 1  # devices of this machine that share the population, by runs
    pending_signal: Callable[[], str | None] = lambda: None  # the signal that came before the training loop could heed it


def train(runs: Sequence[Run], options: TrainingOptions) -> list[RunFolder]:
    """Train these runs as one population; resumes where it was stopped, returns at once when all is done."""
    runs = population.order(check(runs))
    folders = [RunFolder.of(options.out, run) for run in runs]
    files = {**options.files, **_kept(runs, folders)}
    for run in runs:
        run.objective(files)  # which refuses a file that is not there, or is something else, before anything is written
    with disk_errors(options.out):
        for run, folder in zip(runs, folders):
            folder.open(run, _device())
            folder.store_files({name: files[digest] for name, digest in run.files.items()})
        if all(folder.done or folder.failed for folder in folders):
            return folders
        home = Path(options.out) / "populations" / population_id(runs)
        with file_lock(home / "lock", str(home), "wait for it"):
            _train(runs, folders, files, home, options)
    return folders


def check(runs: Sequence[Run]) -> Sequence[Run]:
    """Refuse runs that cannot share one program, before anything compiles."""
    if not runs:
        raise ConfigError("there is no run to train")
    first = runs[0]
    for run in runs:
        run.checked()
        for name in ("env", "env_settings", "ppo", "total_timesteps"):
            if getattr(run, name) != getattr(first, name):
                raise ConfigError(
                    f"runs of one population must share {name}; {getattr(run, name)} differs from "
                    f"{getattr(first, name)}: train them by two commands"
                )
    if len({run.id for run in runs}) < len(runs):
        raise ConfigError("the same run was given twice")
    check_env.check(environments.make(first.env, **first.env_settings))
    return runs


def population_id(runs: Sequence[Run]) -> str:
    return hashlib.sha256(canonical([run.id for run in runs]).encode()).hexdigest()[:12]


def _kept(runs: Sequence[Run], folders: Sequence[RunFolder]) -> dict[str, bytes]:
    """What earlier starts put into these folders."""
    return {k: v for run, folder in zip(runs, folders) if run.files for k, v in run.files_from(folder).items()}


def _train(
    runs: tuple[Run, ...], folders: list[RunFolder], files: Mapping[str, bytes], home: Path, options: TrainingOptions
) -> None:
    chunk = _settle_chunk(runs, home, options.chunk)
    program, members = prepare(runs, files, options.devices)
    params = ppo.initial_params(program, members, [run.seed for run in runs])
    begin = jax.jit(partial(ppo.init, program))
    checkpoints = Checkpoints(home / "checkpoints")
    state = checkpoints.restore(jax.eval_shape(begin, members, params), options.log)
    done = 0 if state is None else int(state.update)
    for folder in folders:
        folder.truncate_metrics(done)
    options.progress.start(runs, done)
    try:
        state = begin(members, params) if state is None else jax.device_put(state)
        members, state = spread((members, state), len(runs), options.devices)
        state = _updates(runs, folders, checkpoints, chunk, options, program, members, state)
    finally:
        options.progress.stop()
        checkpoints.close()
    _finish(runs, folders, program.env, members.accrued_obs_sizes, state.params)
    checkpoints.remove()


def _finish(runs, folders: list[RunFolder], env, told: Sequence[int], params: network.Params) -> None:
    """Every policy first, then every mark: a kill in between leaves no run done while its siblings train again."""
    exported = []
    for index, (run, folder, extra) in enumerate(zip(runs, folders, told)):
        if not folder.failed:
            own = network.narrow(jax.tree.map(lambda x, i=index: x[i], params), env, extra)
            exported.append((folder, run, save_policy(folder.path, run, weights(own))))
    for folder, run, digest in exported:
        folder.finish(run, digest)


def _updates(runs, folders, checkpoints: Checkpoints, chunk: int, options: TrainingOptions, program, members, state):
    """All updates that are left, chunk by chunk; Interrupted, after a checkpoint, when a signal asks for it."""
    done = int(state.update)
    with Signals(options.pending_signal()) as stop:
        run_chunk.lower(program, chunk, members, state, chunk).compile()  # apart, so that its time is known
        options.progress.compiled()
        last_save = time.monotonic()
        while done < program.updates:
            length = min(chunk, program.updates - done)
            began = time.monotonic()
            state, metrics = run_chunk(program, chunk, members, state, length)
            metrics = {name: value[:length] for name, value in jax.device_get(metrics).items()}
            rows = metric_rows(runs, done, metrics, time.monotonic() - began)
            done += length
            for folder, own in zip(folders, rows):
                folder.append_metrics(own)
            _mark_diverged(folders, metrics["alive"], done)
            options.progress.update(done, rows)
            checkpoints.raise_write_error()
            if done == program.updates:  # nothing is left that a checkpoint could save
                break
            due = time.monotonic() - last_save >= options.checkpoint_seconds
            if due or stop.asked:
                checkpoints.save(done, state)
                last_save = time.monotonic()
            if stop.asked:
                checkpoints.wait()
                raise Interrupted(f"stopped by {stop.asked} after {done} of {program.updates} updates")
    return state


def spread(tree: Any, runs: int, devices: int) -> Any:
    """The same values with the run axis sharded over `devices`; what has no run axis is copied to each of them."""
    if devices == 1:
        return tree
    if runs % devices or devices > jax.local_device_count():
        raise ConfigError(
            f"{runs} runs do not divide over {devices} of the {jax.local_device_count()} devices here; "
            "use as many runs as a multiple of the devices"
        )
    mesh = ppo.mesh(devices)

    def place(leaf):
        by_run = PartitionSpec("runs") if leaf.ndim and leaf.shape[0] == runs else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, by_run))

    return jax.tree.map(place, tree)


def prepare(runs: Sequence[Run], files: Mapping[str, bytes] | None = None, devices: int = 1):
    """The compiled-in part and the traced part of a population of runs."""
    first = runs[0]
    env = environments.make(first.env, **first.env_settings)
    reset_pool_size = min(first.ppo.num_envs, 256)
    program = ppo.Program(env, first.ppo, first.updates, reset_pool_size, devices)
    return program, population.gather(runs, files)


# On a GPU kernels that do not depend on each other run side by side, and loops start on the device itself: at a few
# runs most kernels are too small to fill it (docs/development/performance.md).  Other devices do not read these.
SIDE_BY_SIDE = {
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL",
}


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3, compiler_options=SIDE_BY_SIDE)
def run_chunk(program: ppo.Program, chunk: int, members: population.Population, state: ppo.TrainState, length):
    """`length` <= `chunk` updates by one program, whatever the length; metrics are kept over this chunk only."""
    shapes = jax.eval_shape(partial(ppo.update, program), members, state)[1]
    metrics = jax.tree.map(lambda x: jnp.zeros((chunk, *x.shape), x.dtype), shapes)

    def body(index, carry):
        state, metrics = carry
        state, seen = ppo.update(program, members, state)
        return state, jax.tree.map(lambda all, one: all.at[index].set(one), metrics, seen)

    return jax.lax.fori_loop(0, length, body, (state, metrics))


def weights(params: network.Params) -> dict[str, np.ndarray]:
    """One run's parameters by name, for the exported policy."""
    flat, _ = jax.tree_util.tree_flatten_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(value) for path, value in flat}


def load_params(found: dict[str, np.ndarray], like: network.Params) -> network.Params:
    """The parameters that `weights` wrote, shaped like `like`; ConfigError if they do not fit."""
    flat, structure = jax.tree_util.tree_flatten_with_path(like)
    leaves = []
    for path, leaf in flat:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name not in found or found[name].shape != leaf.shape or found[name].dtype != leaf.dtype:
            raise ConfigError(f"the policy does not fit this network at {name}; it was made by another version")
        if not np.isfinite(found[name]).all():
            raise ConfigError(f"the policy holds numbers that are not finite at {name}; train the run again")
        leaves.append(found[name])
    return jax.tree.unflatten(structure, leaves)


def metric_rows(runs, done: int, metrics: dict[str, np.ndarray], seconds: float) -> list[list[dict[str, Any]]]:
    """Each run's rows of a chunk, as they stand in metrics.jsonl."""
    updates = len(metrics["alive"])
    return [
        [_row(run, done + u + 1, {k: v[u, i] for k, v in metrics.items()}, seconds / updates) for u in range(updates)]
        for i, run in enumerate(runs)
    ]


def _row(run: Run, update: int, seen: dict[str, Any], seconds: float) -> dict[str, Any]:
    episodes = int(seen["episodes"])
    counts = np.sort(seen["counts"][seen["counts"] >= 0])  # in one order: a sum of squares depends on it
    if len(counts) < episodes:
        check_env.refuse_negative_count(run.env, run.dilemma)

    def mean(total):
        return float(total) / episodes if episodes else None

    row = {
        "update": update,
        "steps": update * run.ppo.steps_per_update,
        "episodes": episodes,
        "return": mean(seen["return_sum"]),
        "length": mean(seen["length_sum"]),
        "utility": mean(seen["utility_sum"]),
        **{name: of(counts) if episodes else None for name, of in OF_COUNTS.items()},
        "lambda": float(seen["multiplier"]),
    }
    row |= {name: float(seen[name]) for name in ("entropy", "kl", "clip_fraction", "grad_norm", "value_loss")}
    row = {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in row.items()}
    left = (run.updates - update) * seconds
    # what depends on the clock stands apart: everything else is the same after an interruption
    row["clock"] = {"steps_per_second": round(run.ppo.steps_per_update / seconds, 1), "eta_seconds": round(left)}
    return row


def _mark_diverged(folders: list[RunFolder], alive: np.ndarray, done: int) -> None:
    for i, folder in enumerate(folders):
        if not alive[-1, i] and not folder.failed:
            first = done - len(alive) + int(np.argmin(alive[:, i])) + 1
            folder.fail(f"its numbers stopped being finite at update {first}; the other runs went on")


def _settle_chunk(runs: Sequence[Run], home: Path, chunk: int) -> int:
    """The chunk length this population began with: a resumed run must be cut at the same updates."""
    path = home / "population.json"
    if path.exists():
        begun = safe_io.read_json(path, "delete its folder; the runs begin again").get("chunk")
        if not isinstance(begun, int) or begun < 1:
            raise ConfigError(f"{path} does not say how long its chunks are; delete its folder; the runs begin again")
        return begun
    content = {"chunk": chunk, "runs": [run.id for run in runs]}
    write_atomically(path, json.dumps(content, indent=1))
    return chunk


class Signals:
    """Remembers that SIGTERM, SIGUSR1 or Ctrl-C asked to stop; a second Ctrl-C stops at once."""

    def __init__(self, asked: str | None = None):
        self.asked = asked
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        with contextlib.suppress(ValueError):  # not the main thread: signals stay with whoever owns it
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = signal.Signals(number).name


@contextlib.contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn a failed write into one clear line."""
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"cannot write to {out}: {error.strerror or error}; what was written before is whole. "
            "Make room or choose another --out, then start the same command again"
        ) from error


def _device() -> str:
    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind} x {jax.device_count()}"
