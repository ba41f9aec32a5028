"""The agent's recurrence: a GRU (gated recurrent unit) over a rollout, with a custom derivative.

Three implementations of the same function.  `scan`: a `lax.scan` with one matrix product per step.  `fused`: on a GPU
in bf16, one Pallas kernel per step for the forward and one for the backward pass, because steps are so small that
kernel launches and memory traffic dominate.  `hopper`: on Hopper GPUs, a single kernel for all forward steps.
"""

import warnings
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


class Tile(NamedTuple):
    """Work and tuning of one kernel block."""

    rows: int  # environments, at most
    columns: int  # hidden units
    depth: int  # elements of the product's inner axis per iteration
    warps: int
    stages: int


# the fastest of those measured on an H200; backward at 1, 3, and 8 or 16 runs
FORWARD = Tile(128, 32, 64, 8, 4)
BACKWARD = Tile(16, 32, 128, 4, 4), Tile(64, 32, 128, 4, 4), Tile(64, 64, 64, 4, 5)
# JAX plans to remove this Pallas backend; `scan` is the automatic fallback
warnings.filterwarnings("ignore", message=".*Pallas Triton backend is deprecated", category=DeprecationWarning)


def gru(gates, hidden_state, is_first, input_bias, kernel, bias, dtype):
    """Hidden states [time, env, hidden] of a GRU, given its input gates [time, env, 3 hidden] without their bias.

    r = σ(x_r + h W_r), z = σ(x_z + h W_z), n = tanh(x_n + r (h W_n + b)), h' = (1 - z) n + z h,
    with h = 0 where an episode starts.  Products are in `dtype`; sums and the carried h are in float32.
    """
    return _gru(dtype, *map(jnp.asarray, (gates, hidden_state, is_first, input_bias, kernel, bias)))


def cell(h, x, input_bias, kernel, bias):
    """One step: the next h, and (r, z, n, h W_n + b) for the derivative.  Products use the kernel's dtype."""
    from_hidden = jnp.matmul(h.astype(kernel.dtype), kernel, preferred_element_type=jnp.float32)
    x = x.astype(jnp.float32) + input_bias
    return cell_gates(h, jnp.split(x, 3, axis=-1), jnp.split(from_hidden, 3, axis=-1), bias)


def cell_gates(h, from_input, from_hidden, bias):
    """The elementwise part of a step."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_input, from_hidden
    r, z, candidate = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z), h_n + bias
    n = jnp.tanh(x_n + r * candidate)
    return (1.0 - z) * n + z * h, (r, z, n, candidate)


def cell_derivative(grad, before, r, z, n, candidate):
    """Given the gradient at h': those at (h W_r, h W_z, h W_n) and (x_r, x_z, x_n), and the direct part at h."""
    at_update = grad * (before - n) * z * (1.0 - z)
    at_candidate = grad * (1.0 - z) * (1.0 - n * n)
    at_reset = at_candidate * candidate * r * (1.0 - r)
    return (at_reset, at_update, at_candidate * r), (at_reset, at_update, at_candidate), grad * z


def _forward(dtype, *inputs):
    return _save(dtype, *inputs)[0]


_gru = jax.custom_vjp(_forward, nondiff_argnums=(0,))


def _save(dtype, gates, hidden_state, is_first, input_bias, kernel, bias):
    inputs = (gates, hidden_state, is_first, input_bias, kernel.astype(dtype), bias)
    steps = scan_steps
    if _fits(gates, hidden_state, dtype):
        steps = hopper.steps if (hopper := _hopper(*hidden_state.shape)) else fused_steps
    hidden, before, inside = steps(*inputs)
    return hidden, (hidden_state, is_first, inputs[4], before, inside)


def _backward(dtype, saved, hidden_grad):
    """Computes the kernel's gradient as one product after the last step; autodiff would use one per step."""
    hidden_state, is_first, kernel, before, inside = saved
    steps = _one_run_back if _fits(hidden_grad, hidden_state, dtype) else scan_steps_back
    state_grad, at_hidden, at_input = steps(hidden_grad, hidden_state, is_first, kernel, before, inside)
    both = (((0, 1), (0, 1)), ((), ()))
    kernel_grad = jax.lax.dot_general(before, at_hidden, both, preferred_element_type=jnp.float32)
    bias_grad = at_hidden[..., 2 * hidden_state.shape[-1] :].astype(jnp.float32).sum(axis=(0, 1))
    input_bias_grad = at_input.astype(jnp.float32).sum(axis=(0, 1))
    return at_input, state_grad, None, input_bias_grad, kernel_grad, bias_grad


