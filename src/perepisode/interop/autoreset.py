"""Auto-reset for other libraries: in the step that ends an episode, the next episode begins.

A reset is expensive and a step is cheap.  Under `jax.vmap` a conditional computes both branches, so a conditional reset
would reset every environment in every step.  Here the batch is reset as a whole: every environment keeps a spare reset
state for its next episode, and when one without a spare needs it, all missing spares are generated together.

The episodes of an environment follow from the key of its reset: its n-th episode is the same in any batch, and can be
replayed from that key, n and its actions (environments/reset_pool.py derives the keys).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

from perepisode import environments, plugins
from perepisode.config import ConfigError, check_choice
from perepisode.environments import action_space, check_env, reset_pool, stepping
from perepisode.environments.action_space import Box
from perepisode.environments.base import EndCause, Environment, Key, Outcome, State
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

REWARDS = ("task", "penalised", "vector")
SHARE = 16  # a sixteenth of the batch is generated or assigned at a time
GPU_SHARE = 4  # a quarter is generated at a time on a GPU, which a sixteenth does not keep busy


@pytree
class EnvState:
    """One environment during an episode."""

    env_state: State
    spare: State  # the reset state of the next episode, if `ready`
    ready: jax.Array  # bool
    key: jax.Array  # uint32[2], the key of the reset
    episode_id: jax.Array  # int32, 0 for the first episode
    time: jax.Array  # int32, steps in this episode
    cost: jax.Array  # float32, violations in this episode
    cause: jax.Array  # int32, EndCause: RUNNING until the environment ends the episode

    def end_flags(self, max_episode_steps: jax.Array | int) -> tuple[jax.Array, jax.Array]:
        """Terminated, and truncated by a timeout of the environment or after `max_episode_steps`."""
        running, timeout = self.cause == EndCause.RUNNING, self.cause == EndCause.TIMEOUT
        return ~(running | timeout), timeout | (running & (self.time >= max_episode_steps))

    @property
    def episode_key(self) -> Key:
        """The source of all randomness of this episode, which can be replayed from it and the actions."""
        return reset_pool.episode_key(_key(self.key), self.episode_id)


@pytree
class TimeStep:
    """The result of one step."""

    observation: jax.Array  # the first of the next episode if this step ended one
    final_observation: jax.Array  # of this episode, the last if this step ended it
    reward: jax.Array
    outcome: Outcome
    episode_cost: jax.Array  # float32, violations in this episode, including this step
    terminated: jax.Array  # bool: death or victory
    truncated: jax.Array  # bool: time limit

    @property
    def ended(self) -> jax.Array:
        return self.terminated | self.truncated


@dataclass(frozen=True)
class AutoResetEnv:
    """An environment, the dilemma whose violations are its cost, and its reward.

    `reward` is "task", the task reward; "penalised", the task reward minus `price` per violation; or "vector", the task
    reward and the negative number of violations.
    """

    env: Environment
    dilemma: str
    reward: str = "task"
    price: float | None = None

    def __post_init__(self):
        check_choice("dilemma", self.dilemma, self.env.dilemmas)
        check_choice("reward", self.reward, REWARDS)
        if self.reward == "penalised" and self.price is None:
            raise ConfigError("reward='penalised' needs price=, the penalty per violation")
        if self.reward != "penalised" and self.price is not None:
            raise ConfigError(f"reward={self.reward!r}, price={self.price!r}: price needs reward='penalised'")
        if self.price is not None and not _is_price(self.price):
            raise ConfigError(f"price={self.price!r}: use a number of at least 0")

    @classmethod
    def of(cls, env: Any, dilemma: str | None, reward: str, price: float | None, options: dict) -> AutoResetEnv:
        """From an environment, its class, its name or file.py:Class; by default with its first dilemma."""
        if isinstance(env, str | type):
            env = environments.make(plugins.resolve("env", env, environments.ENVIRONMENTS), **options)
        elif options:
            raise ConfigError(f"{env.name} is an instance; give its options to its constructor ({', '.join(options)})")
        return cls(check_env.check(env), dilemma or env.dilemmas[0], reward, price)

    @property
    def features(self) -> int:
        return self.env.footprint().features

    @property
    def reward_dim(self) -> int:
        """Number of rewards, as MO-Gymnasium calls it."""
        return 2 if self.reward == "vector" else 1

    def reset(self, key: Key) -> tuple[jax.Array, EnvState]:
        """Begin the first episode of this key."""
        words = key_words(key)
        env_state = _reset_state(self.env, words, jnp.int32(0))
        zero, running = jnp.int32(0), jnp.int32(EndCause.RUNNING)
        state = EnvState(env_state, env_state, jnp.zeros((), bool), words, zero, zero, jnp.float32(0), running)
        return self.observe(env_state), state

    def step(self, state: EnvState, action: jax.Array, max_episode_steps: jax.Array | int) -> tuple[EnvState, TimeStep]:
        """One step, and the reset if it ended the episode or reached `max_episode_steps`."""
        after, timestep = self.step_env(state, action, max_episode_steps)
        after, observation = self.reset_where(timestep.ended, after, timestep.final_observation)
        return after, replace(timestep, observation=observation)

    def reset_where(self, where: jax.Array, state: EnvState, observation: jax.Array) -> tuple[EnvState, jax.Array]:
        """Begin the next episode if `where`; returns the state and the first observation, otherwise its arguments."""
        batch = jax.tree.map(lambda leaf: leaf[None], (where, state, observation))
        return jax.tree.map(lambda leaf: leaf[0], _make_reset_where(self.env)(*batch))

    def reset_again(self, state: EnvState, key_data: jax.Array, where: jax.Array) -> tuple[EnvState, jax.Array]:
        """Begin the first episode of another key if `where`, in the middle of an episode or after it."""
        begin = replace(
            state,
            key=jnp.where(where, key_data, state.key),
            episode_id=jnp.where(where, -1, state.episode_id),  # the next one is the first
            ready=state.ready & ~where,
        )
        return self.reset_where(where, begin, self.observe(state.env_state))

    def step_env(
        self, state: EnvState, action: jax.Array, max_episode_steps: jax.Array | int
    ) -> tuple[EnvState, TimeStep]:
        """One step without a reset."""
        key = reset_pool.step_key(state.episode_key, state.time)
        env_state, outcome = stepping.step(self.env, key, state.env_state, self._checked_action(action))
        outcome = jax.tree.map(jnp.asarray, outcome)  # an environment may return 0 or EndCause.RUNNING
        cost = state.cost + self.cost(outcome)
        cause = outcome.end_cause.astype(jnp.int32)
        after = replace(state, env_state=env_state, time=state.time + 1, cost=cost, cause=cause)
        observation, (terminated, truncated) = self.observe(env_state), after.end_flags(max_episode_steps)
        reward = self._reward(outcome)
        return after, TimeStep(observation, observation, reward, outcome, after.cost, terminated, truncated)

    def _checked_action(self, action: Any) -> jax.Array:
        """The action of one environment as `step` takes it; numbers outside a box are clipped to it."""
        action, actions = jnp.asarray(action), self.env.actions
        kind = jnp.floating if isinstance(actions, Box) else jnp.integer
        if action.shape != action_space.shape(actions) or not jnp.issubdtype(action.dtype, kind):
            wanted = f"float32[{actions.size}]" if isinstance(actions, Box) else "one whole number"
            raise ConfigError(f"the action of an environment is {check_env.array_type(action)}; it must be {wanted}")
        return action_space.clip(actions, action.astype(action_space.dtype(actions)))

    def cost(self, outcome: Outcome) -> jax.Array:
        """float32: violations of this dilemma."""
        return outcome.violations[self.env.dilemmas.index(self.dilemma)].astype(jnp.float32)

    def info(self, timestep: TimeStep) -> dict[str, jax.Array]:
        """Cost of the step and of the episode so far, violations of every dilemma, and the task reward."""
        outcome = timestep.outcome
        counts = {f"violations_{name}": count for name, count in zip(self.env.dilemmas, outcome.violations)}
        costs = {"cost": self.cost(outcome), "episode_cost": timestep.episode_cost}
        return {**costs, **counts, "task_reward": outcome.task_reward}

    def _reward(self, outcome: Outcome) -> jax.Array:
        task, cost = outcome.task_reward.astype(jnp.float32), self.cost(outcome)
        if self.reward == "vector":
            return jnp.stack([task, -cost])
        return task if self.price is None else task - self.price * cost

    def observe(self, env_state: State) -> jax.Array:
        return self.env.vector(self.env.observe(env_state))


def _is_price(price: Any) -> bool:
    return isinstance(price, Real) and not isinstance(price, bool) and 0 <= float(price) < math.inf


def key_words(key: Key) -> jax.Array:
    """uint32[2]: a key, new-style or legacy and of any implementation, as numbers that every library can copy."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    data, rest = jnp.split(jax.random.key_data(key), [2])
    for word in rest:  # of a longer key, whose random bits would depend on the batch
        data = jax.random.key_data(jax.random.fold_in(_key(data), word))
    return data


