"""Proximal policy optimisation (PPO) with a recurrent policy for a population: rollout, advantages, loss, update.

Arrays are [run, env] while acting and [time, run, env] over a rollout; the learner works on one run and is vmapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec

from perepisode.config import PPOConfig
from perepisode.environments.base import EndCause, Environment
from perepisode.environments.reset_pool import ResetPool
from perepisode.methods import Accrued
from perepisode.pytree import pytree
from perepisode.training import network, population
from perepisode.training.population import EpisodeState, EpisodeStats, Population


@dataclass(frozen=True)
class Program:
    """The static part of training: the environment, the sizes, the total number of updates."""

    env: Environment
    config: PPOConfig
    updates: int
    reset_pool_size: int  # reset states generated at a time per run
    devices: int = 1  # over which the run axis is sharded


@pytree
class RunnerState:
    """What the rollout carries from one step to the next."""

    episode_state: EpisodeState
    reset_pool: ResetPool
    hidden_state: jax.Array  # float32[run, env, hidden]


@pytree
class TrainState:
    """Everything that a population carries from one update to the next; checkpoints contain all of it."""

    params: network.Params  # [run, ...]
    opt_state: Any
    duals: Any
    runner: RunnerState
    update: jax.Array  # int32, updates done
    alive: jax.Array  # bool[run]: False once a run has diverged, which freezes its parameters


@pytree
class Batch:
    """A rollout as the learner receives it, [time, env] for one run."""

    observation: Any
    features: jax.Array | network.PaddedFeatures
    is_first: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array  # with bootstrap_on_truncation plus the bootstrap value at a timeout
    done: jax.Array  # True if THIS step ended the episode


@pytree
class Targets:
    advantage: jax.Array
    value: jax.Array


def optimizer(config: PPOConfig) -> optax.GradientTransformation:
    """Global-norm clipping, then Adam without a learning rate, which `learn` applies."""
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=1e-5))


def initial_params(program: Program, members: Population, seeds: Sequence[int]) -> network.Params:
    """Every run's initial weights, [run, ...], on the host; the same as if the run were trained alone."""
    env, longest, drawn = program.env, max(members.accrued_obs_sizes), []
    for seed, extra in zip(seeds, members.accrued_obs_sizes, strict=True):
        own = network.init(seed, network.input_sizes(env, extra), program.config.hidden_size, env.actions)
        drawn.append(network.widen(own, env, longest))
    return jax.tree.map(lambda *x: np.stack(x), *drawn)


def init(program: Program, members: Population, params: network.Params) -> TrainState:
    """The state before the first update."""
    return TrainState(
        params=params,
        opt_state=jax.vmap(optimizer(program.config).init)(params),  # pyright: ignore[reportArgumentType] any tree is fine
        duals=members.init_duals(),
        runner=init_runner(program, members),
        update=jnp.zeros((), jnp.int32),
        alive=jnp.ones(members.gamma.shape, bool),
    )


def init_runner(program: Program, members: Population) -> RunnerState:
    """The runner before the first step."""
    episode_state, reset_pool = population.start(program.env, members, program.config.num_envs, program.reset_pool_size)
    return RunnerState(
        episode_state, reset_pool, jnp.zeros((*episode_state.is_first.shape, program.config.hidden_size))
    )


def reset_ended(program: Program, members: Population, runner: RunnerState) -> RunnerState:
    """Give every starting episode its reset state, so that the policy can observe."""
    return RunnerState(
        *population.reset_ended(program.env, members, runner.episode_state, runner.reset_pool), runner.hidden_state
    )


def update(program: Program, members: Population, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
    """One policy update of every run: roll out, learn, update the dual variables."""
    before = state
    state, batch, record, last_value = rollout(program, members, state)
    batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), batch)
    rate = program.config.learning_rate
    if program.config.anneal_lr:
        rate = rate * (1.0 - state.update / program.updates)
    keys = jax.vmap(lambda key: jax.random.fold_in(key, state.update))(members.update_keys)

    of_run = (state.params, state.opt_state, before.runner.hidden_state, batch, last_value, members.gamma, keys)
    params, opt_state, learned = _each_run(program, lambda rate, own: learn(program, rate, *own), rate, of_run)
    ended = population.finished(record)
    duals = members.map_duals(lambda o, dual, f: o.next_dual(dual, f), state.duals, ended)
    alive = state.alive & learned["finite"]
    state = replace(
        state,
        params=_where_alive(alive, params, before.params),
        opt_state=_where_alive(alive, opt_state, before.opt_state),
        duals=duals,
        update=state.update + 1,
        alive=alive,
    )
    return state, {**learned, "alive": alive, **summary(program, members, state.duals, record)}


