"""python interpreted.py CASE: exits with 0 where the Hopper kernel does what the scan does.  By test_hopper.py."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.mosaic.gpu import utils
from jax.experimental.pallas import mosaic_gpu

from perepisode.training import gru, hopper

# runs, steps, worlds, units, and who computes what; two of three runs at a time leave a pass with one
CASES = {
    "one_group": (1, 3, 64, 128, hopper.Layout(32, 1, 2, 1)),
    "two_groups_in_passes": (3, 2, 128, 256, hopper.Layout(64, 2, 2, 2)),
}


def compare(runs, steps, worlds, width, plan):
    random = np.random.default_rng(0)

    def normal(*shape, scale=1.0):
        return jnp.asarray(scale * random.normal(size=(runs, *shape)), jnp.float32)

    starts = jnp.asarray(random.random((runs, steps, worlds)) < 0.3)
    gates = normal(steps, worlds, 3 * width).astype(jnp.bfloat16)
    memory = normal(worlds, width, scale=0.5)
    kernel = normal(width, 3 * width, scale=width**-0.5).astype(jnp.bfloat16)
    weights = normal(3 * width, scale=0.3), kernel, normal(width, scale=0.3)
    interpreter = mosaic_gpu.InterpretGPUParams()
    found = hopper.population_steps(gates, memory, 1.0 - starts, *weights, plan=plan, interpret=interpreter)
    expected = jax.vmap(gru.scan_steps)(gates, memory, starts, *weights)
    for one, other in zip(found, expected, strict=True):
        # the last bit of bf16, now and then: sums and exponentials are not made in the same order
        np.testing.assert_allclose(one.astype(jnp.float32), other.astype(jnp.float32), rtol=2**-7, atol=2**-8)
        differ = float((one != other).mean())
        assert differ < 0.01, differ


def lower():
    """As a Hopper GPU would have it compiled."""
    utils._infer_arch = lambda: (9, 0)
    hopper.multiprocessors = lambda: 132
    for runs in (1, 16):
        shapes = [((64, 128, 1536), jnp.bfloat16), ((128, 512), jnp.float32), ((64, 128), bool)]
        shapes += [((1536,), jnp.float32), ((512, 1536), jnp.bfloat16), ((512,), jnp.float32)]
        given = [jax.ShapeDtypeStruct((runs, *shape), dtype) for shape, dtype in shapes]
        text = jax.jit(jax.vmap(hopper.steps)).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
        assert text.count("mosaic_gpu") >= 1


if __name__ == "__main__":
    lower() if sys.argv[1] == "lower" else compare(*CASES[sys.argv[1]])
