"""The Hopper kernel, interpreted on a CPU, against the scan; and lowered for a GPU, as far as a CPU can."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from jax.experimental.pallas import mosaic_gpu

from perepisode.algorithms import hopper

HERE = Path(__file__)
needs_interpreter = pytest.mark.skipif(
    not hasattr(mosaic_gpu, "InterpretGPUParams"), reason="this JAX cannot interpret GPU kernels"
)


@pytest.mark.parametrize("runs", [1, 3, 4, 5, 8, 9, 16, 17, 40])
def test_blocks_that_synchronise_are_resident_at_once(runs):
    plan = hopper.layout(runs, 128, 512, 132)
    assert plan is not None
    blocks_of_a_run = 128 // (hopper.ROWS * plan.groups) * (512 // plan.units)
    assert plan.runs * blocks_of_a_run <= 132
    assert plan.runs == min(runs, 16)
    assert plan.units * 3 * 512 * 2 + plan.slots * 64 * 64 * 2 <= 227 * 1024


@pytest.mark.parametrize(
    ("platform", "capability", "supported", "expected"),
    [
        ("gpu", "9.0", True, 132),  # H100, H200
        ("gpu", "8.0", True, 0),  # A100
        ("gpu", "10.0", True, 0),  # B200
        ("gpu", "9.0", False, 0),  # JAX before 0.11
        ("cpu", "", True, 0),
    ],
)
def test_the_kernel_is_used_on_hopper_alone(monkeypatch, platform, capability, supported, expected):
    device = SimpleNamespace(
        platform=platform, core_count=132, **{"compute_capability": capability} if capability else {}
    )
    monkeypatch.setattr(hopper.jax, "local_devices", lambda: [device])
    monkeypatch.setattr(hopper, "gpu", SimpleNamespace(InterpretGPUParams=None) if supported else SimpleNamespace())
    assert hopper.multiprocessors.__wrapped__() == expected


@pytest.mark.parametrize("shape", [(1, 96, 512), (1, 128, 192), (1, 128, 2048)])
def test_sizes_that_do_not_fit_have_no_layout(shape):
    assert hopper.layout(*shape, 132) is None


def test_a_chip_too_small_for_one_run_has_no_layout():
    assert hopper.layout(1, 128, 512, 7) is None
    plan = hopper.layout(4, 128, 512, 8)
    assert plan is not None
    assert plan.runs == 1


@needs_interpreter
@pytest.mark.processes
@pytest.mark.parametrize("case", ["one_group", "two_groups_in_passes"])
def test_interpreted_kernel_equals_the_scan(case):
    _in_a_process(case)


@needs_interpreter
@pytest.mark.processes
@pytest.mark.parametrize("case", ["lower", "sharded"])
def test_kernel_can_be_lowered_for_a_gpu(case):
    _in_a_process(case)


def _in_a_process(case):
    """The interpreter runs synchronising blocks as threads, so XLA's pool must hold all of them."""
    environment = {**os.environ, "NPROC": "32", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, HERE.with_name("interpreted.py"), case],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,  # a deadlock is a failure too
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