_gru.defvjp(_save, _backward)


def _fits(steps: jax.Array, hidden_state: jax.Array, dtype) -> bool:
    """Whether the fused kernels apply: a GPU that Pallas supports, bf16, and sizes divisible by the tiles."""
    time, (envs, width) = steps.shape[0], hidden_state.shape
    divides = envs >= 16 and (envs & (envs - 1) == 0 or envs % FORWARD.rows == 0) and width % BACKWARD[0].depth == 0
    return dtype == jnp.bfloat16 and time > 1 and divides and _has_kernels()


@cache
def _has_kernels() -> bool:
    if jax.default_backend() != "gpu":
        return False
    try:
        from jax.experimental.pallas import triton

        getattr(triton, "get_gpu_info", lambda: None)()
    except (ImportError, ValueError):  # not in this JAX version, or unsupported GPU
        return False
    return True


@cache
def _hopper(envs: int, width: int):
    """The `hopper` module if GPU, JAX version and sizes allow its kernel, else None."""
    try:
        from perepisode.algorithms import hopper

        fits = hopper.layout(1, envs, width, hopper.multiprocessors())
    except (ImportError, AttributeError):  # unsupported JAX version
        return None
    return hopper if fits else None


def _unroll(steps: int) -> int:
    """Eight steps per loop iteration on an accelerator to save launches; one on a CPU to save compilation."""
    return 1 if jax.default_backend() == "cpu" else min(8, steps)


# ---- scan ---------------------------------------------------------------------------------------------------


def scan_steps(gates, hidden_state, is_first, input_bias, kernel, bias):
    """Indexes the steps in place: scanning over the time axis would first transpose it before the run axis and copy
    every array."""

    def body(carry, t):
        h, hidden, before, inside = carry
        h = jnp.where(is_first[t][:, None], 0.0, h)
        after, saved = cell(h, gates[t], input_bias, kernel, bias)
        saved = jnp.concatenate(saved, axis=-1)
        updates = ((hidden, after), (before, h), (inside, saved))
        return (after, *(array.at[t].set(new.astype(array.dtype)) for array, new in updates)), None

    time = gates.shape[0]
    first = (hidden_state, *_empty(gates, hidden_state, kernel))
    (_, *arrays), _ = jax.lax.scan(body, first, jnp.arange(time), unroll=_unroll(time))
    return arrays


def scan_steps_back(hidden_grad, hidden_state, is_first, kernel, before, inside):
    def body(carry, t):
        carried, at_hidden, at_candidate = carry
        here, there, carried = _derive(hidden_grad[t], carried, before[t], inside[t])
        carried = carried + jnp.matmul(here, kernel.T, preferred_element_type=jnp.float32)
        carried = jnp.where(is_first[t][:, None], 0.0, carried)
        return (carried, at_hidden.at[t].set(here), at_candidate.at[t].set(there[..., 2 * width :])), None

    time, width = before.shape[0], hidden_state.shape[-1]
    empty = [jnp.zeros((*before.shape[:2], times * width), kernel.dtype) for times in (3, 1)]
    first = (jnp.zeros_like(hidden_state), *empty)
    carry, _ = jax.lax.scan(body, first, jnp.arange(time), reverse=True, unroll=_unroll(time))
    state_grad, at_hidden, at_candidate = carry
    return state_grad, at_hidden, jnp.concatenate([at_hidden[..., : 2 * width], at_candidate], axis=-1)


def _empty(gates, hidden_state, kernel):
    """Arrays for the hidden states, those before each step, and the values saved for the derivative."""
    lead, width = gates.shape[:2], hidden_state.shape[-1]
    return [jnp.zeros((*lead, times * width), kernel.dtype) for times in (1, 1, 4)]


