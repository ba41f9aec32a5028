"""Layers of the agents, and the actor-critic: embedding → GRU (gated recurrent unit), if any → actor and critic."""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.algorithms.distributions import Categorical, DiagonalGaussian
from perepisode.algorithms.gru import cell, gru
from perepisode.environments.base import Environment, Observation, SparseOneHot
from perepisode.pytree import pytree, static

Weights = jax.Array | np.ndarray  # on a device, or drawn on the host
Dense = tuple[Weights, Weights]  # kernel, bias
ALIGNED = 64  # long input vectors are padded to a multiple of this


@pytree
class Params:
    """All weights, float32.  One embedding kernel per feature vector of the environment, and one for ν(R_acc)."""

    embedding: tuple[Weights, ...]
    embedding_bias: Weights
    gru_input: Dense | tuple[()]  # [hidden, 3 hidden]: reset, update, candidate; () if feed-forward
    gru_hidden: Dense | tuple[()]  # kernel [hidden, 3 hidden]; bias [hidden] of the candidate only
    actor: tuple[Dense, Dense, Dense]
    critic: tuple[Dense, Dense, Dense]
    log_std: Weights | tuple[()] = ()  # [size of a Box], of its Gaussian; () for discrete actions
    more_critics: tuple[tuple[Dense, Dense, Dense], ...] = ()  # of further reward streams


@pytree
class PaddedFeatures:
    """ν(R_acc) of agents with accrued observations of different lengths, zero-padded to the longest, on a CPU.

    The zeros add nothing, but the summation order of a CPU's product depends on its length, so that a padded run would
    round differently than alone.  Each run's product therefore uses the run's own length.
    """

    values: jax.Array  # float32[..., longest]
    which: jax.Array  # int8[...]: index into `lengths`, constant within a run
    lengths: tuple[int, ...] = static()


def pad_features(values: jax.Array, which: jax.Array, lengths: tuple[int, ...]) -> jax.Array | PaddedFeatures:
    """Accrued observations of different lengths; on an accelerator the padding is ordinary input and costs nothing."""
    return PaddedFeatures(values, which, lengths) if jax.default_backend() == "cpu" else values


@functools.cache
def env_input_sizes(env: Environment) -> tuple[int, ...]:
    """Widths of the environment's feature vectors."""
    encoded = jax.eval_shape(lambda key: env.encode(env.observe(env.reset(key))), jax.random.key(0))
    return tuple(vector.shape[-1] for vector in encoded)


def input_sizes(env: Environment, extra: int) -> tuple[int, ...]:
    """Widths of the environment's feature vectors, then of the accrued observation if there is one."""
    return (*env_input_sizes(env), extra) if extra else env_input_sizes(env)


def init(
    seed: int,
    sizes: tuple[int, ...],
    hidden: int,
    distribution: Categorical | DiagonalGaussian,
    recurrent: bool = True,
    critics: int = 1,
) -> Params:
    """Orthogonal weights, zero biases; gains √2 (embedding), 2 (hidden head layers), 0.01 (policy), 1 (value).

    Drawn on the host by NumPy: every device gets the same weights, and XLA's CPU backend can deadlock on the batched
    QR decompositions of a vmapped orthogonal initialiser.
    """
    random = np.random.default_rng(seed)
    params = Params(
        embedding=init_embedding(random, sizes, hidden),
        embedding_bias=np.zeros(hidden),
        **(init_gru(random, hidden) if recurrent else {"gru_input": (), "gru_hidden": ()}),
        actor=_head(random, hidden, distribution.outputs, 0.01),
        critic=_head(random, hidden, 1, 1.0),
        log_std=distribution.init_log_std(),
        more_critics=tuple(_head(random, hidden, 1, 1.0) for _ in range(critics - 1)),
    )
    return jax.tree.map(lambda x: np.asarray(x, np.float32), params)


def init_embedding(random: np.random.Generator, sizes: tuple[int, ...], hidden: int) -> tuple[np.ndarray, ...]:
    """A kernel for each vector of these sizes, drawn as one."""
    embedding = orthogonal(random, (sum(sizes), hidden), 2.0**0.5)
    borders = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return tuple(embedding[a:b] for a, b in itertools.pairwise(borders))


