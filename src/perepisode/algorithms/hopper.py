"""The GRU's forward pass (gated recurrent unit) as one kernel, for NVIDIA's Hopper GPUs (H100, H200).

A step is so small that a kernel per step would spend most of its time on its launch and on loading the weights.  Here
one kernel runs all steps.  Each block keeps the weights of a few hidden units in shared memory and computes those units
for some environments; after every step the blocks of a run exchange their hidden states through global memory.  Within
a block two warpgroups compute and a third moves data.

The blocks of a run synchronise, so all of them must be resident at once: `Layout.runs` is the number of runs that fit
on the chip.  Further runs follow sequentially within the kernel.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as gpu

ROWS = 64  # environments per product, given by the tensor cores
DEPTH = 64  # elements of the product's inner axis per iteration
COMPUTING = 2  # warpgroups; the one after them moves data
WEIGHTS_AND_SLOTS = 28 * ROWS * DEPTH * 2  # bytes of shared memory, just below the limit of a block


class Layout(NamedTuple):
    """How the work is divided into blocks."""

    units: int  # hidden units per block
    groups: int  # groups of ROWS environments per block, in turn
    slots: int  # chunks of the hidden states that a block holds at a time, at least two
    runs: int  # concurrent runs

    @property
    def own(self) -> int:
        """Hidden units per warpgroup."""
        return self.units // COMPUTING


def layout(runs: int, envs: int, width: int, multiprocessors: int) -> Layout | None:
    """The layout with the smallest blocks that fits all runs, else the one with the largest; None if none fits."""
    best = None
    for units, groups, slots in ((32, 1, 8), (64, 1, 4), (64, 2, 4)):
        blocks = envs // (ROWS * groups) * (width // units)
        chunks = width // DEPTH
        fits = (3 * units * width + slots * ROWS * DEPTH) * 2 <= WEIGHTS_AND_SLOTS
        divides = envs % (ROWS * groups) == 0 and width % (2 * DEPTH) == 0 and chunks % min(slots, chunks) == 0
        if not (fits and divides) or blocks > multiprocessors:
            continue
        at_once = multiprocessors // blocks
        best = Layout(units, groups, min(slots, chunks), min(runs, at_once))
        if at_once >= runs:
            break
    return best


@cache
def multiprocessors() -> int:
    """Number of multiprocessors if GPU and JAX (0.11 or later) support this kernel, else 0."""
    device = jax.local_devices()[0]
    hopper = device.platform == "gpu" and str(getattr(device, "compute_capability", "")).startswith("9.")
    return device.core_count if hopper and hasattr(gpu, "InterpretGPUParams") else 0


def steps(gates, hidden_state, is_first, input_bias, kernel, bias):
    """Like `gru.scan_steps` for one run; under `vmap` all runs share one kernel."""
    return _one_run(gates, hidden_state, 1.0 - is_first, input_bias, kernel, bias)


@jax.custom_batching.custom_vmap
def _one_run(*arguments):
    return [output[0] for output in population_steps(*[x[None] for x in arguments])]


@_one_run.def_vmap
def _every_run(runs, batched, *arguments):
    arrays = [x if is_batched else jnp.broadcast_to(x, (runs, *x.shape)) for x, is_batched in zip(arguments, batched)]
    return population_steps(*arrays), [True] * 3


def population_steps(
    gates, hidden_state, keep, input_bias, kernel, bias, *, plan: Layout | None = None, interpret=None
):
    """Every argument with a leading run axis; `keep` is 0 where an episode starts, else 1."""
    (runs, time, envs, _), width = gates.shape, hidden_state.shape[-1]
    plan = plan or layout(runs, envs, width, multiprocessors())
    assert plan is not None
    outputs = [jax.ShapeDtypeStruct((runs, time, envs, times * width), jnp.bfloat16) for times in (1, 1, 4)]
    # per block, per warpgroup, per gate: the warpgroup's units
    shape = (runs, width, 3, width // plan.units, COMPUTING, plan.own)
    kernel = kernel.reshape(shape).transpose(0, 3, 4, 2, 5, 1).reshape(runs, -1, 3 * plan.units, width)
    given = (gates, hidden_state, hidden_state.astype(jnp.bfloat16), keep, input_bias, kernel, bias)
    return _kernel(plan, outputs, interpret)(*given)


def _kernel(plan: Layout, outputs, interpret):
    runs, time, envs, width = outputs[0].shape
    passes, chunks = -(-runs // plan.runs), width // DEPTH
    grid = {"run": plan.runs, "rows": envs // (ROWS * plan.groups), "units": width // plan.units}
    cluster = {}
    if interpret is not None:  # the interpreter has no semaphores; there a run's blocks form a cluster
        cluster = {"units": grid.pop("units")}

    def body(*references, cluster_barriers=None, **scratch):
        if cluster_barriers is None:
            others = Semaphores((runs, envs // ROWS), width // plan.units)
        else:
            others = Cluster(cluster_barriers, plan.groups)
        block = Block(plan, others, **scratch)
        block.begin()

        def run_pass(number, _):
            run = number * plan.runs + jax.lax.axis_index("run")
            pl.when(run < runs)(lambda: _one_run_of_a_block(block, plan, run, time, width, *references))

        jax.lax.fori_loop(0, passes, run_pass, None)
        block.end()

    halves = (8, DEPTH), 2 * DEPTH
    staged = (8, plan.own), 2 * plan.own

    def shared(shape, tile, swizzle):
        transforms = (gpu.TilingTransform(tile), gpu.SwizzleTransform(swizzle))
        return gpu.SMEM(shape, jnp.bfloat16, transforms=transforms)

    return gpu.kernel(
        body,
        out_type=outputs,
        grid=tuple(grid.values()),
        grid_names=tuple(grid),
        cluster=tuple(cluster.values()),
        cluster_names=tuple(cluster),
        num_threads=COMPUTING + 1,
        thread_name="warpgroup",
        compiler_params=gpu.CompilerParams(approx_math=True, reduction_scratch_bytes=0),
        scratch_types={
            "weights": shared((chunks, 3 * plan.units, DEPTH), *halves),
            # the outputs of a step are staged where its inputs were
            "buffer": gpu.RefUnion(
                shared((plan.slots, ROWS, DEPTH), *halves), shared((COMPUTING, ROWS, plan.own), *staged)
            ),
            "loaded": gpu.Barrier(num_arrivals=chunks),
            "full": gpu.Barrier(num_barriers=plan.slots),
            "consumed": gpu.Barrier(num_arrivals=COMPUTING, num_barriers=plan.slots),
            "multiplied": gpu.Barrier(num_arrivals=COMPUTING),
            "staged": gpu.Barrier(num_arrivals=COMPUTING),
            "done": gpu.Barrier(num_arrivals=COMPUTING),
            **({"cluster_barriers": Cluster.barriers(plan.groups)} if cluster else {}),
        },
        interpret=interpret,
    )


def _one_run_of_a_block(block, plan, run, time, width, gates, hidden_state, first, keep, input_bias, kernel, bias,
                        hidden, before, inside):  # fmt: skip
    """All steps of one run: this block's hidden units, for its groups of environments in turn."""
    member, row_block = jax.lax.axis_index("units"), jax.lax.axis_index("rows")
    groups = [row_block * plan.groups + i for i in range(plan.groups)]
    group_rows = [pl.ds(group * ROWS, ROWS) for group in groups]
    shape = (ROWS, plan.own)

    def parts(warpgroup):
        """A warpgroup's units in each of up to four concatenated vectors."""
        return [pl.ds(i * width + member * plan.units + warpgroup * plan.own, plan.own) for i in range(4)]

    @block.moves
    def _():
        def publish(t, i):
            block.publish(lambda w: hidden.at[run, t, group_rows[i], parts(w)[0]])
            block.others.arrive(i, run, groups[i])

        block.read_weights(lambda part: kernel.at[run, member, :, part])
        for i in range(plan.groups):
            block.fetch(first.at[run, group_rows[i]])
            publish(0, i)

        def step(t, _):
            for i in range(plan.groups):
                block.others.wait(i, run, groups[i], t)
                block.fetch(hidden.at[run, t - 1, group_rows[i]])
                publish(t, i)

        jax.lax.fori_loop(1, time, step, None)
        for i in range(plan.groups):
            block.others.wait(i, run, groups[i], time)

    @block.computes
    def _():
        mine = parts(block.warpgroup)
        units = mine[0]

        def step(t, h, rows):
            # loads issued before the product overlap with it
            given = [_load(gates.at[run, t, rows, part]) for part in mine[:3]]
            kept = _along(keep.at[run, t, rows], shape, 0)
            x = [v.astype(jnp.float32) + _along(input_bias.at[run, p], shape, 1) for v, p in zip(given, mine)]
            product = block.multiply()
            from_hidden = [kept * product[:, i * plan.own : (i + 1) * plan.own] for i in range(3)]
            h = kept * h
            after, saved = _cell_gates(h, x, from_hidden, _along(bias.at[run, units], shape, 1))
            block.stage(after)
            before[run, t, rows, units] = h.astype(before.dtype)
            for part, value in zip(mine, saved):
                inside[run, t, rows, part] = value.astype(inside.dtype)
            return after

        gpu.barrier_wait(block.loaded)
        states = [_load(hidden_state.at[run, rows, units]) for rows in group_rows]
        jax.lax.fori_loop(0, time, lambda t, states: [step(t, h, rows) for h, rows in zip(states, group_rows)], states)
        gpu.barrier_arrive(block.done)


