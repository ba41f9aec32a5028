"""A world played on and on, as other libraries play: where an episode ends, the next one begins within the same step.

Making a world is dear, taking a step is cheap.  Under `jax.vmap` an `if` computes both sides, so an automatic reset
written as one makes as many worlds in every step as are played.  Here a batch is reset as a whole: every place keeps
spare worlds for its next episodes, and when a place that has none needs one, all that are missing are made together.

The episodes of a place follow from the key that it was reset with: its n-th episode is the same whatever the batch, and
can be lived again from that key, n and its actions (`fresh.py` has the keys).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

from perepisode import environments
from perepisode.config import Refused, one_of
from perepisode.environments import fresh
from perepisode.environments.base import EndCause, Key, Outcome, State, World
from perepisode.later import jax, jnp
from perepisode.pytree import pytree

REWARDS = ("task", "penalised", "vector")
SHARE = 16  # of a batch, one in so many is made or moved at a time
# On a GPU a hundred worlds take hardly longer to make than ten, so they are made seldom and many together.  With one
# spare each, of 1024 places the first that needs a second one comes after 40 ends; with two, after 180.
GPU_SPARES = 2
GPU_SHARE = 4  # of a batch, one in so many is made at a time


@pytree
class Playing:
    """One place, amid an episode."""

    world: State
    spare: State  # [slot]: worlds of its next episodes, number n in slot n modulo the slots
    ready: jax.Array  # bool[slot]
    key: jax.Array  # uint32[2], what it was reset with
    serial: jax.Array  # int32, number of this episode; 0 for the first
    time: jax.Array  # int32, steps taken in it
    cost: jax.Array  # float32, violations in it


@pytree
class Happened:
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
class Endless:
    """A world, the dilemma whose violations are its cost, and what it pays.

    `reward` is the task's own; or `penalised`, less `price` for each violation; or a `vector` of the task's own reward
    and of minus the violations.
    """

    world: World
    dilemma: str
    reward: str = "task"
    price: float | None = None

    def __post_init__(self):
        one_of("dilemma", self.dilemma, self.world.dilemmas)
        one_of("reward", self.reward, REWARDS)
        if self.reward == "penalised" and self.price is None:
            raise Refused("reward='penalised' needs price=, what is taken off for each violation")
        if self.reward != "penalised" and self.price is not None:
            raise Refused(f"reward={self.reward!r}, price={self.price!r}: a price belongs to reward='penalised'")
        if self.price is not None and not _is_price(self.price):
            raise Refused(f"price={self.price!r}: use a number from 0 on")

    @classmethod
    def of(cls, world: str | World, dilemma: str | None, reward: str, price: float | None, options: dict) -> Endless:
        """By the world's name and its options; the first of its dilemmas unless one is named."""
        if isinstance(world, str):
            one_of("world", world, environments.WORLDS)
            world = environments.make(world, **options)
        elif options:
            raise Refused(f"{world.name} is made already: give its options to it ({', '.join(options)})")
        return cls(world, dilemma or world.dilemmas[0], reward, price)

    @property
    def features(self) -> int:
        return self.world.footprint().features

    def reset(self, key: Key) -> tuple[jax.Array, Playing]:
        """The first episode of that key."""
        words = _words(key)
        world = _made(self.world, words, jnp.int32(0))
        slots = GPU_SPARES if _on_gpu() else 1
        spare = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (slots, *leaf.shape)), world)
        none = jnp.zeros(slots, bool)
        return self.see(world), Playing(world, spare, none, words, jnp.int32(0), jnp.int32(0), jnp.float32(0))

    def step(self, state: Playing, action: jax.Array, longest: jax.Array | int) -> tuple[Playing, Happened]:
        """One step; the next episode has begun where this one ended, by itself or after `longest` steps."""
        played, happened = self.step_only(state, action, longest)
        after = self.begin_next(happened.ended, played)
        # Seen after the renewal, and the last of an episode only if somebody asks for it: where nothing reads a world
        # between its step and its renewal, both are done in place.
        observation = self.see(after.world)
        final = self._last_seen(happened.ended, played.world, observation)
        return after, replace(happened, observation=observation, final_observation=final)

    def begin_next(self, where: jax.Array, state: Playing) -> Playing:
        """The place's next episode if `where`, else what was given."""
        return _of_one(partial(_renewed, self.world))(where, state)

    def _last_seen(self, ended: jax.Array, world: State, observation: jax.Array) -> jax.Array:
        """What is seen of that world if its episode ended, else the observation: dear only if one of the batch did."""

        def of_batch(ended, world, observation):
            return jax.lax.cond(ended.any(), lambda: jax.vmap(self.see)(world), lambda: observation)

        return _of_one(of_batch)(ended, world, observation)

    def step_only(self, state: Playing, action: jax.Array, longest: jax.Array | int) -> tuple[Playing, Happened]:
        """One step, and no next episode."""
        episode = fresh.episode_key(_key(state.key), state.serial)
        key = fresh.world_key(episode, state.time)
        world, outcome = self.world.step(key, state.world, action)
        after = replace(state, world=world, time=state.time + 1, cost=state.cost + self.cost(outcome))
        late = (after.time >= longest) & ~outcome.ended
        timeout = outcome.end_cause == EndCause.TIMEOUT
        seen, terminated = self.see(world), outcome.ended & ~timeout
        return after, Happened(seen, seen, self._pay(outcome), outcome, after.cost, terminated, timeout | late)

    def cost(self, outcome: Outcome) -> jax.Array:
        """float32: violations of the chosen dilemma."""
        return outcome.violations[self.world.dilemmas.index(self.dilemma)].astype(jnp.float32)

    def info(self, happened: Happened) -> dict[str, jax.Array]:
        """The step's cost and its episode's so far, its violations of every dilemma, and what the task itself paid."""
        outcome = happened.outcome
        counts = {f"violations_{name}": count for name, count in zip(self.world.dilemmas, outcome.violations)}
        costs = {"cost": self.cost(outcome), "episode_cost": happened.episode_cost}
        return {**costs, **counts, "task_reward": outcome.task_reward}

    def _pay(self, outcome: Outcome) -> jax.Array:
        task, cost = outcome.task_reward.astype(jnp.float32), self.cost(outcome)
        if self.reward == "vector":
            return jnp.stack([task, -cost])
        return task if self.price is None else task - self.price * cost

    def see(self, world: State) -> jax.Array:
        return self.world.vector(self.world.observe(world))


