"""Replaying an episode from its keys and actions, and comparing it with its row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.config import ConfigError
from perepisode.environments import action_space, stepping
from perepisode.environments.base import EndCause, Environment, Outcome, State, Violation
from perepisode.environments.reset_pool import step_key

CHUNK = 256  # steps per jitted call, so that one program serves episodes of any length


@dataclass(frozen=True, eq=False)
class Replay:
    """A replayed episode.  Step t (1 to `length`) leads from position t - 1 to position t; position 0 is the start."""

    env: Environment
    actions: np.ndarray  # as stored: uint8[step], uint16[step], or float32[step, size] of a Box
    rewards: np.ndarray  # float32[step], task reward
    violations: np.ndarray  # int32[step, dilemma], exact
    paper_violations: np.ndarray  # int32[step, dilemma]
    info: dict[str, np.ndarray]  # int32[step] each
    end_cause: str
    episode: jax.Array  # the episode's key
    milestones: list[State]  # the state at every CHUNK-th position, from which any other is recomputed

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def accrued(self) -> np.ndarray:
        """Task return at every position, float32[length + 1], summed in step order."""
        return np.concatenate([np.zeros(1, np.float32), np.cumsum(self.rewards, dtype=np.float32)])

    def action(self, step: int) -> Any:
        """The action of one step (from 0): an int, or float32[size] of a Box."""
        return self.actions[step] if self.actions.ndim > 1 else int(self.actions[step])

    def outcome(self, step: int) -> Outcome:
        """What happened in one step (from 0)."""
        ended = EndCause[self.end_cause.upper()] if step == self.length - 1 else EndCause.RUNNING
        info = {name: counts[step] for name, counts in self.info.items()}
        return Outcome(self.rewards[step], self.violations[step], self.paper_violations[step], info, ended)  # type: ignore[arg-type]

    def totals(self, dilemma: str) -> dict[str, Any]:
        """The episode's columns in the episodes table, for a run trained for `dilemma`."""
        names = self.env.dilemmas
        exact, paper = self.violations.sum(axis=0), self.paper_violations.sum(axis=0)
        return {
            "return": float(self.accrued[-1]),
            "length": self.length,
            "end_cause": self.end_cause,
            "violations": int(exact[names.index(dilemma)]),
            **{f"violations_{name}": int(exact[i]) for i, name in enumerate(names)},
            **{f"violations_{name}_paper": int(paper[i]) for i, name in enumerate(names)},
            **{f"info_{name}": int(counts.sum()) for name, counts in self.info.items()},
        }

    def abstained(self, dilemma: str) -> np.ndarray:
        """Steps (from 1) after the first violation in which the agent could commit another and did not."""
        index = self.env.dilemmas.index(dilemma)
        counts = self.violations[:, index]
        if not counts.any():
            return np.zeros(0, int)
        steps = np.arange(int(np.flatnonzero(counts)[0]) + 1, self.length)  # step t + 1 starts at position t
        masks = [np.asarray(jax.vmap(self.env.violation_possible)(states))[:, index] for states in self.states(steps)]
        possible = np.concatenate([*masks, np.zeros(0, bool)])
        return steps[possible & (counts[steps] == 0)] + 1

    def described(self) -> dict[int, Sequence[Violation]]:
        """The violations of every violating step (from 1), as the environment describes them."""
        steps = np.flatnonzero(self.violations.any(axis=1))
        positions = np.union1d(steps, steps + 1)
        states = dict(zip(positions.tolist(), self._each_state(positions)))
        described = {}
        for step in steps.tolist():
            key, action = step_key(self.episode, jnp.int32(step)), self.action(step)
            told = self.env.describe_violations(key, states[step], action, states[step + 1], self.outcome(step))
            _check_counts(self.env, step + 1, told, self.violations[step])
            described[step + 1] = told
        return described

    def _each_state(self, positions: np.ndarray) -> Iterator[State]:
        for batch in self.states(positions):
            for index in range(jax.tree.leaves(batch)[0].shape[0]):
                yield jax.tree.map(lambda x, index=index: x[index], batch)

    def states(self, positions: Sequence[int] | np.ndarray) -> Iterator[State]:
        """The states at these increasing positions, stacked on a leading axis, at most CHUNK at a time."""
        positions = np.asarray(positions)
        for index in np.unique(positions // CHUNK):
            milestone = self.milestones[index]
            chunk = _chunk(self.env, self.actions, index)
            _, (states, _) = _advance(self.env, self.episode, milestone, *chunk)
            offsets = positions[positions // CHUNK == index] - index * CHUNK
            yield jax.tree.map(lambda x, offsets=offsets: _on_host(x)[offsets], states)


@dataclass(frozen=True)
class Difference:
    """A column in which a replay differs from its row."""

    column: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return f"{self.column}: recorded {self.recorded}, replayed {self.replayed}"


def _check_counts(env: Environment, step: int, described: Sequence[Violation], counted: np.ndarray) -> None:
    """Raise ConfigError if the words are about more or fewer violations than the step counted."""
    for name, count in zip(env.dilemmas, counted.tolist()):
        found = sum(violation.count for violation in described if violation.dilemma == name)
        if found != count:
            raise ConfigError(
                f"{env.name}: describe_violations returns {found} violations of {name} in step {step}, "
                f"which counts {count}; their `count`s must add up to it"
            )


def replay(row: Mapping[str, Any], env: Environment) -> Replay:
    """Replay the row's episode: a reset with its key, then its actions, each with the key of its step.

    It ends when the environment ends the episode, or after the last action (then its end cause is `running`).
    """
    actions = _actions(row, env)
    episode = key_of(row, "episode_key")
    state = _begin(env, key_of(row, "reset_key"))
    milestones, outcomes = [], []
    for index in range(len(actions) // CHUNK + 1):
        milestones.append(state)
        state, (_, outcome) = _advance(env, episode, state, *_chunk(env, actions, index))
        outcomes.append(jax.device_get(outcome))
    outcome = jax.tree.map(lambda *x: np.concatenate(x)[: len(actions)], *outcomes)
    ends = np.flatnonzero(outcome.end_cause)
    length = int(ends[0]) + 1 if len(ends) else len(actions)
    return Replay(
        env=env,
        actions=actions[:length],
        rewards=outcome.task_reward[:length].astype(np.float32),
        violations=outcome.violations[:length],
        paper_violations=outcome.paper_violations[:length],
        info={name: counts[:length] for name, counts in outcome.info.items()},
        end_cause=EndCause(int(outcome.end_cause[length - 1])).name.lower(),
        episode=episode,
        milestones=milestones,
    )


def differences(row: Mapping[str, Any], replayed: Replay) -> list[Difference]:
    """The columns that the replay does not reproduce exactly; empty if the episode was reproduced."""
    totals = replayed.totals(str(row["dilemma"]))
    return [Difference(name, row[name], value) for name, value in totals.items() if name in row and row[name] != value]


@partial(jax.jit, static_argnums=0)
def _begin(env: Environment, reset_key: jax.Array) -> State:
    return env.reset(reset_key)


@partial(jax.jit, static_argnums=0)
def _advance(env: Environment, episode: jax.Array, state: State, times: jax.Array, actions: jax.Array):
    """Steps at these times → the state after them; the state before and the outcome of each."""

    def body(state, step):
        time, action = step
        after, outcome = stepping.step(env, step_key(episode, time), state, action)
        return after, (state, outcome)

    return jax.lax.scan(body, state, (times, actions))


def _chunk(env: Environment, actions: np.ndarray, index: int) -> tuple[jax.Array, jax.Array]:
    """Times and actions of a chunk; those after the episode's end are padding, whose results are not used."""
    first = int(index) * CHUNK
    chunk = actions[first : first + CHUNK]
    padded = np.zeros((CHUNK, *actions.shape[1:]), action_space.dtype(env.actions))
    padded[: len(chunk)] = chunk
    return jnp.arange(first, first + CHUNK, dtype=jnp.int32), jnp.asarray(padded)


def _on_host(x: jax.Array) -> Any:
    """As NumPy, where indexing is fast; random keys have no NumPy dtype and stay on the device."""
    return x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x)


def _actions(row: Mapping[str, Any], env: Environment) -> np.ndarray:
    content = row["actions"]
    if not isinstance(content, bytes) or not content:
        raise ConfigError("the row's actions are not bytes; a replay needs the parquet table that `evaluate` wrote")
    return action_space.from_bytes(env.actions, content, "the row's actions", env.name)


def key_of(row: Mapping[str, Any], column: str) -> jax.Array:
    """A random key from the hexadecimal digits of its two 32-bit words."""
    try:
        words = np.frombuffer(bytes.fromhex(row[column]), ">u4")
        return jax.random.wrap_key_data(jnp.asarray(words.astype(np.uint32)))
    except (TypeError, ValueError):
        raise ConfigError(f"{column}={row[column]!r} is not a key; it must be 16 hexadecimal digits") from None