class Block:
    """Shared memory and synchronisation of the warpgroups of one block."""

    def __init__(self, plan, others, weights, buffer, loaded, full, consumed, multiplied, staged, done):
        self.plan, self.others = plan, others
        self.weights, (self.slots, self.staging) = weights, buffer
        self.loaded, self.full, self.consumed = loaded, full, consumed
        self.multiplied, self.staged, self.done = multiplied, staged, done
        self.warpgroup = jax.lax.axis_index("warpgroup")
        self.chunks = weights.shape[0]

    def computes(self, function):
        pl.when(self.warpgroup < COMPUTING)(function)

    def moves(self, function):
        pl.when(self.warpgroup == COMPUTING)(function)

    def begin(self):
        @self.computes
        def _():
            for slot in range(self.plan.slots):
                gpu.barrier_arrive(self.consumed.at[slot])
            gpu.barrier_arrive(self.done)

    def end(self):
        @self.moves
        def _():
            for slot in range(self.plan.slots):
                gpu.barrier_wait(self.consumed.at[slot])
            gpu.barrier_wait(self.done)

    # ---- the warpgroup that moves data

    def read_weights(self, source):
        gpu.barrier_wait(self.done)
        for k in range(self.chunks):
            gpu.copy_gmem_to_smem(source(pl.ds(k * DEPTH, DEPTH)), self.weights.at[k], self.loaded)

    def fetch(self, states):
        for k in range(self.chunks):
            slot = k % self.plan.slots
            gpu.barrier_wait(self.consumed.at[slot])
            part = states.at[:, pl.ds(k * DEPTH, DEPTH)]
            gpu.copy_gmem_to_smem(part, self.slots.at[slot], self.full.at[slot])

    def publish(self, destination):
        gpu.barrier_wait(self.staged)
        for warpgroup in range(COMPUTING):
            gpu.copy_smem_to_gmem(self.staging.at[warpgroup], destination(warpgroup))
        gpu.wait_smem_to_gmem(0)

    # ---- the warpgroups that compute

    def multiply(self):
        """The product of the fetched hidden states with this warpgroup's weights."""
        columns = self.weights.shape[1] // COMPUTING
        own = pl.ds(self.warpgroup * columns, columns)

        def product(sums):
            for k in range(self.chunks):
                slot = k % self.plan.slots
                gpu.barrier_wait(self.full.at[slot])
                gpu.wgmma(sums, self.slots.at[slot], gpu.transpose_ref(self.weights.at[k, own], (1, 0)))
                if k:  # a product is complete once the next has started
                    gpu.barrier_arrive(self.consumed.at[(k - 1) % self.plan.slots])
            total = sums[...]
            gpu.barrier_arrive(self.consumed.at[(self.chunks - 1) % self.plan.slots])
            return total

        total = pl.run_scoped(product, gpu.WGMMAAccumulatorRef((ROWS, columns), jnp.float32))
        gpu.barrier_arrive(self.multiplied)  # both products are complete, so their inputs may be overwritten
        gpu.barrier_wait(self.multiplied)
        return total

    def stage(self, states):
        self.staging[self.warpgroup] = states.astype(self.staging.dtype)
        gpu.commit_smem()
        gpu.barrier_arrive(self.staged)


