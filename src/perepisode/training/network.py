"""The paper's agent: embedding → GRU → actor and critic heads, over sequences and over single steps."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.environments.base import Hot, Observation, World
from perepisode.pytree import pytree

Dense = tuple[jax.Array, jax.Array]  # kernel, bias
NARROW = 1024  # feature vectors up to this width are put side by side


@pytree
class Params:
    """All weights, float32.  One embedding kernel for each of the world's feature vectors, and one for ν(R_acc)."""

    embedding: tuple[jax.Array, ...]
    embedding_bias: jax.Array
    gru_input: Dense  # [hidden, 3 hidden]: reset, update, candidate
    gru_hidden: Dense  # kernel [hidden, 3 hidden]; bias [hidden] of the candidate only
    actor: tuple[Dense, Dense, Dense]
    critic: tuple[Dense, Dense, Dense]


def input_sizes(world: World, extra: int) -> tuple[int, ...]:
    """Widths of the world's feature vectors, then of the objective's own features if it has any."""
    encoded = jax.eval_shape(lambda key: world.encode(world.observe(world.reset(key))), jax.random.key(0))
    sizes = tuple(vector.shape[-1] for vector in encoded)
    return (*sizes, extra) if extra else sizes


def init(seed: int, sizes: tuple[int, ...], hidden: int, actions: int) -> Params:
    """Orthogonal weights, zero biases; gains √2 (embedding), 2 (hidden head layers), 0.01 (logits), 1 (value).

    Drawn on the host by NumPy: the same weights on every device, and XLA's CPU backend can deadlock on the batched
    QR decompositions that a vmapped orthogonal initialiser makes.
    """
    random = np.random.default_rng(seed)
    embedding = _orthogonal(random, (sum(sizes), hidden), 2.0**0.5)
    borders = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    # each gate's weights are drawn by themselves, so that its scale comes from its own fan-in
    incoming = [random.normal(size=(hidden, hidden)) / hidden**0.5 for _ in range(3)]
    recurrent = [_orthogonal(random, (hidden, hidden), 1.0) for _ in range(3)]
    params = Params(
        embedding=tuple(embedding[a:b] for a, b in itertools.pairwise(borders)),
        embedding_bias=np.zeros(hidden),
        gru_input=(np.concatenate(incoming, axis=1), np.zeros(3 * hidden)),
        gru_hidden=(np.concatenate(recurrent, axis=1), np.zeros(hidden)),
        actor=_head(random, hidden, actions, 0.01),
        critic=_head(random, hidden, 1, 1.0),
    )
    return jax.tree.map(lambda x: np.asarray(x, np.float32), params)


def cast(params: Params, precision: str) -> Params:
    """The same weights with kernels in the products' precision: done once, it saves a conversion at every step."""
    return jax.tree.map(lambda x: _cast(x, precision) if x.ndim > 1 else x, params)


def sequence(
    params: Params,
    world: World,
    memory: jax.Array,  # float32[env, hidden] before the first step
    starts: jax.Array,  # bool[time, env]: True where this observation is an episode's first
    observation: Observation,  # [time, env, ...]
    features: jax.Array,  # float32[time, env, extra]
    precision: str,
) -> tuple[jax.Array, jax.Array]:
    """Logits [time, env, action] and values [time, env] of a rollout.  Memory is cleared where an episode starts."""
    gates = _input_gates(params, world, observation, features, precision)
    hidden = gru(gates, memory, starts, *params.gru_hidden, precision)
    return _heads(params, hidden, precision)


