"""A population sharded by runs over several devices gives the same results as on one device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from safetensors.numpy import load_file

pytestmark = pytest.mark.processes

TRAIN = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import jax
import tiny
from perepisode.config import ConfigError
from perepisode.training import train as training
from perepisode.training.train import TrainingOptions, train

out, devices = Path(sys.argv[2]), int(sys.argv[3])
assert jax.device_count() == devices
runs = [tiny.run("ser", 10, seed, weight=0.3) for seed in range(4)]
runs += [tiny.run("lagrangian", 10, seed, budget=1) for seed in range(3)] + [tiny.run("unconstrained", 10)]
if sys.argv[4] == "features":
    runs = [tiny.run("esr", 10, seed, budget=k) for seed in range(4) for k in (0, 1)]
if sys.argv[4] == "mixed":
    runs = [tiny.run("esr", 10, seed, budget=1) for seed in range(3)] + [tiny.run("ser", 10, 5, weight=0.3)]
    runs += [tiny.run("lagrangian", 10, seed, budget=1) for seed in range(2)]
    runs += [tiny.run("saute", 10, seed, budget=1) for seed in range(2)]
if sys.argv[4] == "cost critics":
    runs = [tiny.run(name, 10, seed, budget=1) for name in ("ppo_lag", "crpo") for seed in range(4)]
finish, trained = training._finish, []
training._finish = lambda *of_runs: (trained.append(of_runs[-1]), finish(*of_runs))
train(runs, TrainingOptions(out=out, chunk=5, devices=devices))
held = {(shard.device, shard.data.shape[0]) for x in jax.tree.leaves(trained) for shard in x.addressable_shards}
assert held == {(device, 8 // devices) for device in jax.devices()}, held
try:
    train(runs[:7], TrainingOptions(out=out / "uneven", devices=8))
except ConfigError as error:
    assert "8" in str(error)
else:
    raise AssertionError("seven runs on eight devices were not refused")
"""


@pytest.mark.parametrize("agents", ["features", "no features", "mixed", "cost critics"])
def test_eight_devices_give_the_results_of_one(tmp_path, agents):
    """Each device keeps its own run to the end.  Without features there is an empty array, which crashed a compiler."""
    for devices in (1, 8):
        flags = f"--xla_force_host_platform_device_count={devices}"
        command = [sys.executable, "-c", TRAIN, str(Path(__file__).parent), str(tmp_path / str(devices))]
        command += [str(devices), agents]
        subprocess.run(command, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags})
    one, eight = (tiny.metrics_without_clock(tmp_path / str(devices), "") for devices in (1, 8))
    assert one.keys() == eight.keys()
    for run, rows in one.items():
        for own, other in zip(rows, eight[run], strict=True):
            for name, value in own.items():
                assert (value is None) == (other[name] is None)
                if value is not None:
                    np.testing.assert_allclose(other[name], value, rtol=1e-4, atol=1e-6, err_msg=f"{run} {name}")
            assert own["violations"] == other["violations"]
    for path in sorted((tmp_path / "1").glob("*/policy.safetensors")):
        own, other = load_file(path), load_file(tmp_path / "8" / path.parent.name / path.name)
        for name in own:
            np.testing.assert_allclose(other[name], own[name], atol=1e-6)
