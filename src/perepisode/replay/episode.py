"""Episodes lived again from their keys and actions: `replay` recounts one, `watch` writes a page to see them on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from perepisode.config import ConfigError
from perepisode.environments.base import EndCause, Environment, Outcome, State, action_dtype
from perepisode.environments.reset_pool import step_key

CHUNK = 256  # steps in one jitted call: one program for episodes of any length


@dataclass(frozen=True, eq=False)
class Replay:
    """What an episode was.  Step t (1 to `length`) leads from position t - 1 to position t; position 0 is the start."""

    env: Environment
    actions: np.ndarray  # uint8[step], or uint16
    rewards: np.ndarray  # float32[step], of the task
    violations: np.ndarray  # int32[step, dilemma], exact
    paper_violations: np.ndarray  # int32[step, dilemma]
    info: dict[str, np.ndarray]  # int32[step] each
    end_cause: str
    episode: jax.Array  # the episode's key
    milestones: list[State]  # the world at every CHUNK-th position, from which any other is reached

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def accrued(self) -> np.ndarray:
        """Task return at every position, float32[length + 1], added in the order in which it was earned."""
        return np.concatenate([np.zeros(1, np.float32), np.cumsum(self.rewards, dtype=np.float32)])

    def outcome(self, step: int) -> Outcome:
        """What happened in one step (from 0)."""
        ended = EndCause[self.end_cause.upper()] if step == self.length - 1 else EndCause.RUNNING
        info = {name: counts[step] for name, counts in self.info.items()}
        return Outcome(self.rewards[step], self.violations[step], self.paper_violations[step], info, ended)  # type: ignore[arg-type]

    def totals(self, dilemma: str) -> dict[str, Any]:
        """What the episodes table says of an episode whose run was trained for `dilemma`, by column."""
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
        """Steps (from 1) after the first violation in which another was within reach and was not committed."""
        index = self.env.dilemmas.index(dilemma)
        own = self.violations[:, index]
        if not own.any():
            return np.zeros(0, int)
        steps = np.arange(int(np.flatnonzero(own)[0]) + 1, self.length)  # position t lies before step t + 1
        reach = [np.asarray(jax.vmap(self.env.violation_possible)(states))[:, index] for states in self.states(steps)]
        near = np.concatenate([*reach, np.zeros(0, bool)])
        return steps[near & (own[steps] == 0)] + 1

    def states(self, positions: Sequence[int] | np.ndarray) -> Iterator[State]:
        """The worlds at these rising positions, stacked on a leading axis, some hundred at a time."""
        places = np.asarray(positions)
        for index in np.unique(places // CHUNK):
            begun = self.milestones[index]
            _, (states, _) = _advance(self.env, self.episode, begun, *_chunk(self.actions, index))
            here = places[places // CHUNK == index] - index * CHUNK
            yield jax.tree.map(lambda x, here=here: _on_host(x)[here], states)


@dataclass(frozen=True)
class Difference:
    """Where a replay did not give what its row says."""

    what: str
    row: Any
    replay: Any

    def __str__(self) -> str:
        return f"{self.what}: the row says {self.row}, the replay gives {self.replay}"


def replay(row: Mapping[str, Any], env: Environment) -> Replay:
    """Live the row's episode again: reset by its key, then its actions, each with the key of its step.

    Ends where the world ends the episode, or after the last action (then its end cause is `running`).
    """
    actions = _actions(row, env)
    episode = key_of(row, "policy_key")
    state = _begin(env, key_of(row, "reset_key"))
    milestones, outcomes = [], []
    for index in range(len(actions) // CHUNK + 1):
        milestones.append(state)
        state, (_, outcome) = _advance(env, episode, state, *_chunk(actions, index))
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
    """Every column that the replay does not give exactly; none means that the episode was reproduced."""
    found = replayed.totals(str(row["dilemma"]))
    return [Difference(name, row[name], value) for name, value in found.items() if name in row and row[name] != value]


@partial(jax.jit, static_argnums=0)
def _begin(env: Environment, reset_key: jax.Array) -> State:
    return env.reset(reset_key)


@partial(jax.jit, static_argnums=0)
def _advance(env: Environment, episode: jax.Array, state: State, times: jax.Array, actions: jax.Array):
    """Steps at these times → the world after them; the world before each, and what happened in each."""

    def body(state, step):
        time, action = step
        after, outcome = env.step(step_key(episode, time), state, action)
        return after, (state, outcome)

    return jax.lax.scan(body, state, (times, actions))


def _chunk(actions: np.ndarray, index: int) -> tuple[jax.Array, jax.Array]:
    """Times and actions of a chunk; behind the episode's end stand actions that nobody looks at."""
    first = int(index) * CHUNK
    here = actions[first : first + CHUNK]
    padded = np.pad(here, (0, CHUNK - len(here))).astype(np.int32)
    return jnp.arange(first, first + CHUNK, dtype=jnp.int32), jnp.asarray(padded)


def _on_host(x: jax.Array) -> Any:
    """As NumPy, where picking is quick; a random key has no such form and stays as it is."""
    return x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x)


def _actions(row: Mapping[str, Any], env: Environment) -> np.ndarray:
    content = row["actions"]
    if not isinstance(content, bytes) or not content:
        raise ConfigError("the row's actions are not bytes; a replay needs the parquet table that `evaluate` wrote")
    kind = np.dtype(action_dtype(env))
    if len(content) % kind.itemsize:
        raise ConfigError(f"the row's actions are cut short; {env.name} has {kind.itemsize} bytes for each")
    actions = np.frombuffer(content, kind)
    if actions.max() >= env.actions:
        raise ConfigError(f"action {actions.max()} is unknown; {env.name} has actions 0 to {env.actions - 1}")
    return actions


def key_of(row: Mapping[str, Any], column: str) -> jax.Array:
    """A key from the hexadecimal digits of its two 32-bit words."""
    try:
        words = np.frombuffer(bytes.fromhex(row[column]), ">u4")
        return jax.random.wrap_key_data(jnp.asarray(words.astype(np.uint32)))
    except (TypeError, ValueError):
        raise ConfigError(f"{column}={row[column]!r} is no key; it must be 16 hexadecimal digits") from None
