"""A world played on and on, as other libraries play: where an episode ends, the next one begins within the same step.

Making a world is dear, taking a step is cheap.  Under `jax.vmap` an `if` computes both sides, so an automatic reset
written as one makes as many worlds in every step as are played.  Here a batch is reset as a whole: every place keeps
a spare world for its next episode, and when a place that has none needs one, all that are missing are made together.

The episodes of a place follow from the key that it was reset with: its n-th episode is the same whatever the batch, and
can be lived again from that key, n and its actions (`fresh.py` has the keys).
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
from perepisode.environments import check_env, reset_pool
from perepisode.environments.base import EndCause, Environment, Key, Outcome, State
from perepisode.lazy import jax, jnp
from perepisode.pytree import pytree

REWARDS = ("task", "penalised", "vector")
SHARE = 16  # of a batch, one in so many is made or moved at a time
MADE = 4  # of a batch, one in so many is made at a time on a GPU, which a sixteenth does not keep busy


@pytree
class EnvState:
    """One place, amid an episode."""

    env_state: State
    spare: State  # the world of its next episode, if it is ready
    ready: jax.Array  # bool
    key: jax.Array  # uint32[2], what it was reset with
    episode_id: jax.Array  # int32, number of this episode; 0 for the first
    time: jax.Array  # int32, steps taken in it
    cost: jax.Array  # float32, violations in it
    cause: jax.Array  # int32, EndCause: RUNNING until the world itself ends it

    def how_ended(self, max_episode_steps: jax.Array | int) -> tuple[jax.Array, jax.Array]:
        """Whether it terminated, and whether it was truncated: by the world's own clock, or after `longest` steps."""
        running, timeout = self.cause == EndCause.RUNNING, self.cause == EndCause.TIMEOUT
        return ~(running | timeout), timeout | (running & (self.time >= max_episode_steps))


@pytree
class TimeStep:
    """What one step brought."""

    observation: jax.Array  # of the next episode where one ended
    final_observation: jax.Array  # of this episode, its last where it ended
    reward: jax.Array
    outcome: Outcome
    episode_cost: jax.Array  # float32, violations in this episode, those of this step among them
    terminated: jax.Array  # bool: by death, or because the game is won
    truncated: jax.Array  # bool: because time was up

    @property
    def ended(self) -> jax.Array:
        return self.terminated | self.truncated


@dataclass(frozen=True)
class AutoResetEnv:
    """A world, the dilemma whose violations are its cost, and what it pays.

    `reward` is the task's own; or `penalised`, less `price` for each violation; or a `vector` of the task's own reward
    and of minus the violations.
    """

    env: Environment
    dilemma: str
    reward: str = "task"
    price: float | None = None

    def __post_init__(self):
        check_choice("dilemma", self.dilemma, self.env.dilemmas)
        check_choice("reward", self.reward, REWARDS)
        if self.reward == "penalised" and self.price is None:
            raise ConfigError("reward='penalised' needs price=, what is taken off for each violation")
        if self.reward != "penalised" and self.price is not None:
            raise ConfigError(f"reward={self.reward!r}, price={self.price!r}: a price belongs to reward='penalised'")
        if self.price is not None and not _is_price(self.price):
            raise ConfigError(f"price={self.price!r}: use a number from 0 on")

    @classmethod
    def of(cls, env: Any, dilemma: str | None, reward: str, price: float | None, options: dict) -> AutoResetEnv:
        """By the world's name, file.py:Class or class, and its options; its first dilemma unless one is named."""
        if isinstance(env, str | type):
            env = environments.make(plugins.resolve("env", env, environments.ENVIRONMENTS), **options)
        elif options:
            raise ConfigError(f"{env.name} is made already: give its options to it ({', '.join(options)})")
        return cls(check_env.check(env), dilemma or env.dilemmas[0], reward, price)

    @property
    def features(self) -> int:
        return self.env.footprint().features

    def reset(self, key: Key) -> tuple[jax.Array, EnvState]:
        """The first episode of that key."""
        words = _words(key)
        env = _made(self.env, words, jnp.int32(0))
        nought, running = jnp.int32(0), jnp.int32(EndCause.RUNNING)
        state = EnvState(env, env, jnp.zeros((), bool), words, nought, nought, jnp.float32(0), running)
        return self.see(env), state

    def step(self, state: EnvState, action: jax.Array, max_episode_steps: jax.Array | int) -> tuple[EnvState, TimeStep]:
        """One step; the next episode has begun where this one ended, by itself or after `longest` steps."""
        after, timestep = self.step_only(state, action, max_episode_steps)
        after, observation = self.begin_next(timestep.ended, after, timestep.final_observation)
        return after, replace(timestep, observation=observation)

    def begin_next(self, where: jax.Array, state: EnvState, observation: jax.Array) -> tuple[EnvState, jax.Array]:
        """The place's next episode and what is seen of it if `where`, else what was given."""
        batch = jax.tree.map(lambda leaf: leaf[None], (where, state, observation))
        return jax.tree.map(lambda leaf: leaf[0], _renewing(self.env)(*batch))

    def step_only(
        self, state: EnvState, action: jax.Array, max_episode_steps: jax.Array | int
    ) -> tuple[EnvState, TimeStep]:
        """One step, and no next episode."""
        episode = reset_pool.episode_key(_key(state.key), state.episode_id)
        key = reset_pool.step_key(episode, state.time)
        env, outcome = self.env.step(key, state.env_state, _one_of_them(action))
        outcome = jax.tree.map(jnp.asarray, outcome)  # where a world says 0 or EndCause.RUNNING
        cost = state.cost + self.cost(outcome)
        after = replace(state, env_state=env, time=state.time + 1, cost=cost, cause=outcome.end_cause.astype(jnp.int32))
        seen, (terminated, truncated) = self.see(env), after.how_ended(max_episode_steps)
        return after, TimeStep(seen, seen, self._pay(outcome), outcome, after.cost, terminated, truncated)

    def cost(self, outcome: Outcome) -> jax.Array:
        """float32: violations of the chosen dilemma."""
        return outcome.violations[self.env.dilemmas.index(self.dilemma)].astype(jnp.float32)

    def info(self, timestep: TimeStep) -> dict[str, jax.Array]:
        """The step's cost and its episode's so far, its violations of every dilemma, and what the task itself paid."""
        outcome = timestep.outcome
        counts = {f"violations_{name}": count for name, count in zip(self.env.dilemmas, outcome.violations)}
        costs = {"cost": self.cost(outcome), "episode_cost": timestep.episode_cost}
        return {**costs, **counts, "task_reward": outcome.task_reward}

    def _pay(self, outcome: Outcome) -> jax.Array:
        task, cost = outcome.task_reward.astype(jnp.float32), self.cost(outcome)
        if self.reward == "vector":
            return jnp.stack([task, -cost])
        return task if self.price is None else task - self.price * cost

    def see(self, env: State) -> jax.Array:
        return self.env.vector(self.env.observe(env))


