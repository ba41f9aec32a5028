"""A compilation cache shared by all workers of a session, and a SLURM cluster of one node, if installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _workers_share_a_cache(tmp_path_factory):
    """Without it, each worker process would compile the same programs again."""
    before = dict(os.environ)
    cache = str(tmp_path_factory.mktemp("compiled"))
    os.environ.update(JAX_COMPILATION_CACHE_DIR=cache, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0.2")
    os.environ.update(JAX_PLATFORMS="cpu")
    yield
    os.environ.clear()
    os.environ.update(before)


SLURM_CONF = """
ClusterName=testbox
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=200000,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=60
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmdPidFile={home}/run/slurmd.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""  # cred_expire: seconds until a requeued job may start again; KillWait: time to checkpoint


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The folder of a real SLURM cluster on this node."""
    missing = [tool for tool in ("slurmctld", "slurmd", "munged", "sbatch") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{missing[0]} is not installed (apt-get install slurm-wlm munge)")
    if os.geteuid() != 0:
        pytest.skip("starting SLURM's daemons needs root")
    home = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool", "log", "run"):
        (home / name).mkdir()
    host = socket.gethostname().split(".")[0]
    controller, daemon = _free_ports(2)
    content = SLURM_CONF.format(host=host, home=home, cpus=os.cpu_count(), controller=controller, daemon=daemon)
    (home / "slurm.conf").write_text(content)
    os.environ["SLURM_CONF"] = str(home / "slurm.conf")
    munge = _start_munge()
    subprocess.run(["slurmctld", "-c"], check=True)
    time.sleep(1)
    subprocess.run(["slurmd"], check=True)
    try:
        _wait_until_idle(home)
        yield home
    finally:
        subprocess.run(["scancel", "--user", "root", "--full"], capture_output=True)
        for name in ("slurmd", "slurmctld"):
            _end(home / "run" / f"{name}.pid")
        if munge:
            os.kill(munge, signal.SIGTERM)
        os.environ.pop("SLURM_CONF", None)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def _start_munge() -> int | None:
    """The process ID of the munged that was started; None if one was running."""
    if subprocess.run(["munge", "-n"], capture_output=True).returncode == 0:
        return None
    subprocess.run(["install", "-d", "-o", "munge", "-g", "munge", "-m", "755", "/run/munge"], check=True)
    subprocess.run(["runuser", "-u", "munge", "--", shutil.which("munged"), "--force"], check=True)
    return int(Path("/run/munge/munged.pid").read_text())


def _wait_until_idle(home: Path) -> None:
    for _ in range(60):
        answer = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True)
        if "idle" in answer.stdout:
            return
        time.sleep(0.5)
    pytest.fail(f"SLURM did not come up: {(home / 'log' / 'slurmctld.log').read_text()[-2000:]}")


def _end(pid_file: Path) -> None:
    """Ask a daemon to exit, and kill it if it waits for a job that does not end."""
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text())
    for number in [signal.SIGTERM] + [0] * 20 + [signal.SIGKILL]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        time.sleep(0.5)