def _key(data: jax.Array) -> Key:
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def _reset_state(env: Environment, key_data: jax.Array, episode_id: jax.Array) -> State:
    return env.reset(reset_pool.reset_key(reset_pool.episode_key(_key(key_data), episode_id)))


def _make_reset_where(env: Environment):
    """A function of a batch, [env, ...], that begins the next episode in the environments whose episode ended.

    `vmap` over it, at any depth, flattens to one larger batch.
    """

    def fill_and_assign(carry):
        state, observation, waiting = carry
        return _assign_spares(env, _fill_spares(env, waiting, state), observation, waiting)

    @jax.custom_batching.custom_vmap
    def reset_where(ended, state, observation):
        carry = (state, observation, ended)
        if jax.default_backend() == "gpu":  # nearly always enough, as in reset_pool.assign_resets
            carry = _assign_spares(env, *carry)
        return jax.lax.while_loop(lambda carry: carry[2].any(), fill_and_assign, carry)[:2]

    @reset_where.def_vmap
    def _(size: int, batched: Sequence[Any], *arguments):
        broadcast = jax.tree.map(
            lambda leaf, own: leaf if own else jnp.broadcast_to(leaf, (size, *leaf.shape)), arguments, tuple(batched)
        )
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), broadcast)
        after = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), reset_where(*flat))
        return after, jax.tree.map(lambda _: True, after)

    return reset_where


