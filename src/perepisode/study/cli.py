"""`perepisode matrix`, `perepisode study plan | run | status | submit` and `perepisode demo`.

None of these commands starts a device.  The worker processes do.
"""

import shlex
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from perepisode import lazy, plugins
from perepisode.config import ConfigError
from perepisode.environments import ENVIRONMENTS
from perepisode.option_files import OptionsFromFile
from perepisode.runs import Run
from perepisode.settings import like, setting
from perepisode.study import matrix, packing, plan, slurm, state


@dataclass(frozen=True)
class RunSelection:
    """The runs: the matrix of an environment or a part of it, and its scale."""

    # Environment: craftax (the paper's 183 runs), temptation (the same families in minutes), or yours as file.py:Class.
    env: str = "craftax"
    # Only runs of these dilemmas, methods, families and arms, e.g. no_killing,esr or ser,w=0.3
    only: Annotated[str, tyro.conf.arg(help_behavior_hint="")] = ""
    # Environment steps per run; default: that of the environment's sweep; 1e9 on craftax, 480,000 on temptation.
    total_timesteps: Annotated[
        float | None, tyro.conf.arg(aliases=("--steps",), metavar="NUMBER", help_behavior_hint="")
    ] = like(Run, "total_timesteps", None)
    # Seeds; default: those of the environment's sweep, 42 123 7 unless it declares others.
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT ...", help_behavior_hint="")] = like(Run, "seed", ())
    extra_baselines: bool = False  # Add the baselines that are not in the paper: saute, pid_lagrangian, cvar, chance.

    def families(self) -> dict[str, list[Run]]:
        every = self._all_families()
        return matrix.only(every, self.only) if self.only else every

    def _all_families(self) -> dict[str, list[Run]]:
        env = plugins.resolve("env", self.env, ENVIRONMENTS)
        own = matrix.of(env, int(self.total_timesteps or 0), self.seeds)
        return {**matrix.families(own), **(matrix.extra_baselines(own) if self.extra_baselines else {})}

    def runs(self) -> list[Run]:
        """The selected runs, validated, with the pools that distilled arms among them need."""
        chosen, every = matrix.flat(self.families()), matrix.flat(self._all_families())
        return [run.checked() for run in matrix.with_pools(chosen, every)]


@dataclass(frozen=True)
class MatrixCommand(RunSelection):
    """List the runs of the study."""

    # table: one line per arm; json and csv: one entry per run, with its id.
    format: Literal["table", "json", "csv"] = "table"

    def __call__(self) -> int:
        from perepisode.study import listing

        self.runs()  # raises ConfigError for runs that cannot be trained
        print(listing.FORMATS[self.format](self.families()), end="")
        return 0


@dataclass(frozen=True)
class PackedSelection(RunSelection):
    """The runs, and how they are packed."""

    # Runs per population; 0: the fastest number that fits the device.
    pack: int = setting(0, low=0)
    # Memory of the training device in GiB; 0: what this machine reports, or 80 in `study submit`.
    memory: float = setting(0.0, low=0)
    # Measurement of `perepisode bench` (JSON), for better estimates of time and memory.
    bench: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    out: Path = Path("study")  # Folder of the study.

    def study(self):
        """The study of these options; asks the driver for its memory, starts no device."""
        runs = self.runs()
        bench = packing.bench_of(self.bench, runs[0])
        return plan.compose(runs, packing.size_for(runs[0], self.device(), bench, self.pack))

    def command(self, action: str) -> str:
        """`perepisode study <action>` with the same selection and packing, as a line to paste into a shell."""
        words = ["perepisode", "study", action, "--env", self.env, "--out", str(self.out)]
        for option in fields(PackedSelection):
            value = getattr(self, option.name)
            if option.name not in ("env", "out") and value != option.default:
                values = [] if value is True else value if isinstance(value, tuple) else [value]
                texts = (f"{one:.15g}" if isinstance(one, float) else str(one) for one in values)
                words += ["--" + option.name.replace("_", "-"), *texts]
        return shlex.join(words)

    def device(self):
        device = packing.this_machine()
        return replace(device, memory=int(self.memory * packing.GIB)) if self.memory else device