def _each_run(program: Program, function, shared, of_run):
    """function(shared, slice of `of_run`) for every run.  On several devices, a shard_map gives each device its own
    runs: the compiler cannot partition the custom kernels of the GRU and would replicate them."""

    def every(shared, of_run):
        runs = jax.tree.leaves(of_run)[0].shape[0]
        return population.each_run(lambda own: function(shared, own), runs)(of_run)

    if program.devices == 1:
        return every(shared, of_run)

    def own_runs(shared, filled):
        def restored(x, like):
            shape = (like.shape[0] // program.devices, *like.shape[1:])
            return jnp.zeros(shape, like.dtype) if x is None else x

        return every(shared, jax.tree.map(restored, filled, of_run, is_leaf=lambda x: x is None))

    # Empty arrays, such as missing accrued observations, bypass the shard_map: jaxlib 0.11 removes them from its inputs
    # and then crashes with a segmentation fault (Shardy's ManualComputationUnusedInputsPattern).
    filled = jax.tree.map(lambda x: x if x.size else None, of_run)
    of_all, by_run = PartitionSpec(), PartitionSpec("runs")
    where = {"mesh": mesh(program.devices), "in_specs": (of_all, by_run), "out_specs": by_run}
    return jax.shard_map(own_runs, **where, check_vma=False)(shared, filled)


def mesh(devices: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:devices]), ("runs",))


# ---- rollout ------------------------------------------------------------------------------------------------


@jax.named_scope("acting")
def rollout(program: Program, members: Population, state: TrainState):
    """`num_steps` steps of every environment → state, Batch and EpisodeStats [time, run, env], last values."""

    params = jax.vmap(lambda params: network.cast(params, program.config.precision))(state.params)

    def body(runner, _):
        return rollout_step(program, members, params, state.duals, runner)

    runner, (batch, record) = jax.lax.scan(body, state.runner, length=program.config.num_steps)
    # unused where an episode has just ended
    last = choose(program, members, params, runner)
    return replace(state, runner=runner), batch, record, last.value


def rollout_step(program: Program, members: Population, params, duals, runner: RunnerState):
    """Reset, observe, act, step."""
    runner = reset_ended(program, members, runner)
    policy_output = choose(program, members, params, runner)
    episode_state, reward, record = population.advance(
        program.env, members, duals, runner.episode_state, policy_output.action
    )
    after = RunnerState(episode_state, runner.reset_pool, policy_output.hidden_state)
    if program.config.bootstrap_on_truncation:
        reward = reward + bootstrap_truncations(program, members, params, after, record)
    batch = Batch(
        observation=policy_output.observation,
        features=policy_output.features,
        is_first=runner.episode_state.is_first,
        action=policy_output.action,
        log_prob=log_prob(policy_output.logits, policy_output.action),
        value=policy_output.value,
        reward=reward,
        done=record.ended,
    )
    return after, (batch, _slim(record))


def bootstrap_truncations(
    program: Program, members: Population, params, after: RunnerState, record: EpisodeStats
) -> jax.Array:
    """γ V(s_T) where this step's timeout truncated an episode, else 0, [run, env].

    s_T is what the agent would observe next: the environment is not reset yet, the hidden state continues, and the
    accrued sums come from `record`, because those of `episode_state` are already cleared for the next episode.  The
    critic is never trained at s_T, so if the agent observes the remaining time, V(s_T) is an extrapolation.
    """
    uncut = replace(
        after.episode_state, is_first=jnp.zeros_like(after.episode_state.is_first), accrued=record.totals.accrued
    )
    value = choose(program, members, params, replace(after, episode_state=uncut)).value
    return jnp.where(record.end_cause == EndCause.TIMEOUT, members.gamma[:, None] * value, 0.0)