def _fill_spares(env: Environment, waiting: jax.Array, state: EnvState) -> EnvState:
    """If a waiting environment has no spare, generate all missing spares."""
    needed = (waiting & ~state.ready).any()

    def missing(carry):
        return needed & ~carry[1].all()

    def generate(carry):
        spare, ready = carry
        indices = _first_indices(~ready, GPU_SHARE if jax.default_backend() == "gpu" else SHARE)
        states = jax.vmap(partial(_reset_state, env))(state.key[indices], state.episode_id[indices] + 1)
        return _scatter(spare, indices, states), ready.at[indices].set(True, mode="drop")

    spare, ready = jax.lax.while_loop(missing, generate, (state.spare, state.ready))
    return replace(state, spare=spare, ready=ready)


def _assign_spares(env: Environment, state: EnvState, observation: jax.Array, waiting: jax.Array):
    """Move spares into the first waiting environments; few at a time, because states are large."""
    available = waiting & state.ready
    indices = _first_indices(available, SHARE)
    assigned = available & (jnp.cumsum(available) <= len(indices))
    spares = jax.tree.map(lambda leaf: leaf[indices], state.spare)
    first_observations = jax.vmap(lambda spare: env.vector(env.observe(spare)))(spares)
    begun = replace(
        state,
        env_state=reset_pool.scatter_states(state.env_state, state.spare, assigned, indices),
        ready=state.ready & ~assigned,
        episode_id=state.episode_id + assigned,
        time=jnp.where(assigned, 0, state.time),
        cost=jnp.where(assigned, 0, state.cost),
        cause=jnp.where(assigned, EndCause.RUNNING, state.cause),
    )
    return begun, _scatter(observation, indices, first_observations), waiting & ~assigned


def _first_indices(mask: jax.Array, share: int) -> jax.Array:
    """The first indices where `mask` is true, a fixed share of the batch; unused entries are out of bounds."""
    size = mask.shape[0]
    return jnp.nonzero(mask, size=max(1, size // share), fill_value=size)[0]


def _scatter(batch: Any, indices: jax.Array, new: Any) -> Any:
    return jax.tree.map(lambda leaf, new: leaf.at[indices].set(new, mode="drop"), batch, new)
