"""Runs that share world, sizes and length, packed into populations of a size that fits the device."""

import math
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perepisode import legacy, safe_io
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS, make
from perepisode.runs import Run

USABLE = 0.85  # of a device's memory; the rest goes to the runtime and to fragmentation
GIB = 2**30


@dataclass(frozen=True)
class Device:
    """Where a population will train."""

    kind: str  # gpu or cpu
    count: int
    memory: int  # bytes of one


@dataclass(frozen=True)
class BenchResult:
    """What a benchmark measured: the fastest population, its steps a second, and memory a run where it was seen."""

    steps_per_second: float
    bytes_per_run: float = math.nan
    runs: int = 0
    device: str = ""  # that was measured; empty where the speed is a guess
    source: str = ""  # the file that says so; empty where the world does

    def hours(self, steps: int) -> float:
        return steps / self.steps_per_second / 3600

    def known_for(self, device: Device, gpus: int) -> bool:
        """Whether it says anything of that device: the speed that a world states of a GPU says nothing of a CPU."""
        return bool(self.source or gpus) or not self.device or device.kind == "gpu"


def bench_of(path: Path | None, run: Run) -> BenchResult:
    """The figure that `perepisode bench` measured for agents of this size, or the stated default."""
    if path is None:
        env = ENVIRONMENTS[run.env]
        return BenchResult(env.speed, device=env.measured_on)
    try:
        plain = safe_io.read_json(path, "make one with `perepisode bench`")
        rows, device = list(map(legacy.upgrade_bench, plain["training"])), str(plain.get("device", ""))[:40]
        sizes = sorted({(row["num_envs"], row["hidden_size"]) for row in rows})
        rows = [row for row in rows if (row["num_envs"], row["hidden_size"]) == (run.ppo.num_envs, run.ppo.hidden_size)]
        best = max(rows, key=lambda row: row["steps_per_second"], default=None)
        if best is None:
            raise ConfigError(
                f"--bench {path} measured envs x hidden {sizes}, not {run.ppo.num_envs} x {run.ppo.hidden_size}; "
                "measure again with these sizes"
            )
        # memory is the process's peak so far, so that only the largest population's is its own
        most = max(rows, key=lambda row: row["runs"])
        each = (most.get("peak_bytes") or math.nan) / most["runs"]
        return BenchResult(float(best["steps_per_second"]), each, int(best["runs"]), device, str(path))
    except ConfigError as error:
        raise ConfigError(f"--bench is no benchmark: {error}") from None
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else safe_io.first_line(error)
        raise ConfigError(f"--bench {path} is no benchmark ({reason}); make one with `perepisode bench`") from None


def this_machine() -> Device:
    """Asked of the driver's own tool, not of JAX: a launcher that starts a device takes it from its workers."""
    memories = _gpu_memories()
    if memories:
        chosen = _visible(len(memories))
        return Device("gpu", len(chosen), min(memories[i] for i in chosen))
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Device("cpu", 1, pages * size)


def _gpu_memories() -> list[int]:
    if os.environ.get("JAX_PLATFORMS", "").split(",")[0] == "cpu" or not shutil.which("nvidia-smi"):
        return []
    asked = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
        return [int(float(line)) * 2**20 for line in answer.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def _visible(count: int) -> list[int]:
    named = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip().isdigit()]
    return [int(word) for word in named if int(word) < count] or list(range(count))


def memory_of(run: Run) -> float:
    """Bytes that one run of a population takes while training, estimated from its sizes.

    Worlds (a state, its copies inside the step, and the batch of fresh ones), the stored rollout, one minibatch's
    expanded input and activations with their gradients, and four copies of the weights (Adam, gradient).
    """
    config = run.ppo
    one = make(run.env, **run.env_settings).footprint()
    wide = 2 if config.precision == "bf16" else 4
    worlds = one.state * (4 * config.num_envs + min(config.num_envs, 256))
    rollout = 2 * config.num_envs * config.num_steps * (one.observation + 4 * 8)
    rows = config.num_envs // config.num_minibatches * config.num_steps
    batch = rows * (one.features * wide + 32 * config.hidden_size * 4)
    weights = one.features * config.hidden_size + 10 * config.hidden_size**2
    return float(worlds + rollout + batch + 4 * 4 * weights)


def largest(run: Run, device: Device, bench: BenchResult) -> int:
    """How many such runs one device holds."""
    each = bench.bytes_per_run if bench.bytes_per_run == bench.bytes_per_run else memory_of(run)
    return int(USABLE * device.memory // each)


def size_for(run: Run, device: Device, bench: BenchResult, asked: int = 0) -> int:
    """Runs a pack: what was asked for if it fits, otherwise what the device is fastest with."""
    fits, each = largest(run, device, bench), memory_of(run) / GIB
    if fits < 1:
        raise ConfigError(
            f"one run needs about {each:.2f} GiB and the {device.kind} has {device.memory / GIB:.1f}; "
            "use fewer envs or a smaller hidden size"
        )
    if asked > fits:
        raise ConfigError(
            f"--pack {asked} needs about {asked * each:.1f} GiB and the {device.kind} has "
            f"{device.memory / GIB:.1f}; the largest that fits is --pack {fits}"
        )
    return asked or min(bench.runs or ENVIRONMENTS[run.env].population_size, fits)


def pack(runs: Iterable[Run], size: int) -> list[tuple[Run, ...]]:
    """Runs of one structure in packs of nearly equal size, none larger than `size`.

    They are dealt out, so that every pack has its share of every kind: packs that are alike are one program.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.structure, []).append(run)
    return [part for group in groups.values() for part in _dealt(group, size)]


def _dealt(runs: Sequence[Run], size: int) -> list[tuple[Run, ...]]:
    """As few parts as `size` allows, of equal length give or take one: no worker waits for one lone run."""
    kinds = list(dict.fromkeys(run.objective_type for run in runs))
    ordered, parts = sorted(runs, key=lambda run: kinds.index(run.objective_type)), math.ceil(len(runs) / size)
    return [tuple(ordered[part::parts]) for part in range(parts)]


def programs(packs: Iterable[Iterable[Run]]) -> int:
    """How many different programs these packs are, each of which is compiled once."""
    return len({frozenset(Counter((run.structure, run.objective_type) for run in pack).items()) for pack in packs})
