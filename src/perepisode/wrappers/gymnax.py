"""A per-episode budget for gymnax environments, and for others with that interface.

    env, params = gymnax.make("temptation", step_api="5-tuple")      # perepisode.interop: info["cost"] is its cost
    env = EpisodeBudget(env, budget=1)

`reset` and `step` take and return what the environment's own do, of five values or of six; so do `reset_env` and
`step_env`, for loops that reset by themselves.  `step` has begun the next episode where one ended, and the observation
shows what that one has accrued: nothing.  Reward, info and arguments are those of `perepisode.wrappers.gymnasium`; the
observation, a vector, ends with the three inputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perepisode.config import ConfigError
from perepisode.lazy import jax, jnp
from perepisode.methods import Accrued
from perepisode.wrappers.accounting import INPUTS, build


class BudgetState(NamedTuple):
    env_state: Any
    task_return: jax.Array
    violations: jax.Array
    utility: jax.Array

    @property
    def accrued(self) -> Accrued:
        return Accrued(self.task_return, self.violations)

    def kept(self, where: Any) -> BudgetState:
        """What is accrued where an episode goes on, zero where the next one has begun."""
        return self._replace(
            task_return=jnp.where(where, self.task_return, 0.0),
            violations=jnp.where(where, self.violations, 0.0),
            utility=jnp.where(where, self.utility, 0.0),
        )


class EpisodeBudget:
    """The environment, whose trainer is paid for whole episodes; everything else is the environment's own.

    Wrappers with equal environments and arguments are equal, so that they share what JAX has compiled.
    """

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
        given = (budget, unit, method, return_scale, cost, training, time_limit_ends, *sorted(settings.items()))
        self._key = (type(self), env, given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    def reset(self, key: Any, params: Any = None) -> tuple[Any, BudgetState]:
        return self._begun(*self.env.reset(key, params))

    def reset_env(self, key: Any, params: Any) -> tuple[Any, BudgetState]:
        return self._begun(*self.env.reset_env(key, params))

    def step(self, key: Any, state: BudgetState, action: Any, params: Any = None) -> tuple:
        observation, inner, reward, *ends, info = self.env.step(key, state.env_state, action, params)
        after, gain, info = self._paid(state, inner, reward, info)
        if "final_observation" in info:
            info["final_observation"] = self._join(info["final_observation"], after)
        if len(ends) == 2 and self.time_limit_ends:
            ends[0] = ends[0] | ends[1]
        over = ends[0] if len(ends) == 1 else ends[0] | ends[1]
        after = after.kept(~jnp.asarray(over, bool))
        return self._join(observation, after), after, gain, *ends, info

    def step_env(self, key: Any, state: BudgetState, action: Any, params: Any) -> tuple:
        """A step that begins no next episode."""
        observation, inner, reward, ended, info = self.env.step_env(key, state.env_state, action, params)
        after, gain, info = self._paid(state, inner, reward, info)
        return self._join(observation, after), after, gain, ended, info

    def is_terminated(self, state: BudgetState, params: Any = None) -> Any:
        return self.env.is_terminated(state.env_state, params)

    def is_truncated(self, state: BudgetState, params: Any) -> Any:
        return self.env.is_truncated(state.env_state, params)

    def get_obs(self, state: BudgetState, params: Any = None, key: Any = None) -> Any:
        return self._join(self.env.get_obs(state.env_state, params, key), state)

    def observation_space(self, params: Any = None) -> Any:
        space = self.env.observation_space(params)
        if len(getattr(space, "shape", None) or ()) != 1:
            raise ConfigError(f"observations are {space}: flatten them to one vector inside EpisodeBudget")
        return type(space)(-jnp.inf, jnp.inf, (space.shape[0] + INPUTS,), jnp.float32)

    def _begun(self, observation: Any, inner: Any) -> tuple[Any, BudgetState]:
        zero = jnp.zeros((), jnp.float32)
        state = BudgetState(inner, zero, zero, zero)
        return self._join(observation, state), state

    def _paid(self, state: BudgetState, inner: Any, reward: Any, info: Any) -> tuple[BudgetState, Any, dict[str, Any]]:
        """What is accrued after the step, its reward and its info."""
        if self.cost not in info:
            raise ConfigError(
                f"info has no {self.cost!r}, only {', '.join(info) or 'nothing'}: name its cost with cost="
            )
        if jnp.shape(reward):
            raise ConfigError(
                f"the reward has shape {jnp.shape(reward)}: a budget needs one task, with a scalar reward"
            )
        reward, cost = (jnp.asarray(one, jnp.float32) for one in (reward, info[self.cost]))
        accrued, gain = self.accounting.step(state.accrued, reward, cost)
        after = BudgetState(inner, accrued.task_return, accrued.violations, state.utility + gain)
        own = {"task_reward": reward, "cost": info[self.cost], "utility": after.utility}
        return after, gain if self.training else reward, {**info, **own}

    def _join(self, observation: Any, state: BudgetState) -> Any:
        if not isinstance(observation, jax.Array) or observation.ndim != 1:
            raise ConfigError("observations are not vectors: flatten them inside EpisodeBudget")
        return jnp.concatenate([observation.astype(jnp.float32), self.accounting.features(state.accrued)])


def _check_inside(env: Any) -> None:
    while env is not None:
        if isinstance(env, EpisodeBudget):
            raise ConfigError("the environment has a budget already: wrap it once")
        name, inner = type(env).__name__, env.__dict__.get("env", env.__dict__.get("_env"))
        if inner is not None and "Reward" in name:  # purejaxrl's NormalizeVecReward, for example
            raise ConfigError(f"{name} inside changes the rewards that R adds up: put it outside EpisodeBudget")
        if name in ("VecEnv", "BatchEnvWrapper"):
            raise ConfigError(f"{name} inside plays a batch: put EpisodeBudget inside it")
        reward = getattr(env.__dict__.get("autoreset"), "reward", "task")
        if reward != "task":
            raise ConfigError(f"reward={reward!r}: a budget needs the task's own, reward='task'")
        env = inner