class Semaphores:
    """Synchronises the blocks of one run and group of environments across the chip."""

    def __init__(self, shape, members: int):
        self.counts, self.members = pl.get_global(gpu.SemaphoreType.REGULAR(shape)), members

    def arrive(self, _, run, group):
        gpu.semaphore_signal(self.counts.at[run, group], memory_scope="gpu")

    def wait(self, _, run, group, times):
        gpu.semaphore_wait(self.counts.at[run, group], times * self.members, decrement=False, memory_scope="gpu")


class Cluster:
    """The same with cluster barriers, for the interpreter."""

    def __init__(self, barriers, groups: int):
        self.of_group = [barriers.at[i] for i in range(groups)]

    @staticmethod
    def barriers(groups: int):
        return gpu.ClusterBarrier(collective_axes=("units",), num_barriers=groups)

    def arrive(self, i, *_):
        gpu.barrier_arrive(self.of_group[i])

    def wait(self, i, *_):
        gpu.barrier_wait(self.of_group[i])


def _load(reference):
    return gpu.load(reference, layout=gpu.Layout.WGMMA, optimized=False)  # pyright: ignore[reportCallIssue] JAX 0.10's


def _along(reference, shape, axis):
    """A vector broadcast over the other axis of `shape`."""
    layout = gpu.Layout.WGMMA.reduce(1 - axis)
    vector = gpu.load(reference, layout=layout, optimized=False)  # pyright: ignore[reportCallIssue] JAX 0.10's
    return jax.lax.broadcast_in_dim(vector, shape, (axis,))


def _cell_gates(h, from_input, from_hidden, bias):
    """`gru.cell_gates` with exponentials only, since Mosaic GPU lacks sigmoid and tanh."""

    def sigmoid(x):
        return 1.0 / (1.0 + jnp.exp(-x))

    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_input, from_hidden
    r, z, candidate = sigmoid(x_r + h_r), sigmoid(x_z + h_z), h_n + bias
    n = 2.0 * sigmoid(2.0 * (x_n + r * candidate)) - 1.0
    return (1.0 - z) * n + z * h, (r, z, n, candidate)
