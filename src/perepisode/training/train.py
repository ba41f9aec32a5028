"""The host loop: jitted chunks of updates with metrics, checks, checkpoints, signals and progress in between."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from perepisode import environments, safe_io
from perepisode.algorithms import AGENTS, LearningAgent
from perepisode.config import ConfigError, canonical
from perepisode.environments import check_env
from perepisode.methods import METHODS
from perepisode.metrics import METRIC_SPECS
from perepisode.runs import Run, RunFolder, file_lock, save_policy, write_atomically
from perepisode.training import population, update
from perepisode.training.checkpoints import Checkpoints
from perepisode.training.progress import Progress

COUNT_METRICS = {  # over the episodes that ended in an update
    "violations_std" if name == "std" else name: METRIC_SPECS[name].of
    for name in ("violations", "std", "p_any", "p_over_1", "cvar")
}


class Interrupted(Exception):
    """A signal stopped training after a checkpoint; the same command resumes it."""


class DiskError(Exception):
    """A write failed; earlier files are intact."""


@dataclass
class TrainingOptions:
    """Options of a training process, none of which changes a result."""

    out: Path
    chunk: int = 10  # updates per jitted call; the host writes, checks and stops between calls
    checkpoint_seconds: float = 600.0
    progress: Progress = field(default_factory=Progress)
    files: Mapping[str, bytes] = field(default_factory=dict)  # content of the files that settings name
    log: Callable[[str], None] = print
    devices: int = 1  # local devices over which the runs are sharded
    pending_signal: Callable[[], str | None] = lambda: None  # a signal received before training installs its handlers


def train(runs: Sequence[Run], options: TrainingOptions) -> list[RunFolder]:
    """Train these runs as one population; resumes an interrupted training and skips finished runs."""
    runs = population.order(check(runs))
    folders = [RunFolder.of(options.out, run) for run in runs]
    files = {**options.files, **_stored_files(runs, folders)}
    for run in runs:
        run.objective(files)  # raises for missing or invalid files before anything is written
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
    """Raise ConfigError for runs that cannot share one program, before anything compiles."""
    if not runs:
        raise ConfigError("no runs to train")
    first = runs[0]
    for run in runs:
        run.checked()
        for name in ("env", "env_settings", "agent", "config", "total_timesteps"):
            if getattr(run, name) != getattr(first, name):
                raise ConfigError(
                    f"runs of one population must share {name}; {getattr(run, name)} differs from "
                    f"{getattr(first, name)}: train them with separate commands"
                )
        if METHODS[run.method].streams != METHODS[first.method].streams:
            raise ConfigError(
                f"{first.method} and {run.method} learn from different reward streams or by different losses; train "
                "them with separate commands"
            )
    if len({run.id for run in runs}) < len(runs):
        raise ConfigError("the same run is given twice")
    check_env.check(environments.make(first.env, **first.env_settings))
    return runs


def population_id(runs: Sequence[Run]) -> str:
    return hashlib.sha256(canonical([run.id for run in runs]).encode()).hexdigest()[:12]


def _stored_files(runs: Sequence[Run], folders: Sequence[RunFolder]) -> dict[str, bytes]:
    """Files that earlier starts stored in these folders."""
    return {k: v for run, folder in zip(runs, folders) if run.files for k, v in run.files_from(folder).items()}


def _train(
    runs: tuple[Run, ...], folders: list[RunFolder], files: Mapping[str, bytes], home: Path, options: TrainingOptions
) -> None:
    chunk = _resolve_chunk(runs, home, options.chunk)
    program, members = prepare(runs, files, options.devices)
    params = update.initial_params(program, members, [run.seed for run in runs])
    init = jax.jit(partial(update.init, program))
    checkpoints = Checkpoints(home / "checkpoints")
    state = checkpoints.restore(jax.eval_shape(init, members, params), options.log)
    done = 0 if state is None else int(state.update)
    for folder in folders:
        folder.truncate_metrics(done)
    options.progress.start(runs, done)
    try:
        state = init(members, params) if state is None else jax.device_put(state)
        members, state = shard_runs((members, state), len(runs), options.devices)
        state = _updates(runs, folders, checkpoints, chunk, options, program, members, state)
    finally:
        options.progress.stop()
        checkpoints.close()
    _finish(runs, folders, program.agent, members.accrued_obs_sizes, state.params)
    checkpoints.remove()


def _finish(runs, folders: list[RunFolder], agent: LearningAgent, accrued_obs_sizes: Sequence[int], params) -> None:
    """Export every policy before marking any run as done, so that a kill in between resumes the whole population."""
    exported = []
    for index, (run, folder, extra) in enumerate(zip(runs, folders, accrued_obs_sizes)):
        if not folder.failed:
            own = agent.narrow(jax.tree.map(lambda x, i=index: x[i], params), extra)
            exported.append((folder, run, save_policy(folder.path, run, weights(own))))
    for folder, run, digest in exported:
        folder.finish(run, digest)


def _updates(runs, folders, checkpoints: Checkpoints, chunk: int, options: TrainingOptions, program, members, state):
    """Run the remaining updates chunk by chunk; on a signal, save a checkpoint and raise Interrupted."""
    done = int(state.update)
    with Signals(options.pending_signal()) as stop:
        run_chunk.lower(program, chunk, members, state, chunk).compile()  # separately, to report its time
        options.progress.compiled()
        last_save = time.monotonic()
        while done < program.updates:
            length = min(chunk, program.updates - done)
            start = time.monotonic()
            state, metrics = run_chunk(program, chunk, members, state, length)
            metrics = {name: value[:length] for name, value in jax.device_get(metrics).items()}
            rows = metric_rows(runs, done, metrics, time.monotonic() - start)
            done += length
            for folder, own in zip(folders, rows):
                folder.append_metrics(own)
            _mark_diverged(folders, metrics["alive"], done)
            options.progress.update(done, rows)
            checkpoints.raise_write_error()
            if done == program.updates:  # the policies are exported next
                break
            due = time.monotonic() - last_save >= options.checkpoint_seconds
            if due or stop.received:
                checkpoints.save(done, state)
                last_save = time.monotonic()
            if stop.received:
                checkpoints.wait()
                raise Interrupted(f"stopped by {stop.received} after {done} of {program.updates} updates")
    return state


def shard_runs(tree: Any, runs: int, devices: int) -> Any:
    """Shard the run axis over `devices`; arrays without a run axis are replicated."""
    if devices == 1:
        return tree
    if runs % devices or devices > jax.local_device_count():
        raise ConfigError(
            f"{runs} runs do not divide over {devices} of the {jax.local_device_count()} local devices; "
            "make the number of runs a multiple of the devices"
        )
    mesh = update.mesh(devices)

    def put(leaf):
        by_run = PartitionSpec("runs") if leaf.ndim and leaf.shape[0] == runs else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, by_run))

    return jax.tree.map(put, tree)


def prepare(runs: Sequence[Run], files: Mapping[str, bytes] | None = None, devices: int = 1):
    """The static and the traced part of a population: its Program and its Population."""
    first = runs[0]
    num_envs = first.config.num_envs
    program = update.Program(agent_of(first), num_envs, first.updates, min(num_envs, 256), devices)
    return program, population.gather(runs, files)


def acting_agent(run: Run) -> LearningAgent:
    """The run's agent in its environment.  It acts in the same way whatever rewards it has learned from."""
    return AGENTS[run.agent](environments.make(run.env, **run.env_settings), run.config)


