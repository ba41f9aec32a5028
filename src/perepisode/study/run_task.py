"""One task of a study, done in this process: `python -m perepisode.study.run_task OUT TASK`.

It may be stopped at any moment and started again, here or on another machine that sees the folder.  Exit codes:
0 done, 1 failed, 2 refused, 74 the disk is full or gone, 75 stopped by a signal and to be started again.
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
from perepisode.runs import AlreadyRunning, Run
from perepisode.study import plan, state
from perepisode.study.task_folder import TaskFolder

DONE, FAILED, REFUSED, DISK, RESUME = 0, 1, 2, 74, 75


class Stopped(Exception):
    """A signal came while no training loop was there to heed it."""


def main(out: Path, name: str, log=print) -> int:
    """Do the task unless it is done; an exit code."""
    study = plan.load(out)
    task, folder = study.task(name), TaskFolder.of(out, name)
    if any(one.task == task and one.state == "done" for one in state.read(study, out)):
        return DONE
    began, after = time.time(), state.done_of(state.before(study, out, task))
    try:
        with folder.at_work(), _heeding_signals():
            folder.forget_failure()
            log(f"{name}: started at {time.strftime('%F %T')}")
            KINDS[task.kind](study, task, Path(out))
            folder.finish(seconds=round(time.time() - began, 1), cpu_seconds=round(_cpu_seconds(), 1), after=after)
            log(f"{name}: done")
        return DONE
    except AlreadyRunning as error:  # a worker of an earlier start is still ending
        log(f"{name}: {error}")
        time.sleep(1.0)
        return RESUME
    except ConfigError as error:
        return _told(folder, str(error), REFUSED, log)
    except Exception as error:
        kind = type(error).__name__
        if kind in ("Interrupted", "Stopped"):
            log(f"{name}: {error}")
            return _asked_to_move(task, Path(out), log) if "SIGUSR1" in str(error) else RESUME
        if kind == "DiskError":
            return _told(folder, str(error), DISK, log)
        traceback.print_exc()
        return _told(folder, f"{kind}: {error}".splitlines()[0], FAILED, log)


def _cpu_seconds() -> float:
    """Work of this process on all cores: what a task costs, however busy the machine was."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _told(folder: TaskFolder, reason: str, code: int, log) -> int:
    log(f"{folder.path.name}: {reason}")
    with contextlib.suppress(OSError):
        folder.fail(reason)
    return code


def _asked_to_move(task: plan.Task, out: Path, log) -> int:
    """SIGUSR1 is what the cluster sends before a time limit; the job itself asks to be queued again."""
    from perepisode.study import slurm

    trouble = slurm.requeue_this_job(task, out)
    return _told(TaskFolder.of(out, task.name), trouble, FAILED, log) if trouble else RESUME


# ---- the kinds of task --------------------------------------------------------------------------------------


def train_and_judge(study: plan.Study, task: plan.Task, out: Path) -> None:
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
        pending_signal=lambda: _came[0] if _came else None,
    )
    folders = train(runs, options)
    finished = [folder.path for folder in folders if folder.done]
    if not finished:
        raise ConfigError(f"every run of {task.name} diverged; the first: {folders[0].failed}")
    evaluate(finished, table_of(out, task), **vars(study.evaluation))


def judge(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.compilation import use_cache
    from perepisode.evaluation.rollout import evaluate

    use_cache()
    evaluate(task.agents, table_of(out, task), **vars(study.evaluation))


def _devices_for(runs: int) -> int:
    """All the GPUs that this task was given, or as many of them as share its runs evenly."""
    import jax

    here = 1 if jax.default_backend() == "cpu" else jax.local_device_count()
    return max(count for count in range(1, here + 1) if runs % count == 0)


def distill_utility(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.evaluation.distill import distill

    tables = [table_of(out, study.task(name)) for name in task.after]
    distill(tables, task.dilemma, utility_of(out, task.dilemma))


def report(study: plan.Study, task: plan.Task, out: Path) -> None:
    from perepisode.report.page import build
    from perepisode.zoo import find_one as agent

    judged = [*study.of_kind("train"), *study.of_kind("judge")]
    tables = [path for one in judged if (path := table_of(out, one)).exists()]
    if not tables:
        raise ConfigError("there are no episodes to report: no pack was trained and judged")
    members = [member for one in judged for member in one.members]
    curves: list = [path for member in members if (path := out / "runs" / member.folder / "metrics.jsonl").exists()]
    curves += map(agent, study.agents)
    utilities = [path for one in study.of_kind("distill") if (path := utility_of(out, one.dilemma)).exists()]
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
    "train": train_and_judge,
    "judge": judge,
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


_came: list[str] = []  # signals so far


@contextlib.contextmanager
def _heeding_signals():
    """SIGTERM and SIGUSR1 end the task in an orderly way; while it trains, the training loop heeds them itself.

    They are noted as well as raised: JAX calls back into Python from places that swallow exceptions, and a signal
    that arrives there would be lost.
    """

    def stop(number, frame):
        _came.append(signal.Signals(number).name)
        raise Stopped(f"stopped by {_came[-1]}")

    _came.clear()

    numbers = (signal.SIGTERM, signal.SIGUSR1)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def die_with(parent: int) -> None:
    """Ask the kernel for SIGTERM when the supervisor is gone: its workers checkpoint instead of staying behind."""
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
        code = REFUSED
    sys.exit(code)