def _is_price(price: Any) -> bool:
    return isinstance(price, Real) and not isinstance(price, bool) and 0 <= float(price) < math.inf


def _words(key: Key) -> jax.Array:
    """uint32[2]: a key as plain numbers, which every library can copy; old keys and new ones, of any kind."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    words = jax.random.key_data(key)
    return words if words.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)


def _key(words: jax.Array) -> Key:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _made(world: World, words: jax.Array, serial: jax.Array) -> State:
    return world.reset(fresh.reset_key(fresh.episode_key(_key(words), serial)))


def _of_one(function: Callable) -> Callable:
    """A function of a batch, [place, ...], as one of a single place; `vmap` makes it a batch, however many times."""
    whole = jax.custom_batching.custom_vmap(function)

    @whole.def_vmap
    def _(size: int, batched: Sequence[Any], *given):
        spread = jax.tree.map(
            lambda leaf, own: leaf if own else jnp.broadcast_to(leaf, (size, *leaf.shape)), given, tuple(batched)
        )
        after = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), whole(*_row(spread)))
        return after, jax.tree.map(lambda _: True, after)

    def of_one(*given):
        return jax.tree.map(lambda leaf: leaf[0], whole(*jax.tree.map(lambda leaf: leaf[None], given)))

    return of_one


def _renewed(world: World, ended: jax.Array, state: Playing) -> Playing:
    """The next episode has begun in the places where one ended."""

    def make_and_serve(carry):
        state, waiting = carry
        return _served(_with_spares(world, waiting, state), waiting)

    carry = (state, ended)
    if _on_gpu():  # nearly always enough, as in fresh.hand_out
        carry = _served(*carry)
    return jax.lax.while_loop(lambda carry: carry[1].any(), make_and_serve, carry)[0]


def _with_spares(world: World, waiting: jax.Array, state: Playing) -> Playing:
    """Every place that waits has a spare: if one had none, all that are missing are made."""
    size, slots = state.ready.shape
    at_once = max(1, size // (GPU_SHARE if _on_gpu() else SHARE))
    needed = (waiting & ~_has_next(state)).any()

    def missing(carry):
        return needed & ~carry[1].all()

    def make(carry):
        spare, ready = carry
        which = _first(~ready, at_once)
        places, slot = which // slots, which % slots
        following = state.serial[places] + 1
        worlds = jax.vmap(partial(_made, world))(state.key[places], following + (slot - following) % slots)
        return _put(spare, which, worlds), ready.at[which].set(True, mode="drop")

    spare, ready = jax.lax.while_loop(missing, make, (_row(state.spare), state.ready.reshape(-1)))
    spare = jax.tree.map(lambda leaf: leaf.reshape(size, slots, *leaf.shape[1:]), spare)
    return replace(state, spare=spare, ready=ready.reshape(size, slots))


def _served(state: Playing, waiting: jax.Array) -> tuple[Playing, jax.Array]:
    """The spares of the first places that wait put in their worlds' places: states are large, and most play on."""
    size, slots = state.ready.shape
    at_hand = waiting & _has_next(state)
    places = _first(at_hand, max(1, size // SHARE))
    served = at_hand & (jnp.cumsum(at_hand) <= len(places))
    spent = _next_slot(state)
    which = jnp.arange(size) * slots + spent
    begun = replace(
        state,
        world=fresh.moved(state.world, _row(state.spare), served, places, which, which[places]),
        ready=state.ready & ~(served[:, None] & (jnp.arange(slots) == spent[:, None])),
        serial=state.serial + served,
        time=jnp.where(served, 0, state.time),
        cost=jnp.where(served, 0, state.cost),
    )
    return begun, waiting & ~served


def _next_slot(state: Playing) -> jax.Array:
    return (state.serial + 1) % state.ready.shape[1]


def _has_next(state: Playing) -> jax.Array:
    return jnp.take_along_axis(state.ready, _next_slot(state)[:, None], axis=1)[:, 0]


def _row(batches: Any) -> Any:
    """Batches of batches, as one batch."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batches)


def _first(wanted: jax.Array, count: int) -> jax.Array:
    """The first `count` places where it is true; if there are fewer, the others lie outside the batch."""
    return jnp.nonzero(wanted, size=count, fill_value=wanted.shape[0])[0]


def _put(whole: Any, places: jax.Array, few: Any) -> Any:
    return jax.tree.map(lambda leaf, new: leaf.at[places].set(new, mode="drop"), whole, few)


def _on_gpu() -> bool:
    return jax.default_backend() == "gpu"
