"""One update of a population: rollout, learning, dual variables, metrics, for any agent.

Arrays are [run, env] while acting and [time, run, env] over a rollout; agents compute for one run and are vmapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from perepisode.algorithms import LearningAgent, network
from perepisode.algorithms.base import Batch, PolicyOutput
from perepisode.environments.base import EndCause, Environment
from perepisode.environments.reset_pool import ResetPool
from perepisode.methods import Accrued, Mixture
from perepisode.pytree import pytree
from perepisode.training import population
from perepisode.training.population import EpisodeState, EpisodeStats, Population


@dataclass(frozen=True)
class Program:
    """The static part of training: the agent in its environment, the total number of updates."""

    agent: LearningAgent
    num_envs: int
    updates: int
    reset_pool_size: int  # reset states generated at a time per run
    devices: int = 1  # over which the run axis is sharded

    @property
    def env(self) -> Environment:
        return self.agent.env

    @property
    def config(self) -> Any:
        return self.agent.config


@pytree
class RunnerState:
    """What the rollout carries from one step to the next."""

    episode_state: EpisodeState
    reset_pool: ResetPool
    hidden_state: Any  # of the agent, [run, env, ...]


@pytree
class TrainState:
    """Everything that a population carries from one update to the next; checkpoints contain all of it."""

    params: Any  # [run, ...]
    opt_state: Any
    duals: Any
    runner: RunnerState
    update: jax.Array  # int32, updates done
    alive: jax.Array  # bool[run]: False once a run has diverged, which freezes its parameters


def initial_params(program: Program, members: Population, seeds: Sequence[int]) -> Any:
    """Every run's initial weights, [run, ...], on the host; the same as if the run were trained alone."""
    agent, sizes = program.agent, members.accrued_obs_sizes
    drawn = [agent.widen(agent.init(seed, extra), max(sizes)) for seed, extra in zip(seeds, sizes, strict=True)]
    return jax.tree.map(lambda *x: np.stack(x), *drawn)


def init(program: Program, members: Population, params: Any) -> TrainState:
    """The state before the first update."""
    return TrainState(
        params=params,
        opt_state=jax.vmap(program.agent.init_optimizer)(params),
        duals=members.init_duals(),
        runner=init_runner(program, members),
        update=jnp.zeros((), jnp.int32),
        alive=jnp.ones(members.gamma.shape, bool),
    )


def init_runner(program: Program, members: Population) -> RunnerState:
    """The runner before the first step."""
    runs, envs = len(members.gamma), program.num_envs
    hidden_state = jax.vmap(lambda _: program.agent.init_hidden_state(envs))(jnp.arange(runs))
    return RunnerState(*population.start(program.env, members, envs, program.reset_pool_size), hidden_state)


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
    progress = state.update / program.updates
    keys = jax.vmap(lambda key: jax.random.fold_in(key, state.update))(members.update_keys)

    ended = population.finished(record)
    # before learning: the losses of several streams use the new dual variables
    duals = members.map_duals(lambda o, dual, f: o.next_dual(dual, f), state.duals, ended)
    also = {"mixture": mixtures(program, members, duals)} if program.agent.streams.several else {}
    of_run = (state.params, state.opt_state, before.runner.hidden_state, batch, last_value, members.gamma, keys)

    def learn(progress, own):
        arguments, also = own
        return program.agent.learn(*arguments, progress=progress, **also)

    params, opt_state, learned = _each_run(program, learn, progress, (of_run, also))
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


def mixtures(program: Program, members: Population, duals: Any) -> Mixture:
    """How every run learns from its reward streams, [run, ...]."""
    gae_lambda = getattr(program.config, "gae_lambda", 1.0)
    return members.map_with_dual(lambda o, dual, gamma: o.mixture(dual, gamma, gae_lambda), duals, members.gamma)


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

    progress = state.update / program.updates
    policy = jax.vmap(lambda params: program.agent.policy(params, progress))(state.params)

    def body(runner, _):
        return rollout_step(program, members, policy, state.duals, runner)

    runner, (batch, record) = jax.lax.scan(body, state.runner, length=program.config.num_steps)
    # unused where an episode has just ended
    last = choose(program, members, policy, runner)
    return replace(state, runner=runner), batch, record, last.value


def rollout_step(program: Program, members: Population, policy, duals, runner: RunnerState):
    """Reset, observe, act, step."""
    runner = reset_ended(program, members, runner)
    observation, features = observe(program, members, runner.episode_state)
    choice = act(program, members, policy, runner, observation, features)
    episode_state, record = population.advance(program.env, members, runner.episode_state, choice.action)
    reward = population.rewards(members, duals, runner.episode_state.accrued, record.totals.accrued)
    after = RunnerState(episode_state, runner.reset_pool, choice.hidden_state)
    if getattr(program.config, "bootstrap_on_truncation", False):
        gamma = mixtures(program, members, duals).gamma if program.agent.streams.several else members.gamma
        reward = reward + bootstrap_truncations(program, members, policy, after, record, gamma)
    batch = Batch(
        observation=observation,
        features=features,
        is_first=runner.episode_state.is_first,
        action=choice.action,
        stored=choice.stored,
        value=choice.value,
        reward=reward,
        done=record.ended,
    )
    return after, (batch, _slim(record))


def bootstrap_truncations(
    program: Program, members: Population, policy, after: RunnerState, record: EpisodeStats, gamma: jax.Array
) -> jax.Array:
    """γ V(s_T) where this step's timeout truncated an episode, else 0; of every stream, if there are several.

    s_T is what the agent would observe next: the environment is not reset yet, the hidden state continues, and the
    accrued sums come from `record`, because those of `episode_state` are already cleared for the next episode.  The
    critic is never trained at s_T, so if the agent observes the remaining time, V(s_T) is an extrapolation.
    """
    uncut = replace(
        after.episode_state, is_first=jnp.zeros_like(after.episode_state.is_first), accrued=record.totals.accrued
    )
    value = choose(program, members, policy, replace(after, episode_state=uncut)).value
    truncated = record.end_cause == EndCause.TIMEOUT
    return jnp.where(truncated.reshape(truncated.shape + (1,) * (value.ndim - 2)), gamma[:, None] * value, 0.0)


def choose(program: Program, members: Population, policy, runner: RunnerState) -> PolicyOutput:
    """Every agent's next action; shared by training and evaluation."""
    return act(program, members, policy, runner, *observe(program, members, runner.episode_state))


def observe(program: Program, members: Population, episode_state: EpisodeState):
    """Every agent's observation and accrued observation, [run, env, ...]."""
    # the barrier evaluates it once: nothing reads the maps again, so the step can overwrite them in place
    observation = jax.lax.optimization_barrier(jax.vmap(jax.vmap(program.env.observe))(episode_state.env_state))
    return observation, accrued_features(program, members, episode_state.accrued)


def act(program: Program, members: Population, policy, runner: RunnerState, observation, features) -> PolicyOutput:
    """Every agent's next action, each with the key of its episode's step."""
    keys, is_first = population.action_keys(members, runner.episode_state), runner.episode_state.is_first
    return jax.vmap(program.agent.act)(policy, runner.hidden_state, is_first, observation, features, keys)


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


def _slim(record: EpisodeStats) -> EpisodeStats:
    """Keep only what `summary` and the dual updates read, to save memory."""
    totals = replace(record.totals, info={}, paper_violations=None, episode_id=None)
    return replace(record, totals=totals)


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