def step(
    params: Params,
    world: World,
    memory: jax.Array,  # float32[env, hidden]
    starts: jax.Array,  # bool[env]
    observation: Observation,
    features: jax.Array,
    precision: str,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Logits, values and the next memory of one step; the same arithmetic as `sequence`."""
    gates = _input_gates(params, world, observation, features, precision)
    kernel, bias = params.gru_hidden
    memory = _gru_step(jnp.where(starts[:, None], 0.0, memory), gates, _cast(kernel, precision), bias, precision)
    return *_heads(params, memory, precision), memory


def _input_gates(params, world, observation, features, precision):
    """Everything before the recurrence, for all steps at once: the first layer is a sum of products."""
    vectors = (*world.encode(observation, dtype=_dtype(precision)), features)
    # an objective without features has no kernel for them, and `zip` leaves them out
    pairs = list(zip(vectors, params.embedding))
    products = [_rows(v.index, kernel, precision) for v, kernel in pairs if isinstance(v, Hot)]
    products += [_dot(v, kernel, precision) for v, kernel in _joined(pairs, precision)]
    embedded = jax.nn.relu(functools.reduce(jnp.add, products) + params.embedding_bias)
    kernel, bias = params.gru_input
    return _cast(_dot(embedded, kernel, precision) + bias, precision)


def _joined(pairs, precision):
    """The dense vectors; the narrow ones side by side, since one product is cheaper than several."""
    dense = [(v, kernel) for v, kernel in pairs if not isinstance(v, Hot)]
    wide = [pair for pair in dense if pair[0].shape[-1] > NARROW]
    narrow = [pair for pair in dense if pair[0].shape[-1] <= NARROW]
    if len(narrow) > 1:
        vectors, kernels = zip(*narrow)
        vectors = [_cast(v, precision) for v in vectors]
        narrow = [(jnp.concatenate(vectors, axis=-1), jnp.concatenate(kernels))]
    return wide + narrow


def _heads(params, hidden, precision):
    logits = _mlp(params.actor, hidden, precision)
    return logits, _mlp(params.critic, hidden, precision)[..., 0]


def _mlp(layers, x, precision):
    for kernel, bias in layers[:-1]:
        x = jax.nn.relu(_dot(x, kernel, precision) + bias)
    kernel, bias = layers[-1]
    return _dot(x, kernel, precision) + bias


# ---- the recurrence -----------------------------------------------------------------------------------------


def gru(gates, memory, starts, kernel, bias, precision):
    """Hidden states [time, env, hidden] of a GRU whose input gates [time, env, 3 hidden] are given.

    r = σ(x_r + h W_r), z = σ(x_z + h W_z), n = tanh(x_n + r (h W_n + b)), h' = (1 - z) n + z h,
    with h = 0 where an episode starts.
    """
    return _gru(precision, *map(jnp.asarray, (gates, memory, starts, kernel, bias)))


def _gru_forward(precision, gates, memory, starts, kernel, bias):
    """Steps are read and written in place by their index: scanning over the time axis would first move it to the
    front, past the population's, and copy every array once more."""
    cast = _cast(kernel, precision)

    def body(carry, t):
        h, hidden = carry
        h = _gru_step(jnp.where(starts[t][:, None], 0.0, h), gates[t], cast, bias, precision)
        return (h, hidden.at[t].set(h)), None

    steps = jnp.arange(gates.shape[0])
    empty = jnp.zeros((*gates.shape[:2], memory.shape[-1]))
    (_, hidden), _ = jax.lax.scan(body, (memory, empty), steps, unroll=_unroll(len(steps)))
    return hidden


_gru = jax.custom_vjp(_gru_forward, nondiff_argnums=(0,))


def _gru_save(precision, gates, memory, starts, kernel, bias):
    hidden = _gru_forward(precision, gates, memory, starts, kernel, bias)
    return hidden, (gates, memory, starts, kernel, bias, hidden)


def _gru_backward(precision, saved, hidden_grad):
    """Gates are recomputed for all steps in one product, and the weights' gradient is one product after the scan:
    left to autodiff, both would be done step by step."""
    gates, memory, starts, kernel, bias, hidden = saved
    before = jnp.concatenate([memory[None], hidden[:-1]])
    before = jnp.where(starts[..., None], 0.0, before)
    r, z, n, candidate = _gru_gates(before, gates, _cast(kernel, precision), bias, precision)
    factors = (z, (before - n) * z * (1.0 - z), (1.0 - z) * (1.0 - n * n), candidate * r * (1.0 - r), r)
    factors = tuple(_cast(factor, precision) for factor in factors)  # read once a step: half the bytes
    back = _cast(kernel, precision).T

    z, by_update, by_candidate, by_reset, r = factors

    def body(carry, t):
        carried, at_gates, at_candidates = carry
        grad = hidden_grad[t] + carried
        at_candidate = grad * by_candidate[t]
        here = jnp.concatenate([at_candidate * by_reset[t], grad * by_update[t], at_candidate * r[t]], axis=-1)
        here = _cast(here, precision)
        carried = jnp.where(starts[t][:, None], 0.0, grad * z[t] + _dot(here, back, precision))
        return (carried, at_gates.at[t].set(here), at_candidates.at[t].set(_cast(at_candidate, precision))), None

    empty = jnp.zeros(gates.shape, back.dtype), jnp.zeros(hidden.shape, back.dtype)
    steps = jnp.arange(gates.shape[0])
    (memory_grad, at_gates, at_candidate), _ = jax.lax.scan(
        body, (jnp.zeros_like(memory), *empty), steps, reverse=True, unroll=_unroll(len(steps))
    )
    width = memory.shape[-1]
    gates_grad = jnp.concatenate([at_gates[..., : 2 * width], at_candidate], axis=-1)
    both = (((0, 1), (0, 1)), ((), ()))
    kernel_grad = jax.lax.dot_general(_cast(before, precision), at_gates, both, preferred_element_type=jnp.float32)
    bias_grad = at_gates[..., 2 * width :].astype(jnp.float32).sum(axis=(0, 1))
    return gates_grad, memory_grad, None, kernel_grad, bias_grad


_gru.defvjp(_gru_save, _gru_backward)


def _gru_step(h, x, kernel, bias, precision):
    _, z, n, _ = _gru_gates(h, x, kernel, bias, precision)
    return (1.0 - z) * n + z * h


def _gru_gates(h, x, kernel, bias, precision):
    from_hidden = _dot(h, kernel, precision)
    x_r, x_z, x_n = jnp.split(x.astype(jnp.float32), 3, axis=-1)
    h_r, h_z, h_n = jnp.split(from_hidden, 3, axis=-1)
    r, z, candidate = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z), h_n + bias
    return r, z, jnp.tanh(x_n + r * candidate), candidate