@pytree
class PolicyOutput:
    """The policy's inputs and outputs in one step, [run, env, ...]."""

    observation: Any
    features: jax.Array | network.PaddedFeatures
    logits: jax.Array
    value: jax.Array
    hidden_state: jax.Array
    action: jax.Array


def choose(program: Program, members: Population, params, runner: RunnerState) -> PolicyOutput:
    """Sample every agent's next action with its episode's key; shared by training and evaluation."""
    episode_state = runner.episode_state
    # the barrier evaluates it once: nothing reads the maps again, so the step can overwrite them in place
    observation = jax.lax.optimization_barrier(jax.vmap(jax.vmap(program.env.observe))(episode_state.env_state))
    features = accrued_features(program, members, episode_state.accrued)

    def step(params, hidden_state, is_first, observation, features):
        return network.step(
            params, program.env, hidden_state, is_first, observation, features, program.config.precision
        )

    logits, value, hidden_state = jax.vmap(step)(
        params, runner.hidden_state, episode_state.is_first, observation, features
    )
    action = jax.vmap(jax.vmap(sample))(population.action_keys(members, episode_state), logits)
    return PolicyOutput(observation, features, logits, value, hidden_state, action)


def accrued_features(program: Program, members: Population, accrued: Accrued) -> jax.Array | network.PaddedFeatures:
    """Every agent's accrued observation, [run, ..., extra], zero-padded to the longest."""
    env_inputs, longest = sum(network.env_input_sizes(program.env)), max(members.accrued_obs_sizes)

    def features(objective, accrued):
        own = objective.features(accrued, env_inputs)
        return jnp.pad(own, [(0, 0)] * (own.ndim - 1) + [(0, longest - own.shape[-1])])

    values, lengths = members.map_runs(features, accrued), tuple(sorted(set(members.accrued_obs_sizes)))
    if len(lengths) == 1:
        return values
    which = jnp.array([lengths.index(extra) for extra in members.accrued_obs_sizes], jnp.int8)
    which = jnp.broadcast_to(which.reshape(-1, *[1] * (values.ndim - 2)), values.shape[:-1])
    return network.pad_features(values, which, lengths)


def sample(key: jax.Array, logits: jax.Array) -> jax.Array:
    """A sample from the categorical distribution: the argmax of logits plus Gumbel noise."""
    return jnp.argmax(logits + jax.random.gumbel(key, logits.shape), axis=-1).astype(jnp.int32)


def log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None].astype(jnp.int32), axis=-1)[..., 0]


def _slim(record: EpisodeStats) -> EpisodeStats:
    """Keep only what `summary` and the dual updates read, to save memory."""
    totals = replace(record.totals, info={}, paper_violations=None, episode_id=None)
    return replace(record, totals=totals)


# ---- learning, one run --------------------------------------------------------------------------------------


def gae(rewards, values, done, last_value, gamma, lam):
    """Generalised advantage estimation (GAE), all [time, env]: A_t = δ_t + γ λ (1 - done_t) A_{t+1}.

    δ_t = r_t + γ (1 - done_t) V_{t+1} - V_t.  `done` is True at every end of an episode: death, a won game, a
    timeout, or an end enforced by the objective.  The value after the end is zero in all cases, so a truncated episode
    is valued as if it had terminated, as in the paper's public code.  With `bootstrap_on_truncation`, r_t at a timeout
    already includes γ V(s_T), so that δ_t is as if the episode continued; `done` stays True, because the next row
    belongs to another episode.
    """
    following = jnp.concatenate([values[1:], last_value[None]])
    keep = 1.0 - done.astype(jnp.float32)
    errors = rewards + gamma * keep * following - values

    def body(advantage, inputs):
        error, keep = inputs
        advantage = error + gamma * lam * keep * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(body, jnp.zeros_like(last_value), (errors, keep), reverse=True)
    return advantages


