"""A population: independent runs of the same structure, trained in one program along a leading axis.

Defines the order of the environment stack: reset → step → count → accrue → enforce → record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from perepisode.environments import ENVIRONMENTS, stepping
from perepisode.environments.base import EndCause, Environment, Outcome
from perepisode.environments.reset_pool import ResetPool, action_key, assign_resets, empty_pool, episode_key, step_key
from perepisode.methods import Accrued, Finished, Objective
from perepisode.pytree import pytree, static
from perepisode.runs import Run


@pytree
class CostSpec:
    """How a run is charged for violations: of which dilemma, by which detector, once per step or per violation."""

    dilemma: jax.Array  # int32
    paper_detector: jax.Array  # bool
    per_step: jax.Array  # bool

    def __call__(self, outcome: Outcome) -> jax.Array:
        count = jnp.where(self.paper_detector, outcome.paper_violations, outcome.violations)[self.dilemma]
        return jnp.where(self.per_step, jnp.minimum(count, 1), count).astype(jnp.float32)


@pytree
class Population:
    """The traced values of all runs, with a leading run axis.  Runs of one kind are adjacent."""

    keys: jax.Array  # per run, of its episodes
    update_keys: jax.Array  # per run, of its minibatch permutations
    gamma: jax.Array
    cost_spec: CostSpec
    objectives: tuple[Objective, ...]  # one stacked objective per kind of run
    sizes: tuple[int, ...] = static()  # number of runs per stack
    enforces: bool = static(default=True)  # False in evaluation: objectives do not end episodes

    def map_runs(self, function, *trees):
        """function(objective, *slices) for every run; results are concatenated along the run axis."""
        return _join(self._by_stack(lambda o, _, *slices: function(o, *slices), trees=trees))

    def map_duals(self, function, duals, *trees):
        """function(objective, dual, *slices) for every run; results stay one tree per stack, like the duals."""
        return self._by_stack(function, duals, trees, each_run)

    def map_with_dual(self, function, duals, *trees):
        """`map_duals` with results concatenated along the run axis."""
        return _join(self._by_stack(function, duals, trees))

    @property
    def accrued_obs_sizes(self) -> tuple[int, ...]:
        """The length of each run's accrued observation."""

        def features(members):
            return members._by_stack(lambda o, _: o.features(Accrued.zeros(), env_inputs=1))

        return tuple(stack.shape[-1] for stack in jax.eval_shape(features, self) for _ in range(stack.shape[0]))

    def init_duals(self):
        return self._by_stack(lambda o, _: o.init_dual())

    def _by_stack(self, function, duals=None, trees=(), mapped=jax.vmap):
        results, start = [], 0
        for objective, dual, size in zip(self.objectives, duals or [None] * len(self.sizes), self.sizes):
            slices = jax.tree.map(lambda x, a=start, b=start + size: x[a:b], trees)
            results.append(mapped(function, axis_size=size)(objective, dual, *slices))
            start += size
        return tuple(results)


def each_run(function, axis_size: int):
    """`jax.vmap` over runs, for functions that sum over steps and environments.

    On a CPU the runs are processed sequentially: under vmap the summation order, and hence the rounding, depends on the
    number of runs, whereas a member of a population must equal the same run alone bit for bit.  This costs no time
    on a CPU.  Barriers hide the loop's length and operands from the compiler, which would specialise a single run.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(function, axis_size=axis_size)

    def every(*of_runs):
        def one(index):
            own = jax.lax.optimization_barrier(jax.tree.map(lambda x: x[index], of_runs))
            return jax.lax.optimization_barrier(function(*own))

        def body(index, results):
            return jax.tree.map(lambda all, own: all.at[index].set(own), results, one(index))

        like = jax.eval_shape(one, 0)
        empty = jax.tree.map(lambda x: jnp.zeros((axis_size, *x.shape), x.dtype), like)
        return jax.lax.fori_loop(0, jax.lax.optimization_barrier(jnp.int32(axis_size)), body, empty)

    return every


def _join(parts):
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts) if len(parts) > 1 else parts[0]


def order(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs in the order of a population: runs of one kind adjacent, otherwise as given."""
    kinds = _kinds(runs)
    return tuple(sorted(runs, key=lambda run: kinds.index(run.objective_type)))


def gather(runs: Sequence[Run], files: Mapping[str, Any] | None = None) -> Population:
    """The population of these runs, which must be in `order`; `files` holds the files that their settings name."""
    assert tuple(runs) == order(runs)
    stacks = [[run.objective(files) for run in runs if run.objective_type == kind] for kind in _kinds(runs)]
    keys = [jax.random.split(jax.random.key(run.seed)) for run in runs]
    return Population(
        keys=jnp.stack([k[0] for k in keys]),
        update_keys=jnp.stack([k[1] for k in keys]),
        gamma=jnp.array([run.gamma for run in runs], jnp.float32),
        cost_spec=CostSpec(
            jnp.array([ENVIRONMENTS[run.env].dilemmas.index(run.dilemma) for run in runs], jnp.int32),
            jnp.array([run.detector == "paper" for run in runs]),
            jnp.array([run.cost_per == "step" for run in runs]),
        ),
        objectives=tuple(_stack(stack) for stack in stacks),
        sizes=tuple(len(stack) for stack in stacks),
    )


