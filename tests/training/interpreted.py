"""python interpreted.py CASE: exits with 0 if the Hopper kernel equals the scan.  Run by test_hopper.py."""

import os
import sys
from types import SimpleNamespace

if sys.argv[1] == "sharded":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.triton import pallas_call_registration
from jax.experimental.mosaic.gpu import utils
from jax.experimental.pallas import mosaic_gpu

from perepisode.algorithms import gru, hopper
from perepisode.training import update

# runs, steps, environments, units and layout; three runs, two at a time, leave a pass with one run
CASES = {
    "one_group": (1, 3, 64, 128, hopper.Layout(32, 1, 2, 1)),
    "two_groups_in_passes": (3, 2, 128, 256, hopper.Layout(64, 2, 2, 2)),
}


def compare(runs, steps, envs, width, plan):
    random = np.random.default_rng(0)

    def normal(*shape, scale=1.0):
        return jnp.asarray(scale * random.normal(size=(runs, *shape)), jnp.float32)

    is_first = jnp.asarray(random.random((runs, steps, envs)) < 0.3)
    gates = normal(steps, envs, 3 * width).astype(jnp.bfloat16)
    hidden_state = normal(envs, width, scale=0.5)
    kernel = normal(width, 3 * width, scale=width**-0.5).astype(jnp.bfloat16)
    weights = normal(3 * width, scale=0.3), kernel, normal(width, scale=0.3)
    interpreter = mosaic_gpu.InterpretGPUParams()
    found = hopper.population_steps(gates, hidden_state, 1.0 - is_first, *weights, plan=plan, interpret=interpreter)
    expected = jax.vmap(gru.scan_steps)(gates, hidden_state, is_first, *weights)
    for one, other in zip(found, expected, strict=True):
        # the last bit of bf16 differs occasionally, since sums and exponentials have another order
        np.testing.assert_allclose(one.astype(jnp.float32), other.astype(jnp.float32), rtol=2**-7, atol=2**-8)
        differ = float((one != other).mean())
        assert differ < 0.01, differ


def lower():
    """Lower the kernel for a Hopper GPU."""
    utils._infer_arch = lambda: (9, 0)
    hopper.multiprocessors = lambda: 132
    for runs in (1, 16):
        shapes = [((64, 128, 1536), jnp.bfloat16), ((128, 512), jnp.float32), ((64, 128), bool)]
        shapes += [((1536,), jnp.float32), ((512, 1536), jnp.bfloat16), ((512,), jnp.float32)]
        given = [jax.ShapeDtypeStruct((runs, *shape), dtype) for shape, dtype in shapes]
        text = jax.jit(jax.vmap(hopper.steps)).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
        assert text.count("mosaic_gpu") >= 1


def sharded():
    """Four runs on two devices: lowered for Hopper GPUs, the kernels of each device process its own two runs."""
    utils._infer_arch = lambda: (9, 0)
    hopper.multiprocessors = gru._room = lambda: 132
    gru._has_kernels = lambda: True
    pallas_call_registration.gpu_info_lib.get_gpu_info = lambda: SimpleNamespace(compute_capability=90)
    jax.default_backend = lambda: "gpu"
    shapes = [((8, 128, 1536), jnp.bfloat16), ((128, 512), jnp.float32), ((8, 128), bool)]
    shapes += [((1536,), jnp.float32), ((512, 1536), jnp.float32), ((512,), jnp.float32)]
    given = [jax.ShapeDtypeStruct((4, *shape), dtype) for shape, dtype in shapes]

    def gradient(_, own):
        gates, hidden_state, is_first, *weights = own

        def total(*weights):
            return gru.gru(gates, hidden_state, is_first, *weights, jnp.bfloat16).astype(jnp.float32).sum()

        return jax.grad(total, argnums=(0, 1, 2))(*weights)

    learn = jax.jit(lambda given: update._each_run(SimpleNamespace(devices=2), gradient, None, given))
    text = learn.trace(given).lower(lowering_platforms=("cuda",)).as_text()
    calls = [line for line in text.splitlines() if "custom_call @" in line]
    for kind, states in (("mosaic_gpu", "x8x128x512xbf16"), ("triton", "x8x128x1536xbf16")):
        own = [line for line in calls if kind in line and states in line]
        assert own, f"no kernel of {kind}"
        assert all("tensor<2" + states in line and "tensor<4" + states not in line for line in own)


if __name__ == "__main__":
    named = {"lower": lower, "sharded": sharded}
    named[sys.argv[1]]() if sys.argv[1] in named else compare(*CASES[sys.argv[1]])