def _unroll(steps: int) -> int:
    """Eight recurrent steps a loop turn on an accelerator, where launches cost; one on a CPU, where compiling does."""
    return 1 if jax.default_backend() == "cpu" else min(8, steps)


# ---- pieces -------------------------------------------------------------------------------------------------


def _dtype(precision: str):
    return jnp.bfloat16 if precision == "bf16" else jnp.float32


def _cast(x: jax.Array, precision: str) -> jax.Array:
    return x.astype(_dtype(precision))


def _multiply(precision: str, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Product of the last axis, operands in the chosen precision, sums in float32."""
    return jnp.matmul(_cast(x, precision), _cast(kernel, precision), preferred_element_type=jnp.float32)


_product = jax.custom_vjp(_multiply, nondiff_argnums=(0,))


def _product_save(precision, x, kernel):
    return _multiply(precision, x, kernel), (_cast(x, precision), kernel, jnp.zeros((), x.dtype))


def _product_backward(precision, saved, grad):
    """Both products in the chosen precision too: autodiff would take them in float32, the sums' precision."""
    x, kernel, like = saved
    grad = _cast(grad, precision)
    leading = tuple(range(x.ndim - 1))
    kernel_grad = jax.lax.dot_general(x, grad, ((leading, leading), ((), ())), preferred_element_type=jnp.float32)
    x_grad = jnp.matmul(grad, _cast(kernel, precision).T, preferred_element_type=like.dtype)
    return x_grad, kernel_grad.astype(kernel.dtype)


_product.defvjp(_product_save, _product_backward)


def _dot(x: jax.Array, kernel: jax.Array, precision: str) -> jax.Array:
    return _product(precision, x, kernel)


def _add_rows(precision: str, index: jax.Array, kernel: jax.Array) -> jax.Array:
    """Sum of the kernel's rows at `index` [..., ones], in float32; indices beyond it add nothing."""
    rows = _cast(kernel, precision).at[index.astype(jnp.int32)].get(mode="fill", fill_value=0)
    return rows.astype(jnp.float32).sum(axis=-2)


_rows_of = jax.custom_vjp(_add_rows, nondiff_argnums=(0,))


def _add_rows_save(precision, index, kernel):
    return _add_rows(precision, index, kernel), (index, jnp.zeros((kernel.shape[0], 0), kernel.dtype))


def _add_rows_backward(precision, saved, grad):
    """As a product with the dense vector: a scatter of thousands of rows into few would wait on its own atomics."""
    index, like = saved
    dense = Hot(index, like.shape[0]).dense(_dtype(precision))
    leading = tuple(range(dense.ndim - 1))
    contraction = ((leading, leading), ((), ()))
    kernel_grad = jax.lax.dot_general(dense, _cast(grad, precision), contraction, preferred_element_type=jnp.float32)
    return None, kernel_grad.astype(like.dtype)


_rows_of.defvjp(_add_rows_save, _add_rows_backward)


def _rows(index: jax.Array, kernel: jax.Array, precision: str) -> jax.Array:
    return _rows_of(precision, index, kernel)


def _orthogonal(random: np.random.Generator, shape: tuple[int, int], gain: float) -> np.ndarray:
    """Uniform over matrices with orthonormal columns (rows, where there are fewer of them)."""
    rows, columns = shape
    tall = random.normal(size=(max(shape), min(shape)))
    if max(shape) > 4 * min(shape):
        # far from square the Gram matrix is well conditioned, and its Cholesky factor is QR's R at a tenth of the time
        q = np.linalg.solve(np.linalg.cholesky(tall.T @ tall), tall.T).T
    else:
        q, r = np.linalg.qr(tall)
        q = q * np.sign(np.diag(r))  # makes the decomposition unique, and so the draw uniform
    return gain * (q if rows >= columns else q.T)


def _head(random: np.random.Generator, hidden: int, outputs: int, gain: float):
    return (
        (_orthogonal(random, (hidden, hidden), 2.0), np.zeros(hidden)),
        (_orthogonal(random, (hidden, hidden), 2.0), np.zeros(hidden)),
        (_orthogonal(random, (hidden, outputs), gain), np.zeros(outputs)),
    )