def agent_of(run: Run) -> LearningAgent:
    """The run's agent with the reward streams of its method."""
    return replace(acting_agent(run), streams=METHODS[run.method].streams)


# On a GPU, run independent kernels concurrently and start loops on the device: with few runs most kernels are too small
# to fill it (docs/development/performance.md).  Other devices ignore these options.
GPU_OPTIONS = {
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL",
}


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3, compiler_options=GPU_OPTIONS)
def run_chunk(program: update.Program, chunk: int, members: population.Population, state: update.TrainState, length):
    """`length` <= `chunk` updates; one program serves every length.  Metrics have shape [chunk, ...]."""
    shapes = jax.eval_shape(partial(update.update, program), members, state)[1]
    metrics = jax.tree.map(lambda x: jnp.zeros((chunk, *x.shape), x.dtype), shapes)

    def body(index, carry):
        state, metrics = carry
        state, row = update.update(program, members, state)
        return state, jax.tree.map(lambda array, value: array.at[index].set(value), metrics, row)

    return jax.lax.fori_loop(0, length, body, (state, metrics))


def weights(params: Any) -> dict[str, np.ndarray]:
    """One run's parameters by name, as exported."""
    flat, _ = jax.tree_util.tree_flatten_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(value) for path, value in flat}


def _described(tensor: Any) -> str:
    return f"{tensor.dtype} {'×'.join(map(str, tensor.shape))}"