def _derive(grad, carried, before, inside):
    """`cell_derivative` of one stored step, with concatenated gradients."""
    saved = jnp.split(inside.astype(jnp.float32), 4, axis=-1)
    grad = grad.astype(jnp.float32) + carried
    here, there, straight = cell_derivative(grad, before.astype(jnp.float32), *saved)
    return *(jnp.concatenate(part, axis=-1).astype(inside.dtype) for part in (here, there)), straight


# ---- fused, on a GPU ---------------------------------------------------------------------------------------


def fused_steps(gates, hidden_state, is_first, input_bias, kernel, bias, interpret=False):
    """The first step as above; each later one is a kernel that reads hidden states t - 1 and writes t."""
    time = gates.shape[0]
    h = jnp.where(is_first[0][:, None], 0.0, hidden_state)
    after, saved = cell(h, gates[0], input_bias, kernel, bias)
    arrays = _init_arrays(
        0, time, hidden_state.shape, (after, h, jnp.concatenate(saved, axis=-1)), kernel.dtype, interpret
    )
    carry = (jnp.ones(1, jnp.int32), after, *arrays)
    call = _over_tiles(_forward_kernel, FORWARD, hidden_state.shape, carry, interpret, in_place=(1, 2, 3, 4))
    is_first = is_first.astype(jnp.int32)

    def body(carry, _):
        return tuple(call(*carry, gates, is_first, input_bias, kernel, bias)), None

    carry, _ = jax.lax.scan(body, carry, length=time - 1, unroll=min(8, time - 1))
    return carry[2:]


