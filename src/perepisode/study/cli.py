"""`perepisode matrix`, `perepisode study plan | run | status | submit` and `perepisode demo`.

None of these starts a device: workers do, each in a process of its own.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from perepisode import lazy, plugins
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS
from perepisode.runs import Run
from perepisode.settings import like, setting
from perepisode.study import matrix, packing, plan, slurm, state


@dataclass(frozen=True)
class RunSelection:
    """Which runs: a world's matrix, some of it, and at what scale."""

    # Environment: craftax (the paper's 183 runs), temptation (the same matrix in miniature), or your own as file.py:Class.
    env: str = "craftax"
    only: str = ""  # Some of the runs, by dilemma, method, family or arm: no_killing,esr  or  ser,lagrangian,w=0.3,d=1.
    # Environment steps per run; the default is 1e9 on craftax.
    total_timesteps: Annotated[float | None, tyro.conf.arg(aliases=("--steps",), metavar="NUMBER")] = like(
        Run, "total_timesteps", None
    )
    seeds: tuple[int, ...] = like(Run, "seed", ())  # Seeds; 42 123 7 if left out.
    extra_baselines: bool = False  # Add the baselines beyond the paper: saute, pid_lagrangian, cvar, chance.

    def families(self) -> dict[str, list[Run]]:
        found = self._all()
        return matrix.only(found, self.only) if self.only else found

    def _all(self) -> dict[str, list[Run]]:
        own = matrix.of(plugins.resolve("env", self.env, ENVIRONMENTS), int(self.total_timesteps or 0), self.seeds)
        return {**matrix.families(own), **(matrix.extra_baselines(own) if self.extra_baselines else {})}

    def runs(self) -> list[Run]:
        """The chosen runs, checked, with the pools that distilled arms among them need."""
        return [run.checked() for run in matrix.with_pools(matrix.flat(self.families()), matrix.flat(self._all()))]


@dataclass(frozen=True)
class MatrixCommand(RunSelection):
    """List the study's runs."""

    # table: one line an arm; json and csv: one entry a run, with its id.
    format: Literal["table", "json", "csv"] = "table"

    def __call__(self) -> int:
        from perepisode.study import listing

        self.runs()  # which refuses what cannot be trained
        print(listing.FORMATS[self.format](self.families()), end="")
        return 0


@dataclass(frozen=True)
class PackedSelection(RunSelection):
    """Which runs, and how they are packed."""

    pack: int = setting(0, low=0)  # Runs in one population; what the device is fastest with and can hold if left out.
    memory: float = setting(0.0, low=0)  # GiB of the device that will train; this machine's if left out.
    bench: Path | None = None  # What `perepisode bench` measured (JSON): sharper estimates of time and memory.
    out: Path = Path("study")  # Folder of the study.

    def study(self):
        """The study these options describe; asks the driver for memory, starts no device."""
        runs = self.runs()
        bench = packing.bench_of(self.bench, runs[0])
        return plan.compose(runs, packing.size_for(runs[0], self.device(), bench, self.pack))

    def device(self):
        found = packing.this_machine()
        return replace(found, memory=int(self.memory * packing.GIB)) if self.memory else found


@dataclass(frozen=True)
class PlanCommand(PackedSelection):
    """Packs, order, steps, memory and hours, before anything is started."""

    gpus: int = setting(0, low=0)  # GPUs that would share the work; this machine's if left out.

    def __call__(self) -> int:
        from perepisode.study import listing

        device, study = self.device(), self.study()
        bench = packing.bench_of(self.bench, study.tasks[0].members[0].run())
        print(listing.plan_text(study, bench, device, self.gpus), end="")
        print(f"next: perepisode study run --env {self.env} --out {self.out}")
        return 0


@dataclass(frozen=True)
class RunCommand(PackedSelection):
    """Train, judge, distill and report on this machine; start it again after any interruption."""

    workers: int = setting(0, low=0)  # Worker processes: one a GPU, or one on the CPU, if left out.
    checkpoint_seconds: float = setting(600.0, low=0)  # Time between checkpoints.

    def __call__(self) -> int:
        lazy.require("study run")
        from perepisode.study import local

        device = packing.this_machine()
        if device.kind == "gpu" and self.workers > device.count:
            raise ConfigError(
                f"--workers {self.workers} is more than the {device.count} GPUs here; one worker needs one"
            )
        study = plan.save(replace(self.study(), checkpoint_seconds=self.checkpoint_seconds), self.out)
        code = local.run(study, self.out, local.slots_for(device.kind, self.workers or device.count))
        if code == 0:
            print(f"wrote {self.out / 'report' / 'index.html'}\nnext: open it in a browser")
        return code


@dataclass(frozen=True)
class StatusCommand:
    """Where a study stands, from its files alone; works from any terminal or machine that sees them."""

    out: Path = Path("study")  # Folder of the study.
    watch: bool = False  # Keep looking, every five seconds, until it is over.

    def __call__(self) -> int:
        from perepisode.study import overview

        study = plan.load(self.out)
        while True:
            states = state.read(study, self.out)
            print(overview.plain(states), flush=True)
            if not self.watch or not any(one.state in ("running", "ready", "waiting") for one in states):
                return 0
            time.sleep(5)


@dataclass(frozen=True)
class SubmitCommand(slurm.Cluster, PackedSelection):
    """Hand the study to a SLURM cluster: arrays that checkpoint, requeue and resume by themselves."""

    slurm: bool = True  # The scheduler; SLURM is the only one there is.
    checkpoint_seconds: float = setting(600.0, low=0)  # Time between checkpoints.
    dry_run: bool = False  # Write the scripts and submit nothing.

    def __call__(self) -> int:
        slurm.check(self)
        study = plan.save(replace(self.study(), checkpoint_seconds=self.checkpoint_seconds), self.out)
        if self.dry_run:
            for path in slurm.write_scripts(study, self.out, self):
                print(f"wrote {path}")
            print(f"next: bash {self.out}/slurm/submit.sh")
            return 0
        for stage, job in slurm.submit(study, self.out, self).items():
            print(f"submitted {stage} as job {job}")
        print(f"next: perepisode study status --out {self.out}")
        return 0

    def device(self):
        """The cluster's GPU, which this machine need not have: an 80 GiB one unless --memory says otherwise."""
        return packing.Device("gpu" if self.gpus else "cpu", 1, int((self.memory or 80.0) * packing.GIB))


@dataclass(frozen=True)
class StudyCommand:
    """The whole comparison: plan it, run it here, look at it, or hand it to a cluster."""

    action: tyro.conf.OmitArgPrefixes[
        Annotated[PlanCommand, tyro.conf.subcommand("plan")]
        | Annotated[RunCommand, tyro.conf.subcommand("run")]
        | Annotated[StatusCommand, tyro.conf.subcommand("status")]
        | Annotated[SubmitCommand, tyro.conf.subcommand("submit")]
    ]

    def __call__(self) -> int:
        return self.action()


@dataclass(frozen=True)
class DemoCommand:
    """The finding in minutes on a laptop: three trained agents on Craftax, every method trained in miniature."""

    out: Path = Path("demo")  # Folder to write; a demo that was stopped goes on from it.
    craftax: bool = True  # Also judge the three Craftax agents that ship.
    workers: int = setting(0, low=0)  # Worker processes; one a core if left out.

    def __call__(self) -> int:
        lazy.require("demo")
        from perepisode.study import demo

        return demo.run(self.out, self.craftax, self.workers)