def init_gru(random: np.random.Generator, hidden: int) -> dict[str, Dense]:
    """`gru_input` and `gru_hidden`; each gate is drawn separately, so that its scale follows from its own fan-in."""
    incoming = [random.normal(size=(hidden, hidden)) / hidden**0.5 for _ in range(3)]
    recurrent = [orthogonal(random, (hidden, hidden), 1.0) for _ in range(3)]
    return {
        "gru_input": (np.concatenate(incoming, axis=1), np.zeros(3 * hidden)),
        "gru_hidden": (np.concatenate(recurrent, axis=1), np.zeros(hidden)),
    }


def widen(embedding: tuple[Weights, ...], env: Environment, extra: int) -> tuple[Weights, ...]:
    """An embedding's kernels for `extra` accrued inputs; the inputs it does not have get zero weights."""
    own = len(env_input_sizes(env))
    accrued = embedding[own] if len(embedding) > own else np.zeros((0, embedding[0].shape[-1]), np.float32)
    if extra == len(accrued):
        return embedding
    missing = np.zeros((extra - len(accrued), accrued.shape[-1]), np.float32)
    return (*embedding[:own], np.concatenate([accrued, missing]))


def narrow(embedding: tuple[Weights, ...], env: Environment, extra: int) -> tuple[Weights, ...]:
    """The inverse of `widen`."""
    own = len(env_input_sizes(env))
    return (*embedding[:own], embedding[-1][:extra]) if extra else embedding[:own]


def cast(params: Params, precision: str) -> Params:
    """The weights with kernels cast to the products' precision once, instead of at every step."""
    return jax.tree.map(lambda x: to_precision(x, precision) if x.ndim > 1 else x, params)


def sequence(
    params: Params,
    env: Environment,
    hidden_state: jax.Array,  # float32[env, hidden] before the first step
    is_first: jax.Array,  # bool[time, env]: True where this observation is an episode's first
    observation: Observation,  # [time, env, ...]
    features: jax.Array | PaddedFeatures,  # float32[time, env, extra]
    precision: str,
    blank: tuple[jax.Array, ...] = (),  # from `scratch_buffers`
) -> tuple[jax.Array, jax.Array]:
    """Policy outputs [time, env, outputs] and values [time, env] of a rollout; an episode starts with a hidden state of
    zero.  The outputs are those of a `distributions.distribution`; several critics give values [time, env, stream]."""
    embedded = jax.nn.relu(embed(params, env, observation, features, precision, blank, apart=True))
    if params.gru_input:
        embedded = recur(params, embedded, hidden_state, is_first, precision)
    return _heads(params, embedded, precision)


def recur(params, embedded: jax.Array, hidden_state: jax.Array, is_first: jax.Array, precision: str) -> jax.Array:
    """The GRU's output [time, env, hidden]."""
    gates, (kernel, bias) = _input_gates(params, embedded, precision), params.gru_hidden
    with jax.named_scope("recurrence"):
        return gru(gates, hidden_state, is_first, params.gru_input[1], kernel, bias, dtype_of(precision))


def recur_once(params, embedded: jax.Array, hidden_state: jax.Array, is_first: jax.Array, precision: str) -> jax.Array:
    """The GRU's next hidden state [env, hidden]; the same arithmetic as `recur`."""
    gates = _input_gates(params, embedded, precision)
    hidden_state = jnp.where(is_first[:, None], 0.0, hidden_state)
    kernel, bias = params.gru_hidden
    return cell(hidden_state, gates, params.gru_input[1], to_precision(kernel, precision), bias)[0]


def scratch_buffers(env: Environment, observation: Observation, rows: int, precision: str) -> tuple[jax.Array, ...]:
    """Zeros [rows, size] for each sparse feature vector of the environment.

    The kernel's gradient is a product with the dense vector.  Writing its ones and erasing them again is faster than
    clearing the whole array for every minibatch, so the minibatches pass these arrays on: their gradient, which is
    zero, is the array itself.
    """
    encoded = jax.eval_shape(env.encode, observation)
    return tuple(
        jnp.zeros((rows, vector.size), dtype_of(precision)) for vector in encoded if isinstance(vector, SparseOneHot)
    )