def _kinds(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(run.objective_type for run in runs))


def _stack(objectives: Sequence[Objective]) -> Objective:
    return jax.tree.map(lambda *x: jnp.stack([jnp.asarray(v, jnp.float32) for v in x]), *objectives)


# ---- episodes -----------------------------------------------------------------------------------------------


@pytree
class EpisodeState:
    """The current episodes, [run, env]: environment states and accumulated statistics."""

    env_state: Any
    is_first: jax.Array  # bool: the episode is about to start and needs a reset state
    episode_id: jax.Array  # int32: number of the episode within its run
    length: jax.Array  # int32
    accrued: Accrued  # as charged by `CostSpec`
    violations: jax.Array  # int32[..., dilemma], exact
    paper_violations: jax.Array  # int32[..., dilemma]
    info: dict[str, jax.Array]


@pytree
class EpisodeStats:
    """Statistics after one step, before any reset.  Totals are those of a whole episode where `ended`."""

    ended: jax.Array
    end_cause: jax.Array
    totals: EpisodeState  # without env_state and is_first


def start(env: Environment, population: Population, envs: int, reset_pool_size: int) -> tuple[EpisodeState, ResetPool]:
    """The state before the first episodes; all are still to be reset."""
    env_states, reset_pool = empty_pool(env, population.keys, envs, reset_pool_size)
    shape = (population.keys.shape[0], envs)
    zeros = jnp.zeros(shape, jnp.int32)
    counts = jnp.zeros((*shape, len(env.dilemmas)), jnp.int32)
    info = dict.fromkeys(env.info_keys, zeros)
    accrued = Accrued.zeros(shape)
    return EpisodeState(env_states, jnp.ones(shape, bool), zeros, zeros, accrued, counts, counts, info), reset_pool


def reset_ended(
    env: Environment, population: Population, episode_state: EpisodeState, reset_pool: ResetPool
) -> tuple[EpisodeState, ResetPool]:
    """The first half of a step, before the policy acts: starting episodes get their reset states."""
    reset_pool, env_states, episode_ids = assign_resets(
        env, population.keys, reset_pool, episode_state.env_state, episode_state.episode_id, episode_state.is_first
    )
    return replace(episode_state, env_state=env_states, episode_id=episode_ids), reset_pool


def episode_keys(population: Population, episode_state: EpisodeState) -> jax.Array:
    return jax.vmap(jax.vmap(episode_key, in_axes=(None, 0)))(population.keys, episode_state.episode_id)


def action_keys(population: Population, episode_state: EpisodeState) -> jax.Array:
    """Keys [run, env] for choosing the next action."""
    return jax.vmap(jax.vmap(action_key))(episode_keys(population, episode_state), episode_state.length)


def advance(
    env: Environment, population: Population, episode_state: EpisodeState, actions: jax.Array
) -> tuple[EpisodeState, EpisodeStats]:
    """The second half of a step: step every environment → next state, statistics."""
    keys = jax.vmap(jax.vmap(step_key))(episode_keys(population, episode_state), episode_state.length)
    env_states, outcome = jax.vmap(jax.vmap(partial(stepping.step, env)))(keys, episode_state.env_state, actions)
    cost = jax.vmap(lambda cost_spec, o: jax.vmap(cost_spec)(o))(population.cost_spec, outcome)
    episode_state = _accrue(episode_state, outcome, cost)
    enforced = population.enforces & population.map_runs(lambda o, a: o.ends_episode(a), episode_state.accrued)
    cause = jnp.where(outcome.ended, outcome.end_cause, jnp.where(enforced, EndCause.ENFORCED, EndCause.RUNNING))
    totals = replace(episode_state, env_state=None, is_first=None)
    record = EpisodeStats(cause != EndCause.RUNNING, cause.astype(jnp.int32), totals)
    cleared = jax.tree.map(lambda x: _zero_where(record.ended, x), totals)
    return replace(cleared, env_state=env_states, is_first=record.ended), record


def rewards(population: Population, duals: Any, before: Accrued, after: Accrued) -> jax.Array:
    """What the agents learn from in the step between these sums: [run, env], or [run, env, stream]."""
    return population.map_with_dual(lambda o, dual, b, a: o.rewards(dual, b, a), duals, before, after)


def _accrue(episode_state: EpisodeState, outcome: Outcome, cost: jax.Array) -> EpisodeState:
    return replace(
        episode_state,
        length=episode_state.length + 1,
        accrued=episode_state.accrued.add(outcome.task_reward, cost),
        violations=episode_state.violations + outcome.violations,
        paper_violations=episode_state.paper_violations + outcome.paper_violations,
        info={name: episode_state.info[name] + count for name, count in outcome.info.items()},
    )


def _zero_where(ended: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.where(ended.reshape(ended.shape + (1,) * (x.ndim - ended.ndim)), jnp.zeros_like(x), x)


def finished(record: EpisodeStats) -> Finished:
    """The rollout's finished episodes as objectives receive them, [run, time, env]."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), Finished(record.ended, record.totals.accrued.violations))