def _is_price(price: Any) -> bool:
    return isinstance(price, Real) and not isinstance(price, bool) and 0 <= float(price) < math.inf


def _words(key: Key) -> jax.Array:
    """uint32[2]: a key as plain numbers, which every library can copy; old keys and new ones, of any kind."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    first, more = jnp.split(jax.random.key_data(key), [2])
    for word in more:  # of a longer key; bits drawn from it would depend on the batch
        first = jax.random.key_data(jax.random.fold_in(_key(first), word))
    return first


def _one_of_them(action: Any) -> jax.Array:
    """An action of one place."""
    action = jnp.asarray(action)
    if action.shape or not jnp.issubdtype(action.dtype, jnp.integer):
        raise ConfigError(f"an action of one place is {check_env.array_type(action)}; it must be one whole number")
    return action.astype(jnp.int32)


def _key(words: jax.Array) -> Key:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _made(env: Environment, words: jax.Array, episode_id: jax.Array) -> State:
    return env.reset(reset_pool.reset_key(reset_pool.episode_key(_key(words), episode_id)))


def _renewing(env: Environment):
    """A function of a batch of places, [place, ...], that begins the next episode where one ended.

    `vmap` over it makes one larger batch, however many times.
    """

    def make_and_serve(carry):
        state, observation, waiting = carry
        return _served(env, _with_spares(env, waiting, state), observation, waiting)

    @jax.custom_batching.custom_vmap
    def renewed(ended, state, observation):
        carry = (state, observation, ended)
        if jax.default_backend() == "gpu":  # nearly always enough, as in fresh.assign_resets
            carry = _served(env, *carry)
        return jax.lax.while_loop(lambda carry: carry[2].any(), make_and_serve, carry)[:2]

    @renewed.def_vmap
    def _(size: int, batched: Sequence[Any], *given):
        spread = jax.tree.map(
            lambda leaf, own: leaf if own else jnp.broadcast_to(leaf, (size, *leaf.shape)), given, tuple(batched)
        )
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), spread)
        after = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), renewed(*flat))
        return after, jax.tree.map(lambda _: True, after)

    return renewed


def _with_spares(env: Environment, waiting: jax.Array, state: EnvState) -> EnvState:
    """Every place that waits has a spare: if one had none, all that are missing are made."""
    needed = (waiting & ~state.ready).any()

    def missing(carry):
        return needed & ~carry[1].all()

    def make(carry):
        spare, ready = carry
        places = _first(~ready, MADE if jax.default_backend() == "gpu" else SHARE)
        worlds = jax.vmap(partial(_made, env))(state.key[places], state.episode_id[places] + 1)
        return _put(spare, places, worlds), ready.at[places].set(True, mode="drop")

    spare, ready = jax.lax.while_loop(missing, make, (state.spare, state.ready))
    return replace(state, spare=spare, ready=ready)


def _served(env: Environment, state: EnvState, observation: jax.Array, waiting: jax.Array):
    """The spares of the first places that wait put in their worlds' places: states are large, and most play on."""
    at_hand = waiting & state.ready
    places = _first(at_hand, SHARE)
    served = at_hand & (jnp.cumsum(at_hand) <= len(places))
    seen = jax.vmap(lambda one: env.vector(env.observe(one)))(jax.tree.map(lambda leaf: leaf[places], state.spare))
    begun = replace(
        state,
        env_state=reset_pool.scatter_states(state.env_state, state.spare, served, places),
        ready=state.ready & ~served,
        episode_id=state.episode_id + served,
        time=jnp.where(served, 0, state.time),
        cost=jnp.where(served, 0, state.cost),
        cause=jnp.where(served, EndCause.RUNNING, state.cause),
    )
    return begun, _put(observation, places, seen), waiting & ~served


def _first(wanted: jax.Array, share: int) -> jax.Array:
    """The first places where it is true, as many as are treated at once; those beyond lie outside the batch."""
    size = wanted.shape[0]
    return jnp.nonzero(wanted, size=max(1, size // share), fill_value=size)[0]


def _put(whole: Any, places: jax.Array, few: Any) -> Any:
    return jax.tree.map(lambda leaf, new: leaf.at[places].set(new, mode="drop"), whole, few)