def loss(params, env: Environment, config: PPOConfig, hidden_state, batch: Batch, targets: Targets, blank=()):
    """Clipped surrogate + vf_coef · clipped squared error - ent_coef · entropy, over one minibatch [time, env]."""
    logits, value = network.sequence(
        params, env, hidden_state, batch.is_first, batch.observation, batch.features, config.precision, blank
    )
    log_ratio = log_prob(logits, batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    advantage = (targets.advantage - targets.advantage.mean()) / (targets.advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - config.clip_eps, 1.0 + config.clip_eps)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    near = batch.value + jnp.clip(value - batch.value, -config.clip_eps, config.clip_eps)
    value_loss = 0.5 * jnp.maximum((value - targets.value) ** 2, (near - targets.value) ** 2).mean()
    log_probs = jax.nn.log_softmax(logits)
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    total = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
    return total, {
        "loss": total,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": (ratio - 1.0 - log_ratio).mean(),
        "clip_fraction": (jnp.abs(ratio - 1.0) > config.clip_eps).mean(),
    }


def learn(program: Program, rate, params, opt_state, hidden_state, batch: Batch, last_value, gamma, key):
    """All epochs of one run's update → parameters, optimizer state, diagnostics averaged over minibatches."""
    config = program.config
    advantage = gae(batch.reward, batch.value, batch.done, last_value, gamma, config.gae_lambda)
    targets = Targets(advantage, advantage + batch.value)
    width = config.num_envs // config.num_minibatches

    blank = network.scratch_buffers(program.env, batch.observation, config.num_steps * width, config.precision)

    def minibatch(carry, envs):
        params, opt_state, blank = carry
        # the barrier gathers once: otherwise every element of the network's input would repeat the lookup
        part = jax.lax.optimization_barrier(jax.tree.map(lambda x: jnp.take(x, envs, axis=1), (batch, targets)))
        gradients = jax.grad(loss, argnums=(0, 6), has_aux=True)
        (gradient, blank), diagnostics = gradients(params, program.env, config, hidden_state[envs], *part, blank)
        with jax.named_scope("optimizer"):
            step, opt_state = optimizer(config).update(gradient, opt_state)
            params = jax.tree.map(lambda p, s: p - rate * s, params, step)
            diagnostics["grad_norm"] = optax.tree.norm(gradient)
        return (params, opt_state, blank), diagnostics

    orders = jax.vmap(lambda k: jax.random.permutation(k, config.num_envs))(jax.random.split(key, config.update_epochs))
    (params, opt_state, _), diagnostics = jax.lax.scan(minibatch, (params, opt_state, blank), orders.reshape(-1, width))
    means = jax.tree.map(jnp.mean, diagnostics)
    finite = jnp.isfinite(means["loss"]) & jnp.isfinite(means["grad_norm"]) & jnp.isfinite(optax.tree.norm(params))
    return params, opt_state, {**means, "finite": finite}


# ---- metrics -------------------------------------------------------------------------------------------------


def summary(program: Program, members: Population, duals, record: EpisodeStats) -> dict[str, jax.Array]:
    """Per run, sums over the rollout's finished episodes, and for every step the violation count of the episode that
    ended there, or -1."""
    ended, totals = record.ended, record.totals
    utility = members.map_with_dual(
        lambda o, dual, totals: o.episode_utility(dual, totals),
        duals,
        jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), totals.accrued),
    )
    own = jax.vmap(lambda counts, cost_spec: counts[..., cost_spec.dilemma], in_axes=(1, 0))(
        totals.violations, members.cost_spec
    )
    task_return, length = (jnp.swapaxes(x, 0, 1) for x in (totals.accrued.task_return, totals.length))

    def sums(ended, own, **summed):
        added = {name: jnp.where(ended, x, 0).sum() for name, x in summed.items()}
        return {"episodes": ended.sum(), "counts": jnp.where(ended, own, -1).ravel(), **added}

    of_run = {"return_sum": task_return, "length_sum": length, "utility_sum": utility}
    of_run |= {"ended": jnp.swapaxes(ended, 0, 1), "own": own}
    multiplier = members.map_with_dual(lambda o, dual: o.multiplier(dual), duals)
    return {**_each_run(program, lambda _, own: sums(**own), None, of_run), "multiplier": multiplier}


def _where_alive(alive: jax.Array, new, old):
    def pick(a, b):
        return jnp.where(alive.reshape(alive.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)
