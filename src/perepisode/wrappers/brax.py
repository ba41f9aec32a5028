"""A per-episode budget for environments with Brax's interface: Brax, CRAX, MuJoCo Playground.

    from brax.envs.wrappers import training
    ppo.train(environment=env, wrap_env_fn=wrap_env_fn(training.wrap, budget=25, unit=2.5), ...)

Brax itself is not imported: an environment has `reset(rng)` and `step(state, action)`, and its state `obs`, `reward`,
`done`, `metrics`, `info` and `replace`.  The cost of a step is `info["cost"]` or `metrics["cost"]`.

The wrapper goes outside Brax's EpisodeWrapper and AutoResetWrapper, which `wrap_env_fn` does.  Inside, it would never
learn that a time limit ended an episode, and AutoResetWrapper keeps `info`: what an episode has accrued would run on
into the next.  With `time_limit_ends` (the default) `info["truncation"]` is 0: Brax's PPO ignores the rewards of
truncated steps, and the utility of the episode would lack its last one.

Observations that are vectors end with the three inputs, in a dictionary each of its vectors; images stay as they are.
Reward, info and arguments are those of `perepisode.wrappers.gymnasium`.  The step's `task_reward` and `utility` are
metrics too, so that Brax's evaluation sums them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from perepisode.config import ConfigError
from perepisode.lazy import jax, jnp
from perepisode.methods import Accrued
from perepisode.wrappers.accounting import INPUTS, build

LEDGER = "episode_budget"  # entry of `info`
ADDED = ("task_reward", "utility")  # to `info` and to `metrics`


class Ledger(NamedTuple):
    """Of the episode so far; of the one that ended, where `done` is 1."""

    task_return: jax.Array
    violations: jax.Array
    utility: jax.Array
    reward: jax.Array  # the environment's own, of the last step
    truncation: jax.Array | None  # the environment's own

    def kept(self, where: Any) -> Accrued:
        return Accrued(jnp.where(where, self.task_return, 0.0), jnp.where(where, self.violations, 0.0))


def wrap_env_fn(wrap: Callable[..., Any], **given: Any) -> Callable[..., Any]:
    """A trainer's `wrap_env_fn`: the library's own `wrap`, and around it `EpisodeBudget(env, **given)`."""
    return partial(_wrapped, wrap, given)


def _wrapped(wrap: Callable[..., Any], given: dict[str, Any], env: Any, **options: Any) -> EpisodeBudget:
    return EpisodeBudget(wrap(env, **options), **given)


class EpisodeBudget:
    """The environment, whose trainer is paid for whole episodes; everything else is the environment's own."""

    def __init__(
        self,
        env: Any,
        budget: float | None = 1,
        *,
        unit: float = 1.0,
        method: Any = "esr",
        return_scale: float = 50.0,
        cost: str = "cost",
        training: bool = True,
        time_limit_ends: bool = True,
        **settings: Any,
    ):
        _check_inside(env)
        self.env, self.accounting = env, build(method, budget, unit, return_scale, settings)
        self.cost, self.training, self.time_limit_ends = cost, training, time_limit_ends

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, rng: Any) -> Any:
        state = self.env.reset(rng)
        zero = jnp.zeros_like(state.reward)
        return self._extended(state, Ledger(zero, zero, zero, state.reward, state.info.get("truncation")), zero)

    def step(self, state: Any, action: Any) -> Any:
        ledger, goes_on = state.info[LEDGER], 1 - state.done  # `done` stays 1 until the next episode's first step
        after = self.env.step(self._own(state, ledger), action)
        if jnp.shape(after.reward) != jnp.shape(after.done):
            raise ConfigError(f"the reward has shape {jnp.shape(after.reward)}: a budget needs one task")
        before = ledger.kept(goes_on > 0)
        accrued, gain = self.accounting.step(before, after.reward, self._cost(after))
        utility = jnp.where(goes_on > 0, ledger.utility, 0.0) + gain
        truncation = after.info.get("truncation")
        ledger = Ledger(accrued.task_return, accrued.violations, utility, after.reward, truncation)
        return self._extended(after, ledger, gain)

    def _own(self, state: Any, ledger: Ledger) -> Any:
        """The state as the environment inside returned it."""
        info = {name: value for name, value in state.info.items() if name not in (LEDGER, *ADDED)}
        if ledger.truncation is not None:
            info["truncation"] = ledger.truncation
        metrics = {name: value for name, value in state.metrics.items() if name not in ADDED}
        obs = _each_vector(state, lambda vector: vector[..., :-INPUTS])
        return state.replace(obs=obs, reward=ledger.reward, info=info, metrics=metrics)

    def _extended(self, state: Any, ledger: Ledger, gain: Any) -> Any:
        features = self.accounting.features(ledger.kept(state.done < 1))  # where it ended `obs` is the next one's
        obs = _each_vector(state, lambda vector: jnp.concatenate([vector, features.astype(vector.dtype)], axis=-1))
        info = {**state.info, LEDGER: ledger, "task_reward": ledger.reward, "utility": ledger.utility}
        if ledger.truncation is not None and self.time_limit_ends:
            info["truncation"] = jnp.zeros_like(ledger.truncation)
        metrics = {**state.metrics, "task_reward": ledger.reward, "utility": gain}
        reward = gain if self.training else ledger.reward
        return state.replace(obs=obs, reward=reward, info=info, metrics=metrics)

    def _cost(self, state: Any) -> Any:
        for where in (state.info, state.metrics):
            if self.cost in where:
                return where[self.cost]
        known = ", ".join([*state.info, *state.metrics])
        raise ConfigError(f"neither info nor metrics have {self.cost!r}, only {known}: name the cost with cost=")

    @property
    def observation_size(self) -> Any:
        size = self.env.observation_size
        if not isinstance(size, Mapping):
            return size + INPUTS
        return {name: _longer(one) for name, one in size.items()}


def _longer(size: Any) -> Any:
    if isinstance(size, int):
        return size + INPUTS
    return (size[0] + INPUTS,) if len(size) == 1 else size


def _each_vector(state: Any, change: Callable[[Any], Any]) -> Any:
    """The observation with every vector in it changed: what has one axis more than the reward."""
    axes = jnp.ndim(state.reward) + 1
    vectors = [leaf for leaf in jax.tree.leaves(state.obs) if leaf.ndim == axes]
    if not vectors:
        raise ConfigError("observations have no vector, to which what has accrued could be added")
    return jax.tree.map(lambda leaf: change(leaf) if leaf.ndim == axes else leaf, state.obs)


def _check_inside(env: Any) -> None:
    names = []
    while env is not None:
        names.append(type(env).__name__)
        if isinstance(env, EpisodeBudget):
            raise ConfigError("the environment has a budget already: wrap it once")
        if env.__dict__.get("action_repeat", 1) > 1:
            raise ConfigError(
                f"action_repeat={env.action_repeat}: {names[-1]} sums rewards but keeps the last frame's cost; "
                "use action_repeat=1, or repeat actions in the environment and add up its costs"
            )
        env = env.__dict__.get("env")
    if not any("AutoReset" in name for name in names):
        raise ConfigError(
            f"{names[0]} has no AutoResetWrapper inside, without which time limits are not seen: "
            "use perepisode.wrappers.brax.wrap_env_fn(wrap, budget=...)"
        )