def load_params(tensors: Mapping[str, np.ndarray], like: Any, training_only: Sequence[str] = ()) -> Any:
    """The inverse of `weights`, with the structure of `like`; ConfigError if the tensors do not fit.

    Missing parameters that only training uses are zero.
    """
    flat, structure = jax.tree_util.tree_flatten_with_path(like)
    leaves = []
    for path, leaf in flat:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name not in tensors and name.partition(".")[0] in training_only:
            leaves.append(np.zeros_like(leaf))
            continue
        stored = _described(tensors[name]) if name in tensors else "missing"
        if stored != _described(leaf):
            raise ConfigError(
                f"the policy does not fit this network at {name}: it is {stored}, the network needs "
                f"{_described(leaf)}; use the version of perepisode that trained it"
            )
        if not np.isfinite(tensors[name]).all():
            raise ConfigError(f"the policy has non-finite values at {name}; train the run again")
        leaves.append(tensors[name])
    return jax.tree.unflatten(structure, leaves)


def metric_rows(runs, done: int, metrics: dict[str, np.ndarray], seconds: float) -> list[list[dict[str, Any]]]:
    """The rows of each run in a chunk, as written to metrics.jsonl."""
    updates = len(metrics["alive"])
    return [
        [_row(run, done + u + 1, {k: v[u, i] for k, v in metrics.items()}, seconds / updates) for u in range(updates)]
        for i, run in enumerate(runs)
    ]


def _row(run: Run, update: int, values: dict[str, Any], seconds: float) -> dict[str, Any]:
    episodes = int(values["episodes"])
    counts = np.sort(values["counts"][values["counts"] >= 0])  # sorted, since rounding depends on the order
    if len(counts) < episodes:
        check_env.refuse_negative_count(run.env, run.dilemma)

    def mean(total):
        return float(total) / episodes if episodes else None

    row = {
        "update": update,
        "steps": update * run.config.steps_per_update,
        "episodes": episodes,
        "return": mean(values["return_sum"]),
        "length": mean(values["length_sum"]),
        "utility": mean(values["utility_sum"]),
        **{name: of(counts) if episodes else None for name, of in COUNT_METRICS.items()},
        "lambda": float(values["multiplier"]),
    }
    row |= {name: float(values[name]) for name in AGENTS[run.agent].diagnostics}
    row = {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in row.items()}
    left = (run.updates - update) * seconds
    # wall-clock values are separate: everything else is identical after an interruption
    row["clock"] = {"steps_per_second": round(run.config.steps_per_update / seconds, 1), "eta_seconds": round(left)}
    return row


def _mark_diverged(folders: list[RunFolder], alive: np.ndarray, done: int) -> None:
    for i, folder in enumerate(folders):
        if not alive[-1, i] and not folder.failed:
            first = done - len(alive) + int(np.argmin(alive[:, i])) + 1
            folder.fail(f"its values became non-finite at update {first}; the other runs continued")


def _resolve_chunk(runs: Sequence[Run], home: Path, chunk: int) -> int:
    """The chunk length with which this population was started; a resumed run must use the same."""
    path = home / "population.json"
    if path.exists():
        started = safe_io.read_json(path, "delete its folder to restart the runs").get("chunk")
        if not isinstance(started, int) or started < 1:
            raise ConfigError(f"{path} has no valid chunk length; delete its folder to restart the runs")
        return started
    content = {"chunk": chunk, "runs": [run.id for run in runs]}
    write_atomically(path, json.dumps(content, indent=1))
    return chunk


class Signals:
    """Records SIGTERM, SIGUSR1 or Ctrl-C; a second Ctrl-C stops immediately."""

    def __init__(self, received: str | None = None):
        self.received = received
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        with contextlib.suppress(ValueError):  # only the main thread may set signal handlers
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name


@contextlib.contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn a failed write into a one-line error."""
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"cannot write to {out}: {error.strerror or error}; earlier files are intact. "
            "Free disk space or choose another --out, then run the same command again"
        ) from error


def _device() -> str:
    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind} x {jax.device_count()}"
