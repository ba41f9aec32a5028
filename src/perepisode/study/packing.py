"""Packing: runs of the same environment, sizes and length form populations that fit the device."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perepisode import legacy, safe_io
from perepisode.algorithms import fitting
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS, make
from perepisode.runs import Run

USABLE = 0.85  # share of a device's memory; the rest is for the runtime and fragmentation
GIB = 2**30


@dataclass(frozen=True)
class Device:
    """The device on which populations train."""

    kind: str  # gpu or cpu
    count: int
    memory: int  # bytes per device


@dataclass(frozen=True)
class BenchResult:
    """The fastest population of a benchmark: its steps per second, and its memory per run if known."""

    steps_per_second: float
    bytes_per_run: float = math.nan
    runs: int = 0
    device: str = ""  # the measured device; empty if the speed is a guess
    source: str = ""  # the benchmark's file; empty if the environment declares the speed

    def hours(self, steps: int) -> float:
        return steps / self.steps_per_second / 3600

    def known_for(self, device: Device, gpus: int) -> bool:
        """Whether the speed applies to that device: an environment declares the speed of a GPU, not of a CPU."""
        return bool(self.source or gpus) or not self.device or device.kind == "gpu"

    def memory_of(self, run: Run) -> float:
        """Bytes per run, measured or estimated."""
        return memory_of(run) if math.isnan(self.bytes_per_run) else self.bytes_per_run


def bench_of(path: Path | None, run: Run) -> BenchResult:
    """What `perepisode bench` measured for agents of this size, or the speed that the environment declares."""
    if path is None:
        env = ENVIRONMENTS[run.env]
        return BenchResult(env.speed, device=env.measured_on)
    try:
        plain = safe_io.read_json(path, "make one with `perepisode bench`")
        rows, device = list(map(legacy.upgrade_bench, plain["training"])), str(plain.get("device", ""))[:40]
        sizes = sorted({(row["num_envs"], row["hidden_size"]) for row in rows})
        rows = [
            row
            for row in rows
            if (row["num_envs"], row["hidden_size"]) == (run.config.num_envs, run.config.hidden_size)
        ]
        best = max(rows, key=lambda row: row["steps_per_second"], default=None)
        if best is None:
            raise ConfigError(
                f"--bench {path} measured num_envs x hidden_size {sizes}, not {run.config.num_envs} x "
                f"{run.config.hidden_size}; measure again with these sizes"
            )
        # the peak is that of the process so far, so only the largest population's is its own
        largest = max(rows, key=lambda row: row["runs"])
        bytes_per_run = (largest.get("peak_bytes") or math.nan) / largest["runs"]
        return BenchResult(float(best["steps_per_second"]), bytes_per_run, int(best["runs"]), device, str(path))
    except ConfigError as error:
        raise ConfigError(f"--bench is not a benchmark: {error}") from None
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else safe_io.first_line(error)
        raise ConfigError(f"--bench {path} is not a benchmark ({reason}); make one with `perepisode bench`") from None


def this_machine() -> Device:
    """This machine's devices, from the driver's own tool: in JAX the launcher would take memory from its workers."""
    memories = fitting.gpu_memories()
    if memories:
        chosen = _visible(len(memories))
        return Device("gpu", len(chosen), min(memories[i] for i in chosen))
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Device("cpu", 1, pages * size)


def _visible(count: int) -> list[int]:
    named = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip().isdigit()]
    return [int(word) for word in named if int(word) < count] or list(range(count))


def memory_of(run: Run) -> float:
    """Bytes of one run of a population while it trains, estimated from its sizes.

    Environment states (with their copies inside the step and the reset pool), the stored rollout, one minibatch's
    expanded input and activations with their gradients, and four copies of the weights (Adam, gradient).
    """
    config = run.config
    footprint = make(run.env, **run.env_settings).footprint()
    width, minibatches = getattr(config, "hidden_size", 0), getattr(config, "num_minibatches", 1)
    bytes_per_feature = 2 if getattr(config, "precision", "fp32") == "bf16" else 4
    states = footprint.state * (4 * config.num_envs + min(config.num_envs, 256))
    rollout = 2 * config.num_envs * config.num_steps * (footprint.observation + 4 * 8)
    rows = config.num_envs // minibatches * config.num_steps
    batch = rows * (footprint.features * bytes_per_feature + 32 * width * 4)
    weights = footprint.features * width + 10 * width**2
    return float(states + rollout + batch + 4 * 4 * weights)


def largest(run: Run, device: Device, bench: BenchResult) -> int:
    """The largest population of such runs that fits one device."""
    return int(USABLE * device.memory // bench.memory_of(run))


def size_for(run: Run, device: Device, bench: BenchResult, requested: int = 0) -> int:
    """Runs per pack: the requested number if it fits, by default the number at which the device is fastest."""
    fits, each = largest(run, device, bench), memory_of(run) / GIB
    if fits < 1:
        raise ConfigError(
            f"one run needs about {each:.2f} GiB and the {device.kind} has {device.memory / GIB:.1f}; "
            "use a smaller --num-envs or --hidden-size"
        )
    if requested > fits:
        raise ConfigError(
            f"--pack {requested} needs about {requested * each:.1f} GiB and the {device.kind} has "
            f"{device.memory / GIB:.1f}; the largest that fits is --pack {fits}"
        )
    return requested or min(bench.runs or ENVIRONMENTS[run.env].population_size, fits)


def pack(runs: Iterable[Run], size: int) -> list[tuple[Run, ...]]:
    """Runs of one structure in packs of nearly equal size, none larger than `size`.

    Every pack gets its share of every method: packs with the same methods share one program.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.structure, []).append(run)
    return [part for group in groups.values() for part in _dealt(group, size)]


def _dealt(runs: Sequence[Run], size: int) -> list[tuple[Run, ...]]:
    """As few parts as `size` allows, whose lengths differ by at most one, so that no worker trains a single run."""
    types = list(dict.fromkeys(run.objective_type for run in runs))
    ordered, parts = sorted(runs, key=lambda run: types.index(run.objective_type)), math.ceil(len(runs) / size)
    return [tuple(ordered[part::parts]) for part in range(parts)]


def programs(packs: Iterable[Iterable[Run]]) -> int:
    """How many programs these packs need; each is compiled once."""
    return len({frozenset(Counter((run.structure, run.objective_type) for run in pack).items()) for pack in packs})