def step(
    params: Params,
    env: Environment,
    hidden_state: jax.Array,  # float32[env, hidden]
    is_first: jax.Array,  # bool[env]
    observation: Observation,
    features: jax.Array | PaddedFeatures,
    precision: str,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Policy outputs, values and the next hidden state of one step; the same arithmetic as `sequence`."""
    embedded = jax.nn.relu(embed(params, env, observation, features, precision))
    if params.gru_input:
        embedded = hidden_state = recur_once(params, embedded, hidden_state, is_first, precision)
    return *_heads(params, embedded, precision), hidden_state


@jax.named_scope("products")
def _input_gates(params, embedded, precision):
    """All steps at once, except the gates' bias."""
    return dot(to_precision(embedded, precision), params.gru_input[0], precision)


@jax.named_scope("products")
def embed(params, env, observation, features, precision, blank=(), apart=False) -> jax.Array:
    """The first layer before its activation, float32.

    The embedding of several vectors is a sum of products.  The dense vectors are concatenated and materialised: one
    large product is faster than several, and the backward pass reuses the result.  `apart`: see `_dense`.
    """
    vectors = (*env.encode(observation, dtype=dtype_of(precision)), features)
    # without an accrued observation there is no kernel for it, and `zip` drops it
    pairs = list(zip(vectors, params.embedding))
    hot = [(v.index, kernel) for v, kernel in pairs if isinstance(v, SparseOneHot)]
    rows = [(*pair, zeros) for pair, zeros in zip(hot, blank)] if blank else hot
    products = [(_rows_of if blank else _add_rows)(precision, *pair) for pair in rows]
    dense = [(v, kernel) for v, kernel in pairs if not isinstance(v, SparseOneHot)]
    if dense:
        products.append(_dense(dense, precision, apart and jax.default_backend() == "cpu"))
    return functools.reduce(jnp.add, products) + params.embedding_bias


def _dense(pairs, precision, apart):
    """The product of the concatenated dense vectors with their kernels.

    `apart` isolates it from the surrounding computation, which would otherwise affect a CPU's summation order.
    """

    def product(length, vectors, kernels):
        """Uses the first `length` inputs of the last vector."""
        vectors, kernels = [*vectors[:-1], vectors[-1][..., :length]], [*kernels[:-1], kernels[-1][:length]]
        return dot(*_concatenate(list(zip(vectors, kernels)), precision), precision).astype(jnp.float32)

    vectors, kernels = map(list, zip(*pairs))
    features, lengths, which = vectors[-1], (None,), jnp.int8(0)
    if isinstance(features, PaddedFeatures):
        vectors[-1] = features.values
        others = sum(v.shape[-1] for v in vectors[:-1])
        if len({_padded(others + length) for length in features.lengths}) > 1:
            lengths, which = features.lengths, features.which.ravel()[0]
    branches: list[Callable] = [functools.partial(product, length) for length in lengths]
    if apart:  # a second branch, never taken, keeps XLA from fusing the first into its surroundings
        branches.append(lambda *operands: jnp.zeros_like(branches[0](*operands)))
        which = jax.lax.optimization_barrier(which)
    return jax.lax.switch(which, branches, vectors, kernels)


def _padded(width: int) -> int:
    """Long vectors are padded to whole memory lines, which the fastest products require."""
    return width + -width % ALIGNED if width > 8 * ALIGNED else width


def _concatenate(pairs, precision):
    """One vector and one kernel, padded with zeros."""
    vectors, kernels = zip(*pairs)
    width = sum(v.shape[-1] for v in vectors)
    missing = _padded(width) - width
    vectors = [
        *(to_precision(v, precision) for v in vectors),
        jnp.zeros((*vectors[0].shape[:-1], missing), dtype_of(precision)),
    ]
    kernels = [*kernels, jnp.zeros((missing, kernels[0].shape[-1]), kernels[0].dtype)]
    # without the barrier XLA fuses the concatenation into each product, which makes the product slower
    return jax.lax.optimization_barrier(jnp.concatenate(vectors, axis=-1)), jnp.concatenate(kernels)


@jax.named_scope("products")
def _heads(params, hidden, precision):
    """Actor and critics; their first layers share the input and are computed as one product."""
    heads = (params.actor, params.critic, *params.more_critics)
    kernel, bias = (jnp.concatenate(all, axis=-1) for all in zip(*(head[0] for head in heads)))
    first = jnp.split(_relu_layer(hidden, kernel, bias, precision), len(heads), axis=-1)
    outputs, *values = (_rest(head, x, precision) for head, x in zip(heads, first))
    return outputs, jnp.concatenate(values, axis=-1) if params.more_critics else values[0][..., 0]


def _rest(layers, x, precision):
    _, (middle, middle_bias), (kernel, bias) = layers
    return dot(_relu_layer(x, middle, middle_bias, precision), kernel, precision).astype(jnp.float32) + bias


def _relu_layer(x, kernel, bias, precision):
    return to_precision(jax.nn.relu(dot(x, kernel, precision).astype(jnp.float32) + bias), precision)


# ---- layers -------------------------------------------------------------------------------------------------


def dtype_of(precision: str):
    return jnp.bfloat16 if precision == "bf16" else jnp.float32


def to_precision(x: Weights, precision: str) -> jax.Array:
    return jnp.asarray(x, dtype_of(precision))


def _multiply(precision: str, x: jax.Array, kernel: jax.Array, dtype) -> jax.Array:
    """Product over the last axis: operands in `precision`, sums in float32, result in `dtype`."""
    return jnp.matmul(to_precision(x, precision), to_precision(kernel, precision), preferred_element_type=dtype)


def _forward(precision: str, x: jax.Array, kernel: jax.Array) -> jax.Array:
    return _multiply(precision, x, kernel, dtype_of(precision))


_product = jax.custom_vjp(_forward, nondiff_argnums=(0,))


def _product_save(precision, x, kernel):
    return _forward(precision, x, kernel), (to_precision(x, precision), kernel, jnp.zeros((), x.dtype))


def _product_backward(precision, saved, grad):
    """Both products use `precision` too; the kernel's gradient stays in float32."""
    x, kernel, like = saved
    leading = tuple(range(x.ndim - 1))
    kernel_grad = jax.lax.dot_general(x, grad, ((leading, leading), ((), ())), preferred_element_type=jnp.float32)
    x_grad = _multiply(precision, grad, kernel.T, like.dtype)
    return x_grad, kernel_grad.astype(kernel.dtype)


_product.defvjp(_product_save, _product_backward)


def dot(x: jax.Array, kernel: jax.Array, precision: str) -> jax.Array:
    """Product over the last axis in `precision`; bf16 halves the memory traffic of float32."""
    return _product(precision, x, kernel)


def _add_rows(precision: str, index: jax.Array, kernel: jax.Array, blank: jax.Array | None = None) -> jax.Array:
    """Sum of the kernel's rows at `index` [..., ones] in float32; out-of-range indices add nothing."""
    rows = to_precision(kernel, precision).at[index.astype(jnp.int32)].get(mode="fill", fill_value=0)
    return rows.astype(jnp.float32).sum(axis=-2)


_rows_of = jax.custom_vjp(_add_rows, nondiff_argnums=(0,))


def _add_rows_save(precision, index, kernel, blank):
    return _add_rows(precision, index, kernel), (index, jnp.zeros((), kernel.dtype), blank)


def _add_rows_backward(precision, saved, grad):
    """A product with the dense vector, because scattering thousands of rows into few contends on atomics."""
    index, like, blank = saved
    vector = SparseOneHot(index, blank.shape[1])
    dense = vector.write(blank, 1)
    grad = to_precision(grad, precision).reshape(blank.shape[0], -1)
    kernel_grad = jax.lax.dot_general(dense, grad, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32)
    # the barrier orders the erasure after the product has read the array, which avoids a copy
    dense, kernel_grad = jax.lax.optimization_barrier((dense, kernel_grad))
    return None, kernel_grad.astype(like.dtype), vector.write(dense, 0)


_rows_of.defvjp(_add_rows_save, _add_rows_backward)


def orthogonal(random: np.random.Generator, shape: tuple[int, int], gain: float) -> np.ndarray:
    """Uniform over matrices with orthonormal columns, or rows if there are fewer of them."""
    rows, columns = shape
    tall = random.normal(size=(max(shape), min(shape)))
    if max(shape) > 4 * min(shape):
        # far from square, the Gram matrix is well conditioned and its Cholesky factor is QR's R in a tenth of the time
        q = np.linalg.solve(np.linalg.cholesky(tall.T @ tall), tall.T).T
    else:
        q, r = np.linalg.qr(tall)
        q = q * np.sign(np.diag(r))  # makes the decomposition unique and hence the distribution uniform
    return gain * (q if rows >= columns else q.T)


def _head(random: np.random.Generator, hidden: int, outputs: int, gain: float):
    return (
        (orthogonal(random, (hidden, hidden), 2.0), np.zeros(hidden)),
        (orthogonal(random, (hidden, hidden), 2.0), np.zeros(hidden)),
        (orthogonal(random, (hidden, outputs), gain), np.zeros(outputs)),
    )