@dataclass(frozen=True)
class PlanCommand(OptionsFromFile, PackedSelection):
    """Print the packs, their order, steps, memory and hours, before anything starts."""

    gpus: int = setting(0, low=0)  # GPUs that would share the work; 0: those of this machine.

    def __call__(self) -> int:
        from perepisode.study import listing

        device, study = self.device(), self.study()
        bench = packing.bench_of(self.bench, study.tasks[0].members[0].run())
        print(listing.plan_text(study, bench, device, self.gpus), end="")
        print(f"next: {self.command('run')}")
        return 0


@dataclass(frozen=True)
class RunCommand(OptionsFromFile, PackedSelection):
    """Train, evaluate, distill and report on this machine; run the same command again to resume."""

    workers: int = setting(0, low=0)  # Worker processes; 0: one per GPU, or one on the CPU.
    checkpoint_seconds: float = setting(600.0, low=0)  # Seconds between checkpoints.
    # Only these tasks of the plan, by name; another machine can run the others in a copy of the folder.
    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()

    def __call__(self) -> int:
        lazy.require("study run")
        from perepisode.study import local

        device = packing.this_machine()
        if device.kind == "gpu" and self.workers > device.count:
            raise ConfigError(
                f"--workers {self.workers} is more than the {device.count} GPUs here; each worker needs one"
            )
        study = plan.save(replace(self.study(), checkpoint_seconds=self.checkpoint_seconds), self.out)
        slots = local.slots_for(device.kind, self.workers or device.count)
        code = local.run(study, self.out, slots, tasks=self.tasks)
        if code == 0 and self.tasks:
            left = sum(one.state != "done" for one in state.read(study, self.out))
            print(f"{left} of {len(study.tasks)} tasks are left\nnext: {self.command('run')}")
        elif code == 0:
            print(f"wrote {self.out / 'report' / 'index.html'}\nnext: open it in a browser")
        return code


@dataclass(frozen=True)
class StatusCommand:
    """Print the progress of a study, read from its files on any machine that sees them."""

    out: Path = Path("study")  # Folder of the study.
    watch: bool = False  # Print it every five seconds until the study ends.

    def __call__(self) -> int:
        from perepisode.study import overview

        study = plan.load(self.out)
        while True:
            states = state.read(study, self.out)
            print(overview.plain(states), flush=True)
            if not self.watch or not any(task.state in ("running", "ready", "waiting") for task in states):
                return 0
            time.sleep(5)


@dataclass(frozen=True)
class SubmitCommand(OptionsFromFile, slurm.SlurmResources, PackedSelection):
    """Submit the study to a SLURM cluster as job arrays that checkpoint, requeue and resume by themselves."""

    slurm: bool = True  # Use SLURM, the only scheduler there is.
    checkpoint_seconds: float = setting(600.0, low=0)  # Seconds between checkpoints.
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
        """The cluster's GPU, which this machine may not have: 80 GiB unless --memory is given."""
        return packing.Device("gpu" if self.gpus else "cpu", 1, int((self.memory or 80.0) * packing.GIB))


@dataclass(frozen=True)
class StudyCommand:
    """The whole study: plan it, run it here, print its progress, or submit it to a cluster."""

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
    """Reproduce the finding on a laptop in minutes: three trained Craftax agents, and every method in miniature."""

    out: Path = Path("demo")  # Folder to write; a demo that was interrupted resumes from it.
    craftax: bool = True  # Also evaluate the three bundled Craftax agents.
    workers: int = setting(0, low=0)  # Worker processes; 0: one per core.

    def __call__(self) -> int:
        lazy.require("demo")
        from perepisode.study import demo

        return demo.run(self.out, self.craftax, self.workers)
