"""Runs one task of a study in this process: `python -m perepisode.study.run_task OUT TASK`.

The process may be stopped at any time; the task resumes here or on another machine that sees the folder.  Exit codes:
0 done, 1 failed, 2 invalid, 74 the disk is full or unreadable, 75 stopped by a signal, to be started again.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from perepisode import plugins
from perepisode.config import ConfigError
from perepisode.runs import AlreadyRunning, Run, made_with
from perepisode.study import plan, state
from perepisode.study.task_folder import TaskFolder

DONE, FAILED, INVALID, DISK, RESUME = 0, 1, 2, 74, 75


class Stopped(Exception):
    """A signal arrived outside the training loop, which handles signals itself."""


def main(out: Path, name: str, log=print) -> int:
    """Run the task unless it is done; returns the exit code."""
    study = plan.load(out)
    task, folder = study.task(name), TaskFolder.of(out, name)
    if any(found.task == task and found.state == "done" for found in state.read(study, out)):
        return DONE
    start, after = time.time(), state.done_of(state.before(study, out, task))
    try:
        with folder.at_work(), _raise_on_signals():
            folder.clear_failure()
            log(f"{name}: started at {time.strftime('%F %T')}")
            KINDS[task.kind](study, task, Path(out))
            spent = {"seconds": round(time.time() - start, 1), "cpu_seconds": round(_cpu_seconds(), 1)}
            folder.finish(**spent, after=after, ended=time.strftime("%FT%TZ", time.gmtime()), made_with=made_with())
            log(f"{name}: done")
        return DONE
    except AlreadyRunning as error:  # a worker of an earlier start is still exiting
        log(f"{name}: {error}")
        time.sleep(1.0)
        return RESUME
    except ConfigError as error:
        return _fail(folder, str(error), INVALID, log)
    except Exception as error:
        kind = type(error).__name__
        if kind in ("Interrupted", "Stopped"):
            log(f"{name}: {error}")
            return _requeue(task, Path(out), log) if "SIGUSR1" in str(error) else RESUME
        if kind == "DiskError":
            return _fail(folder, str(error), DISK, log)
        traceback.print_exc()
        return _fail(folder, f"{kind}: {error}".splitlines()[0], FAILED, log)


def _cpu_seconds() -> float:
    """CPU time of this process over all cores, which does not depend on how busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _fail(folder: TaskFolder, reason: str, code: int, log) -> int:
    log(f"{folder.path.name}: {reason}")
    with contextlib.suppress(OSError):
        folder.fail(reason)
    return code


def _requeue(task: plan.Task, out: Path, log) -> int:
    """After SIGUSR1, which SLURM sends before a time limit, the job requeues itself."""
    from perepisode.study import slurm

    error = slurm.requeue_this_job(task, out)
    return _fail(TaskFolder.of(out, task.name), error, FAILED, log) if error else RESUME


# ---- the kinds of task --------------------------------------------------------------------------------------


def train_and_evaluate(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.compilation import use_cache
    from perepisode.evaluation.rollout import evaluate
    from perepisode.training.progress import PlainLines
    from perepisode.training.train import TrainingOptions, train

    use_cache()
    runs = [member.run() for member in task.members]
    options = TrainingOptions(
        out=out / "runs",
        chunk=study.chunk,
        checkpoint_seconds=study.checkpoint_seconds,
        progress=PlainLines(),
        files=_utilities(runs, out),
        devices=_devices_for(len(runs)),
        pending_signal=lambda: _signals[0] if _signals else None,
    )
    folders = train(runs, options)
    finished = [folder.path for folder in folders if folder.done]
    if not finished:
        raise ConfigError(f"every run of {task.name} diverged; the first: {folders[0].failed}")
    evaluate(finished, table_of(out, task), **vars(study.evaluation))


def evaluate_agents(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.compilation import use_cache
    from perepisode.evaluation.rollout import evaluate

    use_cache()
    evaluate(task.agents, table_of(out, task), **vars(study.evaluation))


def _devices_for(runs: int) -> int:
    """The largest number of this task's GPUs that divides its runs evenly."""
    import jax

    here = 1 if jax.default_backend() == "cpu" else jax.local_device_count()
    return max(count for count in range(1, here + 1) if runs % count == 0)


def distill_utility(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.evaluation.distill import distill

    tables = [table_of(out, study.task(name)) for name in task.after]
    distill(tables, task.dilemma, utility_of(out, task.dilemma))


def report(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.report.page import build
    from perepisode.zoo import find_one

    evaluated = [*study.of_kind("train"), *study.of_kind("evaluate")]
    tables = [path for task in evaluated if (path := table_of(out, task)).exists()]
    if not tables:
        raise ConfigError("there are no episodes to report: no pack was trained and evaluated")
    members = [member for task in evaluated for member in task.members]
    curves: list = [path for member in members if (path := out / "runs" / member.folder / "metrics.jsonl").exists()]
    curves += map(find_one, study.agents)
    utilities = [path for task in study.of_kind("distill") if (path := utility_of(out, task.dilemma)).exists()]
    exact = [path] if (path := out / "exact.json").exists() else []
    watch = [out / "watch"] if (out / "watch").exists() else []
    page = build(tables, out / "report", curves=curves, utilities=utilities, exact=exact, watch=watch)
    print(f"wrote {page}")


def exact_optima(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.study.exact import write

    write(out / "exact.json", study.env)


def replay(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.compilation import use_cache
    from perepisode.replay.watch import watch

    use_cache()
    watch(out / "episodes", out / "watch", worst=1, abstaining=1)


KINDS = {
    "train": train_and_evaluate,
    "evaluate": evaluate_agents,
    "distill": distill_utility,
    "exact": exact_optima,
    "replay": replay,
    "report": report,
}


def table_of(out: Path, task: plan.Task) -> Path:
    return Path(out) / "episodes" / f"{task.name}.parquet"


def utility_of(out: Path, dilemma: str) -> Path:
    return Path(out) / "utilities" / f"{dilemma}.json"


def _utilities(runs: Sequence[Run], out: Path) -> dict[str, bytes]:
    """The distilled utilities that these runs name."""
    named = {name: utility_of(out, run.dilemma) for run in runs for name in run.files.values()}
    return {name: path.read_bytes() for name, path in named.items()}


# ---- signals ------------------------------------------------------------------------------------------------


_signals: list[str] = []  # received so far


@contextlib.contextmanager
def _raise_on_signals():
    """SIGTERM and SIGUSR1 raise Stopped; during training, the training loop handles them itself.

    They are also recorded, because JAX calls back into Python where exceptions are swallowed, and a signal that arrives
    there would be lost.
    """

    def stop(number, frame):
        _signals.append(signal.Signals(number).name)
        raise Stopped(f"stopped by {_signals[-1]}")

    _signals.clear()

    numbers = (signal.SIGTERM, signal.SIGUSR1)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def die_with(parent: int) -> None:
    """Ask the kernel to send SIGTERM when the supervisor dies, so that its workers checkpoint and exit."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        raise SystemExit(RESUME)


if __name__ == "__main__":
    if os.environ.get("PEREPISODE_SUPERVISOR"):
        die_with(int(os.environ["PEREPISODE_SUPERVISOR"]))
    try:
        plugins.load_plugins()
        code = main(Path(sys.argv[1]), sys.argv[2], log=lambda text: print(text, flush=True))
    except ConfigError as error:
        print(f"perepisode: {error}", file=sys.stderr)
        code = INVALID
    sys.exit(code)