def _forward_kernel(tile, width, t_ref, h_ref, _hidden, _before, _inside, gates, is_first, input_bias, kernel, bias,
                    t_next, h_next, hidden, before, inside):  # fmt: skip
    """Tile (i, j) of step t: some environments, some hidden units."""
    t = t_ref[0]
    own, parts = _slices(tile, width)
    units = parts[0]

    def multiply(k, sums):
        inner = pl.ds(k * tile.depth, tile.depth)
        h = hidden[t - 1, own, inner]
        return [s + _dot(h, kernel[inner, part]) for s, part in zip(sums, parts)]

    sums = [jnp.zeros((tile.rows, tile.columns), jnp.float32)] * 3
    sums = jax.lax.fori_loop(0, width // tile.depth, multiply, sums)
    first = (is_first[t, own] != 0)[:, None]
    # the product of a zero state is zero: clearing it after the product spares the loads a mask
    from_hidden = [jnp.where(first, 0.0, s) for s in sums]
    h = jnp.where(first, 0.0, h_ref[own, units])
    x = [gates[t, own, part].astype(jnp.float32) + input_bias[part][None] for part in parts[:3]]
    after, saved = cell_gates(h, x, from_hidden, bias[units][None])
    h_next[own, units] = after
    hidden[t, own, units] = after.astype(hidden.dtype)
    before[t, own, units] = h.astype(before.dtype)
    for part, value in zip(parts, saved):
        inside[t, own, part] = value.astype(inside.dtype)
    t_next[0] = t + 1


@jax.custom_batching.custom_vmap
def _one_run_back(hidden_grad, hidden_state, *rest):
    envs, width = hidden_state.shape
    return fused_steps_back(hidden_grad, hidden_state, *rest, tile=backward_tile(1, envs, width, _room()))


@_one_run_back.def_vmap
def _every_run_back(runs, batched, *arguments):
    *_, envs, width = arguments[1].shape
    steps = partial(fused_steps_back, tile=backward_tile(runs, envs, width, _room()))
    return jax.vmap(steps, [0 if is_batched else None for is_batched in batched])(*arguments), (True,) * 3


def backward_tile(runs: int, envs: int, width: int, room: int) -> Tile:
    """The smallest tile all of whose blocks run concurrently in `room`, so that a step takes as long as one block."""

    def blocks(tile):
        return runs * max(envs // tile.rows, 1) * (width // tile.columns)

    return next((tile for tile in BACKWARD if blocks(tile) <= room), BACKWARD[-1])


def _room() -> int:
    """Number of multiprocessors of the GPU."""
    return getattr(jax.local_devices()[0], "core_count", 0)


def fused_steps_back(hidden_grad, hidden_state, is_first, kernel, before, inside, tile=BACKWARD[-1], interpret=False):
    """The derivative of the last step as above; then one kernel per earlier step t, which propagates step t + 1 through
    the product and computes the gradients of step t."""
    time, back = before.shape[0], kernel.T
    here, there, straight = _derive(hidden_grad[-1], jnp.zeros_like(hidden_state), before[-1], inside[-1])
    at_hidden, at_input = _init_arrays(time - 1, time, hidden_state.shape, (here, there), kernel.dtype, interpret)
    carry = (jnp.full(1, time - 2, jnp.int32), straight, at_hidden, at_input)
    call = _over_tiles(_backward_kernel, tile, hidden_state.shape, carry, interpret, in_place=(1, 2, 3))
    flags = is_first.astype(jnp.int32)

    def body(carry, _):
        return tuple(call(*carry, hidden_grad, flags, back, before, inside)), None

    (_, straight, at_hidden, at_input), _ = jax.lax.scan(body, carry, length=time - 1, unroll=min(8, time - 1))
    state_grad = straight + jnp.matmul(at_hidden[0], back, preferred_element_type=jnp.float32)
    return jnp.where(is_first[0][:, None], 0.0, state_grad), at_hidden, at_input


def _backward_kernel(tile, width, t_ref, straight_ref, _at_hidden, _at_input, hidden_grad, is_first, back, before,
                     inside, t_next, straight_next, at_hidden, at_input):  # fmt: skip
    """Tile (i, j) of step t: some environments, some hidden units."""
    t = t_ref[0]
    own, parts = _slices(tile, width)
    units = parts[0]

    def multiply(k, total):
        inner = pl.ds(k * tile.depth, tile.depth)
        return total + _dot(at_hidden[t + 1, own, inner], back[inner, units])

    total = jnp.zeros((tile.rows, tile.columns), jnp.float32)
    total = jax.lax.fori_loop(0, 3 * width // tile.depth, multiply, total)
    first = (is_first[t + 1, own] != 0)[:, None]
    carried = jnp.where(first, 0.0, straight_ref[own, units] + total)
    grad = hidden_grad[t, own, units].astype(jnp.float32) + carried
    saved = [inside[t, own, part].astype(jnp.float32) for part in parts]
    here, there, straight = cell_derivative(grad, before[t, own, units].astype(jnp.float32), *saved)
    straight_next[own, units] = straight
    for part, at_h, at_x in zip(parts, here, there):
        at_hidden[t, own, part] = at_h.astype(at_hidden.dtype)
        at_input[t, own, part] = at_x.astype(at_input.dtype)
    t_next[0] = t - 1


def _init_arrays(t, time, state_shape, first, dtype, interpret):
    """Arrays [time, ...] with step t written.  The rest stays uninitialised, since later kernels write all of it."""

    def kernel(tile, width, *refs):
        own, parts = _slices(tile, width)
        for value, array in zip(refs[: len(first)], refs[len(first) :]):
            for part in parts[: array.shape[-1] // width]:
                array[t, own, part] = value[own, part].astype(dtype)

    filled = [jax.ShapeDtypeStruct((time, *x.shape), dtype) for x in first]
    return _over_tiles(kernel, FORWARD, state_shape, filled, interpret)(*first)


def _over_tiles(kernel, tile: Tile, state_shape, outputs, interpret, in_place=()):
    """kernel(tile, width, *references) for every tile of environments and hidden units; returns arrays like `outputs`.

    Outputs numbered `in_place` alias the inputs of the same number.
    """
    (envs, width), tuning = state_shape, {}
    tile = tile._replace(rows=min(envs, tile.rows))
    if not interpret:  # Triton cannot be imported when a CPU interprets the kernels
        from jax.experimental.pallas import triton

        tuning["compiler_params"] = triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages)
    return pl.pallas_call(
        partial(kernel, tile, width),
        grid=(envs // tile.rows, width // tile.columns),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in outputs],
        input_output_aliases={number: number for number in in_place},
        interpret=interpret,
        **tuning,
    )


def _slices(tile, width):
    """This block's environments, and its hidden units in each of up to four concatenated vectors."""
    first = pl.program_id(1) * tile.columns
    parts = [pl.ds(i * width + first, tile.columns) for i in range(4)]
    return pl.ds(pl.program_id(0) * tile.rows, tile.rows), parts


def _dot(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)
