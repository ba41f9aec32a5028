"""Playing a protocol's episodes: by a trained agent, or again from recorded actions."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from perepisode import environments
from perepisode.benchmark.protocol import BenchmarkProtocol
from perepisode.environments.reset_pool import action_key
from perepisode.evaluation.policy import Policy
from perepisode.evaluation.rollout import CHUNK, LOG_SECONDS
from perepisode.interop.autoreset import AutoResetEnv, EnvState, TimeStep
from perepisode.interop.jax_recorder import JaxRecorder
from perepisode.zoo import AgentSource


@dataclass(frozen=True)
class AgentPlayer:
    """A trained agent; the random numbers of its actions derive from the episode's key, as in `evaluate`.

    Agents of equal structure share a compiled program: their numbers are an argument, `arrays`.
    """

    structure: Hashable
    policy: Policy = field(compare=False)

    @classmethod
    def of(cls, policy: Policy) -> AgentPlayer:
        return cls((policy.agent, policy.run.objective_type), policy)

    @property
    def arrays(self) -> Any:
        return self.policy.objective, self.policy.cost_spec, self.policy.params

    def initial(self, num_envs: int) -> Any:
        return jax.tree.map(lambda x: jnp.stack([x] * num_envs), self.policy.initial_carry())

    def act(self, arrays: Any, env_index: jax.Array, carry: Any, state: EnvState) -> tuple[jax.Array, Any]:
        key = action_key(state.episode_key, state.time)
        return self._with(arrays).act(carry, state.env_state, key)

    def update(self, arrays: Any, carry: Any, timestep: TimeStep) -> Any:
        after, initial = self._with(arrays).update(carry, timestep.outcome), self.policy.initial_carry()
        return jax.tree.map(lambda old, new: jnp.where(timestep.ended, new, old), after, initial)

    def _with(self, arrays: Any) -> Policy:
        objective, cost_spec, params = arrays
        return replace(self.policy, objective=objective, cost_spec=cost_spec, params=params)


@dataclass(frozen=True)
class ActionPlayer:
    """Recorded actions: those of each environment one after the other, and where each of its episodes begins."""

    arrays: tuple[jax.Array, jax.Array] = field(compare=False)  # actions [env, step]; int32[env, episode]

    @classmethod
    def of(cls, protocol: BenchmarkProtocol, actions: list[np.ndarray]) -> ActionPlayer:
        per_env = protocol.episodes_per_env
        streams = [np.concatenate(actions[i : i + per_env]) for i in range(0, protocol.episodes, per_env)]
        lengths = np.array([len(episode) for episode in actions]).reshape(-1, per_env)
        longest = max(map(len, streams))
        padded = np.stack([np.pad(stream, (0, longest - len(stream))) for stream in streams])
        return cls((jnp.asarray(padded), jnp.asarray(np.cumsum(lengths, axis=1) - lengths, jnp.int32)))

    def initial(self, num_envs: int) -> Any:
        return ()

    def act(self, arrays: Any, env_index: jax.Array, carry: Any, state: EnvState) -> tuple[jax.Array, Any]:
        actions, starts = arrays[0][env_index], arrays[1][env_index]
        episode = jnp.minimum(state.episode_id, starts.shape[0] - 1)
        step = jnp.minimum(starts[episode] + state.time, actions.shape[0] - 1)
        return actions[step].astype(jnp.int32), carry

    def update(self, arrays: Any, carry: Any, timestep: TimeStep) -> Any:
        return carry


def play_agent(source: AgentSource, protocol: BenchmarkProtocol, log: Callable[[str], None]) -> pd.DataFrame:
    """The protocol's episodes, played by this agent, as a recorder's table."""
    longest = protocol.episodes_per_env * protocol.max_episode_steps
    return _play(AgentPlayer.of(Policy.of(source)), protocol, longest, log)


def replay(protocol: BenchmarkProtocol, actions: list[np.ndarray], log: Callable[[str], None]) -> pd.DataFrame:
    """The protocol's episodes, played with these actions; fewer of them where the actions end too early."""
    player = ActionPlayer.of(protocol, actions)
    return _play(player, protocol, player.arrays[0].shape[1], log)


def _play(player: Any, protocol: BenchmarkProtocol, steps: int, log: Callable[[str], None]) -> pd.DataFrame:
    env = AutoResetEnv(environments.make(protocol.env, **protocol.env_settings), protocol.dilemma)
    keys = jnp.asarray(protocol.reset_keys)
    shown = _Shown(env)
    recorder = JaxRecorder(shown, None, method="", seed=0, episodes_per_env=protocol.episodes_per_env, reset_keys=keys)
    states = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(keys)
    carry, played, logged = player.initial(protocol.num_envs), 0, time.monotonic()
    while played < steps and not (played and recorder.complete):
        carry, states, info, actions = _roll(env, player, protocol.max_episode_steps, player.arrays, carry, states)
        recorder.add(jax.device_get(info), actions=np.asarray(actions))
        played += CHUNK
        if time.monotonic() - logged > LOG_SECONDS:
            logged = time.monotonic()
            done = np.minimum(recorder.finished, protocol.episodes_per_env).sum()
            log(f"{done} of {protocol.episodes} episodes finished")
    return recorder.table().sort_values(["env_index", "episode_index"], ignore_index=True)


@dataclass(frozen=True)
class _Shown:
    """What a recorder reads of an environment."""

    autoreset: AutoResetEnv


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(4, 5))
def _roll(env: AutoResetEnv, player: Any, max_episode_steps: int, arrays: Any, carry: Any, states: EnvState):
    """`CHUNK` steps of every environment: carry and states after them; info and action of each, [time, env]."""

    def step(carry, state, env_index):
        action, carry = player.act(arrays, env_index, carry, state)
        state, timestep = env.step(state, action, max_episode_steps)
        ends = {"terminated": timestep.terminated, "truncated": timestep.truncated}
        return player.update(arrays, carry, timestep), state, env.info(timestep) | ends, action

    def body(both, _):
        carry, states = both
        indices = jnp.arange(states.time.shape[0])
        carry, states, info, action = jax.vmap(step)(carry, states, indices)
        return (carry, states), (info, action)

    (carry, states), (info, actions) = jax.lax.scan(body, (carry, states), length=CHUNK)
    return carry, states, info, actions
